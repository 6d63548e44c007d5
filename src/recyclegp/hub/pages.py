"""The coordinator's page: who is in, who is late, what each has brought and gained, rounds as a curve. Read-only.

Its address holds a token; without one nothing is there, unless the hub was started with a public page. The page of
`recyclegp serve` is under it, at look/, for the model and the modules that are here. With the coordinator's token
everything can be tried and downloaded; with that of a reader or an owner, and on a public page, it is only looked at.
"""

from __future__ import annotations

import asyncio
import time
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ..errors import RecycleGPError
from ..serve import app as serve
from ..serve.app import May
from ..serve.guard import HEADERS
from . import evaluations, rounds
from .folder import Facts
from .hub import Hub
from .model_page import ModelPage
from .page_tokens import Access
from .protocol import RefusedError
from .registry import Person, Role, Standing

if TYPE_CHECKING:
    from .admission import Admission

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
ASSETS = ("page.js", "page.css", "icon.svg")
OF_SERVE = ("icon.svg",)
EVERYTHING = May(choose=True, add=False, download=True)  # modules come from owners, who sign them
LOOK = May(choose=False, add=False, download=False)


class Pages:
    """Routes under /p/TOKEN/, and under / where the page is public."""

    def __init__(self, hub: Hub, admission: Admission, model: ModelPage, *, public: bool) -> None:
        self._hub, self._admission, self._public = hub, admission, public
        self._model_page = model

    def routes(self) -> list[Route]:
        """For the coordinator; for whoever has asked as a reader or an owner; and for anybody, where that is so."""
        look = self._pages(LOOK)
        others = {route.path: route.endpoint for route in look}
        found = [
            _again(f"/p/{{token}}{r.path}", r, self._behind(r.endpoint, others.get(r.path)))
            for r in self._pages(EVERYTHING)
        ]
        return [*found, *(_again(r.path, r, self._limited(r.endpoint)) for r in look)] if self._public else found

    def _pages(self, may: May) -> list[Route]:
        """The coordinator's page, and that of the model under it."""

        async def state(request: Request) -> Response:
            return await self._state(may.download)

        own = [
            Route("/", partial(self._asset, "page.html")),
            *(Route(f"/{name}", partial(self._asset, name)) for name in ASSETS),
            Route("/state.json", state),
        ]
        if may.download:
            own += [Route("/model.safetensors", self._model), Route("/audit.jsonl", self._audit)]
        inside = serve.routes(self._model_page.line, may)
        return [*own, *(_again(f"/look{r.path}", r, r.endpoint) for r in inside)]

    def _behind(self, everything: Any, look: Any | None) -> Any:
        """What each token shows; a wrong one is told nothing."""

        async def checked(request: Request) -> Response:
            access = self._hub.page_tokens.access(request.path_params["token"], self._hub.registry)
            if access is Access.EVERYTHING:
                return await everything(request)
            if access is Access.LOOK and look is not None:
                return await look(request)
            return PlainTextResponse("Use the address that recyclegp hub has printed.", 404)

        return self._limited(checked)

    def _limited(self, route: Any) -> Any:
        async def checked(request: Request) -> Response:
            try:
                self._admission.check_unsigned(request)
                found = await route(request)
            except RefusedError as refused:
                found = JSONResponse({"error": str(refused)}, refused.status)
            except (RecycleGPError, HTTPException) as refused:
                found = serve.refused(request, refused)
            for name, value in HEADERS.items():
                found.headers.setdefault(name, value)
            return found

        return checked

    async def _asset(self, name: str, request: Request) -> Response:
        home = "recyclegp.serve" if name in OF_SERVE else __package__
        content = files(home).joinpath(name).read_text("utf-8")
        return Response(content, media_type=TYPES[Path(name).suffix])

    async def _state(self, downloads: bool) -> Response:
        found = await asyncio.to_thread(state, self._hub)
        return JSONResponse({**found, "downloads": downloads, "turned_away": self._admission.turned_away})

    async def _model(self, request: Request) -> Response:
        path = await asyncio.to_thread(self._hub.model_file, None)
        return FileResponse(path, media_type="application/octet-stream", filename="merged.safetensors")

    async def _audit(self, request: Request) -> Response:
        content = await asyncio.to_thread(self._hub.audit.read)
        headers = {"Content-Disposition": 'attachment; filename="audit.jsonl"'}
        return Response(content, media_type="application/x-ndjson", headers=headers)


