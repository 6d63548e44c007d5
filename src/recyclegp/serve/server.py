"""The application on a port of this machine, and of no other."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import uvicorn

from ..errors import RecycleGPError
from .app import application
from .connections import Connection
from .state import ServeState
from .worker import QUESTIONS, UPLOADS, Limits, Workers

HOST = "127.0.0.1"
MOST_PENDING = 512  # connections that the system keeps until they are taken


class Server(uvicorn.Server):
    """One that ends what it is computing first, so that whoever waits for it is told so, and nobody else waits."""

    def __init__(self, config: uvicorn.Config, workers: Workers) -> None:
        super().__init__(config)
        self.workers = workers

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.workers.end()
        await super().shutdown(sockets)


class Page(NamedTuple):
    """A page whose address can be opened already; it answers as soon as it runs."""

    address: str
    server: uvicorn.Server
    listener: socket.socket

    def run(self) -> None:
        """Until Ctrl-C, or `stop` in another thread."""
        with suppress(KeyboardInterrupt):  # uvicorn ends in order, and then passes on what it was sent
            self.server.run(sockets=[self.listener])

    def stop(self) -> None:
        self.server.should_exit = True


@contextmanager
def page(
    serve_state: ServeState, port: int = 0, threads: int = 1, questions: Limits = QUESTIONS, uploads: Limits = UPLOADS
) -> Iterator[Page]:
    """Of a state, under a new address; port 0 is any that is free."""
    token = secrets.token_urlsafe(24)
    with _listening(port) as listener, _working(serve_state, threads, questions, uploads) as workers:
        config = uvicorn.Config(
            application(workers, token),
            http=Connection,
            loop="asyncio",
            log_level="warning",
            access_log=False,  # it would show the token
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
            ws="none",
        )
        yield Page(f"http://{HOST}:{listener.getsockname()[1]}/{token}/", Server(config, workers), listener)


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket() as listener:
        if os.name == "posix":  # elsewhere it would let two programs have one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            raise RecycleGPError(
                f"--port {port}: {error.strerror}; choose another, or 0 for any that is free"
            ) from None
        listener.listen(MOST_PENDING)
        yield listener


@contextmanager
def _working(serve_state: ServeState, threads: int, questions: Limits, uploads: Limits) -> Iterator[Workers]:
    """Whatever they are doing, they end with the page."""
    workers = Workers(serve_state.snapshot, threads, questions, uploads)
    try:
        yield workers
    finally:
        workers.end()
