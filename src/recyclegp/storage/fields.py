"""Header fields and tensors of a file, each checked as it is taken; and how shared pieces are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..categories import MOST_LEVELS, Categories, Levels
from ..core.convergence import Convergence
from ..core.noise import NoiseEvidence
from ..errors import RecycleGPError
from ..kernels import Kernel
from ..kernels.file_form import from_json
from ..likelihoods import Gaussian, Likelihood
from ..target import Target
from ..times import When, when
from .container import Document, Header
from .limits import LONGEST_TEXT

MOST_LIKELIHOODS = 16
MOST_PARAMETERS = 8  # of a likelihood
UNITS = "as in the data: Z in those of X; f, mean, noise and kernel in those of y"  # a reminder for people


class Fields:
    """One file, taken apart."""

    def __init__(self, document: Document) -> None:
        self.header = document.header
        self.tensors = document.tensors
        for key in ("written_by", "units"):  # for people; never interpreted
            text(self.header.get(key, ""), key)

    def text(self, key: str) -> str:
        return text(self.header[key], key)

    def number(self, key: str, *, least: float = -math.inf) -> float:
        return number(self.header[key], key, least)

    def count(self, key: str, *, least: int = 0) -> int:
        return count(self.header[key], key, least=least)

    def tensor(self, key: str, *shape: int | None) -> Tensor:
        """A finite tensor of this shape (None: any length)."""
        if key not in self.tensors:
            raise RecycleGPError(f"tensor {key!r} is missing")
        t = self.tensors[key]
        fits = len(t.shape) == len(shape) and all(w in (None, n) for w, n in zip(shape, t.shape, strict=True))
        if t.dtype != torch.float64 or not fits:
            raise RecycleGPError(f"tensor {key!r} is {t.dtype} of shape {tuple(t.shape)}; expected float64 of {shape}")
        if not bool((t.abs() <= arrays.LARGEST).all()):
            raise RecycleGPError(f"tensor {key!r} holds NaN or infinite values, or some beyond {arrays.LARGEST:g}")
        return t

    def kernel(self, dimension: int) -> Kernel:
        return from_json(self.header["kernel"], dimension)

    def likelihoods(self) -> tuple[Likelihood, ...]:
        return likelihoods_from_json(self.header["likelihoods"])

    def columns(self, dimension: int) -> arrays.Columns:
        return columns_from_json(self.header["columns"], dimension)


def text(value: Any, what: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise RecycleGPError(f"{what} is not text, or a very long one")
    if any("\ud800" <= c <= "\udfff" for c in value):  # halves of characters, which cannot be printed
        raise RecycleGPError(f"{what} is text with characters that are none")
    return value


def flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise RecycleGPError(f"{what} is {str(value)[:50]}, neither true nor false")
    return value


def listed(value: Any, what: str, *, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise RecycleGPError(f"{what} is not a list of at most {most:,}")
    return value


def fields(value: Any, what: str) -> Header:
    if not isinstance(value, dict):
        raise RecycleGPError(f"{what} is not an object")
    return value


def number(value: Any, what: str, least: float = -math.inf, most: float = arrays.LARGEST) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not max(least, -most) <= value <= most:
        said = f" of at least {least:g}" if least > -math.inf else ""
        said += f" and at most {most:g}" if most < arrays.LARGEST else ""
        raise RecycleGPError(f"{what} is {str(value)[:50]}, not a finite number{said}")
    return float(value)


def positive(value: Any, what: str, most: float = arrays.LARGEST) -> float:
    found = number(value, what, 0.0, most)
    if found == 0:
        raise RecycleGPError(f"{what} is 0")
    return found


def count(value: Any, what: str, *, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 2**62:
        raise RecycleGPError(f"{what} is {str(value)[:50]}, not a count of at least {least}")
    return value


def columns_from_json(names: Any, dimension: int) -> arrays.Columns:
    if names is None:
        return None
    found = [text(name, "a column") for name in listed(names, "columns", most=dimension)]
    if len(found) != dimension or len(set(found)) != dimension:
        raise RecycleGPError(f"columns does not name the {dimension} inputs, each by its own name")
    return tuple(found)


def categories_to_json(categories: Categories) -> Header:
    """Only where there are some."""
    if not categories:
        return {}
    return {"categories": [{"column": c, "levels": list(names)} for c, names in categories.levels]}


def categories_from_json(header: Header, dimension: int, *points: Tensor) -> Categories:
    """Columns that exist, levels that have names, and points each of which has one of them."""
    found = []
    for entry in listed(header.get("categories", []), "categories", most=dimension):
        column = count(fields(entry, "a category")["column"], "a column of categories")
        names = listed(entry["levels"], "levels", most=MOST_LEVELS)
        if column >= dimension:
            raise RecycleGPError(f"categories in column {column} of {dimension}")
        found.append(Levels(column, tuple(text(name, "a level") for name in names)))
    categories = Categories(tuple(found))
    for Z in points:
        categories.check_codes(Z)
    return categories


def convergence_from_json(found: Any) -> Convergence:
    found = fields(found, "convergence")
    return Convergence(
        flag(found["converged"], "converged"),
        count(found["evaluations"], "evaluations"),
        text(found["message"], "a message"),
    )


def target_to_json(target: Target) -> Header:
    """Only what is known: readers ignore what is not there."""
    if not target.known:
        return {}
    labels = None if target.labels is None else list(target.labels)
    return {"target": {"name": target.name, "unit": target.unit, "labels": labels}}


def target_from_json(header: Header) -> Target:
    found = header.get("target")
    if found is None:
        return Target()
    found = fields(found, "target")
    labels = found.get("labels")
    if labels is not None and len(listed(labels, "labels", most=2)) != 2:
        raise RecycleGPError("labels is not a list of two")
    return Target(found.get("name"), found.get("unit"), None if labels is None else (labels[0], labels[1]))


def likelihoods_to_json(found: Sequence[Likelihood]) -> list[Header]:
    return [{"name": p.name, "parameters": list(p.parameters)} for p in found]


def likelihoods_from_json(entries: Any) -> tuple[Likelihood, ...]:
    found = tuple(
        _likelihood(fields(entry, "a likelihood")) for entry in listed(entries, "likelihoods", most=MOST_LIKELIHOODS)
    )
    if not found or len({p.name for p in found}) < len(found):
        raise RecycleGPError("the likelihoods are none, or one is named twice")
    return found


def _likelihood(entry: Header) -> Likelihood:
    parameters = listed(entry["parameters"], "parameters", most=MOST_PARAMETERS)
    return likelihoods.named(text(entry["name"], "a likelihood"), [positive(p, "a parameter") for p in parameters])


def kept_from_json(value: Any) -> float | None:
    return None if value is None else positive(value, "kept", most=1.0)


# fields of NoiseEvidence, and what files call them
NOISE_EVIDENCE_KEYS = {"chi2": "misfit", "residual_variance": "blur", "residual": "residual", "dof": "freedom"}


def noise_evidence_from_json(found: Any, about: Sequence[Likelihood]) -> NoiseEvidence | None:
    """What a module says about the noise of its data, which must be Gaussian."""
    if found is None:
        return None
    if not (len(about) == 1 and isinstance(about[0], Gaussian) and about[0].noise is not None):
        raise RecycleGPError("noise_evidence is given for data that have no Gaussian noise")
    found = fields(found, "noise_evidence")
    return NoiseEvidence(**{name: number(found[key], key, 0.0) for name, key in NOISE_EVIDENCE_KEYS.items()})


def noise_evidence_to_json(evidence: NoiseEvidence) -> dict[str, float]:
    return {key: getattr(evidence, name) for name, key in NOISE_EVIDENCE_KEYS.items()}


def time_from_json(found: Any) -> When | None:
    """A number or a date, as `times.written` writes it."""
    if found is None:
        return None
    if not isinstance(found, str):
        return number(found, "time")
    if len(found) > 40:
        raise RecycleGPError("time is longer than a date")
    return when(found)
