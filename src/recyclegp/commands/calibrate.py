"""calibrate: how wide intervals must be, from a small table that no module has seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from ..errors import RecycleGPError
from . import models, options
from .options import option, output_to
from .paths import check_output
from .screen import Screen, say

if TYPE_CHECKING:
    from ..models.calibration import Calibrated

SUFFIX = ".json"


def calibrate(
    model: options.Model,
    data: options.Data,
    target: options.Target,
    output: Annotated[Path, output_to("FILE.json", "The calibration to write.")],
    levels: Annotated[str | None, option("Of the intervals.", "A,B,…", "0.5,0.8,0.9,0.95,0.99 if rows suffice")] = None,
    inputs: options.ModelInputs = None,
    likelihood: options.Likelihood = None,
    owner: options.Owner = None,
    dates: options.Dates = None,
    positive: options.Positive = None,
    drop_missing: options.DropMissing = False,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    threads: options.Threads = 1,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Make intervals that hold as often as they say, whatever is wrong with the model.

    The table has rows of the kind that will be predicted, and none that a
    module was fitted to; a 95% interval needs at least 19, and a hundred are
    better. The file holds a few numbers and no rows; give it to predict and
    score with --calibration. Classes get sets instead of intervals.

    Example: recyclegp calibrate city.safetensors mine.csv --target y -o mine.json
    """
    screen = Screen(quiet, as_json, verbose)
    if output.suffix.lower() != SUFFIX:
        raise RecycleGPError(f"-o {output}: a calibration is written as JSON; write to {output.stem}{SUFFIX}")
    check_output(output, [model, data])
    wanted_levels = None if levels is None else [_level(text) for text in levels.split(",")]
    from .tables import ReadAs, open_table
    from .targets import of_model, outputs_of

    table = open_table(data, ReadAs(decimal, encoding, sheet))
    with screen.working("Loading"):
        from ..models import calibration as library
        from ..storage.signing import content_id

        gp = models.load(model)
    models.check_likelihood(gp, likelihood)
    chosen = models.chosen_likelihood(model, gp, likelihood)
    names, of = outputs_of(chosen), None
    if names:
        if target not in names:
            raise RecycleGPError(
                f"--target {target}: {model} has {chosen.words}; a calibration is of one of them, and y is its column"
            )
        of, chosen = target, chosen.parts[names.index(target)]
    models.check_owner(gp, owner)
    wanted = of_model([target], chosen, "refuse", positive)
    rows = models.rows_for(gp, table, wanted, inputs=inputs, dates=dates, drop_missing=drop_missing)
    read = models.read(gp, rows, screen)
    with screen.working("Calibrating", threads):
        how: dict[str, Any] = {"likelihood": chosen.name, "owner": owner, "output": of}
        made = library.calibrate(gp, read.X, read.y, levels=wanted_levels, **how)
    found = replace(made.calibration, content_id=content_id(Path(model)))
    found.save(output)
    facts: dict[str, Any] = {"file": str(output), "model": model, "likelihood": found.likelihood, "owner": found.owner}
    facts |= {"rows": found.rows, "rows_left_out": rows.left_out}
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
