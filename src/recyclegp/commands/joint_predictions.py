"""What a model of several functions says of the rows of a table: as columns, and as what scores are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .. import metrics
from ..errors import RecycleGPError
from ..likelihoods import Moments, normal_quantile
from ..models.calibration import Calibrated
from ..models.joint.ensemble import JointEnsemble
from ..models.joint.links import Classes, Outputs
from ..models.joint.module import JointModule
from ..models.naming import NEW, few
from . import predictions
from .joint_rows import JointPart, JointRows, Reading, only
from .rows import NoiseColumn, Part, Rows

Joint = JointModule | JointEnsemble

CLASS = "class"
OF_NUMBERS = (*predictions.OF_F, "y_sd", "y_lower", "y_upper")


class PredictionColumns(NamedTuple):
    """The columns that are made, and what makes them."""

    columns: tuple[str, ...]
    frame: Callable[[Part], pd.DataFrame]  # with the columns that are kept before them


def check_asked(gp: Joint, owner: str | None, likelihood: str | None, measured: NoiseColumn | None = None) -> None:
    """What is wrong with the options is said before any row is read."""
    if measured is not None:
        raise RecycleGPError(f"{measured.option}: noise of each row is for a single output; leave it out")
    if likelihood is not None:
        raise RecycleGPError(f"--likelihood {likelihood}: a model of {gp.link.kind} has its own; leave it out")
    whose = gp.owners if isinstance(gp, JointEnsemble) else [gp.owner]
    if owner is not None and owner not in (*whose, NEW):
        raise RecycleGPError(f"--owner {owner}: nobody here is called so; there are {few(whose)}, and new")


def answers(gp: Joint, owner: str | None, tuned: Calibrated | None = None) -> PredictionColumns:
    """Of outputs the columns of each, with its name before them; of classes their probabilities and the likeliest."""
    if isinstance(gp.link, Outputs):
        return _of_outputs(gp, owner)
    if isinstance(gp.link, Classes):
        return _of_classes(gp, owner, tuned)

    def numbers(part: Part) -> pd.DataFrame:
        X = part.X
        mean, variance = gp.predict(X, owner)
        sd = np.sqrt(variance)
        half = normal_quantile(0.5 * (1 + predictions.LEVEL)) * sd
        values = [mean, sd, mean - half, mean + half, np.sqrt(gp.predict_y(X, owner)[1])]
        band = gp.predict_interval(X, predictions.LEVEL, owner) if tuned is None else tuned.predict_interval(X)
        values += band
        return _beside(gp, part, dict(zip(OF_NUMBERS, values, strict=True)))

    return PredictionColumns((*OF_NUMBERS, predictions.OUTSIDE), numbers)


def _of_outputs(gp: Joint, owner: str | None) -> PredictionColumns:
    """The columns of a model of one function, with the name of each output before them."""
    chosen = {name: p if p.known else None for name, p in zip(gp.functions, gp.likelihoods, strict=True)}

    def frame(part: Part) -> pd.DataFrame:
        of_f, of_y = (gp._moments(part.X, owner, of_y=of_y) for of_y in (False, True))
        made: dict[str, Any] = {}
        for c, (name, likelihood) in enumerate(chosen.items()):
            f, y = (Moments(m.mean[:, c].cpu(), m.variance[:, c].cpu()) for m in (of_f, of_y))
            made |= {f"{name}_{column}": v for column, v in predictions.values(likelihood, f, y).items()}
        return _beside(gp, part, made)

    columns = [f"{name}_{c}" for name, p in chosen.items() for c in predictions.of_function(p)]
    return PredictionColumns((*columns, predictions.OUTSIDE), frame)


def _of_classes(gp: Joint, owner: str | None, tuned: Calibrated | None) -> PredictionColumns:
    columns = tuple(f"p_{label}" for label in gp.classes)
    more = () if tuned is None else (predictions.SETS,)

    def frame(part: Part) -> pd.DataFrame:
        p = np.asarray(gp.predict_proba(part.X, owner))
        likeliest = np.array(gp.classes, dtype=object)[p.argmax(-1)]
        made = {**dict(zip(columns, p.T, strict=True)), CLASS: likeliest}
        if tuned is not None:
            made[predictions.SETS] = predictions.sets(tuned, part.X, gp.classes)
        return _beside(gp, part, made)

    return PredictionColumns((*columns, CLASS, *more, predictions.OUTSIDE), frame)


def _beside(gp: Joint, part: Part, made: dict[str, Any]) -> pd.DataFrame:
    """The columns that are kept, the predictions, and where nobody has seen data of any function."""
    kept = {c: part.kept[c].array for c in part.kept}
    return pd.DataFrame({**kept, **made, predictions.OUTSIDE: gp.outside(part.X).astype(int)})


# --- rows whose targets are known ---


def rows_of(gp: Joint, rows: Rows, targets: Sequence[str], missing: str) -> JointRows:
    """The rows of a table as this model takes them; its targets are checked against the model's functions."""
    if missing not in ("refuse", "allow"):
        raise RecycleGPError(f"--missing {missing}: use refuse or allow")
    allow = missing == "allow"
    if not isinstance(gp.link, Outputs):
        only(targets, f"a model of {gp.link.kind}")
        reading = Reading.LABELS if isinstance(gp.link, Classes) else Reading.NUMBER
        return JointRows(rows, targets, reading, allow)
    known = ", ".join(gp.functions)
    strange = [t for t in targets if t not in gp.functions]
    if strange:
        raise RecycleGPError(f"--target {','.join(strange)}: the model has no such output; it has {known}")
    absent = [name for name in gp.functions if name not in targets]
    if absent and not allow:
        raise RecycleGPError(
            f"--target: {len(targets)} of the model's {len(gp.functions)} outputs; name also {', '.join(absent)}, or "
            "add --missing allow, where they were not seen"
        )
    return JointRows(rows, targets, Reading.OUTPUTS, allow)


def targets_for(gp: Joint, part: JointPart) -> Any:
    """y as the library takes it: outputs that the table does not have are missing."""
    if isinstance(gp.link, Outputs):
        return part.y.reindex(columns=list(gp.functions))
    return part.y.iloc[:, 0]


class Evaluation(NamedTuple):
    """By what rows are scored."""

    targets: Callable[[Any], Any]  # y of some rows
    evaluate: Callable[[Any, Any], Any]  # what the model says of them, from X and y


def evaluation(gp: Joint, owner: str | None) -> Evaluation:
    evaluate = metrics.evaluate_outputs if isinstance(gp.link, Outputs) else metrics.evaluate
    return Evaluation(partial(targets_for, gp), partial(evaluate, gp, owner=owner))
