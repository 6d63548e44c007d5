"""merge: modules become one ensemble."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import RecycleGPError
from . import facts, models
from .options import (
    OWNERS,
    AsJson,
    FileNames,
    Modules,
    NoSeed,
    OnlyTrusted,
    Output,
    Owners,
    Quiet,
    Recycle,
    Threads,
    none_or,
    pairs,
    time_of,
)
from .paths import check_model_output, expand
from .screen import Screen
from .screening import proposals, verdicts_of
from .signatures import verified


def merge(
    files: Modules,
    output: Output,
    inducing: Annotated[
        str, typer.Option(metavar="N|all|auto", help="Points of the ensemble; with all of the modules' it is exact.")
    ] = "auto",
    kernel: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The ensemble's kernel.", show_default="the one with most rows behind it"),
    ] = None,
    learn: Annotated[
        bool, typer.Option("--learn/--no-learn", help="Learn the kernel, or keep the median of the modules'.")
    ] = True,
    weights: Annotated[
        list[str] | None,
        typer.Option("--weights", metavar="NAME=W,…", help="What a module counts; may be repeated.", show_default="1"),
    ] = None,
    keep: Annotated[
        str, typer.Option(metavar="sites|names", help="With names only the file is small, but none can be removed.")
    ] = "sites",
    owners: Owners = "auto",
    half_life: Annotated[
        float | None,
        typer.Option(
            metavar="AGE",
            help="At this age a module counts half: in days, or in the unit of fit --time.",
            show_default="all count alike",
        ),
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(metavar="NUMBER|DATE", help="From when ages are counted.", show_default="the newest module's"),
    ] = None,
    trust: Annotated[
        str,
        typer.Option(
            metavar="learn|report|none",
            help="Modules that contradict the others: learn leaves them out, report only names them.",
        ),
    ] = "learn",
    outputs: Annotated[
        str,
        typer.Option(
            metavar="auto|independent|correlated|RANK",
            help="Of several outputs: is each merged by itself, or may they tell of each other? auto asks the modules.",
        ),
    ] = "auto",
    recycle: Recycle = False,
    file_names: FileNames = False,
    trusted: OnlyTrusted = None,
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
    differing = none_or(owners, "--owners", OWNERS)
    as_of = None if now is None else time_of(now, "now")
    believed = none_or(trust, "--trust", ("learn", "report"))
    weighed = pairs(weights or [], "--weights")
    signed = verified(paths, trusted)
    with screen.working("Merging", threads, total=len(paths)) as advance:
        from ..models import merge as library

        holding: dict[str, Path] = {}
        modules = models.modules(paths, advance, recycle=recycle, file_names=file_names, verified=signed, files=holding)
        merged = library.merge(
            models.to_merge(modules, paths),
            inducing=points,
            kernel=kernel,
            learn=learn,
            weights=weighed or None,
            keep=keep,
            owners=differing,
            trust=believed,
            half_life=half_life,
            now=as_of,
            outputs=int(outputs) if outputs.isdecimal() else outputs,
        )
        merged.save(output)
    facts.report(screen, output, proposals=[p._asdict() for p in proposals(verdicts_of(merged), holding)])


def _points(inducing: str) -> int | str:
    if inducing in ("auto", "all"):
        return inducing
    if not inducing.isdecimal() or int(inducing) < 1:
        raise RecycleGPError(f"--inducing {inducing}: give a positive number of points, all, or auto")
    return int(inducing)
