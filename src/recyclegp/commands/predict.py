"""predict: what a model says of the rows of a table, some at a time, so that memory stays bounded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from ..errors import RecycleGPError
from ..storage.atomic import check_writable, replacing
from ..threads import using_threads
from . import models
from .options import (
    AsJson,
    CalibrationFile,
    Data,
    Dates,
    Decimal,
    DropMissing,
    Likelihood,
    Model,
    ModelInputs,
    NoSeed,
    Owner,
    Quiet,
    Threads,
    in_days,
)
from .paths import check_other
from .screen import Screen

if TYPE_CHECKING:
    import pandas as pd

STDOUT = Path("-")


def predict(
    model: Model,
    data: Data,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT.csv", help="The table to write; - is standard output.")
    ] = STDOUT,
    keep: Annotated[
        str, typer.Option(metavar="A,B,…", help="Columns of DATA to carry along: names, all, or none.")
    ] = "all",
    inputs: ModelInputs = None,
    likelihood: Likelihood = None,
    owner: Owner = None,
    dates: Dates = None,
    calibration: CalibrationFile = None,
    drop_missing: DropMissing = False,
    decimal: Decimal = ".",
    threads: Threads = 1,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
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
    every module's region: nobody has seen data there.

    Of several outputs each has these columns with its name before them; several
    classes have their probabilities (p_NAME) and class.

    Example: recyclegp predict city.safetensors new.csv -o predictions.csv
    """
    screen = Screen(quiet, as_json)
    if output != STDOUT:
        _check_output(output, [model, data, *([] if calibration is None else [str(calibration)])])
    from .rows import Rows
    from .tables import listed, open_table

    table = open_table(data, decimal)
    kept = list(table.names) if keep == "all" else [] if keep == "none" else listed(keep, table.names)
    with screen.working("Loading"):
        from ..models.joint.predictive import JointPredictive
        from . import joint_predictions, predictions

        gp = models.load(model)
    columns = models.inputs_of(gp, table, inputs)
    held, days = models.categories_of(gp, columns), in_days(dates)
    rows = Rows(table, columns, drop_missing=drop_missing, keep=kept, categories=held, dates=days)
    away = predictions.Away()
    if isinstance(gp, JointPredictive):
        joint_predictions.check_asked(gp, owner, likelihood)
    tuned = None if calibration is None else models.calibrated(model, gp, calibration, likelihood, owner)
    if tuned is not None:
        likelihood, owner = tuned.calibration.likelihood, tuned.calibration.owner
        tuned.calibration.quantile(predictions.LEVEL)  # a level that it does not have is said before any row is read
    if isinstance(gp, JointPredictive):
        made, made_of = joint_predictions.answers(gp, owner, tuned)
        _check_kept(data, kept, made)
        with using_threads(threads), _destination(output) as stream:
            frames = (away.counted(made_of(part)) for part in rows.parts(screen))
            count = _write_rows(stream, frames, as_json and output == STDOUT)
        _report(screen, output, count, rows.incomplete, away.rows, [*kept, *made])
        return
    chosen = predictions.likelihood_of(gp, likelihood)
    asked = predictions.asked(gp, owner)
    made = predictions.columns(chosen, tuned)
    _check_kept(data, kept, made)
    if chosen is None:
        known = ", ".join(p.name for p in gp.likelihoods)
        screen.note(f"Only f is predicted: the --likelihood of observations ({known}) or their noise is not known")
    with using_threads(threads), _destination(output) as stream:
        frames = (away.counted(predictions.frame(asked, part, chosen, tuned)) for part in rows.parts(screen))
        count = _write_rows(stream, frames, as_json and output == STDOUT)
    _report(screen, output, count, rows.incomplete, away.rows, [*kept, *made])


def _check_kept(data: str, kept: Sequence[str], made: Sequence[str]) -> None:
    clash = [c for c in kept if c in made]
    if clash:
        raise RecycleGPError(f"{data}: its column {clash[0]!r} has the name of a prediction; choose what to --keep")


def _write_rows(stream: BinaryIO, frames: Iterable[pd.DataFrame], as_json: bool) -> int:
    return (_json_rows if as_json else _csv_rows)(stream, frames)


def _report(screen: Screen, output: Path, count: int, left_out: int, outside: int, columns: list[str]) -> None:
    if outside:
        screen.note(
            f"{outside:,} of {count:,} rows lie outside every module's region, where nobody has seen data: "
            "outside is 1 there"
        )
    if output != STDOUT:
        facts: dict[str, Any] = {"file": str(output), "rows": count, "rows_left_out": left_out, "rows_outside": outside}
        facts["columns"] = columns
        screen.result(facts, lambda: typer.echo(f"{output}: {count:,} predictions, columns {', '.join(columns)}"))


def _check_output(output: Path, read: list[str]) -> None:
    if output.suffix.lower() != ".csv" and (output.is_file() or not output.exists()):
        raise RecycleGPError(f"-o {output}: predictions are written as CSV; write to {output.stem}.csv")
    check_writable(output)
    check_other(output, read)


@contextmanager
def _destination(output: Path) -> Iterator[BinaryIO]:
    if output == STDOUT:
        yield typer.get_binary_stream("stdout")
    else:
        with replacing(output) as stream:
            yield stream


def _csv_rows(stream: BinaryIO, frames: Iterable[pd.DataFrame]) -> int:
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
