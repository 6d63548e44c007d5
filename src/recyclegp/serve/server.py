"""The application on a port of this machine, and of no other."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import torch
import uvicorn

from ..errors import RecycleGPError
from .app import application
from .guard import new_token
from .state import Desk

HOST = "127.0.0.1"
MOST_AT_ONCE = 32  # connections


def serve(desk: Desk, port: int, threads: int, ready: Callable[[str], None]) -> None:
    """Until Ctrl-C. `ready` is told the address as soon as it can be opened."""
    token = new_token()
    with _listening(port) as listener, ThreadPoolExecutor(1, "desk", torch.set_num_threads, (threads,)) as worker:
        config = uvicorn.Config(
            application(desk, token, worker),
            log_level="warning",
            access_log=False,  # it would show the token
            server_header=False,
            limit_concurrency=MOST_AT_ONCE,
            timeout_graceful_shutdown=1,
            ws="none",
        )
        ready(f"http://{HOST}:{listener.getsockname()[1]}/{token}/")
        with suppress(KeyboardInterrupt):  # uvicorn ends in order, and then passes on what it was sent
            uvicorn.Server(config).run(sockets=[listener])


@contextmanager
def _listening(port: int) -> Iterator[socket.socket]:
    with socket.socket() as listener:
        if os.name == "posix":  # elsewhere it would let two programs have one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError as error:
            raise RecycleGPError(f"--port {port}: {error.strerror}; choose another, or 0 for any that is free") from None
        listener.listen()
        yield listener
