"""What a hub endures: many owners at once, and strangers who mean harm. On this machine only, and bounded.

    python benchmarks/hub.py --quick            # a minute or two
    python benchmarks/hub.py --owners 200 --hostile 100000

The hub is a process of its own (`recyclegp hub`). Owners upload at once while one of them asks small questions, whose
times are reported. Then hostile requests: malformed, oversized, replayed, forged, slow. None may be accepted, and the
hub's memory is watched.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import recyclegp as rgp
from recyclegp.hub import protocol
from recyclegp.hub.client import HubClient
from recyclegp.storage.signing import private_key

HERE = "127.0.0.1"
PROGRAM = "from recyclegp.cli import app; app()"
KINDS = ("malformed", "oversized", "replayed", "forged", "garbage")  # and slow ones beside them


@contextlib.contextmanager
def hub(folder: Path) -> Iterator[tuple[str, int]]:
    """The address and the process id; it ends with the block."""
    command = [sys.executable, "-c", PROGRAM, "hub", str(folder), "--port", "0", "--json", "--admission", "open"]
    command += ["--no-evaluate", "--no-rate-limits"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    try:
        assert process.stdout is not None
        said = ""
        while not said.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                raise RuntimeError("the hub has ended")
            said += line
        yield json.loads(said)["address"], process.pid
    finally:
        process.terminate()
        process.wait(30)


def memory(pid: int) -> float:
    """MiB that the process has in memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return float("nan")


def cpu(pid: int) -> float:
    """Seconds of a core that the process has used, which a busy machine does not change much."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def modules(count: int, folder: Path) -> list[bytes]:
    """One fit, under as many names."""
    x = np.linspace(0, 6, 60)[:, None]
    first = rgp.fit(x, np.sin(x[:, 0]), noise=0.01, learn=False, publish=12, name="m", privacy="things")
    found = []
    for i in range(count):
        first.rename(f"owner-{i:03d}").save(folder / "m.safetensors")
        found.append((folder / "m.safetensors").read_bytes())
    return found


def many_owners(address: str, contents: list[bytes]) -> dict[str, Any]:
    """All upload at once; meanwhile one asks small questions."""
    clients = [
        HubClient(address, Ed25519PrivateKey.generate(), f"owner-{i:03d}", patience=300) for i in range(len(contents))
    ]
    asking = HubClient(address, Ed25519PrivateKey.generate(), "asking", patience=300)
    asking.ask("POST", "/register", {"invitation": None})
    small: list[float] = []
    over = threading.Event()

    def questions() -> None:
        while not over.is_set():
            start = time.perf_counter()
            asking.ask("GET", "/tasks")
            small.append(time.perf_counter() - start)
            time.sleep(0.02)

    barrier = threading.Barrier(len(clients))

    def one(client: HubClient, content: bytes) -> float:
        client.ask("POST", "/register", {"invitation": None})
        barrier.wait()
        start = time.perf_counter()
        found = client.send("/module", content)
        assert found["module"] == protocol.digest_of(content)
        return time.perf_counter() - start

    watcher = threading.Thread(target=questions)
    watcher.start()
    begin = time.perf_counter()
    with ThreadPoolExecutor(len(clients)) as pool:
        each = list(pool.map(one, clients, contents))
    wall = time.perf_counter() - begin
    over.set()
    watcher.join()
    return {
        "owners": len(clients),
        "seconds": wall,
        "upload_median": float(np.median(each)),
        "upload_longest": max(each),
        "small_requests": len(small),
        "small_median": float(np.median(small)),
        "small_p99": float(np.quantile(small, 0.99)),
        "small_longest": max(small),
    }


class Hostile:
    """Somebody who knows the protocol, has a registered key of its own, and the recorded requests of another."""

    def __init__(self, address: str, recorded: dict[str, str], hub_key: bytes, key: Ed25519PrivateKey) -> None:
        self.host = address.removeprefix("http://")
        self.recorded, self.hub_key, self.key = recorded, hub_key, key

    def headers(self, method: str, path: str, digest: str, name: str = "mallory") -> dict[str, str]:
        return protocol.headers(self.key, method, path, name, digest, self.hub_key, int(time.time()))

    def ask(self, connection: http.client.HTTPConnection, kind: str, rng: random.Random) -> int:
        """The status; 0 where the connection was closed."""
        method, path, body, sent = "GET", "/tasks", b"", dict[str, str]()
        if kind == "malformed":
            path = rng.choice(
                ["/tasks", "/module", "/model?digest=../../hub.pem", "/%00", "/p/x/", "/people", "/audit"]
            )
            method = rng.choice(["GET", "POST", "PUT", "DELETE", "PATCH"])
            sent = {k: rng.choice([v[:-1], v + "=", "", "\u00e9", v[::-1]]) for k, v in self.recorded.items()}
            sent = {k: v.encode("latin-1", "replace").decode("latin-1") for k, v in sent.items()}
            body = rng.randbytes(rng.randrange(64)) if method in ("POST", "PUT") else b""
        elif kind == "oversized":
            method, path = "PUT", "/module"
            sent = self.headers(method, path, protocol.digest_of(b"x")) | {"content-length": str(2**40)}
        elif kind == "replayed":
            sent = self.recorded
        elif kind == "forged":
            sent = self.headers("GET", "/tasks", protocol.digest_of(b"")) | {protocol.KEY: self.recorded[protocol.KEY]}
        elif kind == "garbage":
            method, path, body = "PUT", "/module", rng.randbytes(rng.randrange(1, 2000))
            sent = self.headers(method, path, protocol.digest_of(body))
        try:
            connection.request(method, path, body or None, sent)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException):
            connection.close()
            return 0


def slow(address: str, seconds: float) -> int:
    """One byte now and then; 0 when the hub has had enough."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=seconds) as connection:
        try:
            for byte in b"GET /hub HTTP/1.1\r\nhost: " + b"x" * 10_000:
                connection.sendall(bytes([byte]))
                time.sleep(0.2)
                connection.settimeout(0.001)
                with contextlib.suppress(TimeoutError):
                    return len(connection.recv(100))
                connection.settimeout(seconds)
        except OSError:
            return 0
    return -1


