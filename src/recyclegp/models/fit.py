"""Data → Module: exact, collapsed or dual inference, then published at a few points."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import gpytorch
import numpy as np
import torch

from .. import arrays, threads
from ..categories import union_of
from ..devices import memory_factor, retry_on_oom
from ..errors import FewRowsWarning, LittleKeptWarning, RecycleGPError, RecycleGPWarning
from ..local import batch_fit
from ..local.batch_fit import step_cost
from ..local.fitted import Fitted
from ..local.kernel_choice import AUTO, SETS_COMPARED, SMOOTHNESS, choose
from ..local.request import FitOptions, FitRequest, FitValidator, check
from ..times import when
from .blocks import Piece, of_requests
from .joint.fitting import JointOptions, check_alone, chosen_kernel, fit_jointly, is_joint
from .joint.module import JointModule
from .module import Module
from .modules import Modules, of_pieces
from .naming import check_owner, name_or_new
from .progress import bar

FEW_ROWS = 10  # below which a module says much about each of its rows
LITTLE_KEPT = 0.8  # of what the rows say, below which somebody should know
LANES, MOST_LANES = 1024, 64  # models solved as one batched problem, and so many times as many on a GPU
WINDOW = 2**23  # numbers in the inputs of models that are read before any is fitted


class FitManyError(RecycleGPError):
    """Some of many models failed. The others are not lost: they are its `modules`."""

    def __init__(self, message: str, modules: Modules, failures: dict[str, str]) -> None:
        super().__init__(message)
        self.modules = modules
        self.failures = failures  # name → why

    def __reduce__(self) -> tuple[Any, ...]:
        return FitManyError, (str(self), self.modules, self.failures)


def fit(
    X: Any,
    y: Any,
    *,
    likelihood: str = "gaussian",
    kernel: str | gpytorch.kernels.Kernel = "rbf",
    method: str = "auto",
    inducing: Any = None,
    publish: Any = "auto",
    rows_per_point: int | None = None,
    learn: bool = True,
    noise: Any = None,
    name: str | None = None,
    seed: int = 0,
    device: Any = None,
    columns: Sequence[str] | None = None,
    target: str | None = None,
    unit: str | None = None,
    labels: Sequence[str | None] | None = None,
    owner: str | None = None,
    time: Any = None,
    missing: str = "refuse",
    classes: Sequence[Any] | None = None,
    weights: Any = None,
    allow_small: bool = False,
) -> Module:
    """Fit one local model and return what may be shared of it: no data rows.

    Args:
        X: (n, D) inputs: array, tensor or DataFrame. Columns of text, categoricals and truth values are categories,
            whose levels are known by name.
        y: n targets; or (n, C) of them, for C outputs with one kernel and own means, scales and noises; or n classes.
        likelihood: "gaussian", "bernoulli" (logistic), "bernoulli-probit", "poisson", "student-t"; "categorical" (any
            number of classes, which may be text, by a regression for each) or "categorical-softmax" (by their softmax,
            slower);
            "heteroscedastic" (Gaussian, with a noise that is a function of the inputs, too).
        kernel: a name ("rbf", "matern52 + linear", …), a GPyTorch kernel in your units, or "auto": rbf, matern52 or
            matern32, with a linear part where that is better, by the evidence of some of the rows. "category" sees the
            columns of categories and the others those of numbers; a name without it is multiplied by it.
        method: "exact" (Gaussian; automatic up to 3,000 rows), "collapsed" (Gaussian, inducing points, streamed),
            "dual" (any likelihood), or "auto".
        inducing: number of points, or points, for collapsed and dual.
        publish: where the posterior is published: "auto" (as many points as keep 95% of what the rows say about f, at
            most 512 and at most half as many as rows; `inducing`, where that gives points), a number of points, the
            share to keep (as 0.9), the points themselves, or None to keep `inducing`.
        rows_per_point: rows that share each published point, at least: never more points than rows // this number,
            whatever `publish` asks for. The more rows share a point, the less it says about any one of them.
        learn: False takes the kernel as given, with prior mean zero for a kernel object.
        noise: noise variance, kept fixed; None learns it (with learn=False: a tenth of the kernel's variance). An array
            of n holds one for each row: the squares of known measurement errors (gaussian; exact and collapsed); of C
            outputs also (n, C), one for each cell. The module's own noise, which `predict_y` adds, is then their
            mean: what a new measurement has on average.
        name: unique within an ensemble; made up when not given.
        seed: of everything random; the global random state is neither read nor changed.
        device: where to compute; defaults to where X is.
        columns: names for the columns of X, where it is an array; modules with names are aligned by them.
        target: what y is called; by default the name of a pandas Series.
        unit: what y is measured in.
        labels: what classes 0 and 1 are called. Modules that contradict each other in these are not merged.
        owner: whose rows they are, where somebody sends several modules; the module's name unless given.
        time: when the rows were observed, for `merge(half_life=...)`: a number in any unit, or a date as "2026-03-01".
        missing: "refuse", or "allow" where NaN in y (n, C) means that an output was not seen in a row.
        classes: of "categorical", all that a row could have had. Without it they are those that y has: an owner who
            has not met a class says nothing about it. Named here and not met, a class is one that does not occur.
        weights: what each row counts, n positive numbers. Gaussian: a row of weight w has the noise variance σ²/w,
            where σ² (learned, or `noise`) is that of a row of weight one; weights should therefore be about one.
            Other likelihoods: p(y|f)^w, as if the row were there w times.
        allow_small: say nothing where there are fewer than 10 rows, about each of which a module says much.

    Returns:
        The module; of several outputs, of classes and of varying noise a `JointModule`.
    """
    check_owner(owner)
    at = None if time is None else when(time)
    options = FitOptions(
        likelihood=likelihood,
        kernel=kernel,
        method=method,
        inducing=inducing,
        publish=publish,
        learn=learn,
        noise=noise,
        seed=seed,
        device=device,
        columns=columns,
        target=target,
        unit=unit,
        labels=labels,
        rows_per_point=rows_per_point,
        weights=weights,
        allow_small=allow_small,
    )
    label = name_or_new(name)
    if is_joint(y, likelihood):
        joint = _fit_jointly([(X, y)], [label], JointOptions(options, missing, classes))[0]
        tell_of_published([Published.of(part) for part in joint.parts], options)
        joint = joint if owner is None else joint.owned_by(owner)
        # Declared as one function, which nearly every call asks for: with a union everybody would have to narrow it.
        return cast(Module, joint if at is None else joint.at_time(at))
    check_alone(missing, classes)
    if automatic(options):
        options = replace(options, kernel=choose(lambda kernel: [check(X, y, label, replace(options, kernel=kernel))]))
    request = check(X, y, label, options)
    with threads.limit_threads(step_cost(request)):
        module = of_requests([request], _one(request), [owner]).module(0)
    tell_of_published([Published.of(module)], options)
    return module if at is None else replace(module, time=at)


def _fit_jointly(data: Sequence[tuple[Any, Any]], names: Sequence[str], options: JointOptions) -> list[JointModule]:
    if automatic(options.fit):
        options = replace(options, fit=replace(options.fit, kernel=chosen_kernel(data, options)))
    return fit_jointly(data, names, options)


class Published(NamedTuple):
    """What a module has become of its rows."""

    name: str
    rows: int
    points: int
    dimension: int
    kept: float | None

    @staticmethod
    def of(m: Module) -> Published:
        return Published(m.name, m.rows, len(m.inducing), m.dimension, m.kept)

    @staticmethod
    def of_all(modules: Modules) -> Iterator[Published]:
        """Of many, of which no objects are made."""
        for block, _ in modules._pieces():
            columns = (block.rows.tolist(), block.models.sites.points.tolist(), block.models.kept.tolist())
            for name, rows, points, kept in zip(block.names, *columns, strict=True):
                yield Published(name, rows, points, block.common.dimension, kept)

    def bytes(self, points: int) -> int:
        """Of the numbers in its site, if it had so many points."""
        return 8 * (points * (self.dimension + points + 1) + 1)


def tell_of_published(modules: Sequence[Published], options: FitOptions) -> None:
    """Warn of modules that say too much about single rows, or too little about all of them: once of each."""
    if not options.allow_small:
        _tell_of_few_rows(modules)
    _tell_of_little_kept(modules, options.rows_per_point)


def _tell_of_few_rows(modules: Sequence[Published]) -> None:
    small = [m for m in modules if m.rows < FEW_ROWS]
    if not small:
        return
    fewest = min(small, key=lambda m: m.rows)
    others = f", and {len(small) - 1} others of {len(modules)} fewer than {FEW_ROWS}" if len(small) > 1 else ""
    warnings.warn(
        f"{fewest.name} has {fewest.rows} row{'s' * (fewest.rows != 1)}{others}: a module of fewer than {FEW_ROWS} "
        "says much about each of them; collect more before you publish it, or pass allow_small=True",
        FewRowsWarning,
        stacklevel=4,
    )


def _tell_of_little_kept(modules: Sequence[Published], rows_per_point: int | None) -> None:
    """With what more points would cost."""
    poor = [m for m in modules if m.kept is not None and m.kept < LITTLE_KEPT]
    if not poor:
        return
    worst = min(poor, key=lambda m: m.kept or 0.0)
    now = worst.points
    more = f"{2 * now} points would take {worst.bytes(2 * now):,} bytes instead of {worst.bytes(now):,}"
    others = f", and {len(poor) - 1} others of {len(modules)} less than {LITTLE_KEPT:.0%}" if len(poor) > 1 else ""
    remedy = f"publish={2 * now}" if rows_per_point is None else f"a smaller rows_per_point than {rows_per_point}"
    warnings.warn(
        f"{worst.name} keeps {worst.kept:.0%} of what its {worst.rows} rows say about f at {now} points{others}; "
        f"{more} ({remedy})",
        LittleKeptWarning,
        stacklevel=4,
    )


def _one(request: FitRequest) -> Fitted:
    """One model, alone."""
    made = retry_on_oom(partial(batch_fit.solve, [request])).models
    if made is None:
        raise RecycleGPError(
            f"module {request.name!r}: no hyperparameters were found at which its posterior is finite; check y for "
            "extreme values, or pass a kernel with learn=False"
        )
    return made


def fit_many(
    data: Iterable[tuple[Any, ...]],
    *,
    names: Sequence[str] | None = None,
    likelihood: str = "gaussian",
    kernel: str | gpytorch.kernels.Kernel = "rbf",
    method: str = "auto",
    inducing: Any = None,
    publish: Any = "auto",
    rows_per_point: int | None = None,
    learn: bool = True,
    noise: float | None = None,
    seed: int = 0,
    device: Any = None,
    columns: Sequence[str] | None = None,
    target: str | None = None,
    unit: str | None = None,
    labels: Sequence[str | None] | None = None,
    owners: Sequence[str] | None = None,
    on_failure: str = "raise",
    progress: bool | None = None,
    missing: str = "refuse",
    classes: Sequence[Any] | None = None,
    allow_small: bool = False,
) -> Modules:
    """`fit` for each (X, y), in order: the same answers, from a few batched problems instead of many small ones.

    Args:
        data: (X, y) pairs, or any iterator of them, which is read as it is needed. Where noise variances are known,
            (X, y, noise) with one number, or one for each row, as for `fit`.
        names: one for each.
        likelihood: as for `fit`, the same for all.
        kernel: as for `fit`, the same for all; "auto" chooses one for all data sets together.
        method: as for `fit`, the same for all.
        inducing: as for `fit`, the same for all.
        publish: as for `fit`, the same for all.
        rows_per_point: as for `fit`, the same for all.
        learn: as for `fit`, the same for all.
        noise: one noise variance for all rows of all; those of single rows belong to `data`.
        seed: as for `fit`, the same for all.
        device: as for `fit`, the same for all.
        columns: as for `fit`, the same for all.
        target: as for `fit`, the same for all.
        unit: as for `fit`, the same for all.
        labels: as for `fit`, the same for all.
        owners: whose rows they are, one for each; needs `names`.
        on_failure: a model that fails beside others is tried again alone. If it fails again: "raise", naming it, once
            all are done (the error's `modules` are those that succeeded), or "skip", which leaves it out with a
            warning.
        progress: a bar on standard error; by default only where somebody may be looking.
        missing: as for `fit`, the same for all.
        classes: as for `fit`, the same for all.
        allow_small: as for `fit`, the same for all; one warning names those of too few rows.

    Returns:
        One module for each data set: a sequence like a list, which is kept as columns. It slices, `save` writes all
        of it to one file, `load_many` reads that, and `merge` takes either. Of several functions a list of joint
        modules, each of which is saved by itself.
    """
    check_on_failure(on_failure)
    whose = _owners(names, owners)
    total = len(data) if isinstance(data, Sized) else None
    if names is not None and total is not None and len(names) != total:
        raise RecycleGPError(f"names has {len(names)} entries for {total} data sets; give one each")
    check_unique(names)
    if arrays.are_several(noise):
        raise RecycleGPError(
            "noise: pass one number for all; noises of data sets or rows go with them, as data=[(X, y, noise), …]"
        )
    options = FitOptions(
        likelihood=likelihood,
        kernel=kernel,
        method=method,
        inducing=inducing,
        publish=publish,
        learn=learn,
        noise=noise,
        seed=seed,
        device=device,
        columns=columns,
        target=target,
        unit=unit,
        labels=labels,
        rows_per_point=rows_per_point,
        allow_small=allow_small,
    )
    first, data = _peeked(data)
    if first is not None and is_joint(first, likelihood):
        return cast(
            Modules, _fit_many_jointly(list(_named(data, names)), JointOptions(options, missing, classes), whose)
        )
    check_alone(missing, classes)
    if automatic(options):
        data = list(data)
        options = replace(options, kernel=chosen_together(data, options))
        total = len(data)
    with bar("fitting", total, progress) as advance:
        modules, failures = fit_data_sets(data, names, options, advance, owners=whose)
    if failures and on_failure == "raise":
        said = f"{what_failed(failures)}; on_failure='skip' leaves them out, and this error's modules are the others"
        raise FitManyError(said, modules, failures)
    tell_of_failures(failures)
    tell_of_published(list(Published.of_all(modules)), options)
    return modules


def _peeked(data: Iterable[Any]) -> tuple[Any, Iterable[Any]]:
    """The targets of the first data set, and all data sets."""
    if isinstance(data, Sequence):
        first = data[0] if len(data) else None
    else:
        read = iter(data)
        first = next(read, None)
        data = data if isinstance(data, Sized) else chain([] if first is None else [first], read)
    return first[1] if isinstance(first, (tuple, list)) and len(first) > 1 else None, data


def _fit_many_jointly(
    named: Sequence[tuple[Any, str]], options: JointOptions, owners: Mapping[str, str]
) -> list[JointModule]:
    if any(len(pair) != 2 for pair, _ in named):
        raise RecycleGPError("data: noises beside (X, y) are for one output; pass pairs")
    made = _fit_jointly([(pair[0], pair[1]) for pair, _ in named], [name for _, name in named], options)
    tell_of_published([Published.of(p) for m in made for p in m.parts], options.fit)
    return [m.owned_by(owners[m.name]) if m.name in owners else m for m in made]


class Outcome(NamedTuple):
    """Of many fits."""

    modules: Modules
    failures: dict[str, str]  # name → why


def fit_data_sets(
    data: Iterable[tuple[Any, ...]],
    names: Sequence[str] | None,
    options: FitOptions,
    advance: Callable[[int], None],
    *,
    first: int = 0,
    owners: Mapping[str, str] = MappingProxyType({}),
) -> Outcome:
    """A module for each data set, but for those that failed also alone; errors count data sets from `first`."""
    requests: Iterable[FitRequest] = _checked(_named(data, names), FitValidator(options), first)
    if isinstance(data, Sized):
        requests = list(requests)  # what is all here is checked before any work begins
    made = _Made(owners)
    for window in _windows(requests):
        _solve_window(window, advance, made)
    return Outcome(of_pieces(made.pieces), made.failures)


def what_failed(failures: Mapping[str, str]) -> str:
    """The beginning of an error about models that failed."""
    return f"{len(failures)} of the models failed ({_reasons(failures)})"


def tell_of_failures(failures: Mapping[str, str]) -> None:
    """Warn of models that were left out."""
    if failures:
        warnings.warn(f"{len(failures)} models were left out ({_reasons(failures)})", RecycleGPWarning, stacklevel=3)


def _reasons(failures: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in failures.items())


def check_on_failure(on_failure: Any) -> None:
    if on_failure not in ("raise", "skip"):
        raise RecycleGPError(f"on_failure={on_failure!r}; use 'raise' or 'skip'")


class _Made:
    """What has been fitted so far, by the position of its data set."""

    def __init__(self, owners: Mapping[str, str]) -> None:
        self.owners = owners  # by the name of the module
        self.pieces: list[Piece] = []
        self.failures: dict[str, str] = {}  # name → why
        self.before = 0  # data sets in earlier windows

    def take(self, positions: Sequence[int], requests: Sequence[FitRequest], models: Fitted) -> None:
        block = of_requests(requests, models, [self.owners.get(r.name) for r in requests])
        self.pieces.append(Piece(block, [self.before + position for position in positions]))


def automatic(options: FitOptions) -> bool:
    """Is the kernel to be chosen?"""
    return isinstance(options.kernel, str) and options.kernel == AUTO and options.learn is True


def chosen_together(data: Sequence[tuple[Any, ...]], options: FitOptions) -> str:
    """One kernel for all data sets, by the sum of some of their evidences."""
    some = [pair for pair in data[:: max(1, len(data) // SETS_COMPARED)] if isinstance(pair, (tuple, list))]

    def with_kernel(kernel: str) -> list[FitRequest]:
        validator = FitValidator(replace(options, kernel=kernel))
        return [_numbered(i, pair, f"data set {i}", validator) for i, pair in enumerate(some)]

    return choose(with_kernel) if some else SMOOTHNESS[0]


def _owners(names: Sequence[str] | None, owners: Sequence[str] | None) -> dict[str, str]:
    """Name of the module → name of its owner."""
    if owners is None:
        return {}
    if names is None or len(names) != len(owners):
        raise RecycleGPError("owners needs names: give one of each for every data set")
    for owner in owners:
        check_owner(owner)
    return dict(zip(names, owners, strict=True))


def check_unique(names: Sequence[str] | None) -> None:
    twice = [name for name, count in Counter(names or ()).items() if count > 1]
    if twice:
        raise RecycleGPError(
            f"names: {twice[0]!r} is given more than once; modules that are merged need different ones"
        )


Named = tuple[tuple[Any, ...], str]  # X, y and, where it is known, their noise; and the module's name


def _checked(named: Iterable[Named], validator: FitValidator, first: int) -> Iterator[FitRequest]:
    """Data sets as requests, some at a time, where they are alike at once; counted from `first`."""
    done = first
    for some in _read_ahead(named):
        pairs, names = zip(*some, strict=True)
        found = validator.check_all(pairs, names) if len(some) > 1 else None
        if found is None:
            found = [_numbered(done + i, pair, name, validator) for i, (pair, name) in enumerate(some)]
        yield from found
        done += len(some)


def _read_ahead(named: Iterable[Named]) -> Iterator[list[Named]]:
    """Arrays, no more than fill a window; what does not say how large it is comes alone."""
    some: list[Named] = []
    numbers = 0
    for pair, name in named:
        some.append((pair, name))
        numbers += pair[0].size if isinstance(pair[0], np.ndarray) else WINDOW
        if len(some) >= LANES or numbers >= WINDOW:
            yield some
            some, numbers = [], 0
    if some:
        yield some


def _numbered(position: int, data: tuple[Any, ...], name: str, validator: FitValidator) -> FitRequest:
    try:
        X, y, *noise = data
        return validator.check(X, y, name, *noise)
    except RecycleGPError as error:
        raise RecycleGPError(f"data set {position} ({name}): {error}") from None


def _named(data: Iterable[Any], names: Sequence[str] | None) -> Iterator[Named]:
    """Each data set with its name, read one at a time."""
    count = 0
    for pair in data:
        if not isinstance(pair, (tuple, list)) or len(pair) not in (2, 3):
            raise RecycleGPError("data must hold (X, y) pairs, one for each module, or (X, y, noise)")
        if names is not None and count >= len(names):
            raise RecycleGPError(f"names has {len(names)} entries and data has more; give one each")
        yield tuple(pair), name_or_new(None if names is None else names[count])
        count += 1
    if names is not None and count < len(names):
        raise RecycleGPError(f"names has {len(names)} entries for {count} data sets; give one each")


def _windows(requests: Iterable[FitRequest]) -> Iterator[list[FitRequest]]:
    """As many requests as are worked on together: memory stays bounded however many come."""
    window: list[FitRequest] = []
    rows, most = 0, 0.0
    for request in requests:
        if not window:
            most = WINDOW * min(MOST_LANES, memory_factor(request.device))
        window.append(request)
        rows += request.X.numel()
        if rows >= most:
            yield window
            window, rows = [], 0
    if window:
        yield window


def _solve_window(window: list[FitRequest], advance: Callable[[int], None], made: _Made) -> None:
    """Requests of one kind together; what fails there is tried once more alone, and then reported by name."""
    kinds: dict[Any, list[int]] = {}
    for i, request in enumerate(window):
        kinds.setdefault((request.kind, request.columns, request.target), []).append(i)
    for members in _groups(window, kinds.values()):
        for i, request in zip(members, _in_one_coding([window[i] for i in members]), strict=True):
            window[i] = request
        work = step_cost(window[members[0]]) * len(members)
        try:
            with threads.limit_threads(work):
                lanes, models = retry_on_oom(partial(batch_fit.solve, [window[i] for i in members]))
        except RecycleGPError:
            lanes, models = [], None
        if models is not None:
            made.take([members[i] for i in lanes], [window[members[i]] for i in lanes], models)
        for i in sorted(set(range(len(members))) - set(lanes)):
            _try_alone(members[i], window[members[i]], made)
        advance(len(members))
    made.before += len(window)


def _in_one_coding(requests: list[FitRequest]) -> list[FitRequest]:
    """Levels that have different codes in different data sets have one in all of them."""
    if all(r.categories == requests[0].categories for r in requests):
        return requests
    whole = union_of([r.categories for r in requests])

    def recoded(request: FitRequest, value: Any) -> Any:
        return request.categories.recoded(value, whole) if isinstance(value, torch.Tensor) else value

    return [
        r._replace(X=recoded(r, r.X), inducing=recoded(r, r.inducing), publish=recoded(r, r.publish), categories=whole)
        for r in requests
    ]


def _groups(window: Sequence[FitRequest], kinds: Iterable[list[int]]) -> Iterator[list[int]]:
    """Requests of one kind, no more than are worked on together."""
    for alike in kinds:
        lanes = int(LANES * min(MOST_LANES, memory_factor(window[alike[0]].device)))
        yield from (alike[i : i + lanes] for i in range(0, len(alike), lanes))


def _try_alone(position: int, request: FitRequest, made: _Made) -> None:
    try:
        models = _one(request)
        of_requests([request], models, [None]).module(0)  # complains of numbers that are too large
        made.take([position], [request], models)
    except RecycleGPError as error:
        made.failures[request.name] = str(error)
