"""merge: modules become one ensemble."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import RecycleGPError
from . import facts, models
from .options import AsJson, FileNames, Modules, NoSeed, Output, Quiet, Recycle, Threads, pairs
from .paths import check_model_output, expand
from .screen import Screen


def merge(
    files: Modules,
    output: Output,
    inducing: Annotated[str, typer.Option(metavar="N", help="Points of the ensemble, or auto.")] = "auto",
    kernel: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The ensemble's kernel.", show_default="the one with most rows behind it"),
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn/--no-learn", help="Learn the kernel, or keep the median of the modules'.")
    ] = True,
    weights: Annotated[
        list[str] | None,
        typer.Option("--weights", metavar="NAME=W", help="What a module counts; may be repeated.", show_default="1"),
    ] = None,
    keep: Annotated[
        str, typer.Option(metavar="sites|names", help="With names only the file is small, but none can be removed.")
    ] = "sites",
    recycle: Recycle = False,
    file_names: FileNames = False,
    threads: Threads = 1,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Merge modules into one ensemble, without their data.

    Thousands of files stream through. Patterns may be quoted, where the shell
    cannot pass so many names.

    Example: recyclegp merge north.safetensors south.safetensors -o city.safetensors
    """
    screen = Screen(quiet, as_json)
    paths = expand(files)
    check_model_output(output, paths)
    points = _points(inducing)
    weighed = pairs(weights or [], "--weights")
    with screen.working("Merging", threads, total=len(paths)) as advance:
        from ..models import merge as library

        modules = models.modules(paths, advance, recycle=recycle, file_names=file_names)
        merged = library.merge(modules, inducing=points, kernel=kernel, learn=learn, weights=weighed or None, keep=keep)
        merged.save(output)
    facts.report(screen, output)


def _points(inducing: str) -> int | str:
    if inducing == "auto":
        return inducing
    if not inducing.isdecimal() or int(inducing) < 1:
        raise RecycleGPError(f"--inducing {inducing}: give a positive number of points, or auto")
    return int(inducing)
