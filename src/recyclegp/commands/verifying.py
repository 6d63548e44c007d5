"""What `verify` does; apart from its options, so that it can begin without typer."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import RecycleGPError, printable
from ..storage import signing
from .plain_paths import expanded
from .screen import Screen, put

if TYPE_CHECKING:
    from ..storage.signing import AnyPath

P = TypeVar("P", bound="AnyPath")


def verify(files: Sequence[str], trusted: AnyPath, screen: Screen) -> Callable[[], int]:
    """Look at every file; what is returned says what was found, and gives the exit code."""
    found: list[dict[str, Any]] = [
        {"file": str(path), "signed_by": signer, "why_not": refused}
        for path, signer, _, refused in signers(expanded(files), trusted)
    ]
    good = [row for row in found if row["why_not"] is None]

    def tell() -> int:
        for row in found:
            if row["why_not"] is not None:
                put(f"recyclegp: NOT VERIFIED: {printable(row['why_not'])}", sys.stderr)
        lines = [printable(f"{row['file']}: signed by {row['signed_by']}") for row in good]
        screen.result(found, lambda: put("\n".join(lines)) if lines else None)
        return int(len(good) < len(found))

    return tell


def signers(
    paths: Iterable[P], trusted: AnyPath | None
) -> Iterator[tuple[P, str | None, signing.Signature | None, str | None]]:
    """Of each file whose key in the folder has signed it, its signature, and why it cannot be trusted, if it cannot."""
    keys = None if trusted is None else signing.trusted_keys(trusted)
    for path in paths:
        try:
            if keys is None:
                yield path, None, signing.signature_of(path), None
            else:
                signer, found = signing.verify(path, keys)
                yield path, signer.name, found, None
        except RecycleGPError as refused:
            yield path, None, None, str(refused)
        except OSError as absent:
            yield path, None, None, f"{path}: {absent.strerror or absent}"
