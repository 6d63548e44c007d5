"""Data → Module: exact, collapsed or dual inference, then published at a few points."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from contextlib import contextmanager
from typing import Any

import gpytorch
from torch import Tensor

from . import arrays, kernels, local
from . import inducing as placement
from .errors import RecycleGPError, RecycleGPWarning
from .likelihoods import family
from .local import Job
from .module import Module, name_or_new

log = logging.getLogger(__name__)

EXACT_ROWS = 3000  # "auto" is exact up to here
INDUCING = {"exact": 0, "collapsed": 512, "dual": 200}  # points, unless the caller says otherwise
PUBLISH = 64
LANES = 1024  # models solved as one batched problem
WINDOW = 2**23  # numbers in the inputs of models that are read before any is fitted


def fit(
    X: Any,
    y: Any,
    *,
    likelihood: str = "gaussian",
    kernel: str | gpytorch.kernels.Kernel = "rbf",
    method: str = "auto",
    inducing: Any = None,
    publish: Any = "auto",
    learn: bool = True,
    noise: float | None = None,
    name: str | None = None,
    seed: int = 0,
    device: Any = None,
) -> Module:
    """Fit one local model and return what may be shared of it: no data rows.

    X, y         (n, D) inputs (array, tensor or DataFrame) and n targets.
    likelihood   "gaussian", "bernoulli" (logistic), "bernoulli-probit", "poisson", "student-t".
    kernel       a name ("rbf", "matern52 + linear", …) or a GPyTorch kernel in your units.
    method       "exact" (Gaussian; automatic up to 3,000 rows), "collapsed" (Gaussian, inducing
                 points, streamed), "dual" (any likelihood), or "auto".
    inducing     number of points, or points, for collapsed and dual.
    publish      number of points at which the posterior is published (64 unless `inducing` gives
                 points, which are then kept), the points themselves, or None to keep `inducing`.
    learn        False takes the kernel as given, with prior mean zero for a kernel object.
    noise        noise variance, kept fixed; None learns it (with learn=False: a tenth of the
                 kernel's variance).
    name         unique within an ensemble; made up when not given.
    seed         of everything random; the global random state is neither read nor changed.
    device       where to compute; defaults to where X is.
    """
    options = (likelihood, kernel, method, inducing, publish, learn, noise, seed, device)
    return _one(_check(X, y, name_or_new(name), *options))


def _one(job: Job) -> Module:
    made = local.solve([job])[0]
    if made is None:
        raise RecycleGPError(
            f"module {job.name!r}: no hyperparameters were found at which its posterior is finite; check y for "
            "extreme values, or pass a kernel with learn=False"
        )
    log.info("%d rows, %s, %d points: %s", made.rows, job.method, len(made._points), made.kernel_spec.describe())
    return made


def fit_many(
    data: Iterable[tuple[Any, Any]],
    *,
    names: Sequence[str] | None = None,
    likelihood: str = "gaussian",
    kernel: str | gpytorch.kernels.Kernel = "rbf",
    method: str = "auto",
    inducing: Any = None,
    publish: Any = "auto",
    learn: bool = True,
    noise: float | None = None,
    seed: int = 0,
    device: Any = None,
    on_failure: str = "raise",
    progress: bool | None = None,
) -> list[Module]:
    """`fit` for each (X, y), in order: the same answers, from a few batched problems instead of many small ones.

    data         (X, y) pairs, or any iterator of them, which is read as it is needed.
    names        one for each.
    on_failure   a model that fails beside others is tried again alone. If it fails again: "raise", naming it,
                 once all are done, or "skip", which leaves it out with a warning.
    progress     a bar on standard error; by default only where somebody may be looking.
    Other arguments are those of `fit`, the same for all.
    """
    if on_failure not in ("raise", "skip"):
        raise RecycleGPError(f"on_failure={on_failure!r}; use 'raise' or 'skip'")
    total = len(data) if isinstance(data, Sized) else None
    if names is not None and total is not None and len(names) != total:
        raise RecycleGPError(f"names has {len(names)} entries for {total} data sets; give one each")
    options = (likelihood, kernel, method, inducing, publish, learn, noise, seed, device)
    jobs: Iterable[Job] = (_numbered(i, *pair, name, options) for i, (pair, name) in enumerate(_named(data, names)))
    if total is not None:
        jobs = list(jobs)  # what is all here is checked before any work begins
    modules: list[Module] = []
    failures: dict[str, str] = {}
    with _bar(total, progress) as advance:
        for window in _windows(jobs):
            for job, made in zip(window, _solve_window(window, advance, failures), strict=True):
                if made is not None:
                    log.debug("%s: %s", job.name, made)
                    modules.append(made)
    if failures:
        said = "; ".join(f"{name}: {why}" for name, why in failures.items())
        if on_failure == "raise":
            raise RecycleGPError(f"{len(failures)} of the models failed ({said}); on_failure='skip' leaves them out")
        warnings.warn(f"{len(failures)} models were left out ({said})", RecycleGPWarning, stacklevel=2)
    return modules


def _numbered(position: int, X: Any, y: Any, name: str, options: tuple[Any, ...]) -> Job:
    try:
        return _check(X, y, name, *options)
    except RecycleGPError as error:
        raise RecycleGPError(f"data set {position} ({name}): {error}") from None


def _named(data: Iterable[Any], names: Sequence[str] | None) -> Iterator[tuple[tuple[Any, Any], str]]:
    """Each pair with its name, read one at a time."""
    count = 0
    for pair in data:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise RecycleGPError("data must hold (X, y) pairs, one for each module")
        if names is not None and count >= len(names):
            raise RecycleGPError(f"names has {len(names)} entries and data has more; give one each")
        yield (pair[0], pair[1]), name_or_new(None if names is None else names[count])
        count += 1
    if names is not None and count < len(names):
        raise RecycleGPError(f"names has {len(names)} entries for {count} data sets; give one each")


def _windows(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    """As many jobs as are worked on together: memory stays bounded however many come."""
    window: list[Job] = []
    rows = 0
    for job in jobs:
        window.append(job)
        rows += job.X.numel()
        if rows >= WINDOW:
            yield window
            window, rows = [], 0
    if window:
        yield window


def _solve_window(window: list[Job], advance: Callable[[int], None], failures: dict[str, str]) -> list[Module | None]:
    """Jobs of one kind together; what fails there is tried once more alone, and then reported by name."""
    made: list[Module | None] = [None] * len(window)
    kinds: dict[Any, list[int]] = {}
    for i, job in enumerate(window):
        kinds.setdefault(job.kind, []).append(i)
    groups = [all_[i : i + LANES] for all_ in kinds.values() for i in range(0, len(all_), LANES)]
    for members in groups:
        try:
            results = local.solve([window[i] for i in members])
        except RecycleGPError:
            results = [None] * len(members)
        for i, result in zip(members, results, strict=True):
            made[i] = result
            if result is None:
                try:
                    made[i] = _one(window[i])
                except RecycleGPError as error:
                    failures[window[i].name] = str(error)
        advance(len(members))
    return made


@contextmanager
def _bar(total: int | None, wanted: bool | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, or nothing."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("fitting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=sys.stderr.isatty()) as bar:
        task = bar.add_task("fitting", total=total)
        yield lambda count: bar.advance(task, count)


# --- the door ---------------------------------------------------------------------------------


def _check(
    X: Any,
    y: Any,
    name: str,
    likelihood: str,
    kernel: Any,
    method: str,
    inducing: Any,
    publish: Any,
    learn: bool,
    noise: float | None,
    seed: int,
    device: Any,
) -> Job:
    if not isinstance(learn, bool):
        raise TypeError(f"learn must be True or False, not {learn!r}")
    X, columns = arrays.inputs(X, device=device)
    X = X.detach()
    n, D = X.shape
    if n == 0:
        raise RecycleGPError("X has no rows; a model needs at least one")
    fam = family(likelihood)
    y = fam.check(arrays.targets(y, n, device=X.device).detach())
    method = _method(method, likelihood, n, inducing)
    if noise is not None:
        if not fam.has_noise:
            raise RecycleGPError(f"noise={noise}: likelihood {likelihood!r} has no noise; leave it out")
        noise = arrays.number(noise, "noise", positive=True)
    if method == "exact" and inducing is not None:
        raise RecycleGPError("inducing: the exact method has no inducing points; use publish, or method='collapsed'")

    points: int | Tensor = INDUCING[method]
    if inducing is not None:
        points = arrays.count_or_points(inducing, "inducing", D, columns, X.device)
    if isinstance(publish, str) and publish == "auto":
        publish = None if isinstance(points, Tensor) else PUBLISH
    elif publish is not None:
        publish = arrays.count_or_points(publish, "publish", D, columns, X.device)
    if publish is None and method == "exact":
        raise RecycleGPError(
            "publish=None: an exact model has no inducing points to publish at; pass a number or points "
            "(its own rows are never shared unless you pass them)"
        )

    named = isinstance(kernel, str)
    centre = (0.0,) * D
    if named and "linear" in kernel and bool((X[0] != X).any()):
        # a linear kernel is centred on the data, but never written down as being centred on a row
        centre = tuple(X.mean(0).tolist())
    spec = kernels.parse(kernel, D, centre) if named else kernels.from_gpytorch(kernel, D)
    if not learn and noise is None and fam.has_noise and not named:
        # A plan must not depend on anybody's data: the default noise comes from the kernel alone.
        where = points if isinstance(points, Tensor) else X
        noise = 0.1 * float(kernels.diagonal(spec.tree, spec.tensor(X), where).mean())
    entropy = placement.entropy(arrays.seed(seed), X)
    return Job(name, X, y, columns, likelihood, spec, named, method, points, publish, noise, learn, entropy)


def _method(method: str, likelihood: str, rows: int, inducing: Any) -> str:
    gaussian = likelihood == "gaussian"
    if method == "auto":
        if not gaussian:
            return "dual"
        return "exact" if rows <= EXACT_ROWS and inducing is None else "collapsed"
    if method not in INDUCING:
        raise RecycleGPError(f"method={method!r} is not known; use auto, exact, collapsed or dual")
    if method != "dual" and not gaussian:
        raise RecycleGPError(f"method={method!r} needs a gaussian likelihood, not {likelihood!r}; use method='dual'")
    return method
