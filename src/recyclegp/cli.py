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


@app.command()
def experiment(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="One of those of --list, or all.")] = "",
    listed: Annotated[bool, typer.Option("--list", help="Say which experiments there are, and what each is.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The paper's sizes, instead of under a minute.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Data sets or splits to average over.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The first of them.")] = 0,
    data_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help=r"Where data files are; else the packages of \[experiments].")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="DIR", help="Where files go.  [default: experiment-output/NAME]"),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="For matrices; one is best where they are small.")] = 1,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Write the files, print nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON instead of a table.")] = False,
) -> None:
    """Run an experiment of the paper, end to end: a table and a figure, with every rival."""
    from .experiments.registry import EXPERIMENTS, check

    if listed or not name:
        Console().print(_experiments())
        return
    check(name)
    notes = Console(stderr=True, quiet=quiet or as_json)
    with notes.status("Importing …"):
        from .experiments import command
        from .experiments.core import MissingDataError
        from .experiments.output import show
    results, missing = [], []
    for each in EXPERIMENTS if name == "all" else [name]:
        base = output or Path("experiment-output")
        folder = base / each if name == "all" or output is None else base
        settings = command.settings_for(each, full, seeds, data_dir, seed)
        try:
            result = command.execute(each, settings, folder, threads, notes)
        except MissingDataError as error:
            if name != "all":
                raise
            missing.append(str(error))
            continue
        results.append(result.to_dict())
        if not quiet and not as_json:
            show(result, folder)
    if as_json:
        typer.echo(json.dumps(results if name == "all" else results[0], indent=1))
    for line in missing:
        typer.echo(f"recyclegp: {line}", err=True)
    if missing:
        raise typer.Exit(2)


def _experiments() -> Table:
    from .experiments.registry import EXPERIMENTS

    table = Table(title="recyclegp experiment NAME", title_justify="left", show_lines=True, show_header=False)
    for name, entry in EXPERIMENTS.items():
        told = f"[bold]{entry.title}[/bold]\n{entry.explanation}"
        table.add_row(f"[bold]{name}[/bold]", told if entry.data == "generated" else f"{told}\nData: {entry.data}")
    return table


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
