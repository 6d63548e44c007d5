"""update, add, remove and reweight: an ensemble becomes another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..models.naming import check_owner
from . import facts, models
from .options import (
    AsJson,
    Data,
    Dates,
    Decimal,
    DropMissing,
    Ensemble,
    FileNames,
    Missing,
    ModelInputs,
    Modules,
    NoiseOfRows,
    NoiseSdOfRows,
    NoSeed,
    OnlyTrusted,
    Output,
    Positive,
    Quiet,
    Recycle,
    Relearn,
    Targets,
    Threads,
    in_days,
    names_of,
    pairs,
)
from .paths import check_model_output, expand
from .screen import Screen
from .signatures import verified

if TYPE_CHECKING:
    from ..models.ensemble import Ensemble as Ensemble_
    from ..models.joint.ensemble import JointEnsemble


def update(
    ensemble: Ensemble,
    data: Data,
    targets: Targets,
    output: Output,
    inputs: ModelInputs = None,
    likelihood: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the new rows.", show_default="the ensemble's, if it has one")
    ] = None,
    noise: Annotated[
        float | None,
        typer.Option(metavar="VARIANCE", help="Noise variance of the new rows.", show_default="the ensemble's"),
    ] = None,
    noise_column: NoiseOfRows = None,
    noise_sd_column: NoiseSdOfRows = None,
    name: Annotated[str | None, typer.Option(help="What to call the new rows.", show_default="update-1, …")] = None,
    owner: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Whose rows they are.", show_default="somebody new, called like them"),
    ] = None,
    forget: Annotated[
        float,
        typer.Option(metavar="SHARE", help="What all that is known still counts, as 0.98; for a drifting function."),
    ] = 1.0,
    relearn: Relearn = False,
    dates: Dates = None,
    missing: Missing = "refuse",
    positive: Positive = None,
    drop_missing: DropMissing = False,
    decimal: Decimal = ".",
    threads: Threads = 1,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Update an ensemble with new rows: a table, not a module.

    Example: recyclegp update city.safetensors new.csv --target y -o city2.safetensors
    """
    screen = Screen(quiet, as_json)
    check_model_output(output)
    check_owner(owner)
    from .joint_rows import only, targets_of
    from .rows import NoiseColumn, Rows
    from .tables import open_table

    measured = NoiseColumn.given(noise, noise_column, noise_sd_column)
    table = open_table(data, decimal)
    named = targets_of(targets, table)
    with screen.working("Loading"):
        from .. import likelihoods
        from ..models.joint.ensemble import JointEnsemble

        old = models.load_ensemble(ensemble, "update")
    columns = models.inputs_of(old, table, inputs, *named, noise_column, noise_sd_column)
    held, days = models.categories_of(old, columns), in_days(dates)
    if isinstance(old, JointEnsemble):
        from .joint_predictions import check_asked, rows_of, targets_for

        check_asked(old, None, likelihood, measured)
        whole = Rows(table, columns, drop_missing=drop_missing, keep=named, categories=held, dates=days)
        several = rows_of(old, whole, named, missing)
        part = several.whole(screen)
        with screen.working("Updating", threads):
            y = targets_for(old, part)
            old.update(part.X, y, noise=noise, name=name, owner=owner, relearn=relearn, forget=forget).save(output)
        facts.report(screen, output, rows_left_out=several.incomplete)
        return
    models.check_alone(missing)
    target = only(named, "the ensemble")
    known = old.likelihoods if likelihood is None else [likelihoods.named(likelihood)]
    classes = len(known) == 1 and known[0].classifies  # of several, the library asks which one is meant
    rows = Rows(table, columns, target, classes, positive, drop_missing, categories=held, dates=days, noise=measured)
    X, y, noises = rows.whole(screen)
    models.check_labels(old, rows)
    known_noise = noise if noises is None else noises
    with screen.working("Updating", threads):
        new = old.update(
            X, y, likelihood=likelihood, noise=known_noise, name=name, owner=owner, relearn=relearn, forget=forget
        )
        new.save(output)
    facts.report(screen, output, rows_left_out=rows.incomplete)


def add(
    ensemble: Ensemble,
    files: Modules,
    output: Output,
    relearn: Relearn = False,
    recycle: Recycle = False,
    file_names: FileNames = False,
    trusted: OnlyTrusted = None,
    threads: Threads = 1,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Add modules to an ensemble.

    Example: recyclegp add city.safetensors east.safetensors -o city2.safetensors
    """
    screen = Screen(quiet, as_json)
    paths = expand(files)
    check_model_output(output, paths)
    signed = verified(paths, trusted)
    with screen.working("Adding", threads, total=len(paths)) as advance:
        old = models.load_ensemble(ensemble, "add")
        modules = models.modules(
            paths, advance, recycle=recycle, file_names=file_names, taken=old.names, verified=signed
        )
        models.with_modules(old, modules, relearn=relearn).save(output)
    facts.report(screen, output)


def remove(
    ensemble: Ensemble,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAMES…", help="Modules to leave out, as inspect names them; also A,B,…"),
    ],
    output: Output,
    relearn: Annotated[
        bool,
        typer.Option(
            "--relearn/--keep-kernel",
            help="Choose kernel, points, mean and noise anew, or keep what was chosen with the removed modules.",
        ),
    ] = True,
    threads: Threads = 1,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Remove modules from an ensemble, as if they had never been merged.

    Kernel, points, mean and noise, which had been chosen with them, are chosen
    anew. With --keep-kernel only what they said of f is gone: quicker, but not
    enough where consent was withdrawn.

    Example: recyclegp remove city.safetensors south -o city2.safetensors
    """
    screen = Screen(quiet, as_json)

    def removed(old: Ensemble_ | JointEnsemble) -> Ensemble_ | JointEnsemble:
        return old.remove(names_of(names, old.names), relearn=relearn)

    _changed(screen, ensemble, "remove", removed, output, threads)


def reweight(
    ensemble: Ensemble,
    weights: Annotated[
        list[str],
        typer.Argument(metavar="NAME=W…", help="0 leaves a module out, 2 counts it twice; also A=0,B=2"),
    ],
    output: Output,
    relearn: Relearn = False,
    threads: Threads = 1,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Reweight modules of an ensemble.

    Example: recyclegp reweight city.safetensors south=0.5 -o city2.safetensors
    """
    screen, weighed = Screen(quiet, as_json), pairs(weights, "weight")
    _changed(screen, ensemble, "reweight", lambda old: old.reweight(weighed, relearn=relearn), output, threads)


def _changed(
    screen: Screen,
    ensemble: str,
    command: str,
    change: Callable[[Ensemble_ | JointEnsemble], Ensemble_ | JointEnsemble],
    output: Path,
    threads: int,
) -> None:
    check_model_output(output)
    with screen.working("Working", threads):
        change(models.load_ensemble(ensemble, command)).save(output)
    facts.report(screen, output)
