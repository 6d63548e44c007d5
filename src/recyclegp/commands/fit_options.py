"""The options of `fit`: those that the library has under the library's names, and those of partitions.

A parameter of the command that is called like an option of `local/options.py` reaches the library by that name
(`library_options`), so that none can be forgotten for one kind of model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import RecycleGPError
from .options import option, switch

if TYPE_CHECKING:
    from ..local.options import FitOptions

Likelihood = Annotated[
    str,
    option(
        "gaussian, lognormal (y > 0), student-t, survival, bernoulli, bernoulli-probit, counts (poisson or "
        "negative-binomial), categorical, ordinal (levels in an order), heteroscedastic.",
        "NAME",
    ),
]
Kernel = Annotated[
    str, option("rbf, matern12, matern32, matern52, rq, periodic, linear, category; also 'rbf + linear'.")
]
Method = Annotated[str, option("exact, collapsed, dual, or auto.")]
Publish = Annotated[
    int | None,
    option(
        "Points at which the posterior is published.",
        "N",
        "as many as keep 95%, at most half the rows and 512",
        min=1,
    ),
]
RowsPerPoint = Annotated[
    int | None, option("Rows that share each published point, at least: fewer points.", "N", "2", min=1)
]
People = Annotated[bool, switch("--people", "Rows are about people: less is published of each of them.")]
Things = Annotated[bool, switch("--things", "Rows are not about people: as much is published as is useful.")]
Digits = Annotated[int | None, option("Digits that numbers keep.", "DIGITS", "as they are", "--round", min=1, max=15)]
Inducing = Annotated[int | None, option("Inducing points to fit with.", "N", "512 for collapsed, 200 for dual", min=1)]
Noise = Annotated[float | None, option("Noise variance, if it is known.", "VARIANCE", "learned")]
Name = Annotated[str | None, option("The module's, unique within an ensemble.", None, "the output's")]
RowsOwner = Annotated[
    str | None, option("Whose rows they are, where somebody sends several.", "NAME", "the module's name")
]
Time = Annotated[
    str | None, option("When the rows were observed, for merge --half-life; as 2026-03-01.", "NUMBER|DATE")
]
Unit = Annotated[
    str | None, option("What the target is measured in, as mmHg; goes into the file. A,B,… for several targets.")
]
Classes = Annotated[
    str | None,
    option(
        "All that a row could have been, for categorical; for ordinal from the lowest to the highest.",
        "A,B,…",
        "those in y",
    ),
]
HoldBack = Annotated[
    float | None,
    option("Share of rows to keep out, as 0.1: the command gain says with them whether merging helps.", "SHARE"),
]
PartitionBy = Annotated[str | None, option("A module for each value of this column, and their ensemble.", "COLUMN")]
Partitions = Annotated[
    int | None, option("So many modules, each of rows that follow each other, and their ensemble.", "N", min=1)
]
Dask = Annotated[str | None, option("Fit partitions on this Dask cluster.", "tcp://HOST:PORT", "on all cores here")]
Jobs = Annotated[int | None, option("Processes that fit partitions.", "N", "one for each core", min=1)]
ModulesFolder = Annotated[
    Path | None, option("Keep the modules of partitions here; a run that was stopped goes on.", "FOLDER")
]
SkipFailed = Annotated[bool, switch("--skip-failed", "Leave out partitions whose fit fails, instead of stopping.")]


OF_TABLE = ("positive",)  # a table's words are 0 and 1 before the library sees them


def library_options(given: Mapping[str, Any]) -> FitOptions:
    """The library's options among the parameters of the command; one that was not given is as the library has it."""
    from ..local.options import DEFAULTS, FitOptions

    found = {name: value for name, value in given.items() if value is not None or DEFAULTS.get(name) is None}
    return FitOptions.among({name: value for name, value in found.items() if name not in OF_TABLE})


def privacy(people: bool, things: bool) -> str | None:
    """What was chosen, of the two at most one."""
    if people and things:
        raise RecycleGPError("--people and --things exclude each other; give one of them")
    return "people" if people else "things" if things else None


def several(text: str | None) -> list[str] | None:
    """Words separated by commas."""
    return None if text is None else [word.strip() for word in text.split(",") if word.strip()]
