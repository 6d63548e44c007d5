"""score: how good a model is on a table whose target is known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table as Shown

from ..storage.atomic import check_writable
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
    Missing,
    Model,
    ModelInputs,
    NoSeed,
    Owner,
    Positive,
    Quiet,
    Targets,
    Threads,
    in_days,
)
from .paths import check_other
from .screen import Screen, plain_table, say, show

if TYPE_CHECKING:
    import numpy as np

    from ..metrics import Evaluated, Score
    from ..models.calibration import Calibrated
    from .rows import Part

Facts = dict[str, Any]

# what is said of classes and of numbers: a heading, and the field of the facts
OF_CLASSES = {"log-loss": "log_loss", "Brier": "brier", "AUROC": "auroc", "ECE": "ece", "error rate": "error_rate"}
OF_NUMBERS = {"NLPD": "nlpd", "CRPS": "crps", "RMSE": "rmse", "MAE": "mae"}
COVERAGES = {"50%": "coverage_50", "80%": "coverage_80", "95%": "coverage"}


def score(
    model: Model,
    data: Data,
    targets: Targets,
    inputs: ModelInputs = None,
    likelihood: Likelihood = None,
    owner: Owner = None,
    dates: Dates = None,
    missing: Missing = "refuse",
    positive: Positive = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Also for each value of this column; many numbers make four groups."),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FIGURE", help="Draw a PIT histogram, or for classes a reliability curve: .png, .svg, .pdf."
        ),
    ] = None,
    calibration: CalibrationFile = None,
    drop_missing: DropMissing = False,
    decimal: Decimal = ".",
    threads: Threads = 1,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Score a model on a table whose target is known.

    For numbers: NLPD is the mean of -log p(y) and CRPS a distance in the units
    of y; both, RMSE and MAE are better when lower. Coverage is the share of
    rows within their 50%, 80% and 95% bands. For classes: log-loss (which is
    NLPD), Brier's score, the area under the ROC curve, the expected calibration
    error, and the share of wrong classes. Where owners differ the rows are
    taken to be somebody new's, unless --owner says whose. Of several outputs
    each is scored by itself; of several classes log-loss and the error rate.

    Example: recyclegp score city.safetensors test.csv --target y --by ward
    """
    screen = Screen(quiet, as_json)
    if plot is not None:
        from ..plot.scores import check_name

        check_name(plot)
        check_writable(plot)
        check_other(plot, [model, data])
    from .groups import groups
    from .joint_rows import only, targets_of
    from .joint_score import score_jointly
    from .rows import Rows
    from .tables import open_table

    table = open_table(data, decimal)
    with screen.working("Loading"):
        from .. import likelihoods, metrics
        from ..models.joint.predictive import JointPredictive
        from . import joint_predictions, predictions

        gp = models.load(model)
    named = targets_of(targets, table)
    columns = models.inputs_of(gp, table, inputs, *named)
    held, days, kept = models.categories_of(gp, columns), in_days(dates), [] if by is None else [by]
    if isinstance(gp, JointPredictive):
        joint_predictions.check_asked(gp, owner, likelihood, calibration=calibration, by=by, plot=plot)
        whole = Rows(table, columns, drop_missing=drop_missing, keep=named, categories=held, dates=days)
        several = joint_predictions.rows_of(gp, whole, named, missing)
        score_jointly(screen, gp, several, owner, threads, {"model": model, "data": data})
        return
    models.check_alone(missing)
    target = only(named, "the model")
    tuned = None if calibration is None else models.calibrated(model, gp, calibration, likelihood, owner)
    if tuned is not None:
        likelihood, owner = tuned.calibration.likelihood, tuned.calibration.owner
    chosen = likelihoods.choose(gp.likelihoods, likelihood)
    asked = predictions.asked(gp, owner).of_y
    rows = Rows(table, columns, target, chosen.classifies, positive, drop_missing, kept, categories=held, dates=days)
    parts, labels, within = [], [], []
    with using_threads(threads):
        for part in rows.parts(screen):
            parts.append(metrics.evaluate(asked, part.X, part.y, likelihood=chosen.name))
            labels.append(part.kept)
            within.append([] if tuned is None else _held(tuned, part))
    every = metrics.joined(parts)
    facts: Facts = {"model": model, "data": data, "likelihood": chosen.name}
    facts |= {"rows": len(every.y), "rows_left_out": rows.incomplete}
    facts |= _facts(metrics.summary(every))
    if tuned is not None:
        facts["calibrated"] = _calibrated(tuned, within)
    split: list[Facts] = []
    if by is not None:
        import pandas as pd

        values = pd.concat([kept[by] for kept in labels], ignore_index=True)
        for group in groups(values, by):
            some = metrics.summary(every.only(group.rows))
            split.append({"group": group.name, "rows": len(group.rows), **_facts(some)})
        facts |= {"by": by, "groups": split}
    if plot is not None:
        _draw(plot, every, f"{Path(model).stem} on {Path(data).name}")
        facts["plot"] = str(plot)
    screen.result(facts, lambda: _say(facts, by, split))


