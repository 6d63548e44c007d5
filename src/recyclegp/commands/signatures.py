"""keygen, sign and verify: who vouches for a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import RecycleGPError, printable
from ..storage import signing
from . import options
from .options import option, output_to
from .paths import expand
from .screen import Screen

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
    seed: options.NoSeed = 0,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
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
    screen = Screen(quiet, as_json)
    paths = expand(files)
    found: list[dict[str, Any]] = []
    for path, signer, _, refused in _signers(paths, trusted):
        found.append({"file": str(path), "signed_by": signer, "why_not": refused})
        if refused is not None:
            typer.echo(f"recyclegp: NOT VERIFIED: {printable(refused)}", err=True)
    good = [row for row in found if row["why_not"] is None]
    lines = [printable(f"{row['file']}: signed by {row['signed_by']}") for row in good]
    screen.result(found, lambda: typer.echo("\n".join(lines), nl=bool(lines)))
    if len(good) < len(found):
        raise typer.Exit(1)


def verified(paths: Sequence[Path], trusted: Path | None) -> dict[Path, str] | None:
    """The content ids of files that are all signed with a key in this folder; None where nobody asks for it."""
    if trusted is None:
        return None
    each = list(_signers(paths, trusted))
    refused = [why for *_, why in each if why is not None]
    if refused:
        more = f" | and {len(refused) - NAMED:,} more" if len(refused) > NAMED else ""
        raise RecycleGPError(
            f"--trusted {trusted}: {len(refused)} of {len(paths)} files refused: {' | '.join(refused[:NAMED])}{more}"
        )
    return {path: digest for path, _, digest, _ in each}


def _signers(paths: Sequence[Path], trusted: Path) -> Iterator[tuple[Path, str | None, str, str | None]]:
    """Of each file who has signed it, the content id, and why it cannot be trusted, where it cannot."""
    keys = signing.trusted_keys(trusted)
    for path in paths:
        try:
            signer, digest = signing.verify(path, keys)
        except RecycleGPError as refused:
            yield path, None, "", str(refused)
        else:
            yield path, signer.name, digest, None
