"""calibrate: how wide intervals must be, from a small table that no module has seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import RecycleGPError
from ..storage.atomic import check_writable
from . import models
from .options import (
    AsJson,
    Data,
    Dates,
    Decimal,
    DropMissing,
    Likelihood,
    Model,
    ModelInputs,
    NoSeed,
    Owner,
    Positive,
    Quiet,
    Target,
    Threads,
    in_days,
)
from .paths import check_other
from .screen import Screen, say

if TYPE_CHECKING:
    from ..models.calibration import Calibrated

SUFFIX = ".json"


def calibrate(
    model: Model,
    data: Data,
    target: Target,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE.json", help="The calibration to write.")],
    levels: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Of the intervals.", show_default="0.5,0.8,0.9,0.95,0.99 if rows suffice"),
    ] = None,
    inputs: ModelInputs = None,
    likelihood: Likelihood = None,
    owner: Owner = None,
    dates: Dates = None,
    positive: Positive = None,
    drop_missing: DropMissing = False,
    decimal: Decimal = ".",
    threads: Threads = 1,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make intervals that hold as often as they say, whatever is wrong with the model.

    The table has rows of the kind that will be predicted, and none that a
    module was fitted to; a 95% interval needs at least 19, and a hundred are
    better. The file holds a few numbers and no rows; give it to predict and
    score with --calibration. Classes get sets instead of intervals.

    Example: recyclegp calibrate city.safetensors mine.csv --target y -o mine.json
    """
    screen = Screen(quiet, as_json)
    if output.suffix.lower() != SUFFIX:
        raise RecycleGPError(f"-o {output}: a calibration is written as JSON; write to {output.stem}{SUFFIX}")
    check_writable(output)
    check_other(output, [model, data])
    wanted = None if levels is None else [_level(text) for text in levels.split(",")]
    from .joint_rows import JointRows
    from .rows import Rows
    from .tables import open_table

    table = open_table(data, decimal)
    with screen.working("Loading"):
        from ..models import calibration as library
        from ..models.joint.predictive import JointPredictive
        from ..models.new_observations import new_observations
        from ..storage.signing import content_id
        from . import joint_predictions

        gp = models.load(model)
    try:
        chosen = new_observations(gp, likelihood).likelihood
    except RecycleGPError as refused:
        raise RecycleGPError(f"{model}: {refused}") from None
    columns = models.inputs_of(gp, table, inputs, target)
    held, days = models.categories_of(gp, columns), in_days(dates)
    rows: Rows | JointRows
    if isinstance(gp, JointPredictive):
        joint_predictions.check_asked(gp, owner, likelihood)
        whole = Rows(table, columns, drop_missing=drop_missing, keep=[target], categories=held, dates=days)
        rows = joint_predictions.rows_of(gp, whole, [target], "refuse")
        part = rows.whole(screen)
        X, y = part.X, joint_predictions.targets_for(gp, part)
    else:
        rows = Rows(table, columns, target, chosen.classifies, positive, drop_missing, categories=held, dates=days)
        X, y, _ = rows.whole(screen)
        models.check_labels(gp, rows)
    with screen.working("Calibrating", threads):
        made = library.calibrate(gp, X, y, levels=wanted, likelihood=chosen.name, owner=owner)
    found = replace(made.calibration, content_id=content_id(Path(model)))
    found.save(output)
    facts: dict[str, Any] = {"file": str(output), "model": model, "likelihood": found.likelihood, "owner": found.owner}
    facts |= {"rows": found.rows, "rows_left_out": rows.incomplete}
    facts |= {"levels": list(found.levels), "quantiles": list(found.quantiles)}
    screen.result(facts, lambda: say(_words(made, output)))


def _level(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise RecycleGPError(f"--levels {text}: write numbers between 0 and 1, as 0.9,0.95") from None


def _words(made: Calibrated, output: Path) -> dict[str, str]:
    from ..likelihoods import normal_quantile

    words = {"file": str(output), "rows": f"{made.calibration.rows:,}"}
    for level, q in zip(made.calibration.levels, made.calibration.quantiles, strict=True):
        if made.is_of_classes:
            said = f"classes of probability {max(0.0, 1 - q):.4g} or more, and the most probable one"
        else:
            said = f"{q:.4g} standard deviations (a Gaussian that is right: {normal_quantile(0.5 * (1 + level)):.4g})"
        words[f"{100 * level:g}%"] = said
    return words
