"""What follows from the options for data of one shape: kernel, method, inducing points, and where to publish."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays
from ..categories import Categories, called
from ..errors import Argument, Either, Name, RecycleGPError
from ..kernels import Kernel, knows_its_level, numeric_columns, parse
from ..likelihoods import Likelihood
from ..record import Privacy
from .constants import IMPORTED, PEOPLE, PLANNING, PUBLISHED
from .options import AUTO, FitOptions, Publishing
from .request import Method, Publish, Share

PEOPLE_OPTION = Either("privacy='people'", "--people")


class Shape(NamedTuple):
    """Of the data of one function."""

    n: int  # rows that differ from each other, which cost time
    D: int
    rows: int  # of data behind them, which points may not give away
    columns: arrays.Columns
    categories: Categories
    device: torch.device


class FitPlan(NamedTuple):
    kernel: Kernel
    method: Method
    inducing: int | Tensor
    publish: Publish


def plan_fit(options: FitOptions, likelihood: Likelihood, shape: Shape, most: int) -> FitPlan:
    """For one function; `most` are the rows of the function of its model that has most, which decide the method."""
    wanted, n = options.inference, shape.n
    check_rows_per_point(options.publishing, shape.rows)
    method = _method(options, likelihood, most)
    if method is Method.EXACT and wanted.inducing is not None:
        raise RecycleGPError(
            Name("inducing"),
            ": the exact method has no inducing points; use ",
            Name("publish"),
            ", or ",
            Argument("method", "collapsed"),
        )
    points: int | Tensor = _enough_inducing(PLANNING.inducing[method], n)
    if wanted.inducing is not None:
        points = _useful(_given(wanted.inducing, "inducing", shape), n)
    kernel = _by_name(wanted.kernel, shape) if isinstance(wanted.kernel, str) else _object(wanted.kernel, shape)
    publish = publish_plan(options.publishing, method, points, shape)
    return FitPlan(kernel.to(shape.device), method, points, publish)


def _given(points: Any, argument: str, shape: Shape) -> int | Tensor:
    return arrays.count_or_points(points, argument, shape.D, shape.columns, shape.device, shape.categories)


def _object(kernel: Any, shape: Shape) -> Kernel:
    """A kernel object, if it takes levels for levels and numbers for numbers."""
    from ..kernels.gpytorch_objects import from_gpytorch

    found, levels = from_gpytorch(kernel, shape.D), shape.categories.columns
    wrong = sorted(set(levels) & numeric_columns(found.structure, shape.D))
    if wrong:
        numbers = tuple(c for c in range(shape.D) if c not in levels)
        raise RecycleGPError(
            f"kernel: a part of it takes {called(wrong[0], shape.columns)} for numbers, which holds categories; give "
            f"that part active_dims={numbers}, with CategoryKernel(active_dims={levels}) beside it, or pass a name, as "
            "'rbf * category'"
        )
    return found


def _by_name(name: str, shape: Shape) -> Kernel:
    kernel = parse(name, shape.D, shape.categories.columns)
    if knows_its_level(kernel.structure):
        # The level of a line is as uncertain as its slope; without this, merged lines would cross where they must.
        kernel = parse(f"({name}) + constant", shape.D, shape.categories.columns)
    return kernel


def _method(options: FitOptions, likelihood: Likelihood, rows: int) -> Method:
    wanted = options.inference
    if wanted.method == AUTO:
        if not likelihood.conjugate:
            return Method.DUAL
        return Method.EXACT if rows <= PLANNING.exact_rows and wanted.inducing is None else Method.COLLAPSED
    try:
        method = Method(wanted.method)
    except ValueError:
        raise RecycleGPError(
            Argument("method", wanted.method), " is not known; use auto, exact, collapsed or dual"
        ) from None
    if method is not Method.DUAL and not likelihood.conjugate:
        raise RecycleGPError(
            Argument("method", method.value),
            f" needs a gaussian likelihood, not {likelihood.name!r}; use ",
            Argument("method", Method.DUAL.value),
        )
    return method


def share(publish: Any, rows: int, rows_per_point: int | None = None) -> Share | None:
    """publish="auto", or the share that points shall keep as a number between 0 and 1; None for anything else."""
    most = min(PUBLISHED.most, max(1, rows // max(PUBLISHED.rows_each, rows_per_point or 1)))
    return _share(publish, PUBLISHED.kept, most)


def share_of_import(publish: Any) -> Share | None:
    """The same for a model that was fitted elsewhere, and is to be the same model afterwards."""
    return _share(publish, IMPORTED.kept, IMPORTED.most)


def _share(publish: Any, usual: float, most: int) -> Share | None:
    if isinstance(publish, str) and publish == AUTO:
        return Share(usual, most)
    if isinstance(publish, float) and 0 < publish < 1:
        return Share(publish, most)
    return None


def publish_plan(wanted: Publishing, method: Method, points: int | Tensor, shape: Shape) -> Publish:
    """How many points, which, or None for the inducing points themselves; no more of them than rows allow."""
    found = _publish_option(wanted, method, points, shape)
    fewest = fewest_rows(wanted)
    given = isinstance(points if found is None else found, Tensor)
    if fewest is None or isinstance(found, Share) or (given and wanted.rows_per_point is None):
        return found
    most = shape.rows // fewest
    chosen = points if found is None else found
    if isinstance(chosen, int):
        return min(chosen, most)
    if len(chosen) > most:
        raise RecycleGPError(
            Argument("rows_per_point", wanted.rows_per_point),
            f": {shape.rows} rows may have {most} points, and {len(chosen)} were given as "
            f"{'inducing' if found is None else 'publish'}; give fewer of them, or a number of them to publish",
        )
    return found


def _publish_option(wanted: Publishing, method: Method, points: int | Tensor, shape: Shape) -> Publish:
    """What `publish` says, taken alone."""
    publish = wanted.publish
    if isinstance(publish, str) and publish == AUTO and isinstance(points, Tensor):
        return None
    found = share(publish, shape.rows, fewest_rows(wanted))
    if found is not None:
        return found
    if publish is not None:
        return _useful(_given(publish, "publish", shape), shape.n)
    if method is Method.EXACT:
        raise RecycleGPError(
            Argument("publish", None),
            ": an exact model has no inducing points to publish at; pass a number or points (its own rows are never "
            "shared unless you pass them)",
        )
    return None


def fewest_rows(wanted: Publishing) -> int | None:
    """Rows behind each automatic point, at least; None where nobody has asked for more than usual."""
    people = PEOPLE.rows_each if wanted.privacy is Privacy.PEOPLE else None
    return max((n for n in (wanted.rows_per_point, people) if n is not None), default=None)


def check_rows_per_point(wanted: Publishing, rows: int | None = None) -> None:
    """Is it a number, and are there enough rows, where it is known how many there are?"""
    given = wanted.rows_per_point
    if given is not None and (isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < 1):
        raise RecycleGPError(
            Argument("rows_per_point", given), "; pass a whole number of rows, at least 1, or leave it out"
        )
    if rows is None:
        return
    if wanted.privacy is Privacy.PEOPLE and rows < PEOPLE.fewest:
        raise RecycleGPError(
            PEOPLE_OPTION, f": {rows} rows are too few, it needs {PEOPLE.fewest}; publish them together with other rows"
        )
    if given is not None and given > rows:
        raise RecycleGPError(
            Argument("rows_per_point", given),
            f": {rows} rows are too few for a single point; publish them together with other rows, or pass a smaller "
            "number",
        )


def _enough_inducing(usual: int, rows: int) -> int:
    """More than twice the rows say nothing new; one of a few numbers, so that similar data sets have as many."""
    return next((few for few in PLANNING.few_inducing if 2 * rows <= few < usual), usual)


def _useful(points: int | Tensor, rows: int) -> int | Tensor:
    """Of automatic points no more than twice the rows say anything new."""
    return min(points, max(PLANNING.fewest, 2 * rows)) if isinstance(points, int) else points
