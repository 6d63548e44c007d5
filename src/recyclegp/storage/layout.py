"""Where tensors lie in a safetensors file: a JSON object that is checked before any of them is read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import RecycleGPError
from . import limits

if TYPE_CHECKING:
    from pathlib import Path

METADATA = "__metadata__"
FLOAT64 = "F64"
SIGNATURE = ".sig"  # behind the name of a file: that of its signature
WORDS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "I32": "int32", "I64": "int64", "BOOL": "bool"}
BYTES = 8  # of a float64


class Place(NamedTuple):
    """One tensor, in bytes behind the header."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int


def is_companion(path: Path) -> bool:
    """Whether a file is what macOS puts beside others on foreign disks (._x), which holds no model."""
    return path.name.startswith("._")


def metadata(outer: Any) -> dict[str, str]:
    """Texts that travel with the tensors."""
    if not isinstance(outer, dict):
        raise ValueError("what describes the tensors is not an object")
    found = outer.get(METADATA, {})
    if not isinstance(found, dict) or not all(isinstance(text, str) for text in found.values()):
        raise ValueError("the metadata are not texts")
    return found


def places(outer: dict[str, Any], size: int) -> list[Place]:
    """Every tensor, in the order in which they lie in the file; together they are all of its `size` bytes."""
    names = [name for name in outer if name != METADATA]
    if len(names) > limits.MOST_TENSORS:
        raise RecycleGPError(f"{len(names):,} tensors; a file may have {limits.MOST_TENSORS}; ask for the file again")
    found = sorted((_place(name, outer[name]) for name in names), key=lambda p: (p.start, p.stop))
    end = 0
    for place in found:
        if place.start != end:
            raise ValueError("its tensors overlap, or leave gaps")
        end = place.stop
    if end != size:
        raise ValueError(f"its tensors have {end} bytes, and there are {size}")
    return found


def _place(name: str, entry: Any) -> Place:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise ValueError("a tensor is not described as one")
    shape, offsets = _counts(entry["shape"]), _counts(entry["data_offsets"])
    kind = entry["dtype"]
    if kind != FLOAT64:
        said = WORDS.get(kind, kind) if isinstance(kind, str) else "of no type"
        raise RecycleGPError(
            f"tensor {name[:50]!r} is {said[:20]} of shape {shape[:8]}; all of them must be float64; "
            "ask for the file again"
        )
    limits.check_tensor(name, shape)
    if len(offsets) != 2 or offsets[1] - offsets[0] != BYTES * math.prod(shape):
        raise ValueError(f"tensor {name[:50]!r} has another size than its shape")
    return Place(name, shape, *offsets)


def _counts(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(n) is int and 0 <= n <= 2**62 for n in value):
        raise ValueError("a tensor's shape or place is not a list of counts")
    return tuple(value)
