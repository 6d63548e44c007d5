"""fit with several targets, with classes, or with noise that varies: a table becomes one joint module."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import RecycleGPError, RecycleGPWarning
from . import facts
from .screen import Screen

if TYPE_CHECKING:
    from .joint_rows import JointRows, Reading
    from .rows import NoiseColumn

MISSING = ("refuse", "allow")


class Asked(NamedTuple):
    """What the options say of the functions that are wanted."""

    likelihood: str
    targets: Sequence[str]
    missing: str  # "allow", where cells of y may be
    classes: str | None  # A,B,…
    positive: str | None

    @property
    def reading(self) -> Reading | None:
        """How the targets are read; None where one function is wanted."""
        from ..likelihoods import Heteroscedastic
        from ..models.joint.fitting import CLASSES
        from .joint_rows import Reading

        if self.likelihood in CLASSES:
            return Reading.LABELS
        if self.likelihood == Heteroscedastic.name:
            return Reading.NUMBER
        return Reading.OUTPUTS if len(self.targets) > 1 else None

    def check(self, partitioned: str | None, measured: NoiseColumn | None) -> Reading | None:
        """Do the options fit together? `partitioned` is the option that asks for partitions, if one does."""
        from .joint_rows import Reading, only

        reading = self.reading
        if self.missing not in MISSING:
            raise RecycleGPError(f"--missing {self.missing}: use {' or '.join(MISSING)}")
        if self.missing == "allow" and reading is not Reading.OUTPUTS:
            raise RecycleGPError("--missing allow: it is for several targets; of a single one use --drop-missing")
        if self.classes is not None and reading is not Reading.LABELS:
            raise RecycleGPError(f"--classes {self.classes}: they are for --likelihood categorical")
        if reading is None:
            return None
        if reading is not Reading.OUTPUTS:
            only(self.targets, f"--likelihood {self.likelihood}")
        if self.positive is not None:
            raise RecycleGPError(
                f"--positive {self.positive}: it is for --likelihood bernoulli; categorical takes labels as they are"
            )
        if measured is not None:
            raise RecycleGPError(f"{measured.option}: noise of each row is for a single output; leave it out")
        if partitioned is not None:
            raise RecycleGPError(
                f"{partitioned}: partitions are fitted with one function; fit each part to a file of its own and merge "
                "these, or use fit_many in Python"
            )
        return reading


def fit_jointly(
    screen: Screen,
    rows: JointRows,
    asked: Asked,
    output: Path,
    threads: int,
    digits: int | None,
    options: dict[str, Any],
) -> None:
    """Fit all functions together, and write them to one file; `options` are those of the library's `fit`."""
    from .joint_rows import Reading

    X, Y, _ = rows.whole(screen)
    y = Y if rows.reading is Reading.OUTPUTS else Y[rows.targets[0]]
    unit = options.pop("unit")
    if unit is not None and rows.reading is Reading.OUTPUTS and "," in unit:
        unit = [word.strip() for word in unit.split(",")]
    labels = None if asked.classes is None else [word.strip() for word in asked.classes.split(",") if word.strip()]
    with screen.working("Fitting", threads):
        from ..models import fit as library
        from ..models.joint.module import JointModule

        module = library.fit(
            X, y, likelihood=asked.likelihood, unit=unit, missing=asked.missing, classes=labels, **options
        )
        module = module if digits is None else module.rounded(digits)
        module.save(output)
    assert isinstance(module, JointModule)
    late = [name for name, part in zip(module.functions, module.parts, strict=True) if not part.convergence.converged]
    if late:
        said = f"{output}: the fit of {', '.join(late)} ended early; try another --kernel or --seed"
        warnings.warn(said, RecycleGPWarning, stacklevel=2)
    facts.report(screen, output, rows_left_out=rows.incomplete)
