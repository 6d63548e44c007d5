"""The modules of one chunk in one file, with what they were made from. These two functions are all that knows how."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ..models import modules_file
from ..models.modules import Modules, of_pieces
from ..storage import container
from ..storage.container import Document
from ..storage.fields import fields, text

NOTHING = "no modules"  # the kind of a file whose models have all failed


class Chunk(NamedTuple):
    modules: Modules
    fingerprint: str  # of the data and options that it was made from
    failures: dict[str, str]  # name → why, of models that are missing


def write_chunk(path: Path, modules: Modules, fingerprint: str, failures: Mapping[str, str]) -> None:
    """All or nothing. It is a file of many modules like any other, which says a little more."""
    header, tensors, _ = modules._document() if len(modules) else Document({"kind": NOTHING}, {})
    container.write(path, Document({**header, "fingerprint": fingerprint, "failures": dict(failures)}, tensors))


def read_chunk(path: Path) -> Chunk:
    header = container.header(path)
    modules = of_pieces([] if header.get("kind") == NOTHING else modules_file.pieces(path))
    failures = fields(header.get("failures", {}), "failures").items()
    return Chunk(
        modules,
        text(header.get("fingerprint", ""), "fingerprint"),
        {text(name, "a name"): text(why, "a reason") for name, why in failures},
    )
