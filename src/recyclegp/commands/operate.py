"""update, add, remove and reweight: an ensemble becomes another one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..models.naming import check_owner
from . import fit_options, models, options
from .options import option, switch
from .parsing import names_of, pairs
from .paths import check_model_output, expand
from .screen import Screen
from .signatures import verified

if TYPE_CHECKING:
    from ..models.ensemble import Ensemble as Ensemble_


def update(
    ensemble: options.Ensemble,
    data: options.Data,
    targets: options.Targets,
    output: options.Output,
    inputs: options.ModelInputs = None,
    likelihood: Annotated[str | None, option("Of the new rows.", "NAME", "the ensemble's, if it has one")] = None,
    noise: Annotated[float | None, option("Noise variance of the new rows.", "VARIANCE", "the ensemble's")] = None,
    noise_column: options.NoiseOfRows = None,
    noise_sd_column: options.NoiseSdOfRows = None,
    name: Annotated[
        str | None, option("What to call the new rows; joins those called so.", None, "update-1, …")
    ] = None,
    owner: Annotated[str | None, option("Whose rows they are.", "NAME", "somebody new, called like them")] = None,
    publish: fit_options.Publish = None,
    rows_per_point: fit_options.RowsPerPoint = None,
    people: fit_options.People = False,
    things: fit_options.Things = False,
    allow_small: Annotated[bool, switch("--allow-small", "Write fewer than 10 new rows, too.")] = False,
    forget: Annotated[
        float, option("What all that is known still counts, as 0.98; for a drifting function.", "SHARE")
    ] = 1.0,
    relearn: options.Relearn = False,
    dates: options.Dates = None,
    missing: options.Missing = "refuse",
    positive: options.Positive = None,
    censored: options.Censored = None,
    drop_missing: options.DropMissing = False,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    threads: options.Threads = 1,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Update an ensemble with new rows: a table, not a module.

    What is written of them is what fit would write of its rows: at so few points
    that several rows share each. Fewer than ten rows are not written.

    Example: recyclegp update city.safetensors new.csv --target y -o city2.safetensors
    """
    given = dict(locals())
    chosen_privacy = fit_options.privacy(people, things)
    screen = Screen(quiet, as_json, verbose)
    check_model_output(output)
    check_owner(owner)
    from .rows import NoiseColumn
    from .tables import ReadAs, open_table
    from .targets import of_model, target_names

    measured = NoiseColumn.given(noise, noise_column, noise_sd_column)
    table = open_table(data, ReadAs(decimal, encoding, sheet))
    names = target_names(targets, table)
    with screen.working("Loading"):
        from .. import likelihoods

        old = models.load_ensemble(ensemble, "update")
    models.check_likelihood(old, likelihood)
    chosen = likelihoods.only(old.likelihoods) if likelihood is None else likelihoods.named(likelihood)
    wanted = of_model(names, chosen, missing, positive, censored)
    rows = models.rows_for(old, table, wanted, inputs=inputs, dates=dates, noise=measured, drop_missing=drop_missing)
    read = models.read(old, rows, screen)
    with screen.working("Updating", threads):
        new = old.update(
            read.X,
            read.y,
            likelihood=likelihood,
            noise=noise if read.noise is None else read.noise,
            name=name,
            owner=owner,
            relearn=relearn,
            decay=forget,
            publish=fit_options.library_options(given).changed(privacy=chosen_privacy).publishing,
        )
        new.save(output)
    models.report(screen, output, rows_left_out=rows.left_out)


def add(
    ensemble: options.Ensemble,
    files: options.Modules,
    output: options.Output,
    relearn: options.Relearn = False,
    recycle: options.Recycle = False,
    file_names: options.FileNames = False,
    trusted: options.OnlyTrusted = None,
    signed_by: options.SignedBy = None,
    threads: options.Threads = 1,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Add modules to an ensemble.

    Example: recyclegp add city.safetensors east.safetensors -o city2.safetensors
    """
    screen = Screen(quiet, as_json, verbose)
    paths = expand(files)
    check_model_output(output, paths)
    signed = verified(paths, trusted, signed_by)
    with screen.working("Adding", threads, total=len(paths)) as advance:
        old = models.load_ensemble(ensemble, "add")
        modules = models.modules(
            paths, advance, recycle=recycle, file_names=file_names, taken=old.names, verified=signed
        )
        new = old.add(modules, relearn=relearn)
        if signed is not None:
            new = new._signed(signed.signers)
            signed.remember()
        new.save(output)
    models.report(screen, output)


def remove(
    ensemble: options.Ensemble,
    names: Annotated[
        list[str], typer.Argument(metavar="NAMES…", help="Modules to leave out, as inspect names them; also A,B,…")
    ],
    output: options.Output,
    relearn: Annotated[
        bool | None,
        switch(
            "--relearn/--keep-kernel",
            "Choose kernel, points, mean and noise anew, or keep them all. By default what was chosen with a removed "
            "module is chosen anew.",
        ),
    ] = None,
    threads: options.Threads = 1,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Remove modules from an ensemble, as if they had never been merged.

    Kernel, points, mean and noise are chosen anew where they had been chosen
    with them. With --keep-kernel only what they said of f is gone: quicker, but not
    enough where consent was withdrawn.

    Example: recyclegp remove city.safetensors south -o city2.safetensors
    """
    screen = Screen(quiet, as_json, verbose)

    def removed(old: Ensemble_) -> Ensemble_:
        return old.remove(names_of(names, old.names), relearn=relearn)

    _changed(screen, ensemble, "remove", removed, output, threads)


def reweight(
    ensemble: options.Ensemble,
    weights: Annotated[
        list[str], typer.Argument(metavar="NAME=W…", help="0 leaves a module out, 2 counts it twice; also A=0,B=2")
    ],
    output: options.Output,
    relearn: options.Relearn = False,
    threads: options.Threads = 1,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Reweight modules of an ensemble.

    Example: recyclegp reweight city.safetensors south=0.5 -o city2.safetensors
    """
    screen, weighed = Screen(quiet, as_json, verbose), pairs(weights, "weight")
    _changed(screen, ensemble, "reweight", lambda old: old.reweight(weighed, relearn=relearn), output, threads)


def _changed(
    screen: Screen,
    ensemble: str,
    command: str,
    change: Callable[[Ensemble_], Ensemble_],
    output: Path,
    threads: int,
) -> None:
    check_model_output(output)
    with screen.working("Working", threads):
        change(models.load_ensemble(ensemble, command)).save(output)
    models.report(screen, output)
