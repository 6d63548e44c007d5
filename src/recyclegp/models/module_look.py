"""A module for somebody who only looks at what its file says: read and checked as always, but without torch.

What only torch can tell is left to it: a file that is refused, of another kind or an earlier schema, large, or with
numbers of which it is not certain without trying that the module has an answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

from .. import trees
from ..core.site import Site
from ..errors import RecycleGPError
from ..record import Latent, Record
from ..storage import container
from ..storage.container import SCHEMA, Document, Header, OpenFile
from ..storage.fields import Fields, fields
from ..storage.making import MODULE
from ..storage.numbers import Numbers, Range
from ..storage.record_json import all_of_them, numbers_from_json
from ..trees import Said, Unit
from . import likelihood_words, module_file
from .module_file import Makers

MOST_BYTES = 2**19  # of numbers: above it, torch has looked at all of them before plain Python has


class Looked(NamedTuple):
    """A module, and what its file is."""

    record: Record
    header: Header
    content_id: str  # of the very bytes that were read

    @property
    def region(self) -> list[Range]:
        """From where to where it has points, along each input."""
        each = zip(*(_points(latent).ranges() for latent in self.record.latents), strict=True)
        return [Range(min(r.low for r in own), max(r.high for r in own)) for own in each]


def look(path: str | PathLike[str]) -> Looked | None:
    """The module in a file; None where that is left to torch."""
    try:
        with container.opened(path, identify=True) as file:
            if file.header.get("kind") != MODULE or file.header["schema"] != SCHEMA or file.left > MOST_BYTES:
                return None
            record = module_file.from_fields(Fields(document(file)), LOOKING)
        found = Looked(record, file.header, file.content_id)
    except (RecycleGPError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        return None  # whatever is wrong is worded where modules are loaded
    return found if certainly_answers(record) else None


def _points(latent: Latent) -> Numbers:
    found: Any = latent.known_site.Z
    return found


def document(file: OpenFile) -> Document:
    """All of it, as plain numbers."""
    tensors: dict[str, Any] = {}
    for place in file.places:
        tensors[place.name] = Numbers(place.shape, file.numbers(math.prod(place.shape)))
    return Document(file.header, tensors)


# --- kernels --------------------------------------------------------------------------------------


class KernelWords:
    """A kernel, without what it computes."""

    def __init__(self, said: Said) -> None:
        self.tree = said.tree
        self.parameters = trees.parameters(said.tree)
        self.theta = trees.interleaved(self.parameters, said.logs, said.places)

    def describe(self, most: int | None = 8) -> str:
        return trees.described(trees.text_of(self.tree), self.parameters, self.theta, most)


def _latent(entry: Any, site: Site, dimension: int, likelihoods: tuple[Any, ...]) -> Latent:
    kernel: Any = KernelWords(trees.read(fields(entry, "a function").get("kernel"), dimension))
    return Latent(site, kernel, **numbers_from_json(entry, dimension, likelihoods))


LOOKING = Makers(lambda entries: all_of_them(entries, likelihood_words.read), _latent)


# --- has it an answer? ----------------------------------------------------------------------------

# Kernel matrices of so many points are positive definite, but for a thousandth of what is forgiven, if their parameters
# are ordinary numbers, and points neither so far apart nor so far from zero that distances are rounding.
# Nothing overflows that is computed from several numbers of this size.
MOST_POINTS, LARGEST_NUMBER, LARGEST_RATIO, FARTHEST, FARTHEST_FROM_ZERO = 512, 1e9, 1e4, 1e4, 1e6


def certainly_answers(record: Record) -> bool:
    """Would `checks.check_it_answers` find nothing? False where only trying would tell."""
    return all(map(_certainly, record.latents))


def _certainly(latent: Latent) -> bool:
    site: Any = latent.known_site
    kernel: Any = latent.kernel
    if not all(t.within(LARGEST_NUMBER) for t in site) or max(abs(latent.mean), latent.jitter) > LARGEST_NUMBER:
        return False
    return len(site.Z) <= MOST_POINTS and is_ordinary(kernel, site.Z.ranges())


def is_ordinary(kernel: KernelWords, ranges: Sequence[Range]) -> bool:
    """Is its matrix of some hundred points in this region certainly positive definite?"""
    return _varies_everywhere(kernel.tree) and _has_ordinary_numbers(kernel, ranges)


def _varies_everywhere(tree: trees.Tree) -> bool:
    """Is k(x, x) positive at every x? A linear kernel is nothing at its centre, an index nothing beside its levels."""
    if tree.kind == "sum":
        return any(map(_varies_everywhere, tree.parts))
    return all(map(_varies_everywhere, tree.parts)) if tree.parts else tree.kind not in ("linear", "index")


def _has_ordinary_numbers(kernel: KernelWords, ranges: Sequence[Range]) -> bool:
    values = iter(kernel.theta)
    for p in kernel.parameters:
        own = [next(values) for _ in range(p.size)]
        if p.unit in (Unit.PLACE, Unit.LOADING):
            fits = all(abs(v) <= LARGEST_NUMBER for v in own)
        else:
            most = math.log(LARGEST_RATIO if p.unit is Unit.NONE else LARGEST_NUMBER)
            fits = all(abs(v) <= most for v in own)
        if not fits or (p.unit is Unit.LENGTH and not _are_near(own, p.columns, ranges)):
            return False
    return True


def _are_near(logs: Sequence[float], columns: trees.Columns, ranges: Sequence[Range]) -> bool:
    """Points, in lengthscales."""
    seen = ranges if columns is None else [ranges[c] for c in columns]
    lengths = [math.exp(v) for v in (logs if len(logs) == len(seen) else [logs[0]] * len(seen))]
    each = list(zip(seen, lengths, strict=True))
    across = math.hypot(*((high - low) / length for (low, high), length in each))
    return across <= FARTHEST and all(max(-low, high) <= FARTHEST_FROM_ZERO * length for (low, high), length in each)
