"""demo: the library in one picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..storage.atomic import replacing
from . import options
from .options import option, output_to
from .screen import Screen

if TYPE_CHECKING:
    from rich.table import Table

    from ..demo import Results


def demo(
    output: Annotated[Path, output_to("DIR", "Where the figure and the module files go.")] = Path("demo-output"),
    seed: Annotated[int, option("Of the data and of everything else random.", min=0)] = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Three owners, one function: fit apart, merge, compare with a central fit.

    Example: recyclegp demo -o demo-output
    """
    from rich.console import Console

    output.mkdir(parents=True, exist_ok=True)
    figure = output / "demo.png"
    with Screen(quiet, as_json, verbose).working("Demonstration"):  # three modules, their merge, and a fit of all rows
        from .. import demo as demonstration

        results = demonstration.run(seed, output)
        with replacing(figure) as stream:
            demonstration.draw(results).savefig(stream, format="png")
    if as_json:
        typer.echo(json.dumps({**results.to_dict(), "figure": str(figure)}, indent=2))
    elif not quiet:
        console = Console()
        console.print(_table(results))
        console.print(f"Figure: {figure}", soft_wrap=True, highlight=False)
        console.print(f"Beside it: {', '.join(demonstration.FILES)}", soft_wrap=True, highlight=False)


def _table(results: Results) -> Table:
    from rich.table import Table

    from ..demo import ONLY_C, OWNERS

    table = Table(title="Held-out data over the whole region (lower is better)", title_justify="left")
    table.add_column("model")
    table.add_column("what it has, over which x")
    table.add_column("NLPD of y", justify="right")
    table.add_column("RMSE of f", justify="right")
    table.add_column(f"RMSE, x > {ONLY_C:g}", justify="right")
    has = {
        owner.name: f"{owner.rows} {'outcomes' if owner.noise is None else 'measurements'}, "
        f"{owner.low:g} to {owner.high:g}"
        for owner in OWNERS
    }
    has["merged"] = f"the {len(has)} files, no rows"
    has["central"] = f"all {sum(len(rows.y) for rows in results.data.values())} rows"
    for name, score in results.scores.items():
        label = f"{name} alone" if name in results.modules else name
        numbers = [f"{value:.3f}" for value in (score.nlpd, score.rmse, score.rmse_only_c)]
        if name == "merged":
            table.add_section()
        table.add_row(label, has[name], *numbers, style="bold" if name == "merged" else None)
    return table
