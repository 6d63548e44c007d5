"""fit: a table becomes a module."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import RecycleGPWarning
from ..models.naming import check_owner
from . import facts
from .fit_jointly import Asked, fit_jointly
from .fit_partitions import Partitioning, destination, fit_parts, opened
from .options import (
    AllowSmall,
    AsJson,
    Categories,
    Data,
    Dates,
    Decimal,
    DropMissing,
    Inputs,
    Missing,
    NoiseOfRows,
    NoiseSdOfRows,
    Output,
    Positive,
    Quiet,
    Seed,
    Targets,
    Threads,
    in_days,
    time_of,
)
from .paths import check_model_output
from .screen import Screen


def fit(
    data: Data,
    targets: Targets,
    output: Output,
    inputs: Inputs = None,
    likelihood: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="gaussian, bernoulli, bernoulli-probit, poisson, student-t, categorical, heteroscedastic.",
        ),
    ] = "gaussian",
    kernel: Annotated[
        str,
        typer.Option(help="rbf, matern12, matern32, matern52, rq, periodic, linear, category; also 'rbf + linear'."),
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
    noise_column: NoiseOfRows = None,
    noise_sd_column: NoiseSdOfRows = None,
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
    partition_by: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="A module for each value of this column, and their ensemble."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="So many modules, each of rows that follow each other, and their ensemble."
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="tcp://HOST:PORT", help="Fit partitions on this Dask cluster.", show_default="on all cores here"
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Processes that fit partitions.", show_default="one for each core"),
    ] = None,
    modules: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep the modules of partitions here; a run that was stopped goes on."),
    ] = None,
    skip_failed: Annotated[
        bool, typer.Option("--skip-failed", help="Leave out partitions whose fit fails, instead of stopping.")
    ] = False,
    categories: Categories = None,
    dates: Dates = None,
    labels: Annotated[
        str | None,
        typer.Option(
            "--classes",
            metavar="A,B,…",
            help="All that a row could have been, for categorical.",
            show_default="those in y",
        ),
    ] = None,
    missing: Missing = "refuse",
    allow_small: AllowSmall = False,
    positive: Positive = None,
    drop_missing: DropMissing = False,
    decimal: Decimal = ".",
    seed: Seed = 0,
    threads: Threads = 1,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Fit one model to a table, and write what may be shared of it: no data rows.

    Every column but the target, and one that holds noises, is an input, unless
    --inputs names them. The names of inputs and target go into the file, so
    that merging can check them. Inputs that hold text are categories, whose
    levels go into the file by name.

    A table that is too large for one model is fitted in partitions, which may
    also be a folder of Parquet files: with -o FILE.safetensors their ensemble
    is written, with -o FOLDER their modules.

    Several targets make one module of several outputs. Classes, which may be
    words, are for --likelihood categorical; noise that varies with the inputs
    for --likelihood heteroscedastic.

    Example: recyclegp fit north.csv --target y -o north.safetensors
    """
    screen = Screen(quiet, as_json)
    parts = Partitioning(partition_by, partitions, dask, jobs, modules, skip_failed)
    alone = {"--name": name, "--owner": owner, "--time": time, "--round": digits}
    parts.check(data, {**alone, "--noise-column": noise_column, "--noise-sd-column": noise_sd_column})
    if parts.wanted:
        destination(output, modules, data)
    else:
        check_model_output(output, [data])
    check_owner(owner)
    at = None if time is None else time_of(time, "time")
    from .joint_rows import JointRows, targets_of
    from .rows import NoiseColumn, Rows

    measured = NoiseColumn.given(noise, noise_column, noise_sd_column)
    table = opened(data, decimal)
    named = targets_of(targets, table)
    target = named[0]
    from .. import likelihoods  # not before the table is known to be one: torch takes seconds

    classes = likelihoods.named(likelihood).classifies
    joint = Asked(likelihood, named, missing, labels, positive)
    reading = joint.check(parts.option, measured)
    columns = table.inputs(inputs, *named, partition_by, noise_column, noise_sd_column)
    how_read: dict[str, Any] = {"categories": set(categories or ()), "may_hold_more": True, "dates": in_days(dates)}
    if reading is not None:
        whole = Rows(table, columns, drop_missing=drop_missing, keep=named, **how_read)
        several = JointRows(whole, named, reading, missing == "allow")
        given: dict[str, Any] = {"kernel": kernel, "method": method, "inducing": inducing, "noise": noise}
        given |= {"seed": seed, "unit": unit}
        given |= {"publish": "auto" if publish is None else publish, "rows_per_point": rows_per_point}
        given |= {"name": output.stem if name is None else name, "owner": owner, "time": at}
        fit_jointly(screen, several, joint, output, threads, digits, given)
        return
    rows = Rows(table, columns, target, classes, positive, drop_missing, parts.kept, noise=measured, **how_read)
    if parts.wanted:
        how = {"likelihood": likelihood, "kernel": kernel, "method": method, "inducing": inducing, "noise": noise}
        how |= {"publish": "auto" if publish is None else publish, "rows_per_point": rows_per_point}
        how |= {"seed": seed, "unit": unit, "allow_small": allow_small}
        fit_parts(screen, rows, parts, output, threads, how)
        return
    X, y, noises = rows.whole(screen)
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
            noise=noise if noises is None else noises,
            name=output.stem if name is None else name,
            seed=seed,
            target=target,
            unit=unit,
            labels=rows.class_labels,
            owner=owner,
            time=at,
            allow_small=allow_small,
        )
        module = module if digits is None else module.rounded(digits)
        module.save(output)
    if not module.convergence.converged:
        said = f"{output}: the fit ended early ({module.convergence.message}); try another --kernel or --seed"
        warnings.warn(said, RecycleGPWarning, stacklevel=2)
    facts.report(screen, output, rows_left_out=rows.incomplete)
