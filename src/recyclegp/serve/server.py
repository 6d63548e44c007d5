"""The application on a port of this machine, and of no other."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import NamedTuple

import torch
import uvicorn

from ..errors import RecycleGPError
from .app import application
from .state import ServeState

HOST = "127.0.0.1"
MOST_AT_ONCE = 32  # connections


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
def page(serve_state: ServeState, port: int = 0, threads: int = 1) -> Iterator[Page]:
    """Of a state, under a new address; port 0 is any that is free."""
    token = secrets.token_urlsafe(24)
    with _listening(port) as listener, ThreadPoolExecutor(1, "serve", torch.set_num_threads, (threads,)) as worker:
        config = uvicorn.Config(
            application(serve_state, token, worker),
            log_level="warning",
            access_log=False,  # it would show the token
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MOST_AT_ONCE,
            timeout_graceful_shutdown=1,
            ws="none",
        )
        yield Page(f"http://{HOST}:{listener.getsockname()[1]}/{token}/", uvicorn.Server(config), listener)


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
        listener.listen()
        yield listener
