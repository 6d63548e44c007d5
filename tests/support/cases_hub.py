"""What the tests of the hub share: a hub that runs in this process, keys, clients, and modules of a few owners."""

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import recyclegp as rgp
from recyclegp.hub.client import HubClient
from recyclegp.hub.hub import Hub
from recyclegp.hub.limits import Limits, Rate
from recyclegp.hub.registry import Admission
from recyclegp.hub.server import serving
from recyclegp.hub.settings import Settings
from recyclegp.storage.signing import private_key

FREE = Limits(of_key=Rate(1e6, 1e6), of_address=Rate(1e6, 1e6), refused=Rate(1e6, 1e6))  # of tests that ask a lot
NORTH, SOUTH, EAST = "north", "south", "east"


def new_key():
    return Ed25519PrivateKey.generate()


def settings(**chosen):
    usual = {"admission": Admission.OPEN, "limits": FREE, "quiet": 0.0, "evaluate": False}
    return Settings(**{**usual, **chosen})


class Here:
    """A hub that runs."""

    def __init__(self, hub, running):
        self.hub, self.address, self.page, self.server = hub, running.address, running.page, running.server
        self.keys = {}  # of owners, by name

    def client(self, name, key=None, **options):
        return HubClient(self.address, key or new_key(), name, patience=options.pop("patience", 20), **options)

    def coordinator(self):
        return self.client("coordinator", private_key(self.hub.folder.root / "coordinator.pem"))

    def owner(self, name, key=None):
        """A client that is registered."""
        key = key or new_key()
        found = self.client(name, key)
        found.ask("POST", "/register", {"invitation": None})
        self.keys[name] = key
        return found

    def until(self, true, seconds=60):
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f"waited in vain; {self.hub.failed}"
            time.sleep(0.05)

    def merged(self, *names):
        """Until exactly these are in the model."""
        self.until(lambda: set(self.hub.current["modules"]) == set(names))


@contextlib.contextmanager
def running(folder, **chosen):
    """Jobs run in a thread, which starts at once."""
    options = {name: chosen.pop(name) for name in ("certificate", "public_page", "behind_proxy") if name in chosen}
    hub = Hub(folder, settings(**chosen))
    try:
        with serving(hub, executor=lambda: ThreadPoolExecutor(1), **options) as found:
            thread = threading.Thread(target=found.run)
            thread.start()
            try:
                while not found.server.started:
                    time.sleep(0.01)
                yield Here(hub, found)
            finally:
                found.stop()
                thread.join()
    finally:
        hub.close()


def table(seed, low=0, high=8, rows=60, sign=1):
    rng = np.random.default_rng(seed)
    hour = rng.uniform(low, high, rows)
    return pd.DataFrame({"hour": hour, "level": sign * (np.sin(hour) + 4) + 0.2 * rng.standard_normal(rows)})


def module(name, seed=0, sign=1, **options):
    rows = table(seed, sign=sign)
    usual = {"publish": 7, "learn": False, "noise": 0.04}
    return rgp.fit(rows[["hour"]], rows["level"], name=name, **{**usual, **options})


def content(model, folder):
    """The bytes of its file."""
    path = folder / f"{time.monotonic_ns()}.safetensors"
    model.save(path)
    return path.read_bytes()