def _again(path: str, route: Route, endpoint: Any) -> Route:
    """The same at another path."""
    return Route(path, endpoint, methods=sorted(route.methods or ()))


def state(hub: Hub) -> Facts:
    """All that the page shows."""
    with hub.lock:
        current = hub.current
        return {
            "title": hub.settings.title,
            "now": time.time(),
            "state": hub.state().value,
            "expect": hub.settings.expect,
            "failed": hub.failed,
            "rounds_failed": hub.rounds_failed(),
            "people": people(hub),
            "model": None
            if current["model"] is None
            else {key: current.get(key) for key in ("model", "kind", "round", "made", "rows", "summary")},
            "counted": len(current["counted"]),
            "rounds": _rounds(hub),
            "evaluations": evaluated(hub),
            "fewest": hub.settings.fewest,
            "audit": {"entries": hub.audit.entries, "head": hub.audit.head},
        }


def people(hub: Hub) -> list[Facts]:
    """Everybody who is registered, but for those who have left without a trace of a module."""
    with hub.lock:
        here, current, run = hub.modules(), hub.current, hub.run()
        missing = set(run.missing()) if run is not None else set()
        late = run is not None and time.time() > (float(run.facts["asked"]) + run.late_after) / 2
        rows = {row["name"]: row for row in reversed(current.get("report", []))}  # the first function of each
        gains = {name: gain for e in evaluated(hub) for name, gain in e["gain_of_owners"].items()}
        found = []
        for person in hub.registry.all():
            row, spent = rows.get(person.name, {}), hub.audit.followed.spent(person.name)
            found.append(
                {
                    "name": person.name,
                    "id": person.id,
                    "role": person.role.value,
                    "standing": person.standing.value,
                    "since": person.since,
                    "seen": hub.seen.get(person.id),
                    "what": _what(hub, person, here, current),
                    "flagged": current["flagged"].get(person.name) if person.name in here else None,
                    "late": person.name in missing and late,
                    "waited_for": person.name in missing,
                    "rows": row.get("rows") if person.name in here else None,
                    "points": row.get("points") if person.name in here else None,
                    "gain": gains.get(person.name) if person.name in here else None,
                    "epsilon": None if spent is None else spent.epsilon,
                    "delta": None if spent is None else spent.delta,
                }
            )
        return found


def _what(hub: Hub, person: Person, here: Facts, current: Facts) -> str:
    """In words, what has become of somebody's module."""
    if person.role is not Role.OWNER:
        return person.role.value
    if person.standing is not Standing.IN:
        return "waits to be approved" if person.standing is Standing.WAITING else "has left"
    if person.name not in here:
        return "counts" if current.get("given") and person.name in current["counted"] else "no module yet"
    if person.name in current["flagged"]:
        return "does not count"
    return "counts" if person.name in current["counted"] else "arrived"


def evaluated(hub: Hub) -> list[Facts]:
    return [one.shown(hub.settings.fewest) for one in evaluations.every(hub.folder.evaluations)]


def _rounds(hub: Hub) -> Facts | None:
    run = rounds.newest(hub.folder.rounds)
    if run is None:
        return None
    return {
        "running": not run.closed,
        "round": run.round,
        "owners": len(run.owners),
        "waits_for": [] if run.closed else run.missing(),
        "until": run.late_after,
        "history": run.facts["history"],
        "rounds": run.facts["rounds"],
    }
