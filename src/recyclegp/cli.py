"""The command line. Heavy imports (torch takes seconds) happen inside commands, never here."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from typer.core import TyperGroup

from . import __version__
from .errors import RecycleGPError

if TYPE_CHECKING:
    from .demo import Results


class Commands(TyperGroup):
    """Commands whose user errors are one line and exit code 2, whichever command raised them."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (RecycleGPError, OSError) as error:
            if ctx.params.get("debug") or getattr(error, "errno", None) == errno.EPIPE:
                raise
            typer.echo(f"recyclegp: {_in_words(error)}", err=True)
            raise typer.Exit(2) from None


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"recyclegp {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")] = False,
) -> None:
    """Merge fitted Gaussian processes into one, without revisiting any data."""


@app.command()
def demo(
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where the figure and the module files go.")
    ] = Path("demo-output"),
    seed: Annotated[int, typer.Option(min=0, help="Of the data and of everything else random.")] = 0,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Write the files, print nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead of a table.")] = False,
) -> None:
    """Three owners, one function: fit apart, merge, compare with a central fit."""
    output.mkdir(parents=True, exist_ok=True)
    figure = output / "demo.png"
    notes = Console(stderr=True, quiet=quiet or as_json)
    with notes.status("Fitting three modules, merging them, and fitting all rows centrally …"), _one_thread():
        from . import demo as demonstration

        results = demonstration.run(seed, output)
        demonstration.draw(results).savefig(figure)
    if as_json:
        typer.echo(json.dumps({**results.to_dict(), "figure": str(figure)}, indent=2))
    elif not quiet:
        console = Console()
        console.print(_table(results))
        console.print(f"Figure: {figure}", soft_wrap=True, highlight=False)
        console.print(f"Beside it: {', '.join(demonstration.FILES)}", soft_wrap=True, highlight=False)


@contextmanager
def _one_thread() -> Iterator[None]:
    """For matrices too small to share: threads that wait for each other on a busy machine are slower than one."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _table(results: Results) -> Table:
    from .demo import ONLY_C, OWNERS

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
