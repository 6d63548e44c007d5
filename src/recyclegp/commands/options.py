"""Options that several commands have, each written down once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ..errors import RecycleGPError
from ..times import When, when

Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print nothing but warnings and errors.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Seed = Annotated[int, typer.Option(min=0, help="Of everything random.")]
NoSeed = Annotated[int, typer.Option("--seed", min=0, help="As every command has; nothing here is random.")]
Threads = Annotated[int, typer.Option(min=1, help="For matrices. One is best on a busy machine, or for small ones.")]

Data = Annotated[
    str,
    typer.Argument(metavar="DATA", help="Table with a header line: CSV (also .gz), Parquet, or - for standard input."),
]
Target = Annotated[str, typer.Option("-t", "--target", metavar="COLUMN", help="The column y.")]
Targets = Annotated[
    list[str],
    typer.Option("-t", "--target", metavar="COLUMN", help="The column y; repeated, or A,B, for several outputs."),
]
Missing = Annotated[
    str,
    typer.Option(metavar="refuse|allow", help="Of several targets, may cells be missing? allow: they were not seen."),
]
Inputs = Annotated[
    str | None,
    typer.Option("-i", "--inputs", metavar="A,B,…", help="The columns of X.", show_default="all but the target"),
]
ModelInputs = Annotated[
    str | None,
    typer.Option("-i", "--inputs", metavar="A,B,…", help="The columns of X, if the model does not know their names."),
]
Decimal = Annotated[str, typer.Option("--decimal", metavar=".|,", help="The decimal mark of numbers in a CSV table.")]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows with missing values, instead of refusing the table.")
]
Categories = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="An input that holds categories although it looks like numbers or ids; may be repeated.",
        show_default="inputs that hold text",
    ),
]
Dates = Annotated[
    str | None,
    typer.Option(metavar="days", help="Read dates in inputs as days since 1970-01-01.", show_default="refused"),
]
AllowSmall = Annotated[bool, typer.Option("--allow-small", help="Do not warn of fewer than 10 rows.")]
Positive = Annotated[
    str | None,
    typer.Option(metavar="LABEL", help="The class that counts as 1, every other as 0, where classes are not 0 and 1."),
]
NoiseOfRows = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN", help="Column with the noise variance of each row: squares of known measurement errors."
    ),
]
NoiseSdOfRows = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="The same as standard deviations: the errors themselves.")
]
Likelihood = Annotated[str | None, typer.Option(metavar="NAME", help="Which one, where the model has several.")]

Model = Annotated[str, typer.Argument(metavar="MODEL", help="File of a module or an ensemble.")]
Ensemble = Annotated[str, typer.Argument(metavar="ENSEMBLE", help="File of an ensemble, as merge writes it.")]
Modules = Annotated[
    list[str], typer.Argument(metavar="FILES…", help="Module files, folders of them, or patterns such as 'wards/*'.")
]
Files = Annotated[
    list[str], typer.Argument(metavar="FILES…", help="Modules and ensembles: files, folders, or patterns.")
]
TrustedKeys = Annotated[
    Path, typer.Option("--trusted", metavar="FOLDER", help="The public keys that you trust: *.pub files.")
]
OnlyTrusted = Annotated[
    Path | None,
    typer.Option(
        "--trusted",
        metavar="FOLDER",
        help="Refuse files that are not signed with a key in this folder.",
        show_default="signatures are not looked at",
    ),
]
Owners = Annotated[
    str,
    typer.Option(
        metavar="auto|offset|smooth|none",
        help="May owners differ by a constant, or also by a smooth function? auto asks the modules.",
    ),
]
OWNERS = ("auto", "offset", "smooth")
Output = Annotated[Path, typer.Option("-o", "--output", metavar="FILE.safetensors", help="The file to write.")]
Recycle = Annotated[
    bool, typer.Option("--recycle", help="Take ensembles among FILES too, each as one module called by its file.")
]
FileNames = Annotated[
    bool, typer.Option("--file-names", help="Call modules by their files, where owners chose the same name.")
]
Owner = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|new",
        help="Whose function and observations, where owners differ; new is somebody nobody has met.",
        show_default="f is the shared one, y a new owner's",
    ),
]
CalibrationFile = Annotated[
    Path | None,
    typer.Option("--calibration", metavar="FILE.json", help="What calibrate wrote for this model."),
]
Relearn = Annotated[
    bool, typer.Option("--relearn", help="Choose kernel, points, mean and noise anew, instead of keeping them.")
]


class Pair(NamedTuple):
    name: str
    number: float


def pairs(given: list[str], option: str) -> dict[str, float]:
    """NAME=NUMBER …, also several separated by commas; a name may itself hold a comma or an equals sign."""
    found = {}
    for item in given:
        several = [_pair(part.strip()) for part in item.split(",")]
        for pair in several if None not in several else [_pair(item)]:
            if pair is None:
                raise RecycleGPError(f"{option} {item}: write NAME=NUMBER, as ward-7=0.5, and commas between several")
            if pair.name in found:
                raise RecycleGPError(f"{option} {item}: {pair.name!r} has a number already; name each once")
            found[pair.name] = pair.number
    return found


def _pair(text: str) -> Pair | None:
    name, _, number = text.rpartition("=")
    try:
        return Pair(name, float(number)) if name else None
    except ValueError:
        return None


def names_of(given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names, also several separated by commas; one that is known as it stands may itself hold a comma."""
    return [
        name
        for item in given
        for name in ([item] if item in known else [part.strip() for part in item.split(",") if part.strip()])
    ]


def time_of(text: str, name: str) -> When:
    """A number, or a date."""
    try:
        return when(float(text), name)
    except ValueError:
        return when(text, name)


def in_days(dates: str | None) -> bool:
    """Are dates to be read as days?"""
    if dates not in (None, "days"):
        raise RecycleGPError(f"--dates {dates}: dates can be read as days; use --dates days")
    return dates is not None


def none_or(word: str, option: str, words: Sequence[str]) -> str | None:
    """One of these words, or none for None."""
    if word not in (*words, "none"):
        raise RecycleGPError(f"{option} {word}: use {', '.join(words)} or none")
    return None if word == "none" else word
