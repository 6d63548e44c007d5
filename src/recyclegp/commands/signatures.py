"""keygen, sign and verify: who vouches for a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import RecycleGPError, printable
from ..storage import signing
from .options import AsJson, Files, NoSeed, Quiet, TrustedKeys
from .paths import expand
from .screen import Screen

NAMED = 20  # files that are refused, in one message


def keygen(
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="NAME", help="Writes NAME.pem, to keep, and NAME.pub, to give away."),
    ],
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
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
    files: Files,
    key: Annotated[Path, typer.Option("--key", metavar="NAME.pem", help="Your private key, as keygen writes it.")],
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Sign files: each gets a signature of its content id beside it, in FILE.sig. Send both.

    A file that cannot be read is not signed. An older signature is replaced.

    Example: recyclegp sign north.safetensors --key north.pem
    """
    screen = Screen(quiet, as_json)
    paths = expand(files)
    private = signing.private_key(key)
    found: list[dict[str, Any]] = []
    with screen.bar("Signing", len(paths)) as advance:
        from ..models.load import opened

        for path in paths:
            digest = opened(path).content_id
            written = signing.sign(path, digest, private)
            found.append({"file": str(path), "signature": str(written), "content_id": f"sha256:{digest}"})
            advance(by=1)
    screen.result(found, lambda: typer.echo("\n".join(printable(row["signature"]) for row in found)))


def verify(
    files: Files,
    trusted: TrustedKeys,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Verify that files are signed with a key you trust, and have not changed since.

    Says so of each file, and ends with exit code 1 if any of them is not.

    Example: recyclegp verify north.safetensors --trusted keys
    """
    screen = Screen(quiet, as_json)
    paths = expand(files)
    keys = signing.trusted_keys(trusted)
    found: list[dict[str, Any]] = []
    for path in paths:
        row: dict[str, Any] = {"file": str(path), "signed_by": None, "why_not": None}
        try:
            signer, _ = signing.verify(path, keys)
            row["signed_by"] = signer.name
        except RecycleGPError as refused:
            row["why_not"] = str(refused)
            typer.echo(f"recyclegp: NOT VERIFIED: {printable(str(refused))}", err=True)
        found.append(row)
    good = [row for row in found if row["why_not"] is None]
    lines = [printable(f"{row['file']}: signed by {row['signed_by']}") for row in good]
    screen.result(found, lambda: typer.echo("\n".join(lines), nl=bool(lines)))
    if len(good) < len(found):
        raise typer.Exit(1)


def verified(paths: Sequence[Path], trusted: Path | None) -> dict[Path, str] | None:
    """The content ids of files that are all signed with a key in this folder; None where nobody asks for it."""
    if trusted is None:
        return None
    keys = signing.trusted_keys(trusted)
    found, refused = dict[Path, str](), list[str]()
    for path in paths:
        try:
            found[path] = signing.verify(path, keys)[1]
        except RecycleGPError as why:
            refused.append(str(why))
    if refused:
        more = f" | and {len(refused) - NAMED:,} more" if len(refused) > NAMED else ""
        raise RecycleGPError(
            f"--trusted {trusted}: {len(refused)} of {len(paths)} files refused: {' | '.join(refused[:NAMED])}{more}"
        )
    return found
