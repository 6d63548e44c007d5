"""The validator of fit: what a user asks for, and the same checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays, likelihoods
from ..categories import NO_CATEGORIES, Categories, called
from ..devices import device_of
from ..errors import RecycleGPError
from ..kernels import Kernel, knows_its_level, numeric_columns, parse
from ..kernels.gpytorch_objects import from_gpytorch
from ..likelihoods import Likelihood
from ..target import Target, described
from . import placement
from .samples import KnownNoise, Sample, known_noise


class Method(Enum):
    EXACT = "exact"
    COLLAPSED = "collapsed"
    DUAL = "dual"


EXACT_ROWS = 3000  # "auto" is exact up to here
INDUCING = {Method.EXACT: 0, Method.COLLAPSED: 512, Method.DUAL: 200}  # points, unless the caller says otherwise
FEW_INDUCING = (16, 32, 64, 128)  # automatic points, where rows are few
KEPT = 0.95  # of what the rows say about f, that automatic points keep if they can
MOST_PUBLISHED = 512  # automatic points
FEW_ROWS_EACH = 2  # rows behind each automatic point, at least
FEWEST = 64  # points that may be asked for, however few rows there are
DEFAULT_NOISE = 0.1  # of the kernel's variance, where a plan does not say


class Share(NamedTuple):
    """As many points as keep so much of what the rows say about f, if no more than `most` do."""

    kept: float
    most: int


Publish = int | Tensor | Share | None  # None: at the inducing points


@dataclass(frozen=True)
class FitOptions:
    """The arguments of `fit`, as they were given: the same for every data set of `fit_many`."""

    likelihood: str = "gaussian"
    kernel: Any = "rbf"  # a name, or a GPyTorch kernel
    method: str = "auto"
    inducing: Any = None
    publish: Any = "auto"
    learn: bool = True
    noise: Any = None  # a variance, or one for each row
    seed: int = 0
    device: Any = None
    columns: Any = None  # names for the columns of an array
    target: str | None = None  # what y is called,
    unit: str | None = None  # its unit,
    labels: Any = None  # and the names of classes 0 and 1
    rows_per_point: int | None = None  # rows behind each published point, at least
    weights: Any = None  # of each row of one data set
    allow_small: bool = False  # nobody needs to be told of few rows


class FitRequest(NamedTuple):
    """A checked request for one module: tensors in the user's units."""

    name: str
    X: Tensor
    y: Tensor
    columns: arrays.Columns
    categories: Categories
    target: Target
    likelihood: Likelihood
    kernel: Kernel
    named: bool  # is the kernel a structure by name, without values of its own?
    method: Method
    inducing: int | Tensor
    publish: Publish
    noise: float | None  # to be kept: that of all rows, or their mean
    w: Tensor | None  # where rows have noises or weights of their own, as in Samples
    learn: bool
    entropy: list[int]  # where its random numbers begin
    device: torch.device  # where to compute; X and y are where the user had them until then

    @property
    def sample(self) -> Sample:
        return Sample(self.X, self.y, self.w)

    def with_sample(self, data: Sample) -> FitRequest:
        return self._replace(X=data.X, y=data.y, w=data.w)

    @property
    def learns_noise(self) -> bool:
        """Do its rows say what their noise is?"""
        return self.learn and self.noise is None and self.likelihood.conjugate

    @property
    def kind(self) -> tuple[object, ...]:
        """What models of one batch must have in common; their sizes within a quarter of each other."""
        points = len(self.inducing) if isinstance(self.inducing, Tensor) else self.inducing
        n = self.y.numel()
        size = 0 if n < 8 else int(math.log(n) / math.log(1.25))
        known = self.noise is not None
        return self.method, self.kernel.structure, self.X.shape[1], points, self.device, known, size


def check(X: Any, y: Any, name: str, options: FitOptions) -> FitRequest:
    """Everything a user passes to `fit`, once."""
    return FitValidator(options).check(X, y, name)


class _Plan(NamedTuple):
    """What follows from the options for data of one shape."""

    kernel: Kernel
    method: Method
    inducing: int | Tensor
    publish: Publish


