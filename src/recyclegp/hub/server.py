"""A hub on a port: with TLS where certificates are given, and a short patience with those who say nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..errors import Argument, Name, RecycleGPError
from . import worker
from .app import application
from .hub import Hub

LARGEST_HEADERS = 16_384  # bytes
HEAD_SECONDS = 15.0  # within which a connection must have made a request
ANSWER_SECONDS = 900.0  # within which a client must have taken its answer
LOOK = 3.0  # seconds
MOST_OF_ADDRESS = 200  # connections at once, so that nobody takes all of them
EVERYWHERE = ("0.0.0.0", "::")
PROXY = ("127.0.0.1", "::1")  # behind which many may be
FILES = 200  # that a hub has open beside its connections, at most


class Patience(H11Protocol):
    """A connection that says nothing, or takes its answer too slowly, is closed."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._since = self.loop.time()
        self._cycle: Any = None
        self._timer = self.loop.call_later(LOOK, self._look)
        if self.client is not None and self.client[0] not in PROXY:
            others = (getattr(connection, "client", None) for connection in self.connections)
            same = sum(client is not None and client[0] == self.client[0] for client in others)
            if same > MOST_OF_ADDRESS:
                transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()

    def _look(self) -> None:
        busy = self.cycle is not None and not self.cycle.response_complete
        if busy and self.cycle is not self._cycle:  # a request has begun
            self._cycle, self._since = self.cycle, self.loop.time()
        if self.loop.time() - self._since > (ANSWER_SECONDS if busy else HEAD_SECONDS):
            self.transport.abort()
            return
        self._timer = self.loop.call_later(LOOK, self._look)


class Server(uvicorn.Server):
    """It ends in order within seconds, also for whoever asks for it twice."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:
            super().handle_exit(sig, frame)


class Certificate(NamedTuple):
    """For TLS, as PEM files."""

    chain: Path
    key: Path


class Running(NamedTuple):
    """A hub whose address is known already; it answers as soon as it runs."""

    address: str
    page: str
    server: uvicorn.Server
    listener: socket.socket

    def run(self) -> None:
        """Until Ctrl-C, SIGTERM, or `stop` in another thread."""
        with suppress(KeyboardInterrupt), _ending_as_ctrl_c():
            self.server.run(sockets=[self.listener])

    def stop(self) -> None:
        self.server.should_exit = True


@contextmanager
def _ending_as_ctrl_c() -> Iterator[None]:
    """SIGTERM, with which services are stopped. uvicorn passes on what it was sent once it has ended in order, and the
    process would be gone before files are closed and other processes ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Jobs(ProcessPoolExecutor):
    """One process for jobs: whatever happens to it, the hub goes on answering."""

    def __init__(self, threads: int, memory: int) -> None:
        context = multiprocessing.get_context("spawn")
        super().__init__(1, context, initializer=worker.start, initargs=(threads, memory))

    def end(self) -> None:
        """At once, whatever it is doing."""
        for process in list((self._processes or {}).values()):
            process.kill()
        self.shutdown(wait=False, cancel_futures=True)


@contextmanager
def serving(
    hub: Hub,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    certificate: Certificate | None = None,
    behind_proxy: bool = False,
    public_page: bool = False,
    threads: int = 1,
    executor: Any = None,
) -> Iterator[Running]:
    """A hub at an address; port 0 is any that is free."""
    make = executor or (lambda: Jobs(threads, hub.settings.job_memory))
    tls: dict[str, Any] = {}
    if certificate is not None:
        for path in certificate:
            if not path.is_file():
                raise RecycleGPError(
                    f"{path}: no such file; give ", Name("certificate"), " and ", Name("key"), " as PEM files"
                )
        tls = {"ssl_certfile": str(certificate.chain), "ssl_keyfile": str(certificate.key)}
    with _listening(host, port) as listener:
        config = uvicorn.Config(
            application(hub, make, public_page=public_page),
            http=Patience,
            log_level="error",  # of what strangers send nothing is written down
            access_log=False,
            server_header=False,
            proxy_headers=behind_proxy,
            forwarded_allow_ips="127.0.0.1" if behind_proxy else None,
            limit_concurrency=room_for(hub.settings.limits.connections),
            h11_max_incomplete_event_size=LARGEST_HEADERS,
            timeout_graceful_shutdown=3,
            backlog=1024,
            ws="none",
            **tls,
        )
        address = f"http{'s' if tls else ''}://{called(host)}:{listener.getsockname()[1]}"
        yield Running(address, f"{address}/p/{hub.page_tokens.coordinator}/", Server(config), listener)


def called(host: str) -> str:
    """As a part of an address. Of all addresses of this machine at once nobody can ask: then it is its own name."""
    if host in EVERYWHERE:
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def room_for(connections: int) -> int:
    """So many connections, or as many as the system has files for: each may need one more, for what is sent."""
    try:
        import resource
    except ImportError:  # Windows
        return connections
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * connections + FILES
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < wanted:
        more = wanted if hard == unlimited else min(wanted, hard)
        with suppress(OSError, ValueError):  # then it is what it is
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return connections if soft == unlimited else max(10, min(connections, (soft - FILES) // 2))


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as listener:
        if os.name == "posix":  # elsewhere it would let two programs have one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise RecycleGPError(
                Argument("host", host),
                " ",
                Argument("port", port),
                f": {error.strerror}; choose another, or port 0 for any that is free",
            ) from None
        listener.listen(1024)
        yield listener
