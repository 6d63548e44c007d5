"""fit: a table becomes a module."""

from __future__ import annotations

import warnings
from pathlib import Path

from ..errors import RecycleGPError, RecycleGPWarning
from ..models.naming import check_owner
from . import fit_options, models, options
from .fit_options import library_options, several
from .fit_partitions import Partitioning, check_destination, fit_parts
from .parsing import in_days, time_of
from .paths import check_model_output
from .screen import Screen

FILLED_BY = {
    "impute": "filled in from similar rows",
    "marginalise": "integrated over what similar rows have there",
}


def fit(
    data: options.Data,
    targets: options.Targets,
    output: options.Output,
    inputs: options.Inputs = None,
    likelihood: fit_options.Likelihood = "gaussian",
    kernel: fit_options.Kernel = "matern52",
    method: fit_options.Method = "auto",
    publish: fit_options.Publish = None,
    rows_per_point: fit_options.RowsPerPoint = None,
    people: fit_options.People = False,
    things: fit_options.Things = False,
    digits: fit_options.Digits = None,
    inducing: fit_options.Inducing = None,
    noise: fit_options.Noise = None,
    noise_column: options.NoiseOfRows = None,
    noise_sd_column: options.NoiseSdOfRows = None,
    name: fit_options.Name = None,
    owner: fit_options.RowsOwner = None,
    time: fit_options.Time = None,
    unit: fit_options.Unit = None,
    partition_by: fit_options.PartitionBy = None,
    partitions: fit_options.Partitions = None,
    dask: fit_options.Dask = None,
    jobs: fit_options.Jobs = None,
    modules: fit_options.ModulesFolder = None,
    skip_failed: fit_options.SkipFailed = False,
    categories: options.Categories = None,
    dates: options.Dates = None,
    classes: fit_options.Classes = None,
    missing: options.MissingToFit = "refuse",
    hold_back: fit_options.HoldBack = None,
    allow_small: options.AllowSmall = False,
    positive: options.Positive = None,
    censored: options.Censored = None,
    drop_missing: options.DropMissing = False,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    seed: options.Seed = 0,
    threads: options.Threads = 1,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
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
    words, are for --likelihood categorical, levels in an order for --likelihood
    ordinal, noise that varies with the inputs for --likelihood heteroscedastic.

    Example: recyclegp fit north.csv --target y -o north.safetensors
    """
    given = dict(locals())
    chosen = fit_options.privacy(people, things)
    screen = Screen(quiet, as_json, verbose)
    parts = Partitioning(partition_by, partitions, dask, jobs, modules, skip_failed)
    alone = {"--name": name, "--owner": owner, "--time": time, "--round": digits}
    parts.check(data, {**alone, "--noise-column": noise_column, "--noise-sd-column": noise_sd_column})
    if parts.wanted:
        check_destination(output, modules, data)
    else:
        check_model_output(output, [data])
    check_owner(owner)
    at = None if time is None else time_of(time, "time")
    from .rows import NoiseColumn, Rows
    from .tables import ReadAs, open_folder, open_table
    from .targets import target_names, to_fit

    measured = NoiseColumn.given(noise, noise_column, noise_sd_column)
    table = open_folder(Path(data)) if Path(data).is_dir() else open_table(data, ReadAs(decimal, encoding, sheet))
    names = target_names(targets, table)
    from .. import likelihoods  # not before the table is known to be one: torch takes seconds

    wanted = to_fit(names, likelihoods.first_of(likelihood), missing, positive, classes, censored)
    columns = table.inputs(inputs, *names, partition_by, noise_column, noise_sd_column, censored)
    held, days = set(categories or ()), in_days(dates)
    how = library_options(given).changed(
        target=names if wanted.outputs else names[0],
        unit=several(unit) if wanted.outputs and unit is not None and "," in unit else unit,
        classes=several(classes),
        privacy=chosen,
    )
    guard = how.level_guard
    rows = Rows(table, columns, wanted, drop_missing, parts.kept, held, guard=guard, dates=days, noise=measured)
    if parts.wanted:
        if wanted.filled:
            raise RecycleGPError(f"--missing {missing}: it is for one model; with partitions use --drop-missing")
        fit_parts(screen, rows, parts, output, threads, how)
        return
    X, y, noises, *_ = rows.whole(screen)
    if rows.filled:
        screen.note(f"{rows.filled} of {rows.read} rows lack some input: {FILLED_BY[missing]} (--missing {missing})")
    how = how.changed(labels=rows.class_labels, noise=noise if noises is None else noises)
    with screen.working("Fitting", threads):
        from ..models import fit as library
        from . import words

        module = library.fit(X, y, name=output.stem if name is None else name, owner=owner, time=at, **how.keywords)
        module = module if digits is None else module.rounded(digits)
    words.note(screen, words.of_model(module))
    module.save(output)
    late = {f: own.convergence for f, own in zip(module.functions, module.latents, strict=True)}
    late = {f: end for f, end in late.items() if not end.converged}
    if late:
        whose = f" of {', '.join(late)}" if len(module.functions) > 1 else ""
        why = next(iter(late.values())).message
        said = f"{output}: the fit{whose} ended early ({why}); try another --kernel or --seed"
        warnings.warn(said, RecycleGPWarning, stacklevel=2)
    models.report(screen, output, rows_left_out=rows.left_out)
