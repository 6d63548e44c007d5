"""What a hub endures: many owners at once, and strangers who mean harm. On this machine only, and bounded.

    python benchmarks/hub.py --quick            # a minute or two
    python benchmarks/hub.py --owners 200 --hostile 100000

The hub is a process of its own (`recyclegp hub`). Owners upload at once while one of them asks small questions, whose
times are reported. Then hostile requests: malformed, oversized, replayed, forged, slow. None may be accepted, and the
hub's memory is watched. A second hub has the limits that hubs usually have: all owners upload from one address, and
then ask every two seconds, as `recyclegp join` does.

The exit code is 1, and the last line says why, where a module is missing, something was accepted that should not be,
small requests are slow, memory grows, or somebody who says nothing is listened to.
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
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import recyclegp as rgp
from recyclegp.hub import protocol
from recyclegp.hub.client import HubClient
from recyclegp.storage.signing import private_key

HERE = "127.0.0.1"
PROGRAM = "from recyclegp.cli import app; app()"
KINDS = ("malformed", "oversized", "replayed", "forged", "garbage")  # and slow ones beside them
SLOW = 50
WARM = 2  # measurements of memory before it has to be flat
GROWTH = 32.0  # MiB that it may differ from then on: nonces are remembered for five minutes
POLL = 2.0  # seconds, as owners' commands wait


class Running(NamedTuple):
    """A hub."""

    address: str
    page: str
    pid: int

    def turned_away(self) -> int:
        """Requests, by what its page says."""
        with urllib.request.urlopen(f"{self.page}state.json") as answer:
            return int(json.load(answer)["turned_away"])


@contextlib.contextmanager
def hub(folder: Path, *more: str) -> Iterator[Running]:
    """It ends with the block."""
    command = [sys.executable, "-c", PROGRAM, "hub", str(folder), "--port", "0", "--json", "--admission", "open"]
    command += ["--no-evaluate", *more]
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
        facts = json.loads(said)
        yield Running(facts["address"], facts["page"], process.pid)
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


def many_owners(address: str, contents: list[bytes], polling: float = 0.0) -> dict[str, Any]:
    """All upload at once; meanwhile one asks small questions. Then all of them ask for some seconds."""
    clients = [
        HubClient(address, Ed25519PrivateKey.generate(), f"owner-{i:03d}", patience=300) for i in range(len(contents))
    ]
    barrier = threading.Barrier(len(clients))

    def one(client: HubClient, content: bytes) -> float:
        client.ask("POST", "/register", {"invitation": None})
        barrier.wait()
        start = time.perf_counter()
        found = client.send("/module", content)
        assert found["module"] == protocol.digest_of(content)
        return time.perf_counter() - start

    with asking(address, 0.1 if polling else 0.02) as small:  # no more than an owner may, where that is limited
        begin = time.perf_counter()
        with ThreadPoolExecutor(len(clients)) as pool:
            each = list(pool.map(one, clients, contents))
        wall = time.perf_counter() - begin
    polls: list[float] = []

    def poll(i: int) -> None:
        end = time.monotonic() + polling
        time.sleep(POLL * i / len(clients))  # they did not begin in the same moment
        while time.monotonic() < end:
            start = time.perf_counter()
            clients[i].ask("GET", "/tasks")
            polls.append(time.perf_counter() - start)
            time.sleep(max(0.0, POLL - polls[-1]))

    with ThreadPoolExecutor(len(clients)) as pool:
        list(pool.map(poll, range(len(clients) if polling else 0)))
    return {
        "polls": len(polls),
        "polls_p99": float(np.quantile(polls, 0.99)) if polls else None,
        "owners": len(clients),
        "seconds": wall,
        "upload_median": float(np.median(each)),
        "upload_longest": max(each),
        "small_requests": len(small),
        "small_median": float(np.median(small)),
        "small_p99": float(np.quantile(small, 0.99)),
        "small_longest": max(small),
    }


def questions(address: str, pause: float) -> None:
    """Small ones, until nobody listens; prints how many seconds each has taken."""
    client = HubClient(address, Ed25519PrivateKey.generate(), "asking", patience=300)
    client.ask("POST", "/register", {"invitation": None})
    over = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=listen, daemon=True).start()
    print("ready", flush=True)
    small: list[float] = []
    while not over.is_set():
        start = time.perf_counter()
        client.ask("GET", "/tasks")
        small.append(time.perf_counter() - start)
        time.sleep(pause)
    print(json.dumps(small))


@contextlib.contextmanager
def asking(address: str, pause: float) -> Iterator[list[float]]:
    """Somebody asks meanwhile, in a process of its own: threads of this one wait for each other. Filled at the end."""
    small: list[float] = []
    command = [sys.executable, __file__, "--ask", address, "--pause", str(pause)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield small
        small += json.loads(process.communicate(timeout=300)[0])
    finally:
        process.kill()
        process.wait()


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

    ends: list[int] = []
    slow_ones = [threading.Thread(target=lambda: ends.append(slow(address, 60))) for _ in range(SLOW)]
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
    seen.update(("slow", end) for end in ends)
    accepted = sum(n for (_, status), n in seen.items() if status == 200)
    after = {p["name"] for p in chief.ask("GET", "/people")["people"]}
    assert victim.ask("GET", "/tasks")["state"] in ("ready", "merging", "collecting")
    return {
        "requests": sum(seen.values()),
        "seconds": wall,
        "accepted": accepted,
        "people_changed": len(after ^ before),
        "statuses": {f"{kind} {status}": n for (kind, status), n in sorted(seen.items())},
        "slow_closed": ends.count(0),
        "memory_mib": [round(size, 1) for size in sizes],
    }


def lost(folder: Path, contents: list[bytes]) -> int:
    """Modules that were acknowledged and are not there."""
    here = {entry.digest for entry in rgp.Dictionary(folder / "modules").list()}
    return sum(protocol.digest_of(content) not in here for content in contents)


def problems(results: dict[str, Any], p99: float) -> list[str]:
    """What must not be, in words."""
    many, usual, harm = results["many owners"], results["usual limits"], results["hostile"]
    sizes = harm["memory_mib"][WARM:]
    growth = max(sizes) - sizes[0]
    found = {
        f"{many['lost']} modules are missing": many["lost"],
        f"{usual['lost']} modules are missing under the usual limits": usual["lost"],
        f"{usual['turned_away']} honest requests were turned away by the usual limits": usual["turned_away"],
        f"{harm['accepted']} requests were accepted that should not be": harm["accepted"],
        f"{harm['people_changed']} people have come or gone": harm["people_changed"],
        f"{SLOW - harm['slow_closed']} of those who say nothing are listened to": SLOW - harm["slow_closed"],
        f"p99 of small requests is {many['small_p99']:.2f} s, and may be {p99:g} s": many["small_p99"] > p99,
        f"memory has grown by {growth:.0f} MiB, and may by {GROWTH:g}": growth > GROWTH,
    }
    return [words for words, bad in found.items() if bad]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--owners", type=int, default=200)
    parser.add_argument("--hostile", type=int, default=100_000)
    parser.add_argument("--polling", type=float, default=20.0, help="seconds under the usual limits")
    parser.add_argument("--p99", type=float, default=1.0, help="seconds that small requests may take")
    parser.add_argument("--ask", help=argparse.SUPPRESS)
    parser.add_argument("--pause", type=float, default=0.02, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.ask:
        questions(chosen.ask, chosen.pause)
        return
    if chosen.quick:
        chosen.owners, chosen.hostile, chosen.polling = 20, 2_000, 5.0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    with tempfile.TemporaryDirectory(prefix="recyclegp-") as name:
        folder = Path(name)
        contents = modules(chosen.owners, folder)
        with hub(folder / "usual") as running:
            usual = many_owners(running.address, contents, chosen.polling)
            usual |= {"turned_away": running.turned_away(), "lost": lost(folder / "usual", contents)}
        with hub(folder / "hub", "--no-rate-limits") as (address, _, pid):
            assert HERE in address
            before = cpu(pid)
            results = {"usual limits": usual, "many owners": many_owners(address, contents)}
            results["many owners"]["hub_cpu_seconds"] = cpu(pid) - before
            results["many owners"]["lost"] = lost(folder / "hub", contents)
            before = cpu(pid)
            results["hostile"] = hostile(address, pid, chosen.hostile, folder / "hub")
            results["hostile"]["hub_cpu_seconds"] = cpu(pid) - before
        print(json.dumps(results, indent=1))
    if found := problems(results, chosen.p99):
        raise SystemExit(f"LOST: {'; '.join(found)}")


if __name__ == "__main__":
    main()
