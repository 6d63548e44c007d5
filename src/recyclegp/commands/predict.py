"""predict: what a model says of the rows of a table, some at a time, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from ..errors import RecycleGPError
from ..storage.atomic import replacing
from ..threads import using_threads
from . import models, options
from .options import option, output_to
from .paths import check_output
from .screen import Screen

if TYPE_CHECKING:
    import pandas as pd

STDOUT = Path("-")


def predict(
    model: options.Model,
    data: options.Data,
    output: Annotated[Path, output_to("OUT.csv", "The table to write; - is standard output.")] = STDOUT,
    keep: Annotated[str, option("Columns of DATA to carry along: names, all, or none.", "A,B,…")] = "all",
    inputs: options.ModelInputs = None,
    likelihood: options.Likelihood = None,
    owner: options.Owner = None,
    dates: options.Dates = None,
    calibration: options.CalibrationFile = None,
    drop_missing: options.DropMissing = False,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    threads: options.Threads = 1,
    seed: options.NoSeed = 0,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Predict at the rows of a table.

    Writes the function's mean, standard deviation and 95% band (mean, sd, lower,
    upper). For measurements also those of a new observation (y_sd, y_lower,
    y_upper), for classes the probability of class 1 and for counts the rate,
    each with its 95% band (…_lower, …_upper). Where owners differ, the first
    four are of the shared function and the others of somebody new, unless
    --owner says whose. With --calibration, y_lower and y_upper hold 95% of new
    observations whatever is wrong with the model; classes get the set of those
    that it may be. The last column, outside, is 1 where a row lies outside
    every module's region: nobody has seen data there. A row that lacks an input
    is there, and its predictions are empty; --drop-missing leaves it out.

    Of several outputs each has these columns with its name before them; several
    classes have their probabilities (p_NAME) and class.

    Example: recyclegp predict city.safetensors new.csv -o predictions.csv
    """
    screen = Screen(quiet, as_json)
    if output != STDOUT:
        if output.suffix.lower() != ".csv" and (output.is_file() or not output.exists()):
            raise RecycleGPError(f"-o {output}: predictions are written as CSV; write to {output.stem}.csv")
        check_output(output, [model, data, *([] if calibration is None else [str(calibration)])])
    from .tables import ReadAs, listed, open_table

    table = open_table(data, ReadAs(decimal, encoding, sheet))
    kept = list(table.names) if keep == "all" else [] if keep == "none" else listed(keep, table.names)
    with screen.working("Loading"):
        from . import predictions

        gp = models.load(model)
    models.check_likelihood(gp, likelihood)
    rows = models.rows_for(gp, table, inputs=inputs, dates=dates, drop_missing=drop_missing, keep=kept, every=True)
    tuned = None if calibration is None else models.calibrated(model, gp, calibration, likelihood, owner)
    if tuned is not None:
        likelihood, owner = models.calibrated_for(tuned)
        tuned.calibration.quantile(predictions.LEVEL)  # a level that it does not have is said before any row is read
    chosen = predictions.likelihood_of(gp, likelihood)
    asked = predictions.Predictions(gp, owner, chosen, tuned)
    clash = [c for c in kept if c in asked.columns]
    if clash:
        raise RecycleGPError(f"{data}: its column {clash[0]!r} has the name of a prediction; choose what to --keep")
    if chosen is None:
        known = ", ".join(dict.fromkeys(part.name for p in gp.likelihoods for part in p.parts))
        screen.note(f"Only f is predicted: the --likelihood of observations ({known}) or their noise is not known")
    to = nullcontext(typer.get_binary_stream("stdout")) if output == STDOUT else replacing(output)
    with using_threads(threads), to as stream, closing(rows.parts(screen)) as parts:
        write = _json_rows if as_json and output == STDOUT else csv_rows
        count = write(stream, map(asked.frame, parts))
    if rows.filled and not drop_missing:
        have, whose = ("lack", "their predictions are") if rows.filled > 1 else ("lacks", "its prediction is")
        screen.note(f"{rows.filled:,} of {rows.read:,} rows {have} an input ({rows.where}): {whose} empty")
    _report(screen, output, count, rows.left_out, asked.outside, [*kept, *asked.columns])


def _report(screen: Screen, output: Path, count: int, left_out: int, outside: int, columns: list[str]) -> None:
    if outside:
        lie = "lie" if outside > 1 else "lies"
        screen.note(
            f"{outside:,} of {count:,} rows {lie} outside every module's region, where nobody has seen data: "
            "outside is 1 there"
        )
    if output != STDOUT:
        facts: dict[str, Any] = {"file": str(output), "rows": count, "rows_left_out": left_out, "rows_outside": outside}
        facts["columns"] = columns
        screen.result(facts, lambda: typer.echo(f"{output}: {count:,} predictions, columns {', '.join(columns)}"))


def csv_rows(stream: BinaryIO, frames: Iterable[pd.DataFrame]) -> int:
    count = 0
    for frame in frames:
        frame.to_csv(stream, index=False, header=count == 0, lineterminator="\n", encoding="utf-8", mode="wb")
        count += len(frame)
    return count


def _json_rows(stream: BinaryIO, frames: Iterable[pd.DataFrame]) -> int:
    """One list of objects, written as it comes."""
    count = 0
    for frame in frames:
        stream.write(b",\n" if count else b"[")
        text = frame.to_json(orient="records", lines=True, double_precision=15).strip()
        stream.write(text.replace("\n", ",\n").encode())
        count += len(frame)
    stream.write(b"]\n")
    return count
