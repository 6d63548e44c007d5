"""The routes. Whatever takes time is done by other processes, one question after the other."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..errors import RecycleGPError, in_words, printable
from ..plot import page
from .guard import Guard
from .looking import FIELDS
from .state import SUFFIX
from .worker import Line, Question, Workers

LARGEST_FILE = 64 * 2**20  # bytes of an upload
LARGEST_QUESTION = 2**20  # bytes
LONGEST_NAME = 100  # characters of a file's name
SLOWEST_BODY = 60.0  # seconds until all of a question has come
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
ASSETS = ("page.html", "page.js", "owners.js", "modules.js", "files.js", "page.css", "icon.svg")
OF_PLOT = ("drawing.js", "maps.js")  # the same curves and maps as on pages that are saved
PICTURE_TYPES = {"png": "image/png", "svg": "image/svg+xml", "pdf": "application/pdf"}


def application(workers: Workers, token: str) -> ASGIApp:
    """The page of what the workers know, for whoever knows the token."""

    async def line(request: Request) -> Line:
        return workers.line

    async def upload(request: Request) -> Response:
        label = shown_name(request.query_params.get("name", ""))
        async with _received(request, SUFFIX) as path:
            count = await workers.add(path, label)
        return JSONResponse({"added": count, "file": label})

    async def table(request: Request) -> Response:
        label = shown_name(request.query_params.get("name", ""))
        async with _received(request, table_suffix(label)) as path:
            found = await workers.show(path, label, request.query_params.get("target") or None)
        return JSONResponse({"file": label, "rows": found.rows, "scored": found.test is not None})

    taken = {"/api/upload": upload, "/api/table": table}
    inside = [*routes(line, May()), *(Route(path, take, methods=["POST"]) for path, take in taken.items())]
    handlers: dict[Any, Any] = dict.fromkeys((RecycleGPError, HTTPException, Exception), refused)
    return Guard(Starlette(routes=inside, exception_handlers=handlers), token)


class May(NamedTuple):
    """What somebody who sees a page may do beside looking."""

    choose: bool = True  # who counts, and in which units: then it is merged anew
    add: bool = True  # files
    download: bool = True  # the merged model


def routes(line: Callable[[Request], Awaitable[Line]], may: May) -> list[Route]:
    """The page and its questions, which are put to the line that a request is for."""
    inside = _Page(line, may)
    found = [
        Route("/", partial(_asset, "page.html")),
        *(Route(f"/{name}", partial(_asset, name)) for name in (*ASSETS[1:], *OF_PLOT)),
        Route("/api/about", inside.about),
        Route("/api/view", inside.view, methods=["POST"]),
        Route("/api/owners", inside.owners, methods=["POST"]),
        Route("/api/picture", inside.picture, methods=["POST"]),
    ]
    if may.add:
        found.append(Route("/api/predictions", inside.predictions, methods=["POST"]))
    return [*found, Route("/api/file", inside.file, methods=["POST"])] if may.download else found


async def _asset(name: str, request: Request) -> Response:
    content = page.asset(name) if name in OF_PLOT else files(__package__).joinpath(name).read_text("utf-8")
    return Response(content, media_type=TYPES[Path(name).suffix])


class _Page:
    def __init__(self, line: Callable[[Request], Awaitable[Line]], may: May) -> None:
        self.line, self.may = line, may

    async def about(self, request: Request) -> Response:
        line = await self.line(request)
        found = await self._asked(request, {}, "about")
        return JSONResponse({**found, "may": self.may._asdict(), "version": line.version})

    async def view(self, request: Request) -> Response:
        return JSONResponse(await self._looked(request, "view"))

    async def owners(self, request: Request) -> Response:
        return JSONResponse(await self._looked(request, "owners"))

    async def picture(self, request: Request) -> Response:
        question = await _question(request)
        kind = str(question.get("kind", "png"))
        content = await self._asked(request, question, "picture", self._choice(question), _looking(question), kind)
        return _attached(content, f"figure.{kind}", PICTURE_TYPES[kind])

    async def file(self, request: Request) -> Response:
        question = await _question(request)
        content = await self._asked(request, question, "file", self._choice(question))
        return _attached(content, f"merged{SUFFIX}", "application/octet-stream")

    async def predictions(self, request: Request) -> Response:
        question = await _question(request)
        content = await self._asked(request, question, "predictions", self._choice(question))
        return _attached(content, "predictions.csv", "text/csv")

    async def _looked(self, request: Request, what: str) -> Any:
        question = await _question(request)
        return await self._asked(request, question, what, self._choice(question), _looking(question))

    async def _asked(self, request: Request, question: dict[str, Any], what: str, *arguments: Any) -> Any:
        """In turn, unless whoever asked has gone meanwhile, or too many wait already."""
        line = await self.line(request)
        if line.busy:
            raise HTTPException(503, "many questions are waiting; ask again in a moment", {"Retry-After": "1"})
        if question.get("version", line.version) != line.version:
            raise HTTPException(409, "what this page shows has changed meanwhile; load it again")
        found = await line.ask(Question(what, arguments), request.is_disconnected)
        if found is None:
            raise HTTPException(499)
        return found

    def _choice(self, question: dict[str, Any]) -> Any:
        """Looked at where the modules are; None is the usual one."""
        return question.get("choice") if self.may.choose else None


def _looking(question: dict[str, Any]) -> dict[str, Any]:
    """Looked at where the modules are, too."""
    return {name: question[name] for name in FIELDS if name in question}


def _attached(content: bytes, name: str, kind: str) -> Response:
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


@asynccontextmanager
async def _received(request: Request, suffix: str) -> AsyncIterator[Path]:
    """One file, as the body of the request: it is gone from the disk afterwards."""
    with TemporaryDirectory(prefix="recyclegp-") as folder:
        path = Path(folder) / f"upload{suffix}"
        with open(path, "xb") as stream:
            async for part in _within(request, LARGEST_FILE):
                stream.write(part)
        yield path


def table_suffix(label: str) -> str:
    """The ending of its name says how a table is read: .csv, .csv.gz, …"""
    found = re.search(r"(\.[a-z0-9]{1,8})(\.gz)?$", label.lower())
    return found[0] if found is not None else ""


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
    except ClientDisconnect:  # whoever sends it has gone: nobody reads the answer
        raise HTTPException(499) from None


def refused(request: Request, error: Any) -> Response:
    """What went wrong, for the person at the page."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
    if isinstance(error, RecycleGPError):
        return JSONResponse({"error": in_words([error], shell=True)}, 422)
    return JSONResponse({"error": "something went wrong here; the terminal says more"}, 500)
