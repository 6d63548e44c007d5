"""Data → Module: exact, collapsed or dual inference, then published at a few points."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gpytorch
import numpy as np
import torch
from torch import Tensor

from . import arrays, blocks, dual, kernels, least_squares, optimise, sites
from . import inducing as placement
from . import learn as learning
from .errors import RecycleGPError
from .kernels import Kernel
from .learn import Hyper, Space
from .least_squares import Rows
from .likelihoods import Likelihood, family
from .module import Convergence, Module, name_or_new
from .posterior import Basis, basis

log = logging.getLogger(__name__)

EXACT_ROWS = 3000  # "auto" is exact up to here
SUBSET = {"exact": 1000, "collapsed": 4000, "dual": 2000}  # rows on which hyperparameters are learned
INDUCING = {"exact": 0, "collapsed": 512, "dual": 200}  # points, unless the caller says otherwise
PUBLISH = 64


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
    name = name_or_new(name)
    job = _check(X, y, likelihood, kernel, method, inducing, publish, learn, noise, seed, device)
    hyper, Z, convergence = _hyperparameters(job)
    base, rows, settled = _summarise(job, hyper, Z)
    if not settled:
        convergence = replace(convergence, converged=False, message="the posterior had not settled")
    site = sites.from_rows(base.Z, base.L, rows, hyper.mean)
    spec = job.kernel.replace(hyper.theta)
    log.info("%d rows, %s, %d points: %s", len(job.y), job.method, len(site.Z), spec.describe())
    return Module(
        name=name,
        _site=site,
        kernel_spec=spec,
        mean=float(hyper.mean),
        jitter=base.jitter,
        likelihoods=(Likelihood(likelihood, tuple(hyper.log_p.exp().tolist())),),
        rows=len(job.y),
        columns=job.columns,
        convergence=convergence,
        method=job.method,
    )


def fit_many(data: Iterable[tuple[Any, Any]], *, names: Sequence[str] | None = None, **options: Any) -> list[Module]:
    """`fit` for each (X, y), one module each, in order."""
    pairs = list(data)
    if not all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in pairs):
        raise RecycleGPError("data must hold (X, y) pairs, one for each module")
    if names is not None and len(names) != len(pairs):
        raise RecycleGPError(f"names has {len(names)} entries for {len(pairs)} data sets; give one each")
    given = names if names is not None else [None] * len(pairs)
    return [fit(X, y, name=n, **options) for (X, y), n in zip(pairs, given, strict=True)]


# --- the door ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A checked request: tensors in the user's units, and the space to search."""

    X: Tensor
    y: Tensor
    columns: arrays.Columns
    likelihood: str
    kernel: Kernel
    method: str
    inducing: int | Tensor
    publish: int | Tensor | None
    space: Space
    starts: list[Tensor]
    learn: bool
    rng: np.random.Generator


def _check(
    X: Any,
    y: Any,
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
    # a linear kernel is centred on the data, but never written down as being centred on a row
    centre = X.mean(0) if bool((X[0] != X).any()) else torch.zeros_like(X[0])
    spec = kernels.parse(kernel, D, centre.tolist()) if named else kernels.from_gpytorch(kernel, D)
    if not learn and noise is None and fam.has_noise and not named:
        # A plan must not depend on anybody's data: the default noise comes from the kernel alone.
        where = points if isinstance(points, Tensor) else X
        noise = 0.1 * float(kernels.diagonal(spec.tree, spec.tensor(X), where).mean())
    sp = learning.space(
        spec.tree,
        likelihood,
        learning.scales(X, y, likelihood),
        theta=None if named else spec.tensor(X),
        noise=noise,
        mean=0.0 if not (learn or named) else None,
    )
    starts = learning.starts(sp, n, D) if named else [sp.fixed[sp.free]]
    rng = placement.generator(arrays.seed(seed), X)
    return Job(X, y, columns, likelihood, spec, method, points, publish, sp, starts, learn, rng)


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


# --- inference --------------------------------------------------------------------------------


def _hyperparameters(job: Job) -> tuple[Hyper, Tensor, Convergence]:
    """θ, likelihood parameters and mean, and the inducing points (none for the exact method)."""
    sp = job.space
    given = sp.unpack(sp.fixed[sp.free])
    # The first points must serve every lengthscale that is tried: placed for the shortest, none is left out.
    first_theta = sp.unpack(job.starts[0]).theta if job.learn else given.theta
    Z = job.inducing if isinstance(job.inducing, Tensor) else _place(job, job.inducing, first_theta)
    if not job.learn:
        return given, Z, Convergence(True, 0, "nothing to learn")
    subset = torch.as_tensor(job.rng.permutation(len(job.y))[: SUBSET[job.method]], device=job.X.device)
    X, y = job.X[subset], job.y[subset]
    evaluations, first = 0, job.starts
    # Automatic points depend on the kernel, which is learned with them: place, learn, place, learn.
    for last in (False, True):
        best = optimise.maximise_one(_objective(job, Z, X, y), first, sp.lower, sp.upper)
        evaluations += best.evaluations
        hyper = sp.unpack(best.x)
        if last or job.method == "exact" or isinstance(job.inducing, Tensor):
            break
        Z, first = _place(job, job.inducing, hyper.theta), [best.x]
    return (
        hyper,
        Z,
        Convergence(best.converged, evaluations, "converged" if best.converged else "stopped before converging"),
    )


def _objective(job: Job, Z: Tensor, X: Tensor, y: Tensor) -> Any:
    if job.method == "exact":
        return learning.exact_objective(job.space, X, y)
    if job.method == "collapsed":
        return learning.collapsed_objective(job.space, Z, X, y)
    return learning.dual_objective(job.space, Z, X, y, job.likelihood)


def _place(job: Job, count: int, theta: Tensor) -> Tensor:
    return placement.place(job.X, count, job.kernel.tree, theta, job.rng) if count else job.X[:0]


@torch.no_grad()
def _summarise(job: Job, hyper: Hyper, Z: Tensor) -> tuple[Basis, Rows, bool]:
    """Everything the data say about f, as rows about its values at the points to publish; settled?"""
    tree, theta = job.kernel.tree, hyper.theta
    if job.method == "exact":
        base = basis(tree, theta, _publish_points(job, theta))
        rows = learning.gaussian_rows(base, job.X, job.y, hyper.log_p[0].exp(), marginal=True)
        return base, least_squares.centre(rows, hyper.mean), True
    rich = basis(tree, theta, Z)
    settled = True
    if job.method == "collapsed":
        rows = learning.stream(rich, job.X, job.y, hyper.log_p[0].exp(), hyper.mean)
    else:
        data = learning.dual_data(rich, job.X, job.y, job.likelihood, hyper.log_p, hyper.mean)
        state = dual.fixed_point(data)
        rows, settled = dual.rows(data, state), state.converged
    if job.publish is None or (isinstance(job.publish, int) and job.publish >= len(Z)):
        return rich, rows, settled
    site = sites.from_rows(Z, rich.L, rows, hyper.mean)
    base = basis(tree, theta, _publish_points(job, theta), rich.jitter)
    # publish = the same projection with the residual marginalised exactly
    return base, blocks.observe(base, site, hyper.mean, marginal=True), settled


def _publish_points(job: Job, theta: Tensor) -> Tensor:
    assert job.publish is not None
    return job.publish if isinstance(job.publish, Tensor) else _place(job, job.publish, theta)
