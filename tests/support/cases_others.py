"""What other people do while a page is run: owners of a hub, and of a secure sum; and what stands for their machines.

A page names one of these in a comment above a block: `<!-- others: owners -->`. Each is a function of the shell in
which the commands of the page are run.
"""

import contextlib
import datetime
import shutil
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

import recyclegp as rgp
from cases_cli import written
from recyclegp.hub.client import HubClient, UnreachableError
from recyclegp.hub.home import Home
from recyclegp.hub.owner import Owner, Promise, Rows
from recyclegp.storage.signing import private_key

PEM = Encoding.PEM

PUBLIC = "https://hub.example:8443"
SECONDS = 120.0  # of patience


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def table(seed, low=0, high=24):
    """y of the hours of a day, as one owner has seen them."""
    rng = np.random.default_rng(seed)
    hour = rng.uniform(low, high, 200)
    return pd.DataFrame({"hour": hour, "y": 4 + np.sin(hour / 3) + 0.3 * rng.standard_normal(200)})


class Attending(threading.Thread):
    """An owner elsewhere: what `join` does, in a thread."""

    def __init__(self, address, name, rows, invitation=None, secure=False):
        super().__init__(daemon=True)
        X, y = rows[["hour"]], rows["y"].to_numpy()
        home = Home(Path(f"{name}.hub").absolute())
        home.make()
        client = HubClient(address, home.key(), name, patience=SECONDS)
        client.about()
        promise = Promise(None, True) if secure else None
        self.owner = Owner(
            client, home, Rows(X, y, None, 0.1, "things"), share_score=False, say=lambda said: None, promise=promise
        )
        self.owner.register(invitation, 0.1, SECONDS)
        if not secure:
            rgp.fit(X, y, name=name, privacy="things", target="y", hold_back=0.1).save(home.module)
            self.owner.send_module()
        self.start()

    def run(self):
        with contextlib.suppress(UnreachableError):  # the page has ended, and its hub with it
            self.owner.attend(0.2)


def hub(shell):
    """The hub of the page is at a port that nobody else uses."""
    port = str(free_port())
    shell.instead = {
        PUBLIC: f"http://127.0.0.1:{port}",
        "--port 8443": f"--port {port}",
        "127.0.0.1:8443": f"127.0.0.1:{port}",
        "--target y": "--target y --yes --poll 0.2",
    }
    written(table(0, 0, 13), "north.csv")


def owners(shell):
    """Two others have their invitations, too, and have come before."""
    mine, *rest = shell.said.split()
    shell.instead["5a0c…-8f3d…"] = f"{mine} --things"
    for seed, (name, token) in enumerate(zip(("south", "west"), rest, strict=True), start=1):
        Attending(shell.instead[PUBLIC], name, table(seed, 6, 24), token)


def another_hub(shell):
    """Where nobody has a module; the one before is stopped."""
    shell.background.end()
    shutil.rmtree("north.hub", ignore_errors=True)
    hub(shell)
    port = shell.instead["--port 8443"]
    folder = f"hub-{port.split()[1]}"
    shell.instead["city/coordinator.pem"] = f"{folder}/coordinator.pem"
    shell.background.start(["hub", folder, *port.split(), "--admission", "open"])


def masked(shell):
    """Another hub, and two others who take part in secure sums."""
    another_hub(shell)
    for seed, name in enumerate(("south", "west"), start=1):
        Attending(shell.instead[PUBLIC], name, table(seed), secure=True)


def until_registered(*names):
    """What the coordinator waits for, before asking."""

    def wait(shell):
        key, end = private_key(Path(shell.instead["city/coordinator.pem"])), time.monotonic() + SECONDS
        client = HubClient(shell.instead[PUBLIC], key, "coordinator", patience=SECONDS)
        while not set(names) <= {person["name"] for person in client.ask("GET", "/people")["people"]}:
            assert time.monotonic() < end, f"{names} have not come"
            time.sleep(0.2)

    return wait


def certificate(shell):
    """For TLS, of this machine; the hub of before is stopped."""
    shell.background.end()
    shell.instead = {"--host 0.0.0.0": f"--host 127.0.0.1 --port {free_port()}"}
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hub")])
    day = datetime.timedelta(days=1)
    today = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, today - day, today + day)
    Path("chain.pem").write_bytes(made.sign(key, hashes.SHA256()).public_bytes(PEM))
    Path("key.pem").write_bytes(key.private_bytes(PEM, PrivateFormat.PKCS8, NoEncryption()))


def in_the_sum(shell):
    """Two others take part in a secure sum over files."""
    rows = pd.read_csv("north.csv")
    for name in ("south", "west"):
        written(rows, f"{name}.csv")
        asked = f"join-sum plan.safetensors {name}.csv --target y --folder sum-1 --epsilon 1 --delta 1e-6 --bound 3"
        shell.background.start(asked.split())


OTHERS = {
    "a hub": hub,
    "owners": owners,
    "another hub": another_hub,
    "north is there": until_registered("north"),
    "owners under masks": masked,
    "all three are there": until_registered("north", "south", "west"),
    "a certificate": certificate,
    "south and west": in_the_sum,
    "all are done": lambda shell: shell.background.wait(),
}
