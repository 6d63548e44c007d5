"""gain: does merging help the owner of a table, by the rows that were held back of its fit?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import RecycleGPError
from . import models, options
from .options import option
from .screen import Screen

if TYPE_CHECKING:
    from ..models.ensemble import Ensemble
    from ..models.module import Module
    from .rows import Part, Rows


def gain(
    model: Annotated[str, typer.Argument(metavar="ENSEMBLE", help="The merged model.")],
    data: options.Data,
    targets: Annotated[
        list[str] | None, option("The column y, or several.", "COLUMN", "as it was fitted", "-t", "--target")
    ] = None,
    name: Annotated[
        str | None, option("Whose table it is: the module's name.", "NAME", "the one that held rows back")
    ] = None,
    owner: Annotated[str | None, option("The same by the owner.", "NAME")] = None,
    module: Annotated[Path | None, option("The module itself, where the ensemble keeps only names.", "FILE")] = None,
    inputs: options.ModelInputs = None,
    likelihood: options.Likelihood = None,
    dates: options.Dates = None,
    missing: options.Missing = "refuse",
    positive: options.Positive = None,
    censored: options.Censored = None,
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
    """Say whether merging helps the owner of a table, by the rows that fit --hold-back kept out.

    The table is the one that was fitted: the same rows are found again in it.
    On these the merged model, asked as this owner, is set against the owner's
    module alone: the mean of -log p(y), lower is better, and the standard error
    of the difference. Nothing is written, and nothing leaves this machine. Fit
    with all rows afterwards.

    Example: recyclegp gain city.safetensors north.csv --name north
    """
    screen = Screen(quiet, as_json, verbose)
    from .tables import ReadAs, open_table
    from .targets import of_model, outputs_of, target_names

    table = open_table(data, ReadAs(decimal, encoding, sheet))
    with screen.working("Loading"):
        from ..models.gain import chosen_module

        merged = models.load_ensemble(model, "gain")
        own = None if module is None else _module(module)
        found = chosen_module(merged, merged._members, name=name, owner=owner, module=own)
    models.check_likelihood(merged, likelihood)
    named = [target.name for target in found.targets if target.name is not None]
    known = list(dict.fromkeys(named)) or None
    if targets is None and known is None:
        raise RecycleGPError(f"--target: {found.name} does not say what its y is called; name the column")
    names = target_names(targets or known or [], table)
    chosen = models.chosen_likelihood(model, merged, likelihood)
    if outputs_of(chosen) and set(names) < set(outputs_of(chosen)):
        chosen = chosen.only([outputs_of(chosen).index(one) for one in names])

    def rows_with(one: str | None) -> tuple[Rows, Part]:
        wanted = of_model(names, chosen, missing, one, censored)
        rows = models.rows_for(merged, table, wanted, inputs=inputs, dates=dates, drop_missing=drop_missing)
        return rows, models.read(merged, rows, screen)

    labels = found.target.labels
    try:  # classes 0 and 1 may have words in the table, or be numbers whose words only the module knows
        rows, read = rows_with(positive if labels is None else positive or labels[1])
    except RecycleGPError:
        if positive is not None or labels is None:
            raise
        rows, read = rows_with(None)
    with screen.working("Comparing", threads):
        result = merged.gain(read.X, read.y, name=found.name, module=own, likelihood=likelihood)
    facts: dict[str, Any] = {"model": model, "data": data, "name": result.name, "owner": found.owner}
    facts |= {"rows": result.rows, "rows_left_out": rows.left_out + result.left_out}
    facts |= {"merged": result.merged, "alone": result.alone, "gain": result.gain}
    facts |= {"standard_error": result.standard_error if result.rows > 1 else None, "verdict": result.verdict.value}
    screen.result(facts, lambda: typer.echo(f"{result.name}: {result}"))


def _module(path: Path) -> Module:
    def refuse(merged: Ensemble) -> Module:
        raise RecycleGPError(f"--module {path}: it holds an ensemble; give the file of your own module")

    return models.by_kind(models.load(path), lambda module: module, refuse)