class FitValidator:
    """Checks data sets for which the options are the same; what follows from these is found once for each shape."""

    def __init__(self, options: FitOptions) -> None:
        for argument in ("learn", "allow_small"):
            if not isinstance(getattr(options, argument), bool):
                raise TypeError(f"{argument} must be True or False, not {getattr(options, argument)!r}")
        self.options = options
        self.device = None if options.device is None else device_of(options.device)
        self.likelihood = likelihoods.named(options.likelihood)
        self.named = isinstance(options.kernel, str)
        self.seed = arrays.seed(options.seed)
        if self.named and options.kernel == "auto":
            raise RecycleGPError("kernel='auto' is chosen by learning; with learn=False pass a kernel")
        self.plans: dict[Any, _Plan] = {}

    def check(self, X: Any, y: Any, name: str, noise: Any = None) -> FitRequest:
        """One data set, whose noise may be known when that of others is not."""
        options, likelihood = self.options, self.likelihood
        target = described(y, options.target, options.unit, options.labels)
        X, columns, categories = arrays.inputs(X)
        X = X.detach()
        if options.columns is not None:
            columns = arrays.named_columns(options.columns, X.shape[1])
        for points, argument in ((options.inducing, "inducing"), (options.publish, "publish")):
            categories = arrays.levels_of_points(points, argument, X.shape[1], columns, categories)
        if len(X) == 0:
            raise RecycleGPError("X has no rows; a model needs at least one")
        if target.labels is not None and not likelihood.classifies:
            raise RecycleGPError(f"labels: likelihood {likelihood.name!r} has no classes; leave them out")
        y = likelihood.check(arrays.targets(y, len(X), device=X.device).detach())
        if noise is not None and options.noise is not None:
            raise RecycleGPError("noise: it is given for all data sets, and with this one; leave one of them out")
        given = options.noise if noise is None else noise
        return self._request(name, X, y, columns, categories, target, placement.entropy(self.seed, X, y), given)

    def check_all(self, data: Sequence[tuple[Any, ...]], names: Sequence[str]) -> list[FitRequest] | None:
        """Many data sets at once, where they are plain arrays of one shape with nothing wrong; else None.

        What is wrong, and with which of them, is said by looking at them one by one.
        """
        if any(len(one) != len(data[0]) for one in data):
            return None
        X, y, *own = (arrays.side_by_side(some) for some in zip(*data, strict=True))
        labelled = self.options.labels is not None and not self.likelihood.classifies
        assert self.options.weights is None  # rows of many data sets have none
        if X is None or y is None or X.ndim != 3 or y.shape != X.shape[:2] or not X.numel() or labelled:
            return None
        noises: Sequence[Any] = [self.options.noise] * len(data)
        if own:
            if own[0] is None or self.options.noise is not None:
                return None
            noises = own[0].unbind()
        try:
            y = self.likelihood.check(y.flatten()).reshape(y.shape)
        except RecycleGPError:
            return None
        target = described(None, self.options.target, self.options.unit, self.options.labels)
        given = self.options.columns
        columns = None if given is None else arrays.named_columns(given, X.shape[2])
        found = zip(names, X.unbind(), y.unbind(), placement.entropies(self.seed, X, y), noises, strict=True)
        try:
            return [
                self._request(name, X_, y_, columns, NO_CATEGORIES, target, entropy, noise)
                for name, X_, y_, entropy, noise in found
            ]
        except RecycleGPError:
            return None

    def _request(
        self,
        name: str,
        X: Tensor,
        y: Tensor,
        columns: arrays.Columns,
        categories: Categories,
        target: Target,
        entropy: list[int],
        noise: Any,
    ) -> FitRequest:
        device = X.device if self.device is None else self.device
        key = (X.shape, columns, categories, device)
        plan = self.plans.get(key)
        if plan is None:
            plan = self.plans[key] = self._plan(X.shape, columns, categories, device)
        known = _of_each_row(noise, self.likelihood, plan.method, X)
        weights = self.options.weights
        w = None if known is None else known.w
        if weights is not None:
            w = _roots_of_weights(weights, known, self.likelihood, plan.method, X)
        return FitRequest(
            name=name,
            X=X,
            y=y,
            columns=columns,
            categories=categories,
            target=target,
            likelihood=self.likelihood,
            kernel=plan.kernel,
            named=self.named,
            method=plan.method,
            inducing=plan.inducing,
            publish=plan.publish,
            noise=self._noise(noise, plan, X) if known is None else known.mean,
            w=w,
            learn=self.options.learn,
            entropy=entropy,
            device=device,
        )

    def _noise(self, given: Any, plan: _Plan, X: Tensor) -> float | None:
        """One for all rows, where it is known."""
        if given is not None:
            if not self.likelihood.has_units:
                raise RecycleGPError(f"noise={given}: likelihood {self.likelihood.name!r} has no noise; leave it out")
            return arrays.number(given, "noise", positive=True)
        if self.options.learn or self.named or not self.likelihood.has_units:
            return None
        # A plan must not depend on anybody's data: the default noise comes from the kernel alone.
        where = plan.inducing if isinstance(plan.inducing, Tensor) else X.to(plan.kernel.theta.device)
        return DEFAULT_NOISE * float(plan.kernel.diagonal(where).mean())

    def _plan(self, shape: torch.Size, columns: arrays.Columns, categories: Categories, device: torch.device) -> _Plan:
        options, (n, D) = self.options, shape
        _check_rows_per_point(options.rows_per_point, n)
        method = _method(options, self.likelihood, n)
        if method is Method.EXACT and options.inducing is not None:
            raise RecycleGPError(
                "inducing: the exact method has no inducing points; use publish, or method='collapsed'"
            )
        points: int | Tensor = _enough_inducing(INDUCING[method], n)
        if options.inducing is not None:
            given = arrays.count_or_points(options.inducing, "inducing", D, columns, device, categories)
            points = _useful(given, n)
        kernel = (
            _by_name(options.kernel, D, categories) if self.named else _given(options.kernel, D, categories, columns)
        )
        publish = _publish(options, method, points, shape, columns, categories, device)
        return _Plan(kernel.to(device), method, points, publish)


