"""Exact searches begin on a share of the rows, which costs next to nothing; all rows are left a few steps.

Where the search of the few has ended, the curvature of all rows is known before any of them has been seen: m rows with
noise σ²m/n tell a kernel from its neighbours about as well as n rows with noise σ², if functions change little from
one row to the next; where they do not, a search has more steps to take.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..core import linalg, optimiser
from ..devices import memory_factor
from ..errors import NotPositiveDefiniteError
from ..likelihoods import gaussian_noise
from . import objectives, search_space
from .batch import MATRICES, exact_width
from .constants import SEARCH
from .samples import Samples
from .search_space import SearchSpace
from .together import GroupSpace

DIFFERENCE = 1e-4  # of φ, by which derivatives of covariances are taken: they only decide how long steps are


def begin(space: GroupSpace, data: Samples, starts: list[Tensor]) -> optimiser.Optimum:
    """Where searches of fewer rows end: of several ends for a problem the one that is highest on all rows."""
    few = data.some(SEARCH.fewer, max(SEARCH.fewest, SEARCH.fewest_each * data.X.shape[-1]))
    objective = space.objective(objectives.exact_objective(space.space, few))
    width = exact_width(space.space.structure, few, space.group.functions)
    first = begins(space, objective, starts, width)
    S, B = len(first), len(first[0])
    found = optimiser.maximise(
        lambda x, i: objective(x, i % B),
        torch.cat(first),
        space.box(space.space.lower),
        space.box(space.space.upper),
        width=width,
        least=optimiser.UNCLEAR / 10,
        gradient=SEARCH.roughly,
        promise=SEARCH.rough_promise,
        metric=space.metric(few.rows).repeat(S, 1, 1),
    )
    ends, evaluations = found.x.unflatten(0, (S, B)), found.evaluations.reshape(S, B).sum(0)
    x, everyone = ends[0], torch.arange(B, device=found.x.device)
    F = information(space, few, data.rows, x, everyone)
    for end in ends[1:]:
        away = end - x
        # ½ΔᵀFΔ: what lies between two ends, if there is no valley
        apart = (0.5 * (away * (F @ away[..., None])[..., 0]).sum(-1) > SEARCH.one_end).nonzero()[:, 0]
        moved = apart[_higher(space, data, x[apart], end[apart], apart)]
        evaluations[apart] += 1
        if len(moved):
            x = x.index_copy(0, moved, end[moved])
            F = F.index_copy(0, moved, information(space, few, data.rows, x[moved], moved))
    metric = _inverse(F, space.metric(data.rows))
    return found._replace(
        x=x, value=found.value[:B], converged=found.converged[:B], evaluations=evaluations, metric=metric
    )


def metric(space: GroupSpace, data: Samples, few: Samples, x: Tensor) -> Tensor:
    """(B, P, P)  the inverse curvature at x, from some of the rows."""
    everyone = torch.arange(len(x), device=x.device)
    return _inverse(information(space, few, data.rows, x, everyone), space.metric(data.rows))


def _inverse(F: Tensor, otherwise: Tensor) -> Tensor:
    known = torch.isfinite(F).all(-1).all(-1)
    if not bool(known.any()):
        return otherwise
    return otherwise.index_copy(0, known.nonzero()[:, 0], linalg.inverse(linalg.cholesky(F[known]).L))


def begins(space: GroupSpace, objective: optimiser.Objective, starts: list[Tensor], width: int) -> list[Tensor]:
    """Of several starts the best by its value, and one beside it; a single one is all there is."""
    if len(starts) == 1:
        return starts
    best = space.unpack_functions(optimiser.best_start(objective, starts, width))
    return [space.pack(start) for start in search_space.beside(space.space, best)]


def _higher(space: GroupSpace, data: Samples, x: Tensor, other: Tensor, problems: Tensor) -> Tensor:
    """For which of some problems the other place is higher, by more than is unclear, on all rows."""
    if not len(problems):
        return problems > 0
    objective = space.objective(objectives.exact_objective(space.space, data))
    width = exact_width(space.space.structure, data, space.group.functions)
    here, there = optimiser.values(lambda x, i: objective(x, problems[i]), [x, other], width)
    return there > here + optimiser.UNCLEAR


@torch.no_grad()
def information(space: GroupSpace, few: Samples, rows: Tensor, x: Tensor, problems: Tensor) -> Tensor:
    """(b, P, P)  what so many `rows` like these few would say about x, as Fisher sees it, and what is known before."""
    phi, index = space.unpack_functions(x), space.group.models_of(problems)
    size = max(1, int(memory_factor(x.device) * MATRICES / (phi.shape[1] * few.y.shape[1] ** 2)))
    each = [
        _information(space.space, few, rows, *some) for some in zip(phi.split(size), index.split(size), strict=True)
    ]
    return space.curvature(torch.cat(each))


def _information(space: SearchSpace, few: Samples, rows: Tensor, phi: Tensor, index: Tensor) -> Tensor:
    """F_ij = ½ tr(A⁻¹A_i A⁻¹A_j) with A = K + (m/n)σ²W⁻² and A_i = ∂A/∂φ_i; of the mean, 1ᵀA⁻¹1."""
    p, own = phi.shape[1], few.select(index)
    share, real = own.rows / rows[index], (own.w > 0).to(own.y.dtype)
    A = _covariance(space, own, share, phi, index)
    steps = DIFFERENCE * torch.eye(p, dtype=phi.dtype, device=phi.device)
    every = torch.arange(len(index), device=index.device).repeat_interleave(p)
    moved = _covariance(space, own.select(every), share[every], (phi[:, None] + steps).flatten(0, 1), index[every])
    try:
        inverse = linalg.inverse(linalg.cholesky(A).L)
    except NotPositiveDefiniteError:
        return phi.new_full((len(phi), p, p), torch.nan)
    AD = inverse[:, None] @ moved.unflatten(0, (-1, p)).sub_(A[:, None]).mul_(1 / DIFFERENCE)
    F = 0.5 * AD.flatten(2) @ AD.mT.flatten(2).mT
    F = 0.5 * (F + F.mT)
    size, learned = space.structure.size, space.free.cumsum(0) - 1
    if bool(space.free[size]) and space.likelihood.has_units:
        # rows that say something about noise alone
        F[:, learned[size], learned[size]] += 0.5 * (rows[index] - own.rows)
    if bool(space.free[-1]):
        one = (own.w * real)[..., None]
        F[:, learned[-1], learned[-1]] += space.unit[index, -1].square() * (one.mT @ inverse @ one)[:, 0, 0]
    return F + torch.diag(space.sd[space.free] ** -2)


def _covariance(space: SearchSpace, data: Samples, share: Tensor, phi: Tensor, index: Tensor) -> Tensor:
    """WKW + (m/n)σ²I, where padding is independent of everything."""
    h, w = space.unpack(phi, index), data.w
    real = (w > 0).to(w.dtype)
    A = (w[..., :, None] * h.kernel.matrix(data.X, data.X)).mul_(w[..., None, :])
    A.diagonal(dim1=-2, dim2=-1).add_(real * (share * gaussian_noise(h.likelihood))[:, None] + (1 - real))
    return A
