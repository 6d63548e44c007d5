"""Processes that read and merge what strangers have sent, with limits of time and memory; what exceeds them is ended.

One process answers all questions, in turn. An upload is tried in another one, which reads it, merges it with the others
and draws the result; only what it has found joins the first. So a file that takes for ever keeps nobody waiting.

Processes are not forked from this one, which has threads: a lock that one of them held would stay locked for ever. They
come from a helper without threads that has imported everything (`forkserver`), or begin anew where there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..errors import RecycleGPError, in_words
from ..logs import logger
from .memory import limit_memory
from .questions import QUESTIONS as KNOWN
from .state import ServeState, Snapshot
from .tables import Table

Opening = Callable[[], ServeState]  # makes a state, in the process that will answer about it

HERE = __name__


class Limits(NamedTuple):
    """What one process may take."""

    seconds: float  # for one question
    memory: int  # bytes above what it has when it begins
    nice: int = 0  # how far it lets other processes go first


QUESTIONS = Limits(600.0, 2**34)  # honest merges of many modules may take minutes
UPLOADS = Limits(60.0, 2**31)
STARTS_WITHIN = 300.0  # seconds, on a machine that has much to do


class BrokenError(Exception):
    """Something went wrong that nobody has foreseen; it was written to the terminal."""


log = logger(__name__)


class Question(NamedTuple):
    """What is asked of a state: one of the functions in `questions`, and its arguments."""

    what: str
    arguments: tuple[Any, ...] = ()


class Reply(NamedTuple):
    """A value, or why there is none."""

    value: Any = None
    refused: str | None = None
    broken: bool = False


class Worker:
    """A process that answers about a state, started when it is first asked, and again where it had to be ended."""

    def __init__(self, opening: Opening, threads: int, limits: Limits) -> None:
        self.opening = opening
        self.threads = threads
        self.limits = limits
        self.process: Any = None
        self.pipe: Connection | None = None

    def ask(self, question: Question) -> Any:
        """What it answers. Called by one thread at a time."""
        log.debug("asked for %s", question.what)
        pipe = self.pipe or self._start()
        try:
            pipe.send(question)
            if not pipe.poll(self.limits.seconds):
                self.end()
                raise RecycleGPError(
                    f"given up: it took more than the {self.limits.seconds:g} s that this page allows; leave out the "
                    "file that takes so long, or merge on the command line"
                )
            reply = pipe.recv()
        except (EOFError, OSError):  # the process has died, or was ended
            self.end()
            raise RecycleGPError(
                "given up: the process that computes it has ended, perhaps for want of memory; leave out what is so "
                "large, or merge on the command line"
            ) from None
        if reply.broken:
            raise BrokenError
        if reply.refused is not None:
            raise RecycleGPError(reply.refused)
        log.debug("answered %s", question.what)
        return reply.value

    def _start(self) -> Connection:
        context = _context()
        pipe, theirs = context.Pipe()
        self.process = context.Process(
            target=answer_questions, args=(theirs, self.opening, self.threads, self.limits), daemon=True
        )
        self.process.start()
        theirs.close()
        with contextlib.suppress(EOFError, OSError):  # which the first question will notice
            if pipe.poll(STARTS_WITHIN):  # what it takes to begin is nobody's question
                pipe.recv()
        self.pipe = pipe
        return pipe

    def end(self) -> None:
        """At once, whatever it is doing. Who waits for an answer finds the pipe at its end."""
        process, self.process, self.pipe = self.process, None, None
        if process is not None:
            process.kill()
            process.join(5)


class Line:
    """Questions that one process answers in turn, and a few threads that only wait."""

    MOST_WAITING = 128  # questions; who comes later is told to come again

    def __init__(self, worker: Worker, threads: int = 1, version: str = "") -> None:
        """`version` says what the answers are about, where that may change."""
        self.worker, self.version = worker, version
        self.waiting = 0
        self.ended = False
        self.turn = asyncio.Lock()
        self.pool = ThreadPoolExecutor(threads, "serve")

    @property
    def busy(self) -> bool:
        return self.waiting >= self.MOST_WAITING

    async def ask(self, question: Question, gone: Callable[[], Any]) -> Any:
        """In turn; None where whoever asked has gone meanwhile."""
        self.waiting += 1
        try:
            async with self.turn:
                return None if await gone() else await self.run(self.worker.ask, question)
        finally:
            self.waiting -= 1

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            if not self.ended:
                return await asyncio.get_running_loop().run_in_executor(self.pool, function, *arguments)
        except RecycleGPError:  # that the process has ended is no news then
            if not self.ended:
                raise
        raise RecycleGPError("what this page shows has changed meanwhile; load it again")

    def end(self) -> None:
        """Whoever waits is told so."""
        self.ended = True
        self.worker.end()
        self.pool.shutdown(wait=False, cancel_futures=True)


class Workers:
    """The process for questions about a snapshot, and those in which uploads are tried."""

    MOST_TRIED = 2  # uploads at a time

    def __init__(self, snapshot: Snapshot, threads: int, questions: Limits = QUESTIONS, uploads: Limits = UPLOADS):
        self.snapshot = snapshot
        self.line = Line(Worker(partial(ServeState, snapshot), threads, questions), 1 + self.MOST_TRIED)
        self.uploads = uploads
        self.tried: set[Worker] = set()

    async def add(self, path: Path, label: str) -> int:
        """Modules from one more file: all of them or, where one cannot be shown, none."""
        tried = await self._tried(Question("trial", (path, label)), label)
        await self._follow(Question("adopt", tried), lambda now: now.with_modules(tried.held))
        return len(tried.held)

    async def show(self, path: Path, label: str, target: str | None) -> Table:
        """A table that somebody shows, in place of the one before."""
        found: Table = await self._tried(Question("table", (path, label, target)), label)
        await self._follow(Question("show", (found,)), lambda now: replace(now, table=found))
        return found

    async def _tried(self, question: Question, label: str) -> Any:
        """In a process of its own, which may take no more than an upload may."""
        if len(self.tried) >= self.MOST_TRIED:
            raise RecycleGPError(f"{label}: other files are being read; send it again in a moment")
        trial = Worker(partial(ServeState, self.snapshot), self.line.worker.threads, self.uploads)
        self.tried.add(trial)
        try:
            return await self.line.run(trial.ask, question)
        except RecycleGPError as refused:
            named = str(refused).startswith(f"{label}: ")
            raise RecycleGPError("" if named else f"{label}: ", refused) from None
        finally:
            self.tried.discard(trial)
            trial.end()

    async def _follow(self, question: Question, changed: Callable[[Snapshot], Snapshot]) -> None:
        """What was found joins the process for questions, and the next one, if this one ends."""
        async with self.line.turn:
            await self.line.run(self.line.worker.ask, question)
            self.snapshot = changed(self.snapshot)
            self.line.worker.opening = partial(ServeState, self.snapshot)

    def end(self) -> None:
        for worker in self.tried:
            worker.end()
        self.line.end()


def _context() -> Any:
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([HERE])
    return context


# --- in the process of a worker -------------------------------------------------------------------


def answer_questions(pipe: Connection, opening: Opening, threads: int, limits: Limits) -> None:
    """Until the other end is closed. A state that cannot be made is tried again with every question, and refused."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the page, which ends this process
    torch.set_num_threads(threads)
    if limits.nice and hasattr(os, "nice"):
        os.nice(limits.nice)
    limit_memory(limits.memory)
    opened: list[ServeState] = []

    def answered(what: str, arguments: tuple[Any, ...]) -> Any:
        if not opened:
            opened.append(opening())
        return KNOWN[what](opened[0], *arguments)

    pipe.send(Reply())
    while True:
        try:
            question = pipe.recv()
        except EOFError:
            return
        pipe.send(_reply(partial(answered, *question), limits.memory))


def _reply(compute: Callable[[], Any], memory: int) -> Reply:
    try:
        return Reply(compute())
    except RecycleGPError as refused:
        return Reply(refused=in_words([refused], shell=True))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            return Reply(refused=f"it needs more than the {memory / 2**30:g} GiB of memory that this page allows")
        traceback.print_exc()
    except Exception:  # whatever it is, the page answers, and the log has the rest
        traceback.print_exc()
    sys.stderr.flush()
    return Reply(broken=True)
