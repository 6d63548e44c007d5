"""Data → JointModule: functions that share their rows, their points and, as far as that is wise, their kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from ... import arrays, likelihoods, threads
from ...devices import retry_on_oom
from ...errors import RecycleGPError
from ...likelihoods import DirichletCategorical, Gaussian, Heteroscedastic, SoftmaxCategorical
from ...likelihoods.dirichlet import EPSILON, EPSILONS
from ...likelihoods.softmax import softmax_moments
from ...local import batch_fit
from ...local.batch_fit import step_cost
from ...local.kernel_choice import choose
from ...local.kernel_choice import some_rows as few_rows
from ...local.request import FitOptions, FitRequest, FitValidator
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
    epsilon: float = EPSILON  # of a class that was not seen in a row, where classes are regressions


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
    asked = _asked(list(data), names, options)
    alike: dict[Any, list[int]] = {}
    for i, (_, requests, group) in enumerate(asked):
        alike.setdefault((requests[0].kind, requests[0].columns, requests[0].categories, group), []).append(i)
    made: dict[int, JointModule] = {}
    for members in alike.values():
        made |= _solved(members, asked)
    return [made[i] for i in range(len(asked))]


def _asked(data: Sequence[tuple[Any, Any]], names: Sequence[str], options: JointOptions) -> list[Lanes]:
    """Every data set as requests. Classes by regression: with the ε at which rows are best told by the others."""
    asked = [lanes_of(X, y, name, options) for (X, y), name in zip(data, names, strict=True)]
    if options.fit.likelihood != DirichletCategorical.name or not options.fit.learn:
        return asked
    others = {e: replace(options, epsilon=e) for e in EPSILONS if e != options.epsilon}
    trials = {options.epsilon: asked}
    for e, own in others.items():
        trials[e] = [lanes_of(X, y, name, own) for (X, y), name in zip(data, names, strict=True)]
    scores = {e: _told_by_others(lanes) for e, lanes in trials.items()}
    chosen = []
    for i, usual in enumerate(asked):
        best = max(others, key=lambda e: scores[e][i])
        clearly = scores[best][i] > scores[options.epsilon][i] + CLEARLY
        chosen.append(trials[best][i] if clearly else usual)
    return chosen


def _told_by_others(asked: Sequence[Lanes]) -> list[float]:
    """The log-probability of each data set's classes, every row (of some) by all others."""
    found: dict[int, float] = {}
    alike: dict[Any, list[int]] = {}
    few = [[few_rows(r) for r in lanes.requests] for lanes in asked]
    for i, (_, _, group) in enumerate(asked):
        alike.setdefault((few[i][0].kind, group), []).append(i)
    for (_, group), members in alike.items():
        C = group.functions
        left = batch_fit.leave_one_out([r for i in members for r in few[i]], group)
        mean, variance = (t.cpu().unflatten(0, (-1, C)).mT for t in (left.mean, left.variance))  # (B, n, C)
        for n, i in enumerate(members):
            y = torch.stack([r.y.cpu() for r in few[i]]).argmax(0)  # the class is where the observation is highest
            p = softmax_moments(mean[n, : len(y)], variance[n, : len(y)]).probability.gather(-1, y[:, None])
            found[i] = float(p.clamp_min(1e-300).log().sum().nan_to_num(-1e300))
    return [found[i] for i in range(len(asked))]


def chosen_kernel(data: Sequence[tuple[Any, Any]], options: JointOptions) -> str:
    """kernel="auto", by the first data sets that have as many functions."""

    def with_kernel(kernel: str) -> list[Lanes]:
        own = replace(options, fit=replace(options.fit, kernel=kernel))
        found = [lanes_of(X, y, "data", own) for X, y in data[:MOST_COMPARED]]
        return [some for some in found if some.group == found[0].group]

    group = with_kernel("rbf")[0].group
    return choose(lambda kernel: [r for some in with_kernel(kernel) for r in some.requests], group)


MOST_COMPARED = 8  # data sets by which a kernel is chosen
CLEARLY = 1.0  # nats by which another ε must tell the rows better


def _solved(members: Sequence[int], asked: Sequence[Lanes]) -> dict[int, JointModule]:
    group = asked[members[0]].group
    requests = [r for i in members for r in asked[i].requests]
    with threads.limit_threads(step_cost(requests[0]) * len(requests)):
        lanes, models = retry_on_oom(partial(batch_fit.solve, requests, group))
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
        made = FitValidator(own).check(rows, Y[seen[:, c], c], name)
        requests.append(made._replace(target=Target(names[c], units[c])))
    link = Outputs(tuple(names[c] for c in measured))
    sharing = Sharing.SHAPE if options.fit.learn else Sharing.NOTHING
    return _alike(link, requests, sharing)


def _varying_noise(X: Any, y: Any, name: str, options: JointOptions) -> Lanes:
    if options.fit.noise is not None:
        raise RecycleGPError("noise: with likelihood 'heteroscedastic' it is learned as a function; leave it out")
    request = FitValidator(options.fit).check(X, y, name)
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
            y_c, noise = DirichletCategorical.observations(y_c, options.epsilon)
            if own.weights is not None:
                noise = noise / arrays.row_weights(own.weights, len(noise))
            own = replace(own, likelihood=Gaussian.name, noise=noise, weights=None)
        requests.append(FitValidator(own).check(X, y_c, name)._replace(target=target))
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
