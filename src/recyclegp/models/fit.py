"""Data → Module: exact, collapsed or dual inference, then published at a few points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from typing import Any, NamedTuple

from .. import arrays
from ..arrays import Array, CountOrPoints
from ..errors import Either, Message, RecycleGPError
from ..garbage import looked_for_afterwards
from ..kernels import DEFAULT_KERNEL
from ..local import batching
from ..local.batching import DataSet, Failed, Named
from ..local.functions import FunctionRequests, requests_for
from ..local.kernel_choice import chosen
from ..local.options import COMPLETED, DeviceLike, FitOptions, KernelLike, Noise, PrivacyLike, PublishLike
from ..local.people import are_people, published_rows
from ..times import TimeLike, When, when
from .blocks import Piece, of_requests
from .completing import all_completed, complete_only, completed
from .constant_warnings import warn_about_constants, what_is_constant
from .fit_warnings import PublishedSize, failure_message, warn_about_failures, warn_about_publishing
from .module import Module
from .modules import Modules, of_pieces
from .naming import check_owner, name_or_new
from .progress import bar

SKIP_THEM = Either("on_failure='skip'", "--skip-failed")


class FitManyError(RecycleGPError):
    """Some of many models failed. The others are not lost: they are its `modules`."""

    def __init__(self, message: str | Message, modules: Modules, failures: dict[str, str]) -> None:
        super().__init__(message)
        self.modules = modules
        self.failures = failures  # name → why

    def __reduce__(self) -> tuple[Any, ...]:
        return FitManyError, (self.args[0], self.modules, self.failures)


def fit(
    X: Array,
    y: Array,
    *,
    likelihood: str = "gaussian",
    kernel: KernelLike = DEFAULT_KERNEL,
    method: str = "auto",
    inducing: CountOrPoints = None,
    publish: PublishLike = "auto",
    rows_per_point: int | None = None,
    privacy: PrivacyLike = None,
    learn: bool = True,
    noise: Noise = None,
    name: str | None = None,
    seed: int = 0,
    device: DeviceLike = None,
    columns: Sequence[str] | None = None,
    categories: Sequence[str | int] | None = None,
    target: str | Sequence[str] | None = None,
    unit: str | Sequence[str | None] | None = None,
    labels: Sequence[str | None] | None = None,
    positive: Any = None,
    owner: str | None = None,
    time: TimeLike = None,
    missing: str = "refuse",
    classes: Sequence[Any] | None = None,
    weights: Array = None,
    hold_back: float | None = None,
    allow_small: bool = False,
) -> Module:
    """Fit one local model and return what may be shared of it: no data rows.

    Args:
        X: (n, D) inputs: array, tensor or DataFrame. Columns of text, categoricals and truth values are categories,
            whose levels are known by name, also to whoever gets the file: see `categories`.
        y: n targets; or (n, C) of them, for C outputs with one kernel and own means, scales and noises; or n classes.
        likelihood: "gaussian", "lognormal" (y > 0 whose logarithm is Gaussian: `predict` and `noise` are of log y, all
            about y in its own units), "survival" (times until something happens, and −t where nothing had by
            the time t; otherwise as "lognormal"), "student-t", "bernoulli" (logistic), "bernoulli-probit", "poisson",
            "negative-binomial" (counts that vary more: mean exp f and variance μ + μ²/r, r learned), "counts" (one of
            these two, by the evidence of some of the rows); "categorical" (any number of classes, which may be text, by
            a regression for each) or "categorical-softmax" (by their softmax, slower); "ordinal" (levels in an order,
            as none, mild, severe: a cumulative probit); "heteroscedastic" (Gaussian, with a noise that is a function of
            the inputs, too). docs/likelihoods.md says which for what.
        kernel: a name ("matern52", "rbf + linear", …), a GPyTorch kernel in your units, or "auto": rbf, matern52 or
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
        privacy: what the rows are about: "people", of whom less is published (docs/privacy.md says what, and what it
            costs), or "things". It is written into the file. Without it a warning says so where there are more than 0.1
            points for each row.
        learn: False takes the kernel as given, with prior mean zero for a kernel object.
        noise: noise variance, kept fixed; None learns it (with learn=False: a tenth of the kernel's variance). An array
            of n holds one for each row: the squares of known measurement errors (gaussian; exact and collapsed); of C
            outputs also (n, C), one for each cell. The module's own noise, which `predict_y` adds, is then their
            mean: what a new measurement has on average.
        name: unique within an ensemble; made up when not given.
        seed: of everything random; the global random state is neither read nor changed. Of people a secret counts, too,
            so that nobody else can compute what was added (docs/privacy.md).
        device: where to compute; defaults to where X is.
        columns: names for the columns of X, where it is an array; modules with names are aligned by them.
        categories: columns of text, by name or position, all of whose levels may be named in the file. Of others every
            level is of at least 5 rows (rarer ones are called "other" together), and what looks like names, record
            numbers or dates is refused.
        target: what y is called; by default the name of a pandas Series. Of several outputs one name each.
        unit: what y is measured in; of several outputs one for all, or one each.
        labels: what classes 0 and 1 are called, as ["well", "ill"]; y may then hold these words. Modules that
            contradict each other in these are not merged.
        positive: where y holds words, the one that is class 1; every other one is 0.
        owner: whose rows they are, where somebody sends several modules; the module's name unless given.
        time: when the rows were observed, for `merge(half_life=...)`: a number in any unit, or a date as "2026-03-01".
        missing: what becomes of empty cells (NaN, None). "refuse"; "allow" where NaN in y (n, C) means that an output
            was not seen in a row; "drop" leaves incomplete rows out. A row that lacks inputs is taken with "impute",
            which fills in the mean of 5 similar rows (or the level that most of them have), and with "marginalise",
            which integrates over what 10 similar rows have there, as far as y agrees with it (one target). With both,
            cells of several outputs may be empty. docs/messy-tables.md says which when.
        classes: of "categorical", all that a row could have had. Without it they are those that y has: an owner who
            has not met a class says nothing about it. Named here and not met, a class is one that does not occur.
            Of "ordinal" all levels, from the lowest to the highest; not needed for numbers, and where pandas knows it.
        weights: how often each row counts, n positive numbers: as p(y|f)^w, so that a row of weight two is a row that
            is there twice, and equal rows are one row with the sum of their weights. Of Gaussian rows f sees the noise
            σ²/w, and σ², which is that of a single row, is learned from as many rows as the weights add up to. Rows are
            counted so (`rows`, `rows_per_point`, the warning about few) where all weights are whole numbers.
        hold_back: the share of rows to keep out, as 0.1, so that `Ensemble.gain` can say with them whether merging
            helps. A hash of each row decides, so that the same rows are found again; the module remembers the share.
            Fit with all rows afterwards.
        allow_small: take one or two rows, too, which are refused otherwise, and say nothing where there are fewer than
            10: a module says much about each of them.

    Returns:
        The module, of as many functions as y or the likelihood asks for.

    Raises:
        RecycleGPError: An argument cannot be what it is, or no finite posterior was found; the message names the
            argument and the remedy.
        TypeError: A name or an option is of the wrong type.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> X = np.linspace(0, 6, 50)[:, None]
        >>> m = rgp.fit(X, np.sin(X[:, 0]), noise=0.01, name="ward-7")
        >>> m.name, m.rows
        ('ward-7', 50)
    """
    options = FitOptions.among(locals())
    check_owner(owner)
    at = None if time is None else when(time)
    label = name_or_new(name)
    shares = None
    if options.inference.missing in COMPLETED:
        X, y, noise, weights, shares = completed(X, y, noise, weights, options, fit)
        options = options.changed(noise=noise)

    def requests(of: FitOptions) -> FunctionRequests:
        return requests_for(X, y, label, of, weights=weights, shares=shares)

    options = chosen(options, lambda of: [requests(of)])
    checked = requests(options)
    warn_about_constants([(label, what_is_constant(checked))], 1)
    record = of_requests(batching.solve_one(checked), [owner], [at]).record(0)
    if weights is not None:  # which need not add up to a whole number
        effective = [float(published_rows(r)) if are_people(r) else r.effective_rows for r in checked.requests]
        latents = zip(record.latents, effective, strict=True)
        record = record._replace(latents=tuple(p if p.rows == n else p._replace(effective_rows=n) for p, n in latents))
    warn_about_publishing([PublishedSize.of(record)], options.publishing)
    return Module(*record)


def fit_many(
    data: Iterable[DataSet],
    *,
    names: Sequence[str] | None = None,
    likelihood: str = "gaussian",
    kernel: KernelLike = DEFAULT_KERNEL,
    method: str = "auto",
    inducing: CountOrPoints = None,
    publish: PublishLike = "auto",
    rows_per_point: int | None = None,
    privacy: PrivacyLike = None,
    learn: bool = True,
    noise: float | None = None,
    seed: int = 0,
    device: DeviceLike = None,
    columns: Sequence[str] | None = None,
    categories: Sequence[str | int] | None = None,
    target: str | Sequence[str] | None = None,
    unit: str | Sequence[str | None] | None = None,
    labels: Sequence[str | None] | None = None,
    positive: Any = None,
    owners: Sequence[str] | None = None,
    times: Sequence[TimeLike] | None = None,
    on_failure: str = "raise",
    progress: bool | None = None,
    missing: str = "refuse",
    classes: Sequence[Any] | None = None,
    hold_back: float | None = None,
    allow_small: bool = False,
) -> Modules:
    """`fit` for each (X, y), in order: the same answers, from a few batched problems instead of many small ones.

    Args:
        data: (X, y) pairs, or any iterator of them, which is read as it is needed. Where noise variances are known,
            (X, y, noise) with one number, or one for each row or cell, as for `fit`.
        names: one for each.
        likelihood: as for `fit`, the same for all; "counts" chooses one for all data sets together.
        kernel: as for `fit`, the same for all; "auto" chooses one for all data sets together.
        method: as for `fit`, the same for all.
        inducing: as for `fit`, the same for all.
        publish: as for `fit`, the same for all.
        rows_per_point: as for `fit`, the same for all.
        privacy: as for `fit`, the same for all; one warning names the module with most points for each row.
        learn: as for `fit`, the same for all.
        noise: one noise variance for all rows of all; those of single rows belong to `data`.
        seed: as for `fit`, the same for all.
        device: as for `fit`, the same for all.
        columns: as for `fit`, the same for all.
        categories: as for `fit`, the same for all; the rows of each data set are counted by themselves.
        target: as for `fit`, the same for all.
        unit: as for `fit`, the same for all.
        labels: as for `fit`, the same for all.
        positive: as for `fit`, the same for all.
        owners: whose rows they are, one for each; needs `names`.
        times: when the rows of each were observed, as for `fit`; None of those of which nobody knows.
        on_failure: a model that fails beside others is tried again alone. If it fails again: "raise", naming it, once
            all are done (the error's `modules` are those that succeeded), or "skip", which leaves it out with a
            warning.
        progress: a bar on standard error; by default only where somebody may be looking.
        missing: as for `fit`, the same for all.
        classes: as for `fit`, the same for all.
        hold_back: as for `fit`, the same for all.
        allow_small: as for `fit`, the same for all; a data set of one or two rows is otherwise one whose model fails,
            and one warning names those of fewer than 10.

    Returns:
        One module for each data set: a sequence like a list, which is kept as columns. It slices, `save` writes all
        of it to one file, `load_many` reads that, and `merge` takes either.

    Raises:
        RecycleGPError: An argument or a data set cannot be what it is; the message names it.
        FitManyError: Some models failed, also alone; the error holds the others.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> x = np.linspace(0, 6, 40)
        >>> ms = rgp.fit_many([(x, np.sin(x)), (x, np.cos(x))], names=["a", "b"])
        >>> ms.names, ms[1].rows
        (['a', 'b'], 40)
    """
    options = FitOptions.among(locals())
    check_on_failure(on_failure)
    total = len(data) if isinstance(data, Sized) else None
    if names is not None and total is not None and len(names) != total:
        raise RecycleGPError(f"names has {len(names)} entries for {total} data sets; give one each")
    check_unique(names)
    whose = _owners(names, owners)
    dated = _times(times, total)
    if arrays.are_several(noise):
        raise RecycleGPError(
            "noise: pass one number for all; noises of data sets or rows go with them, as data=[(X, y, noise), …]"
        )
    if options.chooses_kernel or options.chooses_likelihood:
        data = list(data)
        options = batching.choose(complete_only(data, options), options)
        total = len(data)
    constants: list[tuple[str, list[str]]] = []

    def look(own: FunctionRequests) -> None:
        if not own.varies:
            constants.append((own.name, what_is_constant(own)))

    with bar("fitting", total, progress) as advance:
        modules, failures = fit_data_sets(data, names, options, advance, owners=whose, times=dated, look=look)
    if failures and on_failure == "raise":
        said = Message(
            f"{failure_message(failures)}; ",
            SKIP_THEM,
            " leaves them out, and this error's modules are the others",
        )
        raise FitManyError(said, modules, failures)
    warn_about_failures(failures)
    warn_about_constants(constants, len(modules))
    warn_about_publishing(list(PublishedSize.of_all(modules)), options.publishing)
    return modules


class Outcome(NamedTuple):
    """Of many fits."""

    modules: Modules
    failures: dict[str, str]  # name → why


def fit_data_sets(
    data: Iterable[DataSet],
    names: Sequence[str] | None,
    options: FitOptions,
    advance: Callable[[int], None],
    *,
    first: int = 0,
    owners: Sequence[str] | None = None,
    times: Sequence[When | None] | None = None,
    look: Callable[[FunctionRequests], None] = lambda own: None,
) -> Outcome:
    """A module for each data set, but for those that failed also alone; errors count data sets from `first`.

    `look` is called with each data set that is fitted.
    """
    named: Iterable[Named] = _named(data, names, times)
    if options.inference.missing in COMPLETED:
        named = all_completed(named, options, fit)
    requests = _looked_at(batching.checked(named, options, first), look)
    if not isinstance(data, Sized):
        return _solved(requests, advance, owners, times)
    with looked_for_afterwards():  # of all that is made of each data set, nothing is in a circle
        return _solved(iter(list(requests)), advance, owners, times)  # all is checked before any work begins


def _solved(
    requests: Iterator[FunctionRequests | Failed],
    advance: Callable[[int], None],
    owners: Sequence[str] | None,
    times: Sequence[When | None] | None,
) -> Outcome:
    pieces: list[Piece] = []
    failures: dict[str, str] = {}
    for found in batching.solve_all(requests, advance):
        if isinstance(found, Failed):
            failures[found.name] = found.why
            continue
        own, at = ([None if some is None else some[i] for i in found.positions] for some in (owners, times))
        pieces.append(Piece(of_requests(found, own, at), found.positions))  # type: ignore[arg-type]
    return Outcome(of_pieces(pieces), failures)


def _looked_at(
    requests: Iterable[FunctionRequests | Failed], look: Callable[[FunctionRequests], None]
) -> Iterator[FunctionRequests | Failed]:
    for own in requests:
        if not isinstance(own, Failed):
            look(own)
        yield own


# --- names, owners and times ------------------------------------------------------------------


def check_on_failure(on_failure: Any) -> None:
    if on_failure not in ("raise", "skip"):
        raise RecycleGPError(f"on_failure={on_failure!r}; use 'raise' or 'skip'")


def check_unique(names: Sequence[str] | None) -> None:
    twice = [name for name, count in Counter(names or ()).items() if count > 1]
    if twice:
        raise RecycleGPError(
            f"names: {twice[0]!r} is given more than once; modules that are merged need different ones"
        )


def _owners(names: Sequence[str] | None, owners: Sequence[str] | None) -> Sequence[str] | None:
    if owners is None:
        return None
    if names is None or len(names) != len(owners):
        raise RecycleGPError("owners needs names: give one of each for every data set")
    for owner in owners:
        check_owner(owner)
    return owners


def _times(times: Sequence[TimeLike] | None, total: int | None) -> list[When | None] | None:
    if times is None:
        return None
    if total is not None and len(times) != total:
        raise RecycleGPError(f"times has {len(times)} entries for {total} data sets; give one each")
    return [None if time is None else when(time, f"times[{i}]") for i, time in enumerate(times)]


def _named(data: Iterable[Any], names: Sequence[str] | None, times: Sequence[Any] | None) -> Iterator[Named]:
    """Each data set with its name, read one at a time."""
    given = {"names": names, "times": times}
    count = 0
    for pair in data:
        if not isinstance(pair, (tuple, list)) or len(pair) not in (2, 3):
            raise RecycleGPError("data must hold (X, y) pairs, one for each module, or (X, y, noise)")
        for argument, some in given.items():
            if some is not None and count >= len(some):
                raise RecycleGPError(f"{argument} has {len(some)} entries and data has more; give one each")
        yield tuple(pair), name_or_new(None if names is None else names[count])
        count += 1
    for argument, some in given.items():
        if some is not None and count < len(some):
            raise RecycleGPError(f"{argument} has {len(some)} entries for {count} data sets; give one each")
