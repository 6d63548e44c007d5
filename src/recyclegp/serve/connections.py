"""Connections that do not say what they want are closed, so that they keep no place from those that do."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

SLOWEST = 5.0  # seconds from the connection, or from the first byte of another question, to the end of the headers
MOST_SILENT = 200  # connections without a whole question; of more the oldest is closed. A hundred may come at once


class Connection(H11Protocol):
    """HTTP as uvicorn speaks it, with a limit of time for headers."""

    timer: asyncio.TimerHandle | None = None  # of one that has not asked yet

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # it has asked
            self._stop_waiting()
        elif self.timer is None and not self.transport.is_closing():
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        silent = [(c.timer.when(), c) for c in self.connections if isinstance(c, Connection) and c.timer is not None]
        if len(silent) >= MOST_SILENT:
            min(silent, key=lambda pair: pair[0])[1]._give_up()
        self.timer = self.loop.call_later(SLOWEST, self._give_up)

    def _stop_waiting(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def _give_up(self) -> None:
        self._stop_waiting()
        self.transport.close()
