"""Header fields and tensors of a file, each checked as it is taken; and how shared pieces are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..core.convergence import Convergence
from ..core.noise import NoiseEvidence
from ..errors import RecycleGPError
from ..kernels import Kernel
from ..kernels.file_form import from_json
from ..likelihoods import Likelihood
from ..target import Target
from .container import Document, Header

MOST_LIKELIHOODS = 16
UNITS = "as in the data: Z in those of X; f, mean, noise and kernel in those of y"  # a reminder for people


class Fields:
    """One file, taken apart."""

    def __init__(self, document: Document) -> None:
        self.header = document.header
        self.tensors = document.tensors

    def text(self, key: str) -> str:
        return text(self.header[key], key)

    def number(self, key: str, *, least: float = -math.inf) -> float:
        return number(self.header[key], key, least)

    def count(self, key: str, *, least: int = 0) -> int:
        return count(self.header[key], key, least=least)

    def tensor(self, key: str, *shape: int | None, dtype: torch.dtype = torch.float64) -> Tensor:
        """A finite tensor of this shape (None: any length)."""
        if key not in self.tensors:
            raise RecycleGPError(f"tensor {key!r} is missing")
        t = self.tensors[key]
        fits = len(t.shape) == len(shape) and all(w in (None, n) for w, n in zip(shape, t.shape, strict=True))
        if t.dtype != dtype or not fits:
            raise RecycleGPError(
                f"tensor {key!r} is {t.dtype} of shape {tuple(t.shape)}; expected {dtype} of shape {shape}"
            )
        if dtype.is_floating_point and not bool((t.abs() <= arrays.LARGEST).all()):
            raise RecycleGPError(f"tensor {key!r} holds NaN or infinite values, or some beyond {arrays.LARGEST:g}")
        return t

    def kernel(self, dimension: int) -> Kernel:
        return from_json(self.header["kernel"], dimension)

    def likelihoods(self) -> tuple[Likelihood, ...]:
        return likelihoods_from_json(self.header["likelihoods"])

    def columns(self, dimension: int) -> tuple[str, ...] | None:
        names = self.header["columns"]
        if names is None:
            return None
        if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
            raise RecycleGPError("columns is not a list of names")
        if len(names) != dimension or len(set(names)) != dimension:
            raise RecycleGPError(f"columns does not name the {dimension} inputs, each by its own name")
        return tuple(names)


def text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise RecycleGPError(f"{what} is not text")
    return value


def number(value: Any, what: str, least: float = -math.inf) -> float:
    most = arrays.LARGEST
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not max(least, -most) <= value <= most:
        said = f" of at least {least:g}" if least > -math.inf else ""
        raise RecycleGPError(f"{what} is {str(value)[:50]}, not a finite number{said}")
    return float(value)


def count(value: Any, what: str, *, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 2**62:
        raise RecycleGPError(f"{what} is {str(value)[:50]}, not a count of at least {least}")
    return value


def convergence_from_json(found: Any) -> Convergence:
    if not isinstance(found, dict) or not isinstance(found["converged"], bool):
        raise RecycleGPError("convergence is not an object that says whether")
    return Convergence(
        found["converged"], count(found["evaluations"], "evaluations"), text(found["message"], "a message")
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
    if not isinstance(found, dict):
        raise RecycleGPError("target is not an object")
    labels = found.get("labels")
    if labels is not None and (not isinstance(labels, list) or len(labels) != 2):
        raise RecycleGPError("labels is not a list of two")
    return Target(found.get("name"), found.get("unit"), None if labels is None else (labels[0], labels[1]))


def likelihoods_to_json(found: Sequence[Likelihood]) -> list[Header]:
    return [{"name": p.name, "parameters": list(p.parameters)} for p in found]


def likelihoods_from_json(entries: Any) -> tuple[Likelihood, ...]:
    if not isinstance(entries, list) or len(entries) > MOST_LIKELIHOODS:
        raise RecycleGPError("likelihoods is not a list of a few")
    found = tuple(
        likelihoods.named(text(e["name"], "a likelihood"), [number(p, "a parameter", 0.0) for p in e["parameters"]])
        for e in entries
    )
    if not found or len({p.name for p in found}) < len(found):
        raise RecycleGPError("the likelihoods are none, or one is named twice")
    return found


def kept_from_json(value: Any) -> float | None:
    if value is None:
        return None
    share = number(value, "kept", 0.0)
    if not 0 < share <= 1:
        raise RecycleGPError(f"kept is {share}, not a share")
    return share


def noise_evidence_from_json(found: Any) -> NoiseEvidence | None:
    if found is None:
        return None
    return NoiseEvidence(*(number(found[name], name, 0.0) for name in NoiseEvidence._fields))
