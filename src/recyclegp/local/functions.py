"""A data set as requests for its functions: one, or the several that a likelihood or the columns of y ask for.

What each function sees of y belongs to the likelihood (`rows_of_functions`), so that a new one needs nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..anonymity import check_classes
from ..arrays import Array, Inputs
from ..categories import NO_CATEGORIES
from ..devices import device_of
from ..errors import Argument, Either, FewRowsError, Name, RecycleGPError
from ..likelihoods import (
    FunctionRows,
    Likelihood,
    Outputs,
    SeveralFunctions,
    check_names,
    labels,
    noise_of_cells,
)
from ..record import Privacy
from ..target import Target, described, target_name
from . import folding, held_back, people, placement, secret
from .candidates import is_row
from .constants import PLANNING, PUBLISHED
from .folding import AS_THEY_ARE, Folded
from .options import ALLOW, AUTO, COMPLETED, REFUSE, FitOptions, Noise
from .planning import PEOPLE_OPTION, FitPlan, Shape, plan_fit
from .request import NOISE_OF_ROWS, FitRequest, Method, check_rows_have_noises
from .samples import KnownNoise, known_noise
from .together import ALONE, Group

TWO_CLASSES = Argument("likelihood", "bernoulli")


class FunctionRequests(NamedTuple):
    """One data set: a request for each function of its model, which are solved together."""

    name: str
    likelihood: Likelihood  # of all functions
    targets: tuple[Target, ...]  # what y means, for each function
    requests: tuple[FitRequest, ...]
    group: Group
    alternatives: tuple[FunctionRequests, ...] = ()  # other ways to see y, where the data decide
    varies: bool = False  # is it known that neither y nor any input is the same in all rows?

    @property
    def kind(self) -> tuple[object, ...]:
        """What data sets must have in common to be solved, and kept, side by side."""
        columns = self.requests[0].columns
        return tuple(r.kind for r in self.requests), columns, self.likelihood, self.targets, self.group

    @property
    def numbers(self) -> int:
        """In its inputs."""
        return sum(r.X.numel() for r in self.requests)


class Data(NamedTuple):
    """A data set, checked and folded."""

    inputs: Inputs
    y: Tensor  # (n,), or (n, C) of several outputs
    noise: Noise  # one number, one for each row or cell, or None
    folded: Folded


def requests_for(
    X: Array,
    y: Array,
    name: str,
    options: FitOptions,
    noise: Noise = None,
    weights: Array = None,
    shares: np.ndarray | None = None,
) -> FunctionRequests:
    """Everything a user passes to `fit`, checked."""
    return FitValidator(options).check(X, y, name, noise, weights, shares)


class FitValidator:
    """Checks data sets for which the options are the same; what follows from these is found once for each shape."""

    def __init__(self, options: FitOptions) -> None:
        options.check()
        wanted = options.inference
        if options.likelihoods:
            either = " or ".join(map(repr, options.likelihoods))
            raise RecycleGPError(
                Argument("likelihood", wanted.likelihood),
                f" is chosen by learning; pass {either}",
                Either(" with learn=False", ""),
            )
        self.options = options
        self.device = None if wanted.device is None else device_of(wanted.device)
        self.family = likelihoods.named(wanted.likelihood)
        self.named = isinstance(wanted.kernel, str)
        self.seed = arrays.seed(wanted.seed)
        self.guard = options.level_guard
        if self.named and wanted.kernel == AUTO:
            raise RecycleGPError(
                Argument("kernel", AUTO), " is chosen by learning", Either("; with learn=False pass a kernel", "")
            )
        self.plans: dict[Any, FitPlan] = {}

    def check(
        self,
        X: Array,
        y: Array,
        name: str,
        noise: Noise = None,
        weights: Array = None,
        shares: np.ndarray | None = None,
    ) -> FunctionRequests:
        """One data set, whose noise may be known when that of others is not.

        `shares`, of rows that have been made complete (models/completing.py), says how much of a row each of them is.
        """
        if shares is None and self.options.inference.missing in COMPLETED:
            raise RecycleGPError(
                Argument("missing", self.options.inference.missing), " is for fits; here leave such rows out"
            )
        y, words = self._numbers(y)
        kept = None
        if self.options.inference.hold_back is not None and shares is None:
            kept = ~held_back.is_held_back(X, y, self.options.inference.hold_back)
            X, y, noise, weights = (held_back.take(own, kept) for own in (X, y, noise, weights))
        inputs = self._inputs(X)
        likelihood, targets = self._meaning(y, len(inputs.X), words)
        found = likelihood.targets(y, len(inputs.X), inputs.X.device).detach()
        if isinstance(likelihood, Outputs):
            self._check_cells(found)
        elif self.options.inference.missing == ALLOW:
            raise RecycleGPError(
                Argument("missing", ALLOW), " is for y of shape (n, C); of a single output drop the rows without it"
            )
        given = self._noise_given(noise, likelihood, len(inputs.X), inputs.X.device, kept=kept)
        return self._requests(name, likelihood, targets, _folded(inputs, found, given, weights, shares))

    def check_all(self, data: Sequence[tuple[Any, ...]], names: Sequence[str]) -> list[FunctionRequests] | None:
        """Many data sets at once, where they are plain arrays of one shape with nothing wrong; else None.

        What is wrong, and with which of them, is said by looking at them one by one.
        """
        wanted, naming = self.options.inference, self.options.naming
        together = isinstance(self.family, SeveralFunctions) or self.family.names_classes
        if any(len(one) != len(data[0]) for one in data) or together:
            return None
        X, y, *own = (arrays.side_by_side(some) for some in zip(*data, strict=True))
        refused = (wanted.missing, wanted.classes, naming.positive) != (REFUSE, None, None)
        refused = refused or bool(naming.labels and not self.family.classifies)
        refused = refused or bool(self.guard.named) or wanted.hold_back is not None
        if X is None or y is None or X.ndim != 3 or y.shape != X.shape[:2] or not X.numel() or refused:
            return None
        noises: Sequence[Any] = [wanted.noise] * len(data)
        if own:
            if own[0] is None or wanted.noise is not None:
                return None
            noises = own[0].unbind()
        target, columns = self._described(None), self.options.naming.columns
        named = None if columns is None else arrays.named_columns(columns, X.shape[2])
        try:
            y = self.family.check(y.flatten()).reshape(y.shape)
            entropies: Sequence[Any] = placement.entropies(self.seed, X, y)
            repeat, varies = folding.may_repeat(X, y).tolist(), _vary(X, y).tolist()
            found: list[FunctionRequests] = []
            first: FunctionRequests | None = None  # from which others differ in nothing but their numbers
            for i, (name, X_, y_, noise) in enumerate(zip(names, X.unbind(), y.unbind(), noises, strict=True)):
                if first is not None and not repeat[i]:
                    found.append(_with_numbers(first, name, X_, y_, entropies[i], varies[i]))
                    continue
                inputs = Inputs(X_, named, NO_CATEGORIES)
                noise = self._noise_given(noise, self.family, len(y_), X_.device, checked=True)
                whole = _folded(inputs, y_, noise, None) if repeat[i] else Data(inputs, y_, noise, AS_THEY_ARE)
                entropy = entropies[i] if whole.folded is AS_THEY_ARE else None
                found.append(self._requests(name, self.family, (target,), whole, entropy))
                if not own and self._others_are_alike(found[-1], y_):
                    first = found[-1]
            return found
        except RecycleGPError:
            return None

    def _others_are_alike(self, made: FunctionRequests, y: Tensor) -> bool:
        """Does nothing in it follow from the numbers of its rows, so that others of its shape have it, too?"""
        request, wanted = made.requests[0], self.options.inference
        as_it_is = request.y.data_ptr() == y.data_ptr() and request.y.shape == y.shape
        plain = as_it_is and request.w is None and request.counts is None and not made.alternatives
        noise = request.noise is None or wanted.noise is not None
        return plain and noise and len(made.requests) == 1 and request.privacy is not Privacy.PEOPLE

    # --- what is given ---

    def _inputs(self, X: Array) -> Inputs:
        X, columns, categories = arrays.inputs(X, names=self.options.naming.columns, guard=self.guard)
        points = {"inducing": self.options.inference.inducing, "publish": self.options.publishing.publish}
        for argument, given in points.items():
            categories = arrays.levels_of_points(given, argument, X.shape[1], columns, categories)
        if len(X) == 0:
            raise RecycleGPError("X has no rows; a model needs at least one")
        return Inputs(X.detach(), columns, categories)

    def _numbers(self, y: Array) -> tuple[Array, Target | None]:
        """y as numbers where it is words of which one is class 1, and what these say of it."""
        naming = self.options.naming
        if not self.family.classifies or self.family.names_classes or _has_columns(y):
            if naming.positive is not None:
                raise RecycleGPError(
                    Argument("positive", naming.positive), ": it is for y of two classes, with ", TWO_CLASSES
                )
            if isinstance(y, str):
                raise RecycleGPError(f"y={y!r} is one word; pass the column itself, as X[{y!r}], and X without it")
            if not self.family.classifies and labels.are_words(y):
                raise RecycleGPError(
                    "y holds words; two classes are for ",
                    TWO_CLASSES,
                    ", any number of them for ",
                    Argument("likelihood", "categorical"),
                    ", levels in an order for ",
                    Argument("likelihood", "ordinal"),
                )
            return y, None
        known = described(None, None, None, naming.labels).labels
        found = labels.two_classes(y, known, naming.positive)
        if found is None:
            return y, None
        return found.y, Target(target_name(y), None, found.labels)

    def _meaning(self, y: Array, rows: int, words: Target | None) -> tuple[Likelihood, tuple[Target, ...]]:
        """The likelihood of all functions, and what y means for each of them."""
        family, naming = self.family, self.options.naming
        if _has_columns(y) and not isinstance(family, SeveralFunctions):
            names = _output_names(y, naming.target)
            units = _each(naming.unit, len(names), "unit")
            family.for_data(y, rows, self.options.inference.classes)  # it has none
            return Outputs(tuple(names), (family,) * len(names)), tuple(map(Target, names, units))
        target = self._described(y)
        if words is not None:
            target = Target(target.name or words.name, target.unit, words.labels)
        classes = self.options.inference.classes
        whole = family.for_data(y, rows, classes)
        if (
            whole.names_classes
            and classes is None
            and labels.ordered_levels(y) is None
            and not self.options.publishing.allow_small
        ):
            check_classes(labels.texts(y, rows), self.guard.rows)
        if target.labels is not None and not family.classifies:
            raise RecycleGPError(Name("labels"), f": likelihood {family.name!r} has no classes; leave them out")
        return whole, (target,) * len(whole.functions)

    def _described(self, y: Array) -> Target:
        """What a user says of y; classes with names of their own need none for 0 and 1, and have no unit."""
        naming = self.options.naming
        own_names = self.family.names_classes
        words = (None, None) if own_names else (naming.unit, naming.labels)
        return described(y, naming.target, *words)  # type: ignore[arg-type]

    def _check_cells(self, y: Tensor) -> None:
        absent = int(torch.isnan(y).sum())
        if absent and self.options.inference.missing == REFUSE:
            raise RecycleGPError(
                f"y holds {absent} missing values; pass ",
                Argument("missing", ALLOW),
                " where they mean that an output was not seen in a row, or drop those rows",
            )
        if absent == y.numel():
            raise RecycleGPError("y has no values at all; a model needs at least one")

    def _check_rows(self, rows: int) -> None:
        """Are there so many that a module says more than what each of them was? People need more (`plan_fit`)."""
        wanted = self.options.publishing
        if rows < PUBLISHED.fewest_rows and not wanted.allow_small and wanted.privacy is not Privacy.PEOPLE:
            raise FewRowsError(
                f"{'one row is' if rows == 1 else f'{rows} rows are'} too few for a module, which would say little "
                "but what they were",
                "; fit them together with others, or pass ",
                Argument("allow_small", True),
            )

    def _noise_given(
        self,
        own: Noise,
        likelihood: Likelihood,
        rows: int,
        device: torch.device,
        *,
        checked: bool = False,
        kept: np.ndarray | None = None,
    ) -> Noise:
        """One number, one for each row, one for each cell of several outputs, or None."""
        common = self.options.inference.noise
        if kept is not None:
            common = held_back.take(common, kept)
        if own is not None and common is not None and not checked:
            raise RecycleGPError("noise: it is given for all data sets, and with this one; leave one of them out")
        noise = common if own is None else own
        if noise is None:
            return None
        if isinstance(likelihood, SeveralFunctions) and not isinstance(likelihood, Outputs):
            raise RecycleGPError(
                Name("noise"),
                f": likelihood {likelihood.name!r} has none to give, it follows from its functions; leave it out",
            )
        if not arrays.are_several(noise):
            return noise
        check_rows_have_noises(likelihood.parts[0])
        if isinstance(likelihood, Outputs):
            return noise_of_cells(noise, rows, likelihood.functions).to(device)
        return arrays.variances(noise, rows, device=device)

    # --- requests ---

    def _requests(
        self,
        name: str,
        likelihood: Likelihood,
        targets: tuple[Target, ...],
        data: Data,
        entropy: list[int] | None = None,
    ) -> FunctionRequests:
        """All functions of one data set; where the data decide how they see y, in every way."""
        made = self._in_one_way(name, likelihood, targets, data, None, entropy)
        self._check_rows(data.folded.rows(len(data.inputs.X)))
        choices = likelihood.choices[1:] if self.options.inference.learn else ()
        ways = [made, *(self._in_one_way(name, likelihood, targets, data, c, entropy) for c in choices)]
        fine = [all(map(people.are_alike, own.requests)) for own in ways]
        if not any(fine):
            people.check_alike(min(made.requests, key=people.alike))
        usual = ways[fine.index(True)]  # of people the first in which no few rows count far more than others
        others = tuple(own if good else usual for own, good in zip(ways[1:], fine[1:], strict=True))
        return usual._replace(alternatives=others)

    def _in_one_way(
        self,
        name: str,
        likelihood: Likelihood,
        targets: tuple[Target, ...],
        data: Data,
        choice: float | None,
        entropy: list[int] | None,
    ) -> FunctionRequests:
        each = likelihood.rows_of_functions(data.y, choice)
        measured = [c for c, own in enumerate(each) if own.y.numel()]
        if isinstance(likelihood, Outputs) and len(measured) < len(each):  # an output that nobody saw is not there
            likelihood, targets = likelihood.only(measured), tuple(targets[c] for c in measured)
        most = max(own.y.numel() for own in each)
        requests = [self._request(name, data, c, each[c], most, entropy) for c in measured]
        first = requests[0]
        if len(requests) > 1 and all(torch.equal(first.X, r.X) for r in requests):
            # functions of the same rows have the same inputs and random numbers, so that they get the same points
            requests = [r._replace(X=first.X, entropy=first.entropy) for r in requests]
        group = Group(len(requests), likelihood.sharing) if len(requests) > 1 else ALONE
        return FunctionRequests(name, likelihood, targets, tuple(requests), group)

    def _request(
        self, name: str, data: Data, c: int, own: FunctionRows, most: int, entropy: list[int] | None
    ) -> FitRequest:
        """One function, which may not be seen in all rows."""
        X, columns, categories = data.inputs
        X, folded = X if own.seen is None else X[own.seen], data.folded.only(own.seen)
        device = X.device if self.device is None else self.device
        shape = Shape(len(X), X.shape[1], folded.rows(len(X)), columns, categories, device)
        plan = self._plan(own.likelihood, shape, most)
        begin = placement.entropy(self.seed, X, own.y) if entropy is None else entropy
        if self.options.publishing.privacy is Privacy.PEOPLE:
            _check_points(plan, X)
            begin = secret.mixed(begin)
        noise = _noise_of_rows(own, data.noise, c)
        known = None if not isinstance(noise, Tensor) else _known(noise, folded.counts, plan.method)
        w = None if folded.counts is None else folded.counts.sqrt()
        request = FitRequest(
            name=name,
            X=X,
            y=own.y,
            columns=columns,
            categories=categories,
            likelihood=own.likelihood,
            kernel=plan.kernel,
            named=self.named,
            method=plan.method,
            inducing=plan.inducing,
            publish=plan.publish,
            noise=self._noise(noise, own.likelihood, plan, X) if known is None else known.mean,
            w=w if known is None else known.w,
            learn=self.options.inference.learn,
            entropy=begin,
            device=device,
            rows=shape.rows,
            counts=folded.counts,
            privacy=self.options.publishing.privacy,
            held_back=self.options.inference.hold_back,
            heaviest=folded.heaviest,
        )
        return request

    def _plan(self, likelihood: Likelihood, shape: Shape, most: int) -> FitPlan:
        key = (likelihood, shape, most)
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = plan_fit(self.options, likelihood, shape, most)
        return plan

    def _noise(self, given: Noise, likelihood: Likelihood, plan: FitPlan, X: Tensor) -> float | None:
        """One for all rows, where it is known."""
        if given is not None:
            if not likelihood.has_units:
                raise RecycleGPError(
                    Argument("noise", given), f": likelihood {likelihood.name!r} has no noise; leave it out"
                )
            return arrays.number(given, "noise", positive=True)
        if self.options.inference.learn or self.named or not likelihood.has_units:
            return None
        # A plan must not depend on anybody's data: the default noise comes from the kernel alone.
        where = plan.inducing if isinstance(plan.inducing, Tensor) else X.to(plan.kernel.theta.device)
        return PLANNING.noise * float(plan.kernel.diagonal(where).mean())


def _with_numbers(
    of: FunctionRequests, name: str, X: Tensor, y: Tensor, entropy: list[int], varies: bool
) -> FunctionRequests:
    """The same of other rows."""
    request = of.requests[0]._replace(name=name, X=X, y=y, entropy=entropy)
    return of._replace(name=name, requests=(request,), varies=varies)


def _vary(X: Tensor, y: Tensor) -> Tensor:
    """(B,) bool  of data sets side by side: is nothing the same in all of their rows?"""
    return (X[:, :1] != X).any(1).all(-1) & (y != y[:, :1]).any(1)


def _check_points(plan: FitPlan, X: Tensor) -> None:
    """Points that are given may not be people's."""
    for argument, given in (("inducing", plan.inducing), ("publish", plan.publish)):
        if isinstance(given, Tensor) and (rows := int(is_row(given.to(X), X).sum())):
            raise RecycleGPError(
                PEOPLE_OPTION, f": {rows} of the {len(given)} points in {argument} are rows; give points that are not"
            )


