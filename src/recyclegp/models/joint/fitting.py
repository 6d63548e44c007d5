"""Data → JointModule: functions that share their rows, their points and, as far as that is wise, their kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from ... import arrays, likelihoods, threads
from ...devices import retried
from ...errors import RecycleGPError
from ...likelihoods import DirichletCategorical, Gaussian, Heteroscedastic, SoftmaxCategorical
from ...local import batch_fit
from ...local.batch_fit import step_cost
from ...local.kernel_choice import choose
from ...local.request import Door, FitOptions, FitRequest
from ...local.together import Group, Sharing
from ...target import Target
from ..blocks import of_requests
from ..module import Module
from .classes import codes, texts
from .links import (
    Classes,
    Link,
    Outputs,
    VaryingNoise,
    check_names,
    in_order,
    matrix,
    noise_of_cells,
    of_output,
    some_rows,
)
from .module import JointModule

REFUSE, ALLOW = "refuse", "allow"  # what becomes of cells of y that are missing
CLASSES = (SoftmaxCategorical.name, DirichletCategorical.name)


@dataclass(frozen=True)
class JointOptions:
    """What `fit` takes beside the options of a single function."""

    fit: FitOptions
    missing: str = REFUSE
    classes: Sequence[Any] | None = None  # that a row could have, beside those it has


class Lanes(NamedTuple):
    """One joint model as requests for its functions."""

    link: Link
    requests: list[FitRequest]
    group: Group


def is_joint(y: Any, likelihood: Any) -> bool:
    """Does this ask for several functions?"""
    if likelihood in (*CLASSES, Heteroscedastic.name):
        return True
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, (list, tuple)):
        shape = np.shape(y[:1]) if len(y) and not isinstance(y[0], str) else ()
    return shape is not None and len(shape) == 2 and shape[1] > 1


def check_alone(missing: Any, classes: Any) -> None:
    """Arguments that only several functions have, where there is one."""
    if missing not in (REFUSE, ALLOW):
        raise RecycleGPError(f"missing={missing!r}; use 'refuse' or 'allow'")
    if missing == ALLOW:
        raise RecycleGPError("missing='allow' is for y of shape (n, C); of a single output drop the rows without it")
    if classes is not None:
        raise RecycleGPError("classes: only likelihood 'categorical' has any to name; leave them out, or use labels")


def lanes_of(X: Any, y: Any, name: str, options: JointOptions) -> Lanes:
    """The functions of one data set, checked."""
    if options.missing not in (REFUSE, ALLOW):
        raise RecycleGPError(f"missing={options.missing!r}; use 'refuse' or 'allow'")
    kind = options.fit.likelihood
    if kind in CLASSES:
        return _classes(X, y, name, options)
    if options.classes is not None:
        raise RecycleGPError(f"classes: likelihood {kind!r} has none to name; leave them out")
    return _varying_noise(X, y, name, options) if kind == Heteroscedastic.name else _outputs(X, y, name, options)


def fit_jointly(data: Iterable[tuple[Any, Any]], names: Sequence[str], options: JointOptions) -> list[JointModule]:
    """A module for each data set; those of one kind are solved side by side."""
    asked = [lanes_of(X, y, name, options) for (X, y), name in zip(data, names, strict=True)]
    alike: dict[Any, list[int]] = {}
    for i, (_, requests, group) in enumerate(asked):
        alike.setdefault((requests[0].kind, requests[0].columns, requests[0].categories, group), []).append(i)
    made: dict[int, JointModule] = {}
    for members in alike.values():
        made |= _solved(members, asked)
    return [made[i] for i in range(len(asked))]


def chosen_kernel(data: Sequence[tuple[Any, Any]], options: JointOptions) -> str:
    """kernel="auto", by the first data sets that have as many functions."""

    def with_kernel(kernel: str) -> list[Lanes]:
        own = replace(options, fit=replace(options.fit, kernel=kernel))
        found = [lanes_of(X, y, "data", own) for X, y in data[:MOST_COMPARED]]
        return [some for some in found if some.group == found[0].group]

    group = with_kernel("rbf")[0].group
    return choose(lambda kernel: [r for some in with_kernel(kernel) for r in some.requests], group)


MOST_COMPARED = 8  # data sets by which a kernel is chosen


def _solved(members: Sequence[int], asked: Sequence[Lanes]) -> dict[int, JointModule]:
    group = asked[members[0]].group
    requests = [r for i in members for r in asked[i].requests]
    with threads.suited_to(step_cost(requests[0]) * len(requests)):
        lanes, models = retried(partial(batch_fit.solve, requests, group))
    if models is None or len(lanes) < len(requests):
        if len(members) > 1:  # one that fails beside others is tried alone
            return {i: m for member in members for i, m in _solved([member], asked).items()}
        raise RecycleGPError(
            f"module {requests[0].name!r}: no hyperparameters were found at which its posterior is finite; check y for "
            "extreme values, or pass a kernel with learn=False"
        )
    order = sorted(range(len(lanes)), key=lambda i: lanes[i])
    found = models.take(torch.tensor(order))
    C = group.functions
    block = of_requests(requests, found, [None] * len(requests))
    return {
        i: JointModule(
            asked[i].link,
            tuple(_part(block.module(n * C + c), r, asked[i].link) for c, r in enumerate(asked[i].requests)),
        )
        for n, i in enumerate(members)
    }


def _part(module: Module, request: FitRequest, link: Link) -> Module:
    own = replace(module, target=request.target)
    if isinstance(link, Classes):
        return replace(own, likelihoods=(likelihoods.named(link.likelihood),), noise_evidence=None)
    return own


# --- what is asked for ------------------------------------------------------------------------


def _outputs(X: Any, y: Any, name: str, options: JointOptions) -> Lanes:
    names = _output_names(y, options.fit.target)
    units = _each(options.fit.unit, len(names), "unit")
    Y = matrix(y, arrays.inputs(X).X.shape[0], names, None)
    seen = ~torch.isnan(Y)
    if options.missing == REFUSE and not bool(seen.all()):
        raise RecycleGPError(
            f"y holds {int((~seen).sum())} missing values; pass missing='allow' where they mean that an output was not "
            "seen in a row, or drop those rows"
        )
    if not bool(seen.any()):
        raise RecycleGPError("y has no values at all; a model needs at least one")
    measured = [c for c in range(len(names)) if bool(seen[:, c].any())]
    weights = options.fit.weights
    if weights is not None:
        weights = arrays.row_weights(weights, len(Y))
    noise = noise_of_cells(options.fit.noise, len(Y), names)
    requests = []
    for c in measured:
        rows = X if bool(seen[:, c].all()) else some_rows(X, seen[:, c])
        own = replace(
            options.fit,
            target=None,
            unit=None,
            weights=None if weights is None else weights[seen[:, c]],
            noise=of_output(noise, c, seen[:, c]),
        )
        made = Door(own).check(rows, Y[seen[:, c], c], name)
        requests.append(made._replace(target=Target(names[c], units[c])))
    link = Outputs(tuple(names[c] for c in measured))
    sharing = Sharing.SHAPE if options.fit.learn else Sharing.NOTHING
    return _alike(link, requests, sharing)


def _varying_noise(X: Any, y: Any, name: str, options: JointOptions) -> Lanes:
    if options.fit.noise is not None:
        raise RecycleGPError("noise: with likelihood 'heteroscedastic' it is learned as a function; leave it out")
    request = Door(options.fit).check(X, y, name)
    return _alike(VaryingNoise(), [request, request], Sharing.NOTHING)


def _classes(X: Any, y: Any, name: str, options: JointOptions) -> Lanes:
    found = texts(y, len(arrays.inputs(X).X))
    if options.fit.noise is not None:
        raise RecycleGPError(f"noise: likelihood {options.fit.likelihood!r} has none; leave it out")
    given = [] if options.classes is None else texts(list(options.classes), None, "classes")
    labels = tuple(sorted({*found, *given}, key=in_order))
    if len(labels) < 2:
        raise RecycleGPError(
            f"y has one class only ({', '.join(labels)}); pass classes= with all that a row could have had, or leave "
            "this data set out: what is always so says nothing about what else could be"
        )
    check_names(labels, "a class")
    kind = options.fit.likelihood
    is_class = torch.nn.functional.one_hot(codes(found, len(found), labels), len(labels)).to(torch.float64)
    target = Target(options.fit.target)
    requests = []
    for c in range(len(labels)):
        own = replace(options.fit, labels=None)
        y_c = is_class[:, c]
        if kind == DirichletCategorical.name:
            y_c, noise = DirichletCategorical.observations(y_c)
            if own.weights is not None:
                noise = noise / arrays.row_weights(own.weights, len(noise))
            own = replace(own, likelihood=Gaussian.name, noise=noise, weights=None)
        requests.append(Door(own).check(X, y_c, name)._replace(target=target))
    return _alike(Classes(labels, kind), requests, Sharing.KERNEL)


def _alike(link: Link, requests: list[FitRequest], sharing: Sharing) -> Lanes:
    """Functions of the same rows have the same inputs and random numbers, so that they get the same points."""
    first = requests[0]
    if all(torch.equal(first.X, r.X) for r in requests):
        requests = [r._replace(X=first.X, entropy=first.entropy) for r in requests]
    return Lanes(link, requests, Group(len(requests), sharing))


def _output_names(y: Any, target: Any) -> list[str]:
    columns = [str(c) for c in getattr(y, "columns", [])]
    width = len(columns) or np.shape(y)[1]
    if target is not None:
        given = [target] if isinstance(target, str) else list(target)
        if len(given) != width:
            raise RecycleGPError(f"target has {len(given)} names for {width} outputs; give one each")
        check_names(given, "an output")
        return given
    names = columns or [f"y{c + 1}" for c in range(width)]
    check_names(names, "an output")
    return names


def _each(value: Any, count: int, argument: str) -> list[str | None]:
    """One word for all, or one for each."""
    if value is None or isinstance(value, str):
        return [value] * count
    given = list(value)
    if len(given) != count:
        raise RecycleGPError(f"{argument} has {len(given)} entries for {count} outputs; give one, or one each")
    return given
