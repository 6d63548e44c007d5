"""What the tests of the page share: modules of a few owners, and a client that asks as the page does."""

import contextlib
import http.client
import json
import socket
import threading
import time
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import pandas as pd

import recyclegp as rgp
from recyclegp.serve import state
from recyclegp.serve.state import Held

EVIL = '"><img src=x onerror="window.hurt=1"><script>window.hurt=1</script>'


def table(seed, low, high, rows=60):
    """One input and a target."""
    rng = np.random.default_rng(seed)
    hour = rng.uniform(low, high, rows)
    return pd.DataFrame({"hour": hour, "level": np.sin(hour / 2) + 4 + 0.2 * rng.standard_normal(rows)})


def fitted(rows, name, **options):
    """Fitted to all columns but the last."""
    return rgp.fit(rows.iloc[:, :-1], rows.iloc[:, -1], name=name, publish=7, **options)


def modules():
    """Three owners that agree, and one whose target is ten times as large."""
    found = [fitted(table(k, 2 * k, 2 * k + 6), name) for k, name in enumerate(("north", "south", "east"))]
    large = table(7, 1, 9)
    return [*found, fitted(large.assign(level=10 * large["level"]), "west")]


def snapshot(some, **options):
    return state.Snapshot(tuple(Held(m, f"{m.name}.safetensors") for m in some), **options)


def serve_state(some, **options):
    return state.ServeState(snapshot(some, **options))


def curve(view, name):
    """One of those that a view draws."""
    data = view["curves"]
    (panel,) = data["panels"]
    return next(c for c in panel["curves"] if data["entries"][c["entry"]]["name"] == name)


def places(c):
    """Where a curve of one input is."""
    return np.linspace(c["from"], c["to"], len(c["mean"]))[:, None]


class Answer(NamedTuple):
    status: int
    headers: Any  # lower-case names
    content: bytes

    @property
    def text(self):
        return self.content.decode()

    def json(self):
        return json.loads(self.content)


class Client:
    """Asks as a browser does that has opened the page, unless it is told other headers; None leaves one out."""

    def __init__(self, address):
        self.host, _, path = address.removeprefix("http://").partition("/")
        self.base = f"/{path}"
        self.origin = f"http://{self.host}"
        self.usual = {"host": self.host, "origin": self.origin, "sec-fetch-site": "same-origin"}

    def ask(self, method, path, content=b"", headers=None):
        """A path that begins with / is one without the token."""
        connection = http.client.HTTPConnection(self.host, timeout=300)
        sent = {name: value for name, value in (self.usual | (headers or {})).items() if value is not None}
        if isinstance(content, bytes):
            sent = {"content-length": str(len(content))} | sent
        connection.putrequest(
            method, path if path.startswith("/") else self.base + path, skip_host=True, skip_accept_encoding=True
        )
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(content or None, encode_chunked=sent.get("transfer-encoding") == "chunked")
        with contextlib.closing(connection):
            answer = connection.getresponse()
            return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())

    def get(self, path, **headers):
        return self.ask("GET", path, headers=headers)

    def post(self, path, question, **headers):
        content = question if isinstance(question, bytes) else json.dumps(question).encode()
        return self.ask("POST", path, content, {"content-type": "application/json"} | headers)

    def begin(self, path, content, length):
        """A part of a question, whose sender then goes away."""
        head = "".join(f"{name}: {value}\r\n" for name, value in (self.usual | {"content-length": length}).items())
        host, port = self.host.split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            connection.sendall(f"POST {self.base}{path} HTTP/1.1\r\n{head}\r\n".encode() + content)

    def upload(self, content, name="m.safetensors", **headers):
        return self.ask("POST", f"api/upload?name={quote(name, safe='')}", content, headers)


class Slow(str):
    """A setting that takes for ever."""

    __slots__ = ()

    def __hash__(self):
        time.sleep(1000)
        return 0


class Hungry(str):
    """A setting that takes all memory."""

    __slots__ = ()

    def __hash__(self):
        return len(bytearray(2**40))


class SlowTables:
    """Takes for ever with each table."""

    def read(self, path, label, modules, target):
        time.sleep(1000)


class HungryTables:
    """Takes all memory."""

    def read(self, path, label, modules, target):
        return bytearray(2**40)


@contextlib.contextmanager
def running(serve_state, **limits):
    """The address of a page, while it runs."""
    from recyclegp.serve import server

    with server.page(serve_state, **limits) as page:
        thread = threading.Thread(target=page.run)
        thread.start()
        try:
            yield page.address
        finally:
            page.stop()
            thread.join(30)