def _folded(inputs: Inputs, y: Tensor, noise: Noise, weights: Array, shares: np.ndarray | None = None) -> Data:
    """Rows that are equal in everything as one that counts as often."""
    w = None if weights is None else arrays.row_weights(weights, len(y), device=inputs.X.device)
    own = [noise] if isinstance(noise, Tensor) else []
    folded = folding.fold([inputs.X, y, *own], w, shares if w is not None else None)
    if folded is AS_THEY_ARE:
        return Data(inputs, y, noise, folded)
    few = inputs._replace(X=folded.take(inputs.X))
    return Data(few, folded.take(y), folded.take(noise) if isinstance(noise, Tensor) else noise, folded)


def _known(noise: Tensor, counts: Tensor | None, method: Method) -> KnownNoise:
    """Where it is known row by row."""
    if method is Method.DUAL:
        raise RecycleGPError(
            NOISE_OF_ROWS,
            ": ",
            Argument("method", Method.DUAL.value),
            " has one for all rows; with one per row use 'exact' or 'collapsed'",
        )
    return known_noise(noise, counts)


def _noise_of_rows(own: FunctionRows, given: Noise, c: int) -> Noise:
    """Of one function in the rows in which it is seen; one number, or nothing, as it is."""
    if own.noise is not None:
        return own.noise
    if not isinstance(given, Tensor):
        return given
    noise = given if given.ndim == 1 else given[:, c]
    return arrays.variances(noise if own.seen is None else noise[own.seen], len(own.y), device=own.y.device)


# --- several outputs --------------------------------------------------------------------------


def _has_columns(y: Any) -> bool:
    """Are there several targets in each row?"""
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, (list, tuple)):
        shape = np.shape(y[:1]) if len(y) and not isinstance(y[0], str) else ()
    return shape is not None and len(shape) == 2 and shape[1] > 1


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
