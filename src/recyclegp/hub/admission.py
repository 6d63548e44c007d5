"""Who may come in: every request is checked here, from what costs least to what costs most.

Rates first, then the headers and their signature, then who it is and what its role may do, then the announced size,
then the nonce; only then is a body read, with a deadline, and compared with the digest that was signed.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response

from ..errors import RecycleGPError, in_words, printable
from ..logs import logger
from . import protocol
from .folder import SUFFIX
from .hub import Hub
from .limits import Buckets, Slots
from .protocol import RefusedError, Signed
from .registry import Person, Role, Standing

LOG = logger("recyclegp.hub")
EVERYBODY = (Role.COORDINATOR, Role.OWNER, Role.READER)


class SignedQuery(NamedTuple):
    """A request that has come in."""

    person: Person | None  # None: of a key that nobody has registered, where that is allowed
    said: Signed
    request: Request
    body: bytes  # of questions
    file: Path | None  # of uploads, complete and as it was signed


Handler = Callable[[SignedQuery], Awaitable[Any]]  # gives JSON, a file, or a Response


class Admission:
    """In front of every route but those of the page."""

    def __init__(self, hub: Hub) -> None:
        limits = hub.settings.limits
        self._hub, self._limits = hub, limits
        self._of_key, self._of_address = Buckets(limits.of_key), Buckets(limits.of_address)
        self._refused = Buckets(limits.refused)
        self._uploads = Slots(limits.uploads_at_once, limits.waiting)
        self._registrations = Slots(1, limits.waiting)  # which are written down one by one
        self.turned_away = 0  # requests, for the page

    def open(
        self, handler: Handler, roles: Collection[Role] | None, *, upload: bool = False, also_left: bool = False
    ) -> Any:
        """A route for these roles, also of those who have left where that is so; None: for keys that nobody knows."""

        async def answered(request: Request) -> Response:
            address = request.client.host if request.client else ""
            said: Signed | None = None
            try:
                self._check_address(address)
                said, person = self._checked(request, roles, also_left)
                largest = self._limits.largest_module if upload else self._limits.largest_question
                size = _announced(request, largest)
                self._hub.nonces.once(said, time.time())  # also of strangers: who has left would be back otherwise
                if upload:
                    async with self._uploads.one():
                        found = await self._with_file(request, said, person, size, handler)
                else:
                    query = SignedQuery(person, said, request, await self._body(request, said, largest), None)
                    if roles is None:  # threads are few, and others have small questions
                        async with self._registrations.one():
                            found = await handler(query)
                    else:
                        found = await handler(query)
                return self._signed(found, said)
            except (RecycleGPError, OSError, ClientDisconnect) as refused:
                return self._turned_away(refused, said, address)

        return answered

    def check_unsigned(self, request: Request) -> None:
        """Of a question that anybody may ask."""
        self._check_address(request.client.host if request.client else "")

    def _check_address(self, address: str) -> None:
        now = time.monotonic()
        if self._refused.empty(address, now) or not self._of_address.take(address, now):
            raise RefusedError("too many requests from this address; wait a little", 429)

    def _checked(
        self, request: Request, roles: Collection[Role] | None, also_left: bool
    ) -> tuple[Signed, Person | None]:
        scope = request.scope
        query = scope["query_string"].decode("latin-1")
        path = scope["raw_path"].decode("latin-1") + (f"?{query}" if query else "")
        said = protocol.verified(request.method, path, request.headers, self._hub.public, time.time())
        person = self._hub.registry.get(said.key)
        if not self._of_key.take(said.key, time.monotonic()):
            raise RefusedError("too many requests with this key; wait a little", 429)
        if roles is None:
            return said, person
        if person is None:
            raise RefusedError("this key is not registered here; register it first, as `recyclegp join` does")
        if said.name != person.name:
            self._hub.refused(person, f"asked in the name of {said.name!r}")
            raise RefusedError(f"this key is {person.name!r}'s, and not {said.name!r}'s", 403)
        if person.standing is not Standing.IN and not (also_left and person.standing is Standing.OUT):
            words = {Standing.WAITING: "the coordinator has not approved this key yet"}
            raise RefusedError(words.get(person.standing, f"{person.name!r} is not in this hub any more"), 403)
        if person.role not in roles:
            raise RefusedError(f"this is not for a {person.role.value}", 403)
        self._hub.seen[person.id] = time.time()
        return said, person

    async def _body(self, request: Request, said: Signed, largest: int) -> bytes:
        parts = bytearray()

        async def read() -> None:
            async for part in request.stream():
                parts.extend(part)
                if len(parts) > largest:
                    raise RefusedError(f"more than {largest:,} bytes", 413)

        await self._in_time(read(), 0)
        if protocol.digest_of(bytes(parts)) != said.digest:
            raise RefusedError("the body is not the one that was signed", 400)
        return bytes(parts)

    async def _with_file(
        self, request: Request, said: Signed, person: Person | None, size: int, handler: Handler
    ) -> Any:
        """The body goes to a file, which is gone afterwards unless the handler has moved it."""
        path = self._hub.folder.incoming / f"{secrets.token_hex(16)}{SUFFIX}"
        digest = hashlib.sha256()

        async def read() -> None:
            taken = 0
            with open(path, "xb") as stream:
                async for part in request.stream():
                    taken += len(part)
                    if taken > self._limits.largest_module:
                        raise RefusedError(f"more than {self._limits.largest_module:,} bytes", 413)
                    digest.update(part)
                    stream.write(part)

        try:
            await self._in_time(read(), size)
            if digest.hexdigest() != said.digest:
                raise RefusedError("the body is not the one that was signed", 400)
            return await handler(SignedQuery(person, said, request, b"", path))
        finally:
            path.unlink(missing_ok=True)

    async def _in_time(self, reading: Awaitable[None], size: int) -> None:
        try:
            async with asyncio.timeout(self._limits.body_seconds + size / self._limits.slowest):
                await reading
        except TimeoutError:
            raise RefusedError("the body did not come in time", 408) from None

    def _signed(self, found: Any, said: Signed) -> Response:
        """The answer, which the hub signs together with the nonce of the request."""
        if isinstance(found, Path):  # files here are called by their content ids, or are small
            digest = found.stem if len(found.stem) == 64 else protocol.digest_of(found.read_bytes())
            response: Response = FileResponse(found, media_type="application/octet-stream")
        else:
            response = found if isinstance(found, Response) else JSONResponse(found)
            digest = protocol.digest_of(bytes(response.body))
        response.headers.update(protocol.answer_headers(self._hub.key, said.nonce, response.status_code, digest))
        response.headers["cache-control"] = "no-store"
        return response

    def _turned_away(self, why: Exception, said: Signed | None, address: str) -> Response:
        self.turned_away += 1
        self._refused.take(address, time.monotonic())
        if isinstance(why, OSError):
            LOG.warning("%s: %s", type(why).__name__, why)
            words, status = f"the hub could not write this down ({why.strerror}); try again later", 507
        elif isinstance(why, ClientDisconnect):
            words, status = "the connection was closed", 400
        else:
            words = printable(in_words([why], shell=True), 1000)
            status = why.status if isinstance(why, RefusedError) else 422
        response = JSONResponse({"error": words}, status)
        if said is not None:  # whoever it was has signed: the refusal is the hub's own word
            digest = protocol.digest_of(bytes(response.body))
            response.headers.update(protocol.answer_headers(self._hub.key, said.nonce, status, digest))
        if status in (429, 503):
            response.headers["retry-after"] = "5"
        response.headers["connection"] = "close"  # a body that was not read is not read to its end
        return response


def _announced(request: Request, largest: int) -> int:
    said = request.headers.get("content-length", "0")
    if not said.isdecimal() or len(said) > 15 or int(said) > largest:
        raise RefusedError(f"larger than the {largest:,} bytes that this takes", 413)
    return int(said)
