"""A hub as an owner or a coordinator sees it: signed requests, retried with back-off, answers verified."""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from ..errors import RecycleGPError, printable
from ..storage import strict_json
from . import protocol
from .protocol import RefusedError
from .waiting import FOR_EVER, Wait

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LARGEST_ANSWER = 2**30  # bytes
FIRST_WAIT, LONGEST_WAIT = 0.25, 30.0  # seconds between two tries
TIMEOUT = 120.0  # seconds for one answer
AGAIN = (408, 425, 429, 500, 502, 503, 504, 507)  # worth another try, where the request allows it


class UnreachableError(RecycleGPError):
    """The hub does not answer."""


class HubClient:
    """One address, one key, one name. The hub's own key is asked for once, and must stay the same."""

    def __init__(
        self,
        address: str,
        key: Ed25519PrivateKey,
        name: str,
        *,
        hub: bytes | None = None,
        patience: float = 60.0,
        certificate: Path | None = None,
        say: Callable[[str], None] = lambda text: None,
        wait: Wait = FOR_EVER,
    ) -> None:
        parts = urlsplit(address if "//" in address else f"http://{address}")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
            raise RecycleGPError(f"{address}: not the address of a hub, as https://hub.example:8443")
        self.address = f"{parts.scheme}://{parts.netloc}"
        self._host, self._port, self._tls = parts.hostname, parts.port, None
        if parts.scheme == "https":
            self._tls = ssl.create_default_context(cafile=None if certificate is None else str(certificate))
        self._key, self.name, self._patience, self._say = key, name, patience, say
        self._wait = wait  # for all questions together
        self.hub = hub  # its public key, once it is known

    # --- questions ---

    def about(self) -> dict[str, Any]:
        """What a hub says to anybody; a hub that was known under another key is not believed."""
        status, _, content = self._tried("GET", "/hub", b"", {}, signed=False)
        try:
            found = strict_json.parsed(content.decode())
            key = bytes.fromhex(found["key"])
            if status != 200 or found["recyclegp_hub"] != 1 or len(key) != 32:
                raise ValueError("another answer")
        except (ValueError, KeyError, TypeError):
            raise UnreachableError(f"{self.address}: there is something, but it is no recyclegp hub") from None
        if self.hub is not None and key != self.hub:
            raise RefusedError(
                f"{self.address}: this is another hub than before (key {protocol.fingerprint(key)}, not "
                f"{protocol.fingerprint(self.hub)}); ask the coordinator"
            )
        self.hub = key
        return dict(found)

    def ask(self, method: str, path: str, question: Any = None) -> Any:
        """JSON, for JSON."""
        body = b"" if question is None else json.dumps(question, allow_nan=False).encode()
        return strict_json.parsed(self._signed(method, path, body).decode())

    def send(self, path: str, content: bytes) -> Any:
        """A file."""
        return strict_json.parsed(self._signed("PUT", path, content).decode())

    def fetch(self, path: str) -> bytes:
        """A file, as the hub has signed it."""
        return self._signed("GET", path, b"")

    # --- how ---

    def _signed(self, method: str, path: str, body: bytes) -> bytes:
        if self.hub is None:
            self.about()
        assert self.hub is not None
        digest = protocol.digest_of(body)
        status, found, content = self._tried(method, path, body, {"content-type": "application/octet-stream"}, digest)
        if status == 200:
            protocol.check_answer(self.hub, found["nonce"], status, hashlib.sha256(content).hexdigest(), found)
            return content
        raise RefusedError(f"{self.address}: {_words(content, status)}", status)

    def _tried(
        self, method: str, path: str, body: bytes, sent: dict[str, str], digest: str = "", *, signed: bool = True
    ) -> tuple[int, dict[str, str], bytes]:
        """Until there is an answer that is not "later", or patience ends. Every try is signed anew."""
        patience = self._wait.within(self._patience)
        end = time.monotonic() + patience
        wait, tries = FIRST_WAIT, 0
        while True:
            tries += 1
            headers = dict(sent)
            if signed:
                assert self.hub is not None
                now = int(time.time())
                headers |= protocol.headers(self._key, method, path, self.name, digest, self.hub, now)
            try:
                status, found, content = self._once(method, path, body, headers)
                if status not in AGAIN:
                    return status, {**found, "nonce": headers.get(protocol.NONCE, "")}, content
                why = _words(content, status)
            except ssl.SSLCertVerificationError as bad:
                raise UnreachableError(
                    f"{self.address}: its certificate is not one that this machine trusts ({bad.verify_message}); give "
                    "the right one with --certificate"
                ) from None
            except (OSError, http.client.HTTPException) as failed:
                why = _plain(failed, self._tls is not None)
            left = end - time.monotonic()
            if left <= 0:
                raise UnreachableError(
                    f"{self.address}: the hub is not reachable ({why}); tried {tries} times in "
                    f"{patience:.3g} seconds. Is it running, and is this the right address?"
                )
            if tries == 3:
                self._say(f"{self.address} does not answer ({why}); trying again for {left:.0f} seconds")
            time.sleep(min(left, wait * random.uniform(0.5, 1.5)))  # not all come back at once
            wait = min(2 * wait, LONGEST_WAIT)

    def _once(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        connection: http.client.HTTPConnection
        if self._tls is not None:
            connection = http.client.HTTPSConnection(self._host, self._port, timeout=TIMEOUT, context=self._tls)
        else:
            connection = http.client.HTTPConnection(self._host, self._port, timeout=TIMEOUT)
        try:
            try:
                connection.request(method, path, body or None, headers)
            except (BrokenPipeError, ConnectionResetError):
                if not body:
                    raise  # of an upload that is refused early the answer may be there all the same
            answer = connection.getresponse()
            content = answer.read(LARGEST_ANSWER + 1)
            if len(content) > LARGEST_ANSWER:
                raise RefusedError(f"{self.address}: an answer larger than any model")
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content
        finally:
            connection.close()


def query(path: str, **parts: str) -> str:
    """A path with what follows the question mark."""
    return f"{path}?{urlencode(parts)}"


def _words(content: bytes, status: int) -> str:
    """What a hub, or something in front of it, says of a refusal."""
    try:
        return printable(str(strict_json.parsed(content.decode())["error"]), 1000)
    except (ValueError, KeyError, TypeError):
        return f"status {status}"


def _plain(failed: Exception, tls: bool) -> str:
    if isinstance(failed, ssl.SSLError):
        return f"no TLS is spoken there, but perhaps http:// ({failed.reason or type(failed).__name__})"
    if isinstance(failed, http.client.RemoteDisconnected) and not tls:
        return "it hangs up, and is perhaps to be asked by https://"
    if isinstance(failed, socket.gaierror):
        return "there is no machine of this name"
    if isinstance(failed, TimeoutError):
        return "no answer in time"
    return getattr(failed, "strerror", None) or type(failed).__name__
