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
FREE_CENTRES = 2**17  # numbers that kernels of a file may have beside one for each of its bytes
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


def check_linear(mentioned: int, columns: int, size: int) -> None:
    """A linear kernel has a centre for every column, of which a file need not say anything: refused before it is built.

    Args:
        mentioned: how often a file speaks of linear kernels, at most.
        columns: of the inputs, at most.
        size: of the file, in bytes.
    """
    if mentioned * columns > FREE_CENTRES + size:
        raise RecycleGPError(
            f"up to {mentioned:,} linear kernels of {columns:,} input columns in {size:,} bytes are more than such a "
            "file can mean; ask for it again"
        )


def check_points(points: int) -> None:
    if points > MOST_POINTS:
        raise RecycleGPError(f"{points:,} points; files may have {MOST_POINTS:,}: publish, or merge, at fewer")


def check_members(members: int) -> None:
    if members > MOST_MEMBERS:
        raise RecycleGPError(f"{members:,} modules; a file may have {MOST_MEMBERS:,}: merge them in parts")
