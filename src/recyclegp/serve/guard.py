"""Who may ask: the browser of this machine, on the page whose address it was told.

Other sites that the browser has open can send requests here. They cannot know the token in the address; they are
recognised by their Origin; a name of theirs that they let point to this machine (DNS rebinding) is in Host.
"""

from __future__ import annotations

import secrets
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NAMES = ("127.0.0.1", "localhost")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """Refuses what does not come from the page, and gives every answer its headers. Paths lose the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app = app
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # a websocket is closed before it opens
            await send({"type": "websocket.close", "code": 1008})
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refused = refusal(scope, self.token)
        if refused is not None:
            await refused(scope, receive, with_headers)
            return
        inside = scope["path"].removeprefix(f"/{self.token}")
        await self.app({**scope, "path": inside, "raw_path": inside.encode()}, receive, with_headers)


def refusal(scope: Scope, token: str) -> Any:
    """Why a request is not answered, as an answer; None where it is."""
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    if len(hosts) != 1 or (hosts[0].rpartition(":")[0] not in NAMES and hosts[0] not in NAMES):
        return PlainTextResponse("This page is for the browser of this machine.", 421)
    first = scope["path"].split("/")[1] if "/" in scope["path"] else ""
    if not secrets.compare_digest(first.encode(), token.encode()) or not scope["path"].startswith(f"/{token}/"):
        return PlainTextResponse("Use the address that recyclegp serve has printed.", 404)
    if scope["method"] not in ("GET", "HEAD") and not _from_this_page(headers, hosts[0]):
        return PlainTextResponse("This request comes from another site.", 403)
    return None


def _from_this_page(headers: Headers, host: str) -> bool:
    """Browsers send Origin with every POST, and newer ones say themselves what it means."""
    return (
        headers.getlist("origin") == [f"http://{host}"]
        and headers.get("sec-fetch-site", "same-origin") == "same-origin"
    )
