"""experiment: the paper's figures and tables, and some of our own."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .options import option, output_to, switch
from .screen import Screen

if TYPE_CHECKING:
    from rich.table import Table


class Half(Enum):
    CHOOSE, HELD_OUT, ALL = "choose", "held-out", "all"


def experiment(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="One of those of --list, or all.")] = "",
    listed: Annotated[bool, switch("--list", "Say which experiments there are, and what each is.")] = False,
    full: Annotated[bool, switch("--full", "The paper's sizes, instead of under a minute.")] = False,
    seeds: Annotated[int | None, option("Data sets or splits to average over.", min=1)] = None,
    seed: Annotated[int, option("The first of them.", min=0)] = 0,
    data_dir: Annotated[Path | None, option("Where data files are; else the packages of [experiments].", "DIR")] = None,
    output: Annotated[Path | None, output_to("DIR", "Where files go.  [default: experiment-output/NAME]")] = None,
    threads: Annotated[int, option("For matrices; one is best where they are small.", min=1)] = 1,
    sets: Annotated[Half | None, option("Of groups: which half of its data sets.", "choose|held-out|all")] = None,
    only: Annotated[list[str] | None, option("Of groups: a data set, as lme4/sleepstudy. Can be repeated.")] = None,
    jobs: Annotated[int, option("Of groups: processes.", min=1)] = 1,
    resume: Annotated[bool, switch("--resume", "Of groups: go on with what --output has.")] = False,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Run an experiment of the paper, end to end: a table and a figure, with every rival.

    Example: recyclegp experiment banana
    """
    from rich.console import Console

    from ..experiments.registry import EXPERIMENTS, check

    if listed or not name:
        Console().print(_experiments())
        return
    check(name)
    screen = Screen(quiet, as_json, verbose)
    notes = Console(stderr=True, quiet=quiet or as_json, force_terminal=False if verbose else None)
    with notes.status("Importing …"):
        from ..experiments import command
        from ..experiments.core import MissingDataError
    results, missing = [], []
    for each in EXPERIMENTS if name == "all" else [name]:
        base = output or Path("experiment-output")
        folder = base / each if name == "all" or output is None else base
        many = command.ManySets(None if sets is None else sets.value, tuple(only or ()), jobs, resume)
        settings = command.settings_for(each, full, seeds, data_dir, seed, folder, many)
        try:
            with screen.telling(each):
                result = command.execute(each, settings, folder, threads, notes)
        except MissingDataError as error:
            if name != "all":
                raise
            missing.append(str(error))
            continue
        results.append(result.to_dict())
        if not quiet and not as_json:
            command.show(result, folder)
    if as_json:
        typer.echo(json.dumps(results if name == "all" else results[0], indent=1))
    for line in missing:
        typer.echo(f"recyclegp: {line}", err=True)
    if missing:
        raise typer.Exit(2)


def _experiments() -> Table:
    from rich.table import Table

    from ..experiments.registry import EXPERIMENTS

    table = Table(title="recyclegp experiment NAME", title_justify="left", show_lines=True, show_header=False)
    for name, entry in EXPERIMENTS.items():
        told = f"[bold]{entry.title}[/bold]\n{entry.explanation}"
        table.add_row(f"[bold]{name}[/bold]", told if entry.data == "generated" else f"{told}\nData: {entry.data}")
    return table
