"""A calibration as a value and as a small file of JSON: how far off predictions were, no rows."""

from __future__ import annotations

import json
import math
import re
import stat
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path

from .. import likelihoods
from ..errors import Argument, Either, OfStranger, RecycleGPError
from . import digest, strict_json
from .atomic import write_atomically
from .fields import count, fields, listed, number, text

FORMAT = 2
READABLE = (1, 2)  # the first has no digest
WRITER = Either("Calibration.save", "`recyclegp calibrate`")
LARGEST = 65_536  # bytes of a file
MOST_LEVELS = 1000
DIGEST = re.compile(rb'"digest": "([0-9a-f]{64})"')
SAME = 1e-9  # levels that differ by less are one


@dataclass(frozen=True)
class Calibration:
    """How far observations were from predictions, on rows that were not used for fitting.

    Examples:
        >>> c = Calibration("gaussian", None, rows=99, levels=(0.5, 0.9), quantiles=(0.7, 1.6))
    """

    likelihood: str  # of these observations
    owner: str | None  # whose predictions they were compared with, as `predict_y` takes it
    rows: int
    levels: tuple[float, ...]  # in ascending order
    quantiles: tuple[float, ...]  # of the scores, one for each level
    content_id: str | None = None  # SHA-256 of the model's file, where it came from one
    output: str | None = None  # which one, of a model of several

    def __post_init__(self) -> None:
        likelihoods.named(self.likelihood)
        if not self.levels or len(self.levels) != len(self.quantiles):
            raise RecycleGPError(f"{len(self.levels)} levels and {len(self.quantiles)} quantiles; give one for each")
        rising = all(a < b for a, b in zip((0.0, *self.levels), (*self.levels, 1.0), strict=True))
        if not rising or any(rank(level, self.rows) > self.rows for level in self.levels):
            raise RecycleGPError(f"levels {self.levels} of {self.rows} rows; they must rise, within what rows can say")
        if not all(a <= b < math.inf for a, b in zip((0.0, *self.quantiles), self.quantiles, strict=False)):
            raise RecycleGPError(f"quantiles {self.quantiles}; they must be finite numbers that rise from 0")

    def quantile(self, level: float) -> float:
        """The score that holds a share `level` of new rows.

        Raises:
            RecycleGPError: The level was not calibrated; the message says which were.

        Examples:
            >>> c.quantile(0.9)
            1.6
        """
        for known, found in zip(self.levels, self.quantiles, strict=True):
            if abs(known - level) < SAME:
                return found
        there = ", ".join(f"{known:g}" for known in self.levels)
        if rank(level, self.rows) > self.rows:
            raise RecycleGPError(
                Either(f"level={level:g}", f"the level {level:g}"),
                f" needs a calibration with at least {rows_needed(level)} rows, and this one has "
                f"{self.rows}; ask for one of {there}, or calibrate with more rows",
            )
        raise RecycleGPError(
            Either(f"level={level:g}", f"the level {level:g}"),
            f" was not calibrated, but {there}; calibrate with ",
            Argument("levels"),
            " that has it",
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write to a small JSON file, all or nothing.

        Raises:
            OSError: The file cannot be written; what was there before is as it was.

        Examples:
            >>> c.save("c.json")
        """
        said = {"recyclegp_calibration": FORMAT, "digest": digest.ZEROS, **asdict(self)}
        content = (json.dumps(said, indent=1, allow_nan=False) + "\n").encode()
        write_atomically(Path(path), digest.replaced(DIGEST, content, digest.of(content)))

    @staticmethod
    def load(path: str | PathLike[str]) -> Calibration:
        """Read what `save` wrote, checked.

        Raises:
            RecycleGPError: The file cannot be what it claims to be; the message says why.
            OSError: There is none.

        Examples:
            >>> c.save("c.json")
            >>> Calibration.load("c.json") == c
            True
        """
        path = Path(path)
        try:
            return _read(path)
        except RecycleGPError as refused:
            raise RecycleGPError(f"{path}: ", OfStranger(refused)) from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise RecycleGPError(f"{path}: not a calibration as ", WRITER, " writes it; make it again") from None


def rank(level: float, rows: int) -> int:
    """Which of so many scores, counted from the smallest, a new one does not exceed with this probability."""
    return math.ceil((rows + 1) * level - SAME)


def rows_needed(level: float) -> int:
    """The fewest rows with which an interval of this level is finite."""
    return math.ceil(level / (1 - level) - SAME)


def _read(path: Path) -> Calibration:
    if not stat.S_ISREG(path.stat().st_mode):
        raise RecycleGPError("not a file; name one that ", WRITER, " wrote")
    with open(path, "rb") as stream:
        content = stream.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise RecycleGPError("too large for a calibration; name one that ", WRITER, " wrote")
    checked = digest.check(DIGEST, content)
    found = fields(strict_json.parsed(content.decode()), "it")
    if "recyclegp_calibration" in found and found["recyclegp_calibration"] not in READABLE:
        raise RecycleGPError("a calibration of another format; upgrade recyclegp")
    expected = {"recyclegp_calibration", *Calibration.__dataclass_fields__}
    found.setdefault("output", None)  # which earlier files do not have
    if checked != (found.get("recyclegp_calibration") == FORMAT):
        raise ValueError("a digest is missing, or there should be none")
    if set(found) - {"digest"} != expected or ("digest" in found) != checked:
        raise ValueError("other fields")
    if type(found["recyclegp_calibration"]) is not int:
        raise ValueError("no format")
    owner, model = found["owner"], found["content_id"]
    if model is not None and (len(bytes.fromhex(text(model, "content_id"))) != 32 or model != model.lower()):
        raise ValueError("no content id")
    return Calibration(
        likelihood=text(found["likelihood"], "likelihood"),
        owner=None if owner is None else text(owner, "owner"),
        rows=count(found["rows"], "rows", least=1),
        levels=tuple(number(v, "a level", 0.0, 1.0) for v in listed(found["levels"], "levels", most=MOST_LEVELS)),
        quantiles=tuple(
            number(v, "a quantile", 0.0) for v in listed(found["quantiles"], "quantiles", most=MOST_LEVELS)
        ),
        content_id=model,
        output=None if found["output"] is None else text(found["output"], "output"),
    )