def hostile(address: str, pid: int, count: int, folder: Path, workers: int = 8) -> dict[str, Any]:
    """Many of each kind; the hub must answer an honest owner afterwards, and have accepted nothing."""
    key = Ed25519PrivateKey.generate()
    victim = HubClient(address, key, "victim", patience=60)
    victim.ask("POST", "/register", {"invitation": None})
    assert victim.hub is not None
    recorded = protocol.headers(key, "GET", "/tasks", "victim", protocol.digest_of(b""), victim.hub, int(time.time()))
    connection = http.client.HTTPConnection(address.removeprefix("http://"))
    connection.request("GET", "/tasks", headers=recorded)
    assert connection.getresponse().status == 200  # once it was good
    connection.close()
    mallory = Ed25519PrivateKey.generate()
    HubClient(address, mallory, "mallory", patience=60).ask("POST", "/register", {"invitation": None})
    chief = HubClient(address, private_key(folder / "coordinator.pem"), "coordinator", patience=60)
    before = {p["name"] for p in chief.ask("GET", "/people")["people"]}
    seen: Counter[tuple[str, int]] = Counter()
    sizes = [memory(pid)]

    def some(number: int, share: int) -> Counter[tuple[str, int]]:
        own, rng, found = (
            Hostile(address, recorded, victim.hub or b"", mallory),
            random.Random(number),
            Counter[tuple[str, int]](),
        )
        line = http.client.HTTPConnection(own.host, timeout=60)
        for _ in range(share):
            kind = rng.choice(KINDS)
            found[kind, own.ask(line, kind, rng)] += 1
        line.close()
        return found

    slow_ones = [threading.Thread(target=lambda: seen.update({("slow", slow(address, 60)): 1})) for _ in range(50)]
    for thread in slow_ones:
        thread.start()
    begin = time.perf_counter()
    pieces = 10
    for piece in range(pieces):
        with ThreadPoolExecutor(workers) as pool:
            for found in pool.map(
                lambda i: some(i, count // pieces // workers), range(piece * 100, piece * 100 + workers)
            ):
                seen.update(found)
        sizes.append(memory(pid))
    wall = time.perf_counter() - begin
    for thread in slow_ones:
        thread.join()
    accepted = sum(n for (_, status), n in seen.items() if status == 200)
    after = {p["name"] for p in chief.ask("GET", "/people")["people"]}
    assert victim.ask("GET", "/tasks")["state"] in ("ready", "merging", "collecting")
    return {
        "requests": sum(seen.values()),
        "seconds": wall,
        "accepted": accepted,
        "people_changed": len(after ^ before),
        "statuses": {f"{kind} {status}": n for (kind, status), n in sorted(seen.items())},
        "memory_mib": [round(size, 1) for size in sizes],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--owners", type=int, default=200)
    parser.add_argument("--hostile", type=int, default=100_000)
    chosen = parser.parse_args()
    if chosen.quick:
        chosen.owners, chosen.hostile = 20, 2_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with tempfile.TemporaryDirectory(prefix="recyclegp-") as name:
        folder = Path(name)
        contents = modules(chosen.owners, folder)
        with hub(folder / "hub") as (address, pid):
            assert HERE in address
            before = cpu(pid)
            results = {"many owners": many_owners(address, contents)}
            results["many owners"]["hub_cpu_seconds"] = cpu(pid) - before
            from recyclegp import Dictionary

            here = {entry.digest for entry in Dictionary(folder / "hub" / "modules").list()}
            results["many owners"]["lost"] = sum(protocol.digest_of(c) not in here for c in contents)
            before = cpu(pid)
            results["hostile"] = hostile(address, pid, chosen.hostile, folder / "hub")
            results["hostile"]["hub_cpu_seconds"] = cpu(pid) - before
        print(json.dumps(results, indent=1))
    many, harm = results["many owners"], results["hostile"]
    if many["lost"] or harm["accepted"] or harm["people_changed"]:
        raise SystemExit("LOST: a module is missing, or something was accepted that should not be")


if __name__ == "__main__":
    main()
