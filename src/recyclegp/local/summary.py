"""Everything that rows of many models say, side by side: about f, of which points keep a share, and their noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import bounds, least_squares, linalg
from ..core.least_squares import CentredRows
from ..core.posterior import Basis, features
from ..likelihoods import SeveralFunctions, gaussian_noise
from . import dual, observations
from .placement import Points
from .request import Method
from .samples import Samples
from .search_space import Hyperparameters


class Information(NamedTuple):
    """Of B models side by side."""

    first: Tensor  # (B, M)  kept by the first 1 … M points
    total: Tensor  # (B,)  in the rows; where it is not known, no less than it

    @property
    def kept(self) -> Tensor:
        """(B, M)  the share that the first 1 … M points keep."""
        share = self.first / self.total.clamp_min(1e-300)[..., None]
        return torch.where(self.total[..., None] > 1e-12, share, torch.ones_like(share)).clamp(1e-12, 1.0)

    def needed(self, share: float) -> Tensor:
        """(B,)  how many of the points keep so much; all of them where none do."""
        enough = self.kept >= share * (1 - 1e-9)
        M = enough.shape[-1]
        return torch.where(enough.any(-1), enough.to(torch.uint8).argmax(-1) + 1, M)


def information(rows: CentredRows, left: Tensor) -> Information:
    """From rows about the values at the points, in their order, and what they leave out (B,).

    Rows say ½logdet(I + K_XX/σ²) about f. Of this the points Z keep ½logdet(I + P), where P = HᵀH is the precision that
    the rows give to the whitened values at Z; the first m of them keep what is left when the others are integrated out:

    ½logdet(I + P) − ½logdet(I + P)_rest, for each rest: the determinants of all lower right blocks come from one
    Cholesky factor of the matrix turned round.
    """
    identity = torch.eye(rows.H.shape[-1], dtype=rows.H.dtype, device=rows.H.device)
    L = linalg.cholesky((identity + rows.H.mT @ rows.H).flip(-2, -1)).L
    first = L.diagonal(dim1=-2, dim2=-1).log().flip(-1).cumsum(-1)
    return Information(first.clamp_min(0.0), first[..., -1].clamp_min(0.0) + left.clamp_min(0.0))


class Summary(NamedTuple):
    """Of B models; everything after `base` has a leading axis of them."""

    base: Basis
    rows: CentredRows  # what the data say, as rows about the whitened values at the points
    left: Tensor  # nats about f that the points leave out; where that is not known, no less
    constant: Tensor  # log density of y at its best explanation, but for χ²
    residual_variance: Tensor  # variance of f at a row that the points leave open, on average
    settled: Tensor  # bool

    @property
    def information(self) -> Information:
        """What its points keep of what the rows say."""
        return information(self.rows, self.left)


@torch.no_grad()
def summarise(method: Method, data: Samples, points: Points, hyper: Hyperparameters, functions: int = 1) -> Summary:
    """Of the models of one batch; of a joint likelihood so many neighbouring ones are the functions of one model."""
    X, y, w, _ = data
    base = points.basis(hyper.kernel)
    settled = torch.ones_like(hyper.mean, dtype=torch.bool)
    if method is Method.DUAL:
        return _dual(base, dual.whiten(base, X, y, hyper.likelihood, hyper.mean, w.square()), functions)
    noise, n = gaussian_noise(hyper.likelihood), (w > 0).sum(-1).to(w.dtype)
    often = data.log_multiplicity(noise)
    constant = bounds.log_sharpness(w).sum(-1) - 0.5 * n * (2 * math.pi * noise).log() + often
    if method is Method.COLLAPSED:
        rows = observations.stream(base, X, y, noise, hyper.mean, w)
        # the same with only Σβ_i q_ii = 2·slack known: no larger than for equal terms
        left = 0.5 * n * torch.log1p(2 * rows.slack / n)
        return Summary(base, rows._replace(e=rows.e + often), left, constant, torch.zeros_like(n), settled)
    said = least_squares.centre(observations.gaussian_rows(base, X, y, noise, marginal=True, w=w), hyper.mean)
    said = said._replace(e=said.e + often)
    prior = (data.often * base.kernel.diagonal(X)).sum(-1)
    explained = _explained(base, X, data.often)
    # e = −½Σ log 2πσ_i² − logdet B
    return Summary(base, said, constant - said.e, said.e, (prior - explained).clamp_min(0) / data.rows, settled)


def _dual(base: Basis, seen: dual.WhitenedData, functions: int) -> Summary:
    joint = isinstance(seen.likelihood, SeveralFunctions)
    seen = seen.together(functions) if joint else seen
    state = dual.fixed_points(seen)
    # Hadamard's bound: logdet(I + √βQ√β) ≤ Σ log(1 + β_i q_ii)
    left = 0.5 * ((seen.w > 0) * torch.log1p(state.observed.beta * seen.spare)).sum(-1)
    rows, settled = dual.rows(seen, state), state.converged
    if joint:  # every function has its own rows, and they have settled together
        rows, left = CentredRows(*(t.flatten(0, 1) for t in rows)), left.flatten()
        settled = settled.repeat_interleave(functions)
    zero = torch.zeros_like(left)
    return Summary(base, rows, left, zero, zero, settled)


def _explained(base: Basis, X: Tensor, often: Tensor) -> Tensor:
    """Variance of f at the rows, each as often as it is there, that its values at the points explain, summed."""
    return (features(base, X).square().sum(-2) * often).sum(-1)


class Residuals(NamedTuple):
    """What local fits leave unexplained: ‖Wỹ‖² and tr W² with W = σ²(K + σ²I)⁻¹, for each of B models.

    Of rows with noises σ_i² of their own: of y and K in units in which all their noises are σ².
    """

    residual: Tensor
    dof: Tensor
    total: Tensor  # ½logdet(I + K/σ²): nats that the rows say about f

    def select(self, chosen: Tensor) -> Residuals:
        return Residuals(*(t[chosen] for t in self))


@torch.no_grad()
def exact_residuals(data: Samples, hyper: Hyperparameters) -> Residuals:
    """From K_XX itself, of the rows that are no padding.

    Of c equal rows W leaves all differences between them, of which there are c − 1 and which are zero in y.
    """
    X, y, w, _ = data
    noise = gaussian_noise(hyper.likelihood)
    A = hyper.kernel.matrix(X, X).mul_(w[..., :, None]).mul_(w[..., None, :])
    real = (w > 0).to(w.dtype)
    A.diagonal(dim1=-2, dim2=-1).add_(real * noise[..., None] + (1 - real))  # padding is independent of everything
    L = linalg.cholesky(A).L
    centred = w * (y - hyper.mean[..., None])
    unexplained = noise[..., None] * torch.cholesky_solve(centred[..., None], L)[..., 0]
    # ‖A⁻¹‖², without the ones of padding
    squares = linalg.inverse(L).flatten(-2).square().sum(-1) - (1 - real).sum(-1)
    dof = noise.square() * squares.clamp_min(0)
    total = linalg.logdet(L) - 0.5 * real.sum(-1) * noise.log()
    return Residuals(unexplained.square().sum(-1), dof + (data.rows - real.sum(-1)), total)


@torch.no_grad()
def collapsed_residuals(summary: Summary, data: Samples, hyper: Hyperparameters) -> Residuals:
    """From the rows about the points: W = I − S with S of the eigenvalues λ/(1+λ), and n − M of zero."""
    noise, n = gaussian_noise(hyper.likelihood), data.rows
    T, c, e, _ = summary.rows
    solved = least_squares.solve(summary.rows)
    chi2 = ((T @ solved.v[..., None])[..., 0] - c).square().sum(-1) + 2 * (summary.constant - e).clamp_min(0)
    eigenvalues = torch.linalg.svdvals(T).square()
    dof = n - (1 - (1 + eigenvalues).pow(-2)).sum(-1)
    return Residuals(noise * chi2, dof, summary.information.total)


def noise_evidence(summary: Summary, residuals: Residuals, e: Tensor) -> Tensor:
    """(B, 4)  NoiseEvidence of models whose sites have the constants e."""
    chi2 = (2 * (summary.constant - e)).clamp_min(0)
    return torch.stack([chi2, summary.residual_variance, residuals.residual, residuals.dof.clamp_min(0)], -1)
