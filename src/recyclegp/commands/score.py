"""score: how good a model is on a table whose target is known."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from ..threads import using_threads
from . import models, options
from .options import option
from .paths import check_output
from .screen import Screen


def score(
    model: options.Model,
    data: options.Data,
    targets: options.Targets,
    inputs: options.ModelInputs = None,
    likelihood: options.Likelihood = None,
    owner: options.Owner = None,
    dates: options.Dates = None,
    missing: options.Missing = "refuse",
    positive: options.Positive = None,
    censored: options.Censored = None,
    by: Annotated[
        str | None, option("Also for each value of this column; many numbers make four groups.", "COLUMN")
    ] = None,
    plot: Annotated[
        Path | None, option("Draw a PIT histogram, or for classes a reliability curve: .png, .svg, .pdf.", "FIGURE")
    ] = None,
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
        check_output(plot, [model, data])
    from .tables import ReadAs, open_table
    from .targets import of_model, outputs_of, target_names

    table = open_table(data, ReadAs(decimal, encoding, sheet))
    with screen.working("Loading"):
        from .. import metrics
        from . import scores

        gp = models.load(model)
    names = target_names(targets, table)
    models.check_likelihood(gp, likelihood)
    tuned = None if calibration is None else models.calibrated(model, gp, calibration, likelihood, owner)
    if tuned is not None:
        likelihood, owner = models.calibrated_for(tuned)
    chosen = models.chosen_likelihood(model, gp, likelihood)
    models.check_owner(gp, owner)
    wanted = of_model(names, chosen, missing, positive, censored)
    kept = [] if by is None else [by]
    rows = models.rows_for(gp, table, wanted, inputs=inputs, dates=dates, drop_missing=drop_missing, keep=kept)
    evaluate: Any = partial(metrics.evaluate, gp, likelihood=chosen.name, owner=owner)
    if outputs_of(chosen):
        evaluate = partial(metrics.evaluate_outputs, gp, owner=owner)
    found = scores.Gathered(by, tuned)
    with using_threads(threads), closing(rows.parts(screen)) as parts:
        for part in parts:
            found.add(evaluate(part.X, part.y), part.kept)
            found.compare(part.X, part.y)
    facts: dict[str, Any] = {"model": model, "data": data, "likelihood": chosen.name, "holds": chosen.meaning}
    facts["rows_left_out"] = rows.left_out
    each = found.facts
    facts |= each[scores.ALONE] if scores.ALONE in each else {"scores": [{"name": k, **v} for k, v in each.items()]}
    if plot is not None:
        positive_name = chosen.classes[1] if chosen.predicts_all and chosen.classifies else "class 1"
        scores.draw(plot, found.rows, f"{Path(model).stem} on {Path(data).name}", positive_name)
        facts["plot"] = str(plot)
    screen.result(facts, lambda: (scores.say_one if scores.ALONE in each else scores.say_each)(facts))
