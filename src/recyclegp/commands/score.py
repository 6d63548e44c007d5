"""score: how good a model is on a table whose target is known."""

from __future__ import annotations

from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import typer

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
from .screen import Screen


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
    each is scored by itself.

    Example: recyclegp score city.safetensors test.csv --target y --by ward
    """
    screen = Screen(quiet, as_json)
    if plot is not None:
        from ..plot.scores import check_name

        check_name(plot)
        check_writable(plot)
        check_other(plot, [model, data])
    from .joint_rows import JointRows, only, targets_of
    from .rows import Rows
    from .tables import open_table

    table = open_table(data, decimal)
    with screen.working("Loading"):
        from .. import likelihoods, metrics
        from ..models.joint.predictive import JointPredictive
        from . import joint_predictions, predictions, scores

        gp = models.load(model)
    named = targets_of(targets, table)
    columns = models.inputs_of(gp, table, inputs, *named)
    held, days, kept = models.categories_of(gp, columns), in_days(dates), [] if by is None else [by]
    if isinstance(gp, JointPredictive):
        joint_predictions.check_asked(gp, owner, likelihood)
    else:
        models.check_alone(missing)
    tuned = None if calibration is None else models.calibrated(model, gp, calibration, likelihood, owner)
    if tuned is not None:
        likelihood, owner = tuned.calibration.likelihood, tuned.calibration.owner
    facts: dict[str, Any] = {"model": model, "data": data}
    rows: Rows | JointRows
    if isinstance(gp, JointPredictive):
        carried = list(dict.fromkeys([*named, *kept]))
        whole = Rows(table, columns, drop_missing=drop_missing, keep=carried, categories=held, dates=days)
        rows = joint_predictions.rows_of(gp, whole, named, missing)
        targets_of_part, evaluate = joint_predictions.evaluation(gp, owner)
        facts["holds"] = gp.link.kind
    else:
        target, chosen = only(named, "the model"), likelihoods.choose(gp.likelihoods, likelihood)
        asked = predictions.asked(gp, owner).of_y
        classes = chosen.classifies
        rows = Rows(table, columns, target, classes, positive, drop_missing, kept, categories=held, dates=days)
        targets_of_part = attrgetter("y")
        evaluate = partial(metrics.evaluate, asked, likelihood=chosen.name)
        facts["likelihood"] = chosen.name
    found = scores.Gathered(by, tuned)
    with using_threads(threads):
        for part in rows.parts(screen):
            y = targets_of_part(part)
            found.add(evaluate(part.X, y), part.kept)
            found.compare(part.X, y)
    facts["rows_left_out"] = rows.incomplete
    each = found.facts
    facts |= each[scores.ALONE] if scores.ALONE in each else {"scores": [{"name": k, **v} for k, v in each.items()]}
    if plot is not None:
        scores.draw(plot, found.rows, f"{Path(model).stem} on {Path(data).name}", _positive(gp))
        facts["plot"] = str(plot)
    screen.result(facts, lambda: (scores.say_one if scores.ALONE in each else scores.say_each)(facts))


def _positive(gp: Any) -> str:
    """What the second of two classes is called in a figure."""
    from ..models.joint.links import Classes

    return str(gp.classes[1]) if isinstance(getattr(gp, "link", None), Classes) else "class 1"
