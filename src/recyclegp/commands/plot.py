"""plot: models become a figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..atomic import check_writable
from . import models
from .options import AsJson, Quiet
from .paths import check_other, expand
from .screen import Screen


def plot(
    files: Annotated[
        list[str], typer.Argument(metavar="FILES…", help="Modules and ensembles: files, folders, or patterns.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FIGURE", help=".png, .svg, .pdf or .html")],
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Draw models: bands over one input, maps over two, slices one input at a time over more.

    An .html file is a page to explore with the mouse; it works offline.

    Example: recyclegp plot city.safetensors north.safetensors south.safetensors -o city.png
    """
    screen = Screen(quiet, as_json)
    paths = expand(files)
    check_writable(output)
    check_other(output, paths)
    with screen.working("Drawing"):
        from .. import plot as figures

        figures.save([models.load(p) for p in paths], output)
    facts = {"file": str(output), "models": len(paths), "bytes": output.stat().st_size}
    screen.result(facts, lambda: typer.echo(f"{output}: {facts['bytes']:,} bytes"))
