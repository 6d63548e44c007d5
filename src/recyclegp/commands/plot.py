"""plot: models become a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import RecycleGPError
from ..storage.atomic import check_writable
from . import models
from .options import AsJson, NoSeed, Quiet
from .paths import SUFFIX, check_other, expand
from .screen import Screen


def plot(
    files: Annotated[
        list[str], typer.Argument(metavar="FILES…", help="Modules and ensembles: files, folders, or patterns.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FIGURE", help="A .png, .svg, .pdf or .html file.")],
    likelihood: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to show of models that have several.")
    ] = None,
    region: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=LOW:HIGH", help="How far to draw; may be repeated.", show_default="the points"),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=X",
            help="Where a slice holds an input, a number or a level; may be repeated.",
            show_default="median",
        ),
    ] = None,
    owners: Annotated[
        bool, typer.Option("--owners/--no-owners", help="Where owners of an ensemble differ, draw each one's function.")
    ] = True,
    title: Annotated[str | None, typer.Option(help="Above the figure.")] = None,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Draw models: bands over one input, maps over two, slices along each of more.

    An .html file is a page to explore with the mouse; it works offline.

    Example: recyclegp plot north.safetensors south.safetensors -o both.png
    """
    screen = Screen(quiet, as_json)
    paths = expand(files)
    check_writable(output)
    check_other(output, paths)
    ranges = dict(_range(r) for r in region or [])
    held = dict(_held(a) for a in at or [])
    with screen.working("Drawing"):
        from .. import plot as figures
        from ..models.joint.module import JointModule
        from ..models.module import Module

        objects = [models.load(p) for p in paths]
        # an ensemble has no name of its own but that of its file
        names = [
            m.name if isinstance(m, (Module, JointModule)) else p.name.removesuffix(SUFFIX)
            for m, p in zip(objects, paths, strict=True)
        ]
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