def _given(kernel: Any, dimension: int, categories: Categories, columns: arrays.Columns) -> Kernel:
    """A kernel object, if it takes levels for levels and numbers for numbers."""
    found = from_gpytorch(kernel, dimension)
    wrong = sorted(set(categories.columns) & numeric_columns(found.structure, dimension))
    if wrong:
        numbers = tuple(c for c in range(dimension) if c not in categories.columns)
        raise RecycleGPError(
            f"kernel: a part of it takes {called(wrong[0], columns)} for numbers, which holds categories; give that "
            f"part active_dims={numbers}, with CategoryKernel(active_dims={categories.columns}) beside it, or pass a "
            "name, as 'rbf * category'"
        )
    return found


def _by_name(name: str, dimension: int, categories: Categories) -> Kernel:
    kernel = parse(name, dimension, categories.columns)
    if knows_its_level(kernel.structure):
        # The level of a line is as uncertain as its slope; without this, merged lines would cross where they must.
        kernel = parse(f"({name}) + constant", dimension, categories.columns)
    return kernel


def _method(options: FitOptions, likelihood: Likelihood, rows: int) -> Method:
    if options.method == "auto":
        if not likelihood.conjugate:
            return Method.DUAL
        return Method.EXACT if rows <= EXACT_ROWS and options.inducing is None else Method.COLLAPSED
    try:
        method = Method(options.method)
    except ValueError:
        raise RecycleGPError(f"method={options.method!r} is not known; use auto, exact, collapsed or dual") from None
    if method is not Method.DUAL and not likelihood.conjugate:
        raise RecycleGPError(
            f"method={method.value!r} needs a gaussian likelihood, not {likelihood.name!r}; use method='dual'"
        )
    return method


