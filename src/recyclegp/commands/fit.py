"""fit: a table becomes a module."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer

from ..errors import RecycleGPWarning
from ..models.naming import check_owner
from . import facts
from .options import AsJson, Data, DropMissing, Inputs, Output, Positive, Quiet, Seed, Target, Threads, time_of
from .paths import check_model_output
from .screen import Screen


def fit(
    data: Data,
    target: Target,
    output: Output,
    inputs: Inputs = None,
    likelihood: Annotated[
        str, typer.Option(metavar="NAME", help="gaussian, bernoulli, bernoulli-probit, poisson, student-t.")
    ] = "gaussian",
    kernel: Annotated[
        str, typer.Option(help="rbf, matern12, matern32, matern52, rq, periodic, linear; also 'rbf + linear'.")
    ] = "rbf",
    method: Annotated[str, typer.Option(help="exact, collapsed, dual, or auto.")] = "auto",
    publish: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            show_default="as many as keep 95%, at most half the rows and 512",
            help="Points at which the posterior is published.",
        ),
    ] = None,
    rows_per_point: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, show_default="2", help="Rows that share each published point, at least: fewer points."
        ),
    ] = None,
    digits: Annotated[
        int | None,
        typer.Option(
            "--round", metavar="DIGITS", min=1, max=15, show_default="as they are", help="Digits that numbers keep."
        ),
    ] = None,
    inducing: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, show_default="512 for collapsed, 200 for dual", help="Inducing points to fit with."
        ),
    ] = None,
    noise: Annotated[
        float | None, typer.Option(metavar="VARIANCE", help="Noise variance, if it is known.", show_default="learned")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The module's, unique within an ensemble.", show_default="the output's")
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Whose rows they are, where somebody sends several.", show_default="the module's name"
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="NUMBER|DATE", help="When the rows were observed, for merge --half-life; as 2026-03-01."),
    ] = None,
    unit: Annotated[
        str | None, typer.Option(help="What the target is measured in, as mmHg; goes into the file.")
    ] = None,
    positive: Positive = None,
    drop_missing: DropMissing = False,
    seed: Seed = 0,
    threads: Threads = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Fit one model to a table, and write what may be shared of it: no data rows.

    Every column but the target is an input, unless --inputs names them. The
    names of all of these go into the file, so that merging can check them.

    Example: recyclegp fit north.csv --target y -o north.safetensors
    """
    screen = Screen(quiet, as_json)
    check_model_output(output, [data])
    check_owner(owner)
    at = None if time is None else time_of(time, "time")
    from .rows import Rows
    from .tables import open_table

    table = open_table(data)
    from .. import likelihoods  # not before the table is known to be one: torch takes seconds

    classes = likelihoods.named(likelihood).classifies
    rows = Rows(table, table.inputs(inputs, target), target, classes, positive, drop_missing)
    X, y = rows.whole(screen)
    with screen.working("Fitting", threads):
        from ..models import fit as library

        module = library.fit(
            X,
            y,
            likelihood=likelihood,
            kernel=kernel,
            method=method,
            inducing=inducing,
            publish="auto" if publish is None else publish,
            rows_per_point=rows_per_point,
            noise=noise,
            name=output.stem if name is None else name,
            seed=seed,
            target=target,
            unit=unit,
            labels=rows.class_labels,
            owner=owner,
            time=at,
        )
        module = module if digits is None else module.rounded(digits)
        module.save(output)
    if not module.convergence.converged:
        said = f"{output}: the fit ended early ({module.convergence.message}); try another --kernel or --seed"
        warnings.warn(said, RecycleGPWarning, stacklevel=2)
    facts.report(screen, output, rows_left_out=rows.incomplete)
