"""Data sets that lack some inputs, made complete before they are fitted: `missing="drop" | "impute" | "marginalise"`.

A row whose input x_m is missing says p(y | f) = Σ_j p_j p(y | f(x_o, x_mj)), with x_mj that of similar rows. For any
shares q_j (Jensen's inequality; EM, as in Ghahramani and Jordan, NIPS 1994)

    log p(y | f) ≥ Σ_j q_j log p(y | f(x_o, x_mj)) + Σ_j q_j log(p_j/q_j)        equal at q_j ∝ p_j p(y | f(x_o, x_mj))

so that a row becomes one for each similar row, with the weight q_j: which any likelihood can have. The q_j follow from
a fit of the rows that are complete. What is not known of x makes y vary more than a row of known x does: of
measurements a row counts less by as much,  Σ_j q_j var(y | x_j)/var(y), by the law of total variance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import are_several
from ..errors import Argument, RecycleGPError, RecycleGPWarning
from ..likelihoods import SeveralFunctions
from ..local import gaps, held_back
from ..local.batching import DataSet, Named
from ..local.constants import GAPS
from ..local.gaps import Column, Replaced
from ..local.options import COMPLETED, DROP, IMPUTE, REFUSE, FitOptions
from .module import Module

Fit = Callable[..., Module]
MOST_AT_ROWS = 300  # complete rows of which the fit that gives the q_j loses nothing
TO_IMPUTE = Argument("missing", IMPUTE)


class CompleteRows(NamedTuple):
    """A data set in which no input is missing, in the order in which it is checked."""

    X: Any
    y: Any
    noise: Any  # one number, one for each row or cell, or None
    weights: Any  # how often each row counts; None: once
    shares: np.ndarray  # (m,)  of each, how much of a row of the table it is

    def only(self, chosen: np.ndarray) -> CompleteRows:
        return CompleteRows(*(held_back.take(own, chosen) for own in self))


def completed(X: Any, y: Any, noise: Any, weights: Any, options: FitOptions, fit: Fit) -> CompleteRows:
    """As the options say; rows that are to be held back are left out.

    Raises:
        RecycleGPError: There are too few complete rows, or nobody has what a row lacks.
    """
    wanted = options.inference
    if not (are_several(X) and are_several(y)):
        raise RecycleGPError("X and y cannot be read as tables; pass arrays, tensors or DataFrames")
    if len(X) != len(y):
        raise RecycleGPError(f"y has {len(y)} rows but X has {len(X)}; pass one target per row")
    rows = CompleteRows(X, y, noise, weights, np.ones(len(X)))
    if wanted.hold_back is not None:
        rows = rows.only(~held_back.is_held_back(X, y, wanted.hold_back))
    targets = gaps.columns_of(rows.y)
    unseen = np.stack([c.absent for c in targets])
    unusable = np.asarray(unseen.any(0) if wanted.missing == DROP else unseen.all(0))
    rows = rows.only(~unusable)
    if not len(rows.shares):
        raise RecycleGPError("y has no values at all; a model needs at least one")
    inputs, targets = gaps.columns_of(rows.X), gaps.columns_of(rows.y)
    incomplete = np.logical_or.reduce([c.absent for c in inputs])
    if not incomplete.any():
        return rows
    if wanted.missing == DROP:
        if incomplete.all():
            raise RecycleGPError("X: every row lacks some input, and none would be left; fill them with ", TO_IMPUTE)
        return rows.only(~incomplete)
    few = options.level_guard.rows
    if wanted.missing == IMPUTE:
        near = gaps.neighbours(inputs, targets, GAPS.imputed_from, few)
        return rows._replace(X=gaps.filled(rows.X, inputs, near).X)
    return _marginalised(rows, inputs, targets, incomplete, options, fit)


def all_completed(named: Iterable[Named], options: FitOptions, fit: Fit) -> Iterator[Named]:
    """Many data sets, one at a time."""
    for i, (data, name) in enumerate(named):
        X, y, *noise = data
        try:
            yield tuple(completed(X, y, noise[0] if noise else None, None, options, fit)), name
        except RecycleGPError as error:
            raise RecycleGPError(f"data set {i} ({name}): ", error) from None


def complete_only(data: Sequence[DataSet], options: FitOptions) -> list[DataSet]:
    """Of data sets by which something is chosen for all, the rows that lack nothing."""
    if options.inference.missing not in COMPLETED:
        return list(data)
    without = options.changed(missing=DROP)
    return [tuple(completed(X, y, noise[0] if noise else None, None, without, _none)) for X, y, *noise in data]


def _none(*_: Any, **__: Any) -> Module:
    raise AssertionError("rows are left out without a fit")


def _marginalised(
    rows: CompleteRows,
    inputs: Sequence[Column],
    targets: Sequence[Column],
    incomplete: np.ndarray,
    options: FitOptions,
    fit: Fit,
) -> CompleteRows:
    if len(targets) > 1:
        raise RecycleGPError(Argument("missing", options.inference.missing), " is for one target; use ", TO_IMPUTE)
    complete = rows.only(~incomplete)
    if len(complete.shares) < GAPS.fewest_complete:
        raise RecycleGPError(
            Argument("missing", options.inference.missing),
            f" needs {GAPS.fewest_complete} rows that lack nothing, and there are {len(complete.shares)}; use ",
            TO_IMPUTE,
        )
    near = gaps.neighbours(inputs, targets[:0], GAPS.values_each, options.level_guard.rows)
    many = gaps.multiplied(rows.X, inputs, near)
    share, reliable = np.ones(len(many.origin)), np.ones(len(many.origin))
    open_rows = incomplete[many.origin]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RecycleGPWarning)  # what there is to say will be said of all rows
        guess = _fitted(complete, options, fit)
        share[open_rows], reliable[open_rows] = _shares(guess, many, rows.y, open_rows)
    keep = share > GAPS.least_share
    origin, share = many.origin[keep], share[keep]
    share = share / np.bincount(origin, share)[origin]  # Σ_j q_j = 1 for each row
    own = np.ones(len(rows.shares)) if rows.weights is None else np.asarray(rows.weights, dtype=float).reshape(-1)
    return CompleteRows(
        gaps.taken(many.X, np.flatnonzero(keep)),
        gaps.taken(rows.y, origin),
        gaps.taken(rows.noise, origin) if are_several(rows.noise) else rows.noise,
        own[origin] * share * reliable[keep],
        share,
    )


def _fitted(rows: CompleteRows, options: FitOptions, fit: Fit) -> Module:
    """What complete rows say; it is not published."""
    own = options.changed(
        missing=REFUSE,
        hold_back=None,
        privacy="things",
        allow_small=True,
        noise=rows.noise,
        rows_per_point=None,
        publish=gaps.taken(rows.X, np.arange(len(rows.shares))) if len(rows.shares) <= MOST_AT_ROWS else MOST_AT_ROWS,
    )
    try:
        return fit(rows.X, rows.y, weights=rows.weights, name="complete rows", **own.keywords)
    except RecycleGPError as error:
        raise RecycleGPError("the rows that lack nothing: ", error) from None


def _shares(guess: Module, many: Replaced, y: Any, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """q_j of each of these rows, and how much its row counts."""
    X, origin = gaps.taken(many.X, np.flatnonzero(some)), many.origin[some]
    log_p = np.asarray(guess.log_density(X, gaps.taken(y, origin)), dtype=float)
    largest = np.full(origin.max() + 1, -np.inf)
    np.maximum.at(largest, origin, log_p)
    p = np.exp(log_p - largest[origin])
    q = p / np.bincount(origin, p)[origin]
    family = guess.likelihoods[0]
    if family.classifies or isinstance(family, SeveralFunctions):
        return q, np.ones(len(q))
    mean, variance = (np.asarray(t, dtype=float).reshape(-1) for t in guess.predict_y(X))
    expected = np.bincount(origin, q * variance)[origin]  # E[var(y|x)]
    middle = np.bincount(origin, q * mean)[origin]
    between = np.bincount(origin, q * (mean - middle) ** 2)[origin]  # var(E[y|x])
    return q, expected / (expected + between)
