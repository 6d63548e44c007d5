"""keygen, sign, verify and keys: who vouches for a file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import RecycleGPError, printable
from ..storage import key_ring, signing
from ..storage.key_ring import Claim, KeyRing
from . import options, verifying
from .options import option, output_to
from .paths import expand
from .screen import Screen, plain_table, show

if TYPE_CHECKING:
    from ..models.how import Signer

NAMED = 20  # files that are refused, in one message


def keygen(
    output: Annotated[Path, output_to("NAME", "Writes NAME.pem, to keep, and NAME.pub, to give away.")],
    seed: options.NoSeed = 0,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a pair of keys: a private one to sign with, and a public one for those who verify.

    The private key is not encrypted; only you may read its file. Neither file
    replaces one that is there.

    Example: recyclegp keygen -o north
    """
    screen = Screen(quiet, as_json)
    private, public = signing.make_keys(output)
    found = {"private": str(private), "public": str(public)}
    lines = (
        f"{private}: your private key; keep it to yourself",
        f"{public}: your public key; give it to those who merge",
    )
    screen.result(found, lambda: typer.echo("\n".join(map(printable, lines))))


def sign(
    files: options.Files,
    key: Annotated[Path, option("Your private key, as keygen writes it.", "NAME.pem", None, "--key")],
    version: Annotated[
        int | None,
        option("Of these files; those that replace them need a larger one.", "N", "seconds since 1970", min=0),
    ] = None,
    seed: options.NoSeed = 0,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Sign files: each gets a signature of its content id beside it, in FILE.sig. Send both.

    A file that cannot be read is not signed. An older signature is replaced.
    The version is signed, too: whoever merges with --signed-by notices when an
    older file comes in place of a newer one.

    Example: recyclegp sign north.safetensors --key north.pem
    """
    screen = Screen(quiet, as_json)
    paths = expand(files)
    private = signing.private_key(key)
    number = int(time.time()) if version is None else version
    found: list[dict[str, Any]] = []
    with screen.bar("Signing", len(paths)) as advance:
        from ..models.load import opened

        for path in paths:
            digest = opened(path).content_id
            written = signing.sign(path, digest, private, number)
            row = {"file": str(path), "signature": str(written), "content_id": f"sha256:{digest}", "version": number}
            found.append(row)
            advance(by=1)
    screen.result(found, lambda: typer.echo("\n".join(printable(row["signature"]) for row in found)))


def verify(
    files: options.Files,
    trusted: options.TrustedKeys,
    seed: options.NoSeed = 0,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Verify that files are signed with a key you trust, and have not changed since.

    Says so of each file, and ends with exit code 1 if any of them is not.

    Example: recyclegp verify north.safetensors --trusted keys
    """
    status = verifying.verify(files, trusted, Screen(quiet, as_json))()
    if status:
        raise typer.Exit(status)


def keys(
    ring: Annotated[Path, typer.Argument(metavar="RING", help="A key ring: a JSON file, made where there is none.")],
    bind: Annotated[
        list[str] | None, option("The key that an owner has given you; may be repeated.", "OWNER=FILE.pub", "nobody's")
    ] = None,
    forget: Annotated[
        list[str] | None, option("An owner whose next file may be signed with another key.", "OWNER", "nobody")
    ] = None,
    seed: options.NoSeed = 0,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Show a key ring: which owner is bound to which key, and the newest version of each module.

    merge and add bind owners to the key of their first file (--signed-by RING),
    and refuse files of the same owner with another key, and versions older than
    one they have seen. Keys that you were given beforehand are bound here.

    Example: recyclegp keys ring.json --bind north=north.pub
    """
    screen = Screen(quiet, as_json)
    with key_ring.changing(ring) as now:
        for owner in forget or []:
            now = now.without(owner)
        for pair in bind or []:
            owner, given, path = pair.partition("=")
            if not (owner and given and path):
                raise RecycleGPError(f"--bind {pair}: write OWNER=FILE.pub")
            now = now.bound(owner, signing.public_bytes(Path(path)))
        if forget or bind:
            key_ring.save(ring, now)
    rows: list[dict[str, Any]] = [
        {
            "owner": owner,
            "key": bound.public_key.hex(),
            "modules": {name: seen._asdict() for name, seen in bound.modules.items()},
        }
        for owner, bound in sorted(now.owners.items())
    ]

    def table() -> None:
        found = plain_table("owner", "key", "modules, with versions", folded=3)
        for row in rows:
            said = ", ".join(f"{name} ({seen['version']})" for name, seen in row["modules"].items())
            found.add_row(row["owner"], row["key"][:16], said)
        show(found)

    screen.result(rows, table)


# --- for commands that read files ---------------------------------------------------------------


@dataclass
class Vouched:
    """Files whose signatures were verified; which owners they are of is compared with a ring when they are read."""

    signatures: dict[Path, signing.Signature]
    ring_at: Path | None
    ring: KeyRing
    signers: list[Signer] = field(default_factory=list)
    read: list[tuple[Path, list[Claim], signing.Signature]] = field(default_factory=list)

    def check(self, path: Path, digest: str, claims: Iterable[Claim]) -> None:
        """The very bytes that were read."""
        from ..models.how import Signer

        known, found = list(claims), self.signatures[path]
        if found.content_id != digest:
            raise RecycleGPError(f"{path}: the file has changed since its signature was verified; try again")
        if self.ring_at is not None:
            self.ring = self.ring.with_file(path, known, found)
        self.read.append((path, known, found))
        self.signers.extend(Signer(claim.name, found.public_key.hex(), found.version) for claim in known)

    def remember(self) -> None:
        """What is new, in the ring; an error where somebody has changed it meanwhile to what contradicts it."""
        if self.ring_at is None:
            return
        with key_ring.changing(self.ring_at) as now:
            for one in self.read:
                now = now.with_file(*one)
            key_ring.save(self.ring_at, now)


def verified(paths: Sequence[Path], trusted: Path | None, ring: Path | None = None) -> Vouched | None:
    """Files that are all signed, with a key in this folder, by the owners in this ring; None where nobody asks."""
    if trusted is None and ring is None:
        return None
    each = list(verifying.signers(paths, trusted))
    refused = [why for *_, why in each if why is not None]
    if refused:
        more = f" | and {len(refused) - NAMED:,} more" if len(refused) > NAMED else ""
        asked = f"--trusted {trusted}" if trusted is not None else f"--signed-by {ring}"
        raise RecycleGPError(
            f"{asked}: {len(refused)} of {len(paths)} files refused: {' | '.join(refused[:NAMED])}{more}"
        )
    known = KeyRing() if ring is None else key_ring.load(ring)
    return Vouched({path: found for path, _, found, _ in each if found is not None}, ring, known)
