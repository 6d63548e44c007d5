"""How large a file may be, and its parts. All of it is checked before memory is taken for what a file announces.

The limits are far above what the library writes of its own accord, and the same for writing and for reading: whatever
was saved can be loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import RecycleGPError

LARGEST_FILE = 2**33  # bytes; more is not a summary of data
LARGEST_HEADER = 100_000_000  # bytes, as in every safetensors reader
DEEPEST = (
    144  # lists and objects within one another: a kernel of 64 nodes, each of them a list deep, and what is around
)
LONGEST_TEXT = 10_000  # characters
MOST_TENSORS = 4096  # a dozen for each function of an ensemble
MOST_AXES = 8  # of a tensor
MOST_COLUMNS = 65_536  # D
MOST_POINTS = 32_768  # M of a module or of Z_*, and of all sites together where an ensemble is exact
MOST_MEMBERS = 1_000_000
LARGEST_WEIGHT = 1e6  # of a module


def check_tensor(name: str, shape: Sequence[int]) -> None:
    """Points are called Z, alone or behind a dot or a slash; all else is measured by them, and by the file's size."""
    if len(shape) > MOST_AXES or any(length > LARGEST_FILE // 8 for length in shape):
        raise RecycleGPError(f"tensor {name[:50]!r} is larger than a file can be; ask for the file again")
    own = name.split("/")[-1]
    if own.split(".")[-1] != "Z" or len(shape) != 2:
        return
    points, columns = shape
    if not 1 <= columns <= MOST_COLUMNS:
        raise RecycleGPError(f"{name!r} has {columns:,} input columns; files may have 1 to {MOST_COLUMNS:,}")
    if own == "Z":
        check_points(points)


def check_points(points: int) -> None:
    if points > MOST_POINTS:
        raise RecycleGPError(f"{points:,} points; files may have {MOST_POINTS:,}: publish, or merge, at fewer")


def check_members(members: int) -> None:
    if members > MOST_MEMBERS:
        raise RecycleGPError(f"{members:,} modules; a file may have {MOST_MEMBERS:,}: merge them in parts")
