"""The routes. Whatever takes time is done by one worker, one question after the other."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..errors import RecycleGPError, in_words, printable
from ..plot import page
from . import views
from .choices import Choice, from_json
from .guard import Guard
from .state import SUFFIX, ServeState

LARGEST_FILE = 64 * 2**20  # bytes of an upload
LARGEST_QUESTION = 2**20  # bytes
LONGEST_NAME = 100  # characters of a file's name
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
ASSETS = ("page.html", "page.js", "page.css", "icon.svg")

T = TypeVar("T")


def application(serve_state: ServeState, token: str, worker: Executor) -> ASGIApp:
    """The page of one state, for whoever knows the token. The worker must have one thread."""
    inside = _Page(serve_state, worker)
    routes = [
        Route("/", partial(_asset, "page.html")),
        *(Route(f"/{name}", partial(_asset, name)) for name in (*ASSETS[1:], "drawing.js")),
        Route("/api/about", inside.about),
        Route("/api/view", inside.view, methods=["POST"]),
        Route("/api/owners", inside.owners, methods=["POST"]),
        Route("/api/file", inside.file, methods=["POST"]),
        Route("/api/upload", inside.upload, methods=["POST"]),
    ]
    handlers: dict[Any, Any] = dict.fromkeys((RecycleGPError, HTTPException, Exception), _refused)
    return Guard(Starlette(routes=routes, exception_handlers=handlers), token)


async def _asset(name: str, request: Request) -> Response:
    content = page.asset(name) if name == "drawing.js" else files(__package__).joinpath(name).read_text("utf-8")
    return Response(content, media_type=TYPES[Path(name).suffix])


class _Page:
    def __init__(self, serve_state: ServeState, worker: Executor) -> None:
        self.serve_state = serve_state
        self.worker = worker
        self.turn = asyncio.Lock()

    async def about(self, request: Request) -> Response:
        return JSONResponse(await self._done(request, lambda: views.about(self.serve_state.snapshot)))

    async def view(self, request: Request) -> Response:
        question = await _question(request)
        column, function = (_whole_number(question, name) for name in ("column", "function"))
        choice = self._choice(question)
        return JSONResponse(await self._done(request, lambda: views.view(self.serve_state, choice, column, function)))

    async def owners(self, request: Request) -> Response:
        question = await _question(request)
        choice, function = self._choice(question), _whole_number(question, "function")
        return JSONResponse(await self._done(request, lambda: views.owners(self.serve_state, choice, function)))

    async def file(self, request: Request) -> Response:
        choice = self._choice(await _question(request))
        content = await self._done(request, lambda: self.serve_state.file(choice))
        headers = {"Content-Disposition": f'attachment; filename="merged{SUFFIX}"'}
        return Response(content, media_type="application/octet-stream", headers=headers)

    async def upload(self, request: Request) -> Response:
        """One file, as the body of the request: read strictly, and gone from the disk afterwards."""
        label = shown_name(request.query_params.get("name", ""))
        with TemporaryDirectory(prefix="recyclegp-") as folder:
            path = Path(folder) / f"upload{SUFFIX}"
            with open(path, "xb") as stream:
                async for part in _within(request, LARGEST_FILE):
                    stream.write(part)
            count = await self._done(request, lambda: self.serve_state.add(path, label))
        return JSONResponse({"added": count, "file": label})

    def _choice(self, question: dict[str, Any]) -> Choice:
        return from_json(question.get("choice", {}), self.serve_state.snapshot.modules)

    async def _done(self, request: Request, work: Callable[[], T]) -> T:
        """By the worker, unless whoever asked has gone meanwhile."""
        async with self.turn:
            if await request.is_disconnected():
                raise HTTPException(499)
            return await asyncio.get_running_loop().run_in_executor(self.worker, work)


def shown_name(given: str) -> str:
    """The name of an uploaded file, for people: never a path."""
    return printable(re.split(r"[/\\]", given)[-1], LONGEST_NAME) or f"upload{SUFFIX}"


async def _question(request: Request) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "send JSON")
    content = b"".join([part async for part in _within(request, LARGEST_QUESTION)])
    try:
        question = json.loads(content)
    except (ValueError, RecursionError):
        raise RecycleGPError("the question is not JSON") from None
    if not isinstance(question, dict):
        raise RecycleGPError("the question must be an object")
    return question


def _whole_number(question: dict[str, Any], name: str) -> int:
    found = question.get(name, 0)
    if type(found) is not int:
        raise RecycleGPError(f"{name} must be a whole number")
    return found


async def _within(request: Request, limit: int) -> Any:
    """The body in parts; it is refused as soon as it is too large, or says so beforehand."""
    too_large = HTTPException(413, f"larger than the {limit / 2**20:g} MiB that this page takes")
    said = request.headers.get("content-length", "0")
    if not said.isdecimal() or int(said) > limit:
        raise too_large
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise too_large
        yield part


def _refused(request: Request, error: Any) -> Response:
    """What went wrong, for the person at the page."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
    if isinstance(error, RecycleGPError):
        return JSONResponse({"error": in_words([error], shell=True)}, 422)
    return JSONResponse({"error": "something went wrong here; the terminal says more"}, 500)
