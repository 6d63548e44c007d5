"""The routes of a hub: what can be asked, and by whom. `admission` checks, `hub` does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from ..errors import RecycleGPError, printable
from ..storage import strict_json
from ..version import __version__
from . import exchanges, given, leaving, pages
from .admission import EVERYBODY, Admission, SignedQuery
from .hub import Hub
from .keeper import Keeper
from .model_page import ModelPage
from .protocol import RefusedError, Signed
from .registry import Person, Role, Standing
from .rounds import MASKED, Run

COORDINATOR = (Role.COORDINATOR,)
OWNER = (Role.OWNER,)
MOST_ROUNDS, MOST_POINTS = 1000, 4096


def application(hub: Hub, executor: Callable[[], Executor], *, public_page: bool = False) -> ASGIApp:
    """A hub behind HTTP. The executor is for jobs that take time; it is made again where it has died."""
    admission = Admission(hub)
    ask = _Questions(hub)
    model = ModelPage(hub)
    page = pages.Pages(hub, admission, model, public=public_page)

    async def about(request: Request) -> Response:
        try:
            admission.check_unsigned(request)
        except RefusedError as refused:
            return JSONResponse({"error": str(refused)}, refused.status)
        facts = {"recyclegp_hub": 1, "title": hub.settings.title, "key": hub.public.hex(), "version": __version__}
        return JSONResponse({**facts, "admission": hub.settings.admission.value})

    routes = [
        Route("/hub", about),
        Route("/register", admission.open(ask.register, None), methods=["POST"]),
        Route("/tasks", admission.open(ask.tasks, OWNER)),
        Route("/module", admission.open(ask.put_module, OWNER, upload=True), methods=["PUT"]),
        Route("/module", admission.open(ask.leave, OWNER, also_left=True), methods=["DELETE"]),
        Route("/receipts/{name}", admission.open(ask.receipt, OWNER, also_left=True)),
        Route("/plan", admission.open(ask.plan, OWNER)),
        Route("/answer", admission.open(ask.put_answer, OWNER, upload=True), methods=["PUT"]),
        Route("/sum", admission.open(ask.sum_message, OWNER)),
        Route("/sum", admission.open(ask.put_sum_message, OWNER, upload=True), methods=["PUT"]),
        Route("/score", admission.open(ask.put_score, OWNER), methods=["POST"]),
        Route("/model", admission.open(ask.model, EVERYBODY)),
        Route("/report", admission.open(ask.report, EVERYBODY)),
        Route("/page", admission.open(ask.page, EVERYBODY)),
        Route("/invitations", admission.open(ask.invite, COORDINATOR), methods=["POST"]),
        Route("/people", admission.open(ask.people, COORDINATOR)),
        Route("/people", admission.open(ask.decide, COORDINATOR), methods=["POST"]),
        Route("/rounds", admission.open(ask.rounds, COORDINATOR), methods=["POST"]),
        Route("/rounds", admission.open(ask.rounds_of_plan, COORDINATOR, upload=True), methods=["PUT"]),
        Route("/evaluations", admission.open(ask.evaluate, COORDINATOR), methods=["POST"]),
        Route("/evaluations", admission.open(ask.evaluations, COORDINATOR)),
        Route("/audit", admission.open(ask.audit, COORDINATOR)),
        *page.routes(),
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        keeper = Keeper(hub, executor)
        task = asyncio.create_task(keeper.run())
        try:
            yield
        finally:
            task.cancel()
            keeper.close()
            model.end()

    handlers: dict[Any, Any] = {HTTPException: _not_found, Exception: _broken}
    return Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)


def _not_found(request: Request, error: Any) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code)


def _broken(request: Request, error: Any) -> Response:
    return JSONResponse({"error": "something went wrong in the hub; its log says more"}, 500)


class _Questions:
    """Each gives what is to be sent back."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def register(self, asked: SignedQuery) -> Any:
        found = _question(asked, invitation=(str, type(None)))
        person = await asyncio.to_thread(self._hub.register, asked.said, found["invitation"])
        return {"name": person.name, "standing": person.standing.value, "role": person.role.value}

    async def tasks(self, asked: SignedQuery) -> Any:
        return await asyncio.to_thread(self._status, _person(asked))

    def _status(self, person: Person) -> Any:
        with self._hub.lock:
            run = self._hub.run()
            if run is not None:
                given.join(self._hub, run, person)
            return self._hub.status(person)

    async def put_module(self, asked: SignedQuery) -> Any:
        digest = await asyncio.to_thread(self._of_known, self._hub.put_module, asked)
        return {"module": digest}

    async def leave(self, asked: SignedQuery) -> Any:
        return {"receipt": await asyncio.to_thread(leaving.leave, self._hub, _person(asked), asked.said)}

    async def receipt(self, asked: SignedQuery) -> Any:
        return await asyncio.to_thread(leaving.receipt, self._hub, _person(asked), asked.request.path_params["name"])

    async def plan(self, asked: SignedQuery) -> Any:
        return await asyncio.to_thread(self._hub.plan_file, _person(asked))

    async def put_answer(self, asked: SignedQuery) -> Any:
        await asyncio.to_thread(self._of_known, self._hub.put_answer, asked)
        return {"taken": True}

    async def sum_message(self, asked: SignedQuery) -> Any:
        def message() -> bytes:
            with self._hub.lock:
                return self._hub.sums.message(self._sum(), _person(asked))

        return Response(await asyncio.to_thread(message), media_type="application/octet-stream")

    async def put_sum_message(self, asked: SignedQuery) -> Any:
        await asyncio.to_thread(self._of_known, self._put_sum_message, asked)
        return {"taken": True}

    def _put_sum_message(self, person: Person, path: Path, said: Signed) -> None:
        with self._hub.lock:
            run = self._sum()
            self._hub.sums.put(run, person, path.read_bytes())
            agreed = run.facts["privacy"] if run.stage == MASKED else None  # it is spent with the numbers
            private = {} if agreed is None else {"private": {k: agreed[k] for k in ("epsilon", "delta")}}
            self._hub.log("answered", person, run=run.id, stage=run.stage, message=said.digest, **private)

    def _sum(self) -> Run:
        run = self._hub.run()
        if run is None or not run.secure:
            raise RefusedError("there is no secure sum now", 409)
        return run

    async def put_score(self, asked: SignedQuery) -> Any:
        found = _json(asked)
        await asyncio.to_thread(self._hub.put_score, _person(asked), found)
        return {"taken": True}

    async def model(self, asked: SignedQuery) -> Any:
        return await asyncio.to_thread(self._hub.model_file, asked.request.query_params.get("digest"))

    async def report(self, asked: SignedQuery) -> Any:
        current = self._hub.current
        if current["model"] is None:
            raise RefusedError("there is no merged model yet; wait for the owners", 404)
        keep = ("model", "kind", "round", "made", "counted", "flagged", "rows", "report", "summary", "said")
        return {key: current.get(key) for key in keep}

    async def page(self, asked: SignedQuery) -> Any:
        return {"page": f"/p/{self._hub.page_tokens.of(_person(asked))}/"}

    async def invite(self, asked: SignedQuery) -> Any:
        found = _question(asked, role=str, count=int)
        try:
            role = Role(found["role"])
        except ValueError:
            raise RefusedError("role must be owner or reader", 422) from None
        if role is Role.COORDINATOR or not 1 <= found["count"] <= 1000:
            raise RefusedError("invite 1 to 1000 owners or readers", 422)
        made = [self._hub.invite(_person(asked), role) for _ in range(found["count"])]
        return {"invitations": made}

    async def people(self, asked: SignedQuery) -> Any:
        return {"people": await asyncio.to_thread(pages.people, self._hub)}

    async def decide(self, asked: SignedQuery) -> Any:
        found = _question(asked, name=str, standing=str)
        wanted = {"in": Standing.IN, "out": Standing.OUT}.get(found["standing"])
        if wanted is None:
            raise RefusedError("standing must be in or out", 422)
        person = await asyncio.to_thread(self._hub.decide, _person(asked), found["name"], wanted)
        return {"name": person.name, "standing": person.standing.value}

    async def rounds(self, asked: SignedQuery) -> Any:
        found = _question(asked, rounds=int, points=int, deadline=(int, float))
        if not (0 <= found["rounds"] <= MOST_ROUNDS and 1 <= found["points"] <= MOST_POINTS and found["deadline"] > 0):
            raise RefusedError(f"up to {MOST_ROUNDS} rounds of up to {MOST_POINTS} points, and some seconds", 422)
        await asyncio.to_thread(
            exchanges.want, self._hub, _person(asked), found["rounds"], found["points"], float(found["deadline"])
        )
        return {"asked": True}

    async def rounds_of_plan(self, asked: SignedQuery) -> Any:
        wanted = given.Given.of(dict(asked.request.query_params))
        assert asked.file is not None
        run = await asyncio.to_thread(given.begin, self._hub, _person(asked), asked.file, wanted)
        return {"run": run.id, "plan": run.plan, "owners": list(run.owners)}

    async def evaluate(self, asked: SignedQuery) -> Any:
        one = await asyncio.to_thread(self._hub.evaluate, _person(asked))
        return one.shown(self._hub.settings.fewest)

    async def evaluations(self, asked: SignedQuery) -> Any:
        return {"evaluations": await asyncio.to_thread(pages.evaluated, self._hub)}

    async def audit(self, asked: SignedQuery) -> Any:
        content = await asyncio.to_thread(self._hub.audit.read)
        return Response(content, media_type="application/x-ndjson")

    def _of_known(self, take: Callable[..., Any], asked: SignedQuery) -> Any:
        """What an owner sends and is refused is written down under its name."""
        person = _person(asked)
        assert asked.file is not None
        try:
            return take(person, asked.file, asked.said)
        except RecycleGPError as refused:
            words = str(refused).replace(str(asked.file), "the file")
            self._hub.refused(person, printable(words))
            raise RefusedError(words, getattr(refused, "status", 422)) from None


def _person(asked: SignedQuery) -> Person:
    assert asked.person is not None
    return asked.person


def _json(asked: SignedQuery) -> Any:
    try:
        return strict_json.parsed(asked.body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise RefusedError("the question is not JSON", 400) from None


def _question(asked: SignedQuery, **types: Any) -> Mapping[str, Any]:
    """An object with exactly these fields."""
    found = _json(asked)
    if not isinstance(found, dict) or set(found) != set(types):
        raise RefusedError(f"the question must have {', '.join(types)}", 422)
    for name, wanted in types.items():
        if not isinstance(found[name], wanted) or isinstance(found[name], bool):
            raise RefusedError(f"{name} is {json.dumps(found[name])[:50]}, which it cannot be", 422)
    return found