def share(publish: Any, rows: int, rows_per_point: int | None = None) -> Share | None:
    """publish="auto", or the share that points shall keep as a number between 0 and 1; None for anything else."""
    most = min(MOST_PUBLISHED, max(1, rows // max(FEW_ROWS_EACH, rows_per_point or 1)))
    if isinstance(publish, str) and publish == "auto":
        return Share(KEPT, most)
    if isinstance(publish, float) and 0 < publish < 1:
        return Share(publish, most)
    return None


def _publish(
    options: FitOptions,
    method: Method,
    points: int | Tensor,
    shape: torch.Size,
    columns: arrays.Columns,
    categories: Categories,
    device: torch.device,
) -> Publish:
    """How many points, which, or None for the inducing points themselves; no more of them than rows allow."""
    wanted = _asked_for(options.publish, options.rows_per_point, method, points, shape, columns, categories, device)
    if options.rows_per_point is None or isinstance(wanted, Share):
        return wanted
    most = shape[0] // options.rows_per_point
    chosen = points if wanted is None else wanted
    if isinstance(chosen, int):
        return min(chosen, most)
    if len(chosen) > most:
        raise RecycleGPError(
            f"rows_per_point={options.rows_per_point}: {shape[0]} rows may have {most} points, and {len(chosen)} were "
            f"given as {'inducing' if wanted is None else 'publish'}; give fewer of them, or publish= a number"
        )
    return wanted


def _asked_for(
    publish: Any,
    rows_per_point: int | None,
    method: Method,
    points: int | Tensor,
    shape: torch.Size,
    columns: arrays.Columns,
    categories: Categories,
    device: torch.device,
) -> Publish:
    """What `publish` says, taken alone."""
    if isinstance(publish, str) and publish == "auto" and isinstance(points, Tensor):
        return None
    wanted = share(publish, shape[0], rows_per_point)
    if wanted is not None:
        return wanted
    if publish is not None:
        found = arrays.count_or_points(publish, "publish", shape[1], columns, device, categories)
        return _useful(found, shape[0])
    if method is Method.EXACT:
        raise RecycleGPError(
            "publish=None: an exact model has no inducing points to publish at; pass a number or points "
            "(its own rows are never shared unless you pass them)"
        )
    return None


def _check_rows_per_point(wanted: Any, rows: int) -> None:
    if wanted is None:
        return
    if isinstance(wanted, bool) or not isinstance(wanted, (int, np.integer)) or wanted < 1:
        raise RecycleGPError(f"rows_per_point={wanted!r}; pass a whole number of rows, at least 1, or None")
    if wanted > rows:
        raise RecycleGPError(
            f"rows_per_point={wanted}: {rows} rows are too few for a single point; publish them together with other "
            "rows, or pass a smaller number"
        )


def _enough_inducing(usual: int, rows: int) -> int:
    """More than twice the rows say nothing new; one of a few numbers, so that similar data sets have as many."""
    return next((few for few in FEW_INDUCING if 2 * rows <= few < usual), usual)


def _useful(points: int | Tensor, rows: int) -> int | Tensor:
    """Of automatic points no more than twice the rows say anything new."""
    return min(points, max(FEWEST, 2 * rows)) if isinstance(points, int) else points


def _of_each_row(noise: Any, likelihood: Likelihood, method: Method, X: Tensor) -> KnownNoise | None:
    """Where it is known row by row."""
    if not arrays.are_several(noise):
        return None
    check_rows_have_noises(likelihood)
    if method is Method.DUAL:
        raise RecycleGPError("noise: method='dual' has one for all rows; with one per row use 'exact' or 'collapsed'")
    return known_noise(arrays.variances(noise, len(X), device=X.device))


def _roots_of_weights(
    weights: Any, known: KnownNoise | None, likelihood: Likelihood, method: Method, X: Tensor
) -> Tensor:
    """√w: a row of noise σ²/w, or of likelihood p(y|f)^w."""
    if known is not None:
        raise RecycleGPError("weights: every row has a noise of its own already; divide the noises by the weights")
    if likelihood.conjugate and method is Method.DUAL:
        raise RecycleGPError("weights: with likelihood 'gaussian' use method 'exact' or 'collapsed', not 'dual'")
    return arrays.row_weights(weights, len(X), device=X.device).sqrt()


def check_rows_have_noises(likelihood: Likelihood) -> None:
    """Can each row have a noise of its own?"""
    if not likelihood.has_units:
        raise RecycleGPError(f"noise: likelihood {likelihood.name!r} has none; leave it out")
    if not likelihood.conjugate:
        raise RecycleGPError(
            f"noise: one value per row is for likelihood 'gaussian'; {likelihood.name!r} has one for all rows: pass a "
            "number, or leave it out to learn it"
        )
