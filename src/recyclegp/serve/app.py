"""The routes. Whatever takes time is done by other processes, one question after the other."""

from __future__ import annotations

import asyncio
import json
import re
from functools import partial
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..errors import RecycleGPError, in_words, printable
from ..plot import page
from .guard import Guard
from .state import SUFFIX
from .worker import Question, Workers

LARGEST_FILE = 64 * 2**20  # bytes of an upload
LARGEST_QUESTION = 2**20  # bytes
LONGEST_NAME = 100  # characters of a file's name
SLOWEST_BODY = 60.0  # seconds until all of a question has come
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
ASSETS = ("page.html", "page.js", "page.css", "icon.svg")


def application(workers: Workers, token: str) -> ASGIApp:
    """The page of what the workers know, for whoever knows the token."""
    inside = _Page(workers)
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
    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    async def about(self, request: Request) -> Response:
        return JSONResponse(await self._asked(request, "about"))

    async def view(self, request: Request) -> Response:
        question = await _question(request)
        numbers = (_whole_number(question, name) for name in ("column", "function"))
        return JSONResponse(await self._asked(request, "view", _choice(question), *numbers))

    async def owners(self, request: Request) -> Response:
        question = await _question(request)
        return JSONResponse(
            await self._asked(request, "owners", _choice(question), _whole_number(question, "function"))
        )

    async def file(self, request: Request) -> Response:
        content = await self._asked(request, "file", _choice(await _question(request)))
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
            count = await self.workers.add(path, label)
        return JSONResponse({"added": count, "file": label})

    async def _asked(self, request: Request, what: str, *arguments: Any) -> Any:
        """In turn, unless whoever asked has gone meanwhile, or too many wait already."""
        if self.workers.busy:
            raise HTTPException(503, "many questions are waiting; ask again in a moment", {"Retry-After": "1"})
        found = await self.workers.ask(Question(what, arguments), request.is_disconnected)
        if found is None:
            raise HTTPException(499)
        return found


def _choice(question: dict[str, Any]) -> Any:
    """Looked at where the modules are."""
    return question.get("choice", {})


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
    try:
        async with asyncio.timeout(SLOWEST_BODY):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise too_large
                yield part
    except TimeoutError:
        raise HTTPException(408, "it comes too slowly; send it again") from None


def _refused(request: Request, error: Any) -> Response:
    """What went wrong, for the person at the page."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
    if isinstance(error, RecycleGPError):
        return JSONResponse({"error": in_words([error], shell=True)}, 422)
    return JSONResponse({"error": "something went wrong here; the terminal says more"}, 500)
