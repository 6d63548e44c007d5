"""plot: models become a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import RecycleGPError
from . import models, options
from .options import option, output_to, switch
from .paths import check_output, expand
from .screen import Screen


def plot(
    files: Annotated[
        list[str], typer.Argument(metavar="FILES…", help="Modules and ensembles: files, folders, or patterns.")
    ],
    output: Annotated[Path, output_to("FIGURE", "A .png, .svg, .pdf or .html file.")],
    likelihood: Annotated[str | None, option("What to show of models that have several.", "NAME")] = None,
    region: Annotated[
        list[str] | None, option("How far to draw; may be repeated.", "COLUMN=LOW:HIGH", "the points")
    ] = None,
    at: Annotated[
        list[str] | None,
        option("Where a slice holds an input, a number or a level; may be repeated.", "COLUMN=X", "median"),
    ] = None,
    owners: Annotated[
        bool, switch("--owners/--no-owners", "Where owners of an ensemble differ, draw each one's function.")
    ] = True,
    title: Annotated[str | None, option("Above the figure.")] = None,
    seed: options.NoSeed = 0,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Draw models: bands over one input, maps over two, slices along each of more.

    An .html file is a page to explore with the mouse; it works offline.

    Example: recyclegp plot north.safetensors south.safetensors -o both.png
    """
    screen = Screen(quiet, as_json)
    paths = expand(files)
    check_output(output, paths)
    ranges = dict(_range(r) for r in region or [])
    held = dict(_held(a) for a in at or [])
    with screen.working("Drawing"):
        from .. import plot as figures

        objects = [models.load(p) for p in paths]
        names = [models.name_of(m, p) for m, p in zip(objects, paths, strict=True)]
        figures.save(
            objects,
            output,
            region=ranges or None,
            likelihood=likelihood,
            at=held or None,
            names=names,
            title=title,
            owners=owners,
        )
    facts = {"file": str(output), "models": names, "bytes": output.stat().st_size}
    screen.result(facts, lambda: typer.echo(f"{output}: {', '.join(names)}"))


def _held(given: str) -> tuple[str, float | str]:
    """A number, or the level of a category."""
    name, equals, text = given.rpartition("=")
    if not equals or not name:
        raise RecycleGPError(f"--at {given}: write COLUMN=NUMBER or COLUMN=LEVEL, as age=40")
    try:
        return name, float(text)
    except ValueError:
        return name, text


def _range(given: str) -> tuple[str, tuple[float, float]]:
    name, _, ends = given.rpartition("=")
    try:
        low, high = map(float, ends.split(":"))
    except ValueError:
        name = ""
    if not name:
        raise RecycleGPError(f"--region {given}: write COLUMN=LOW:HIGH, as age=20:60")
    return name, (low, high)
