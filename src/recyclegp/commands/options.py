"""Options that several commands have, each written down once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def option(help: str, metavar: str | None = None, default: str | None = None, *flags: str, **limits: Any) -> Any:
    """An option by what it is for, what is written behind it, and its default in words where the value says less."""
    metavar = metavar or ("N" if limits else "TEXT")
    return typer.Option(*flags, metavar=metavar, help=help, show_default=default or True, **limits)


def switch(flags: str, help: str) -> Any:
    """An option without a value."""
    return typer.Option(*flags.split(), help=help)


def output_to(metavar: str, help: str) -> Any:
    return option(help, metavar, None, "-o", "--output")


Quiet = Annotated[bool, switch("-q --quiet", "Print nothing but warnings and errors.")]
Verbose = Annotated[
    bool, switch("-v --verbose", "Say on standard error what is being done, and after how many seconds.")
]
AsJson = Annotated[bool, switch("--json", "Print JSON, for machines.")]
Seed = Annotated[int, option("Of everything random.", min=0)]
NoSeed = Annotated[int, option("As every command has; nothing here is random.", None, None, "--seed", min=0)]
Threads = Annotated[int, option("For matrices. One is best on a busy machine, or for small ones.", min=1)]

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA", help="Table with a header line: CSV (also .gz), Excel, Parquet, or - for standard input."
    ),
]
Target = Annotated[str, option("The column y.", "COLUMN", None, "-t", "--target")]
Targets = Annotated[
    list[str], option("The column y; repeated, or A,B, for several outputs.", "COLUMN", None, "-t", "--target")
]
Missing = Annotated[str, option("Of several targets, may cells be missing? allow: they were not seen.", "refuse|allow")]
MissingToFit = Annotated[
    str,
    option(
        "Empty cells. allow: of several targets some were not seen. impute: an input that is missing is that of "
        "similar rows. marginalise: it is integrated over what similar rows have.",
        "refuse|allow|impute|marginalise",
    ),
]
Inputs = Annotated[str | None, option("The columns of X.", "A,B,…", "all but the target", "-i", "--inputs")]
ModelInputs = Annotated[
    str | None, option("The columns of X, if the model does not know their names.", "A,B,…", None, "-i", "--inputs")
]
Decimal = Annotated[str, option("The decimal mark of numbers that are text.", ".|,")]
Encoding = Annotated[
    str | None, option("Of a CSV table, as latin-1.", "NAME", "UTF-8, or else Windows-1252, which a warning says")
]
Sheet = Annotated[str | None, option("Of an Excel file.", "NAME", "the only one")]
DropMissing = Annotated[
    bool, switch("--drop-missing", "Leave out rows with missing values, instead of refusing the table.")
]
Categories = Annotated[
    list[str] | None,
    option(
        "An input that holds categories although it looks like numbers or ids; may be repeated.",
        "COLUMN",
        "inputs that hold text",
    ),
]
Dates = Annotated[str | None, option("Read dates in inputs as days since 1970-01-01.", "days", "refused")]
AllowSmall = Annotated[bool, switch("--allow-small", "Take one or two rows, too, and say nothing of fewer than 10.")]
Positive = Annotated[
    str | None, option("The class that counts as 1, every other as 0, where classes are not 0 and 1.", "LABEL")
]
Censored = Annotated[
    str | None,
    option(
        "Column that says of which rows nothing had happened by the time in the target: 1 or yes, else 0 or no.",
        "COLUMN",
    ),
]
NoiseOfRows = Annotated[
    str | None, option("Column with the noise variance of each row: squares of known measurement errors.", "COLUMN")
]
NoiseSdOfRows = Annotated[str | None, option("The same as standard deviations: the errors themselves.", "COLUMN")]
Likelihood = Annotated[str | None, option("Which one, where the model has several.", "NAME")]

Model = Annotated[str, typer.Argument(metavar="MODEL", help="File of a module or an ensemble.")]
Ensemble = Annotated[str, typer.Argument(metavar="ENSEMBLE", help="File of an ensemble, as merge writes it.")]
Modules = Annotated[
    list[str], typer.Argument(metavar="FILES…", help="Module files, folders of them, or patterns such as 'wards/*'.")
]
Files = Annotated[
    list[str], typer.Argument(metavar="FILES…", help="Modules and ensembles: files, folders, or patterns.")
]
TrustedKeys = Annotated[Path, option("The public keys that you trust: *.pub files.", "FOLDER", None, "--trusted")]
OnlyTrusted = Annotated[
    Path | None,
    option("Refuse files that are not signed with a key in this folder.", "FOLDER", "signatures are not looked at"),
]
SignedBy = Annotated[
    Path | None,
    option(
        "Refuse files that their owners have not signed: a key ring, to which new owners are added.",
        "RING",
        "signatures are not looked at",
    ),
]
Owners = Annotated[
    str,
    option(
        "May owners differ by a constant, or also by a smooth function? auto asks the modules.",
        "auto|offset|smooth|none",
    ),
]
Output = Annotated[Path, output_to("FILE.safetensors", "The file to write.")]
Recycle = Annotated[bool, switch("--recycle", "Take ensembles among FILES too, each as one module called by its file.")]
FileNames = Annotated[bool, switch("--file-names", "Call modules by their files, where owners chose the same name.")]
Owner = Annotated[
    str | None,
    option(
        "Whose function and observations, where owners differ; new is somebody nobody has met.",
        "NAME|new",
        "f is the shared one, y a new owner's",
    ),
]
CalibrationFile = Annotated[Path | None, option("What calibrate wrote for this model.", "FILE.json")]
Relearn = Annotated[bool, switch("--relearn", "Choose kernel, points, mean and noise anew, instead of keeping them.")]
Trust = Annotated[
    str,
    option("Modules that contradict the others: learn leaves them out, report only names them.", "learn|report|none"),
]
Learn = Annotated[bool, switch("--learn/--no-learn", "Learn the kernel, or keep the median of the modules'.")]