def _facts(found: Score) -> Facts:
    """By name; what cannot be said of so few rows is null."""
    facts: Facts = {"nlpd": found.nlpd, "rmse": found.rmse, "mae": found.mae, "of": found.on}
    if math.isnan(found.error):
        facts |= {"crps": found.crps, "coverage": found.coverage}
        facts |= {"coverage_50": found.coverage_50, "coverage_80": found.coverage_80}
    else:
        facts |= {"log_loss": found.nlpd, "brier": found.brier, "auroc": found.auroc, "ece": found.ece}
        facts["error_rate"] = found.error
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in facts.items()}


def _held(tuned: Calibrated, part: Part) -> list[tuple[np.ndarray, np.ndarray]]:
    """Of each level that is calibrated, which rows hold y, and how wide their intervals, or large their sets, are."""
    import numpy as np

    found = []
    for level in tuned.calibration.levels:
        if tuned.is_of_classes:
            size = np.asarray(tuned.predict_set(part.X, level)).sum(1)
        else:
            low, high = tuned.predict_interval(part.X, level)
            size = np.asarray(high) - np.asarray(low)
        found.append((tuned.covers(part.X, part.y, level), size))
    return found


def _calibrated(tuned: Calibrated, held: list[list[tuple[np.ndarray, np.ndarray]]]) -> list[Facts]:
    import numpy as np

    name = "mean_classes" if tuned.is_of_classes else "mean_width"
    return [
        {
            "level": level,
            "coverage": float(np.concatenate([part[i][0] for part in held]).mean()),
            name: float(np.concatenate([part[i][1] for part in held]).mean()),
        }
        for i, level in enumerate(tuned.calibration.levels)
    ]


def _draw(path: Path, rows: Evaluated, title: str) -> None:
    from .. import metrics
    from ..plot import pit, reliability, scores

    if rows.proba is not None:
        curve = metrics.reliability(rows.proba, rows.y)
        of = "class 1" if rows.proba.shape[1] == 2 else "the most probable class"
        scores.save(path, lambda ax: reliability(curve, ax, of=of), title)
    else:
        shares = metrics.pit_histogram(rows.below, rows.up_to)
        scores.save(path, lambda ax: pit(shares, len(rows.y), ax), title)


# --- in words ---------------------------------------------------------------------------------


def _say(facts: Facts, by: str | None, split: list[Facts]) -> None:
    classes = "error_rate" in facts
    words = {"rows": f"{facts['rows']:,}"}
    words |= {name: _number(facts[key]) for name, key in (OF_CLASSES if classes else OF_NUMBERS).items()}
    if not classes:
        said = [f"{_number(facts[key])} of {level}" for level, key in COVERAGES.items()]
        words["coverage"] = f"{', '.join(said)} bands"
    for row in facts.get("calibrated", []):
        size = f"{row['mean_classes']:.4g} classes" if classes else f"{row['mean_width']:.4g} wide"
        words[f"calibrated {100 * row['level']:g}%"] = f"{_number(row['coverage'])}, {size} in the mean"
    if "plot" in facts:
        words["figure"] = facts["plot"]
    say(words)
    if by is not None:
        typer.echo()
        show(_table(by, [*split, {"group": "all", **facts}], classes))


def _table(by: str, rows: list[Facts], classes: bool) -> Shown:
    columns = OF_CLASSES if classes else {**OF_NUMBERS, **COVERAGES}
    table = plain_table(by, "rows", *columns, folded=1)
    for row in rows:
        table.add_row(row["group"], f"{row['rows']:,}", *(_number(row[key]) for key in columns.values()))
    return table


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
