"""Gaussian data as rows about the values at the points: all rows as one block, or streamed one by one."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import bounds, least_squares
from ..core.least_squares import CentredRows, Rows
from ..core.posterior import Basis, features
from ..likelihoods import Likelihood
from ..logs import logger


class Observed(NamedTuple):
    """Rows of data of one kind, and how sharply they were observed."""

    X: Tensor  # (n, D)
    y: Tensor  # (n,)
    likelihood: Likelihood
    w: Tensor | None = None  # (n,)  as in Samples, where rows have noises of their own

    def resolution(self, f: float) -> Tensor:
        """(n,)  width of what each row says about f."""
        common = self.likelihood.resolution(self.y, torch.full_like(self.y, f))
        return (common if self.w is None else common / self.w).clamp_min(1e-150)


log = logger(__name__)

ROWS = 8192  # of data, whose features are held at once


def gaussian_rows(
    base: Basis,
    X: Tensor,
    y: Tensor,
    noise: Tensor,
    *,
    marginal: bool,
    w: Tensor | None = None,
    seen: Tensor | None = None,
) -> Rows:
    """Rᵀ = W/σ, ρ = Wy/σ; one block whose residual is integrated out (marginal), or each row alone.

    A row's noise is σ²/w²; one with w = 0 says nothing. Where `seen` (n,) is given, a row speaks of so many of the
    points only, the first ones: of those that were there when it came.
    """
    w = torch.ones_like(y) if w is None else w
    V = features(base, X)
    if seen is not None:
        V = V * (torch.arange(len(V), device=V.device)[:, None] < seen)
    root = w / noise.sqrt()[..., None]  # Rᵀ = diag(root)
    H = root[..., None] * V.mT
    e = bounds.log_sharpness(w) - 0.5 * (w > 0) * (2 * math.pi * noise).log()[..., None]
    if marginal:
        K = base.kernel.matrix(X, X)
        RKR = root[..., :, None] * K * root[..., None, :]
        block = (t.unsqueeze(d) for t, d in ((H, -3), (RKR, -3), (root * y, -2), (root, -2), (e.sum(-1), -1)))
        return least_squares.gather(*block, marginal=True)
    # each row's residual variance enters the slack by itself: tr Q/2σ²
    RKR = (root.square() * base.kernel.diagonal(X))[..., None, None]
    return least_squares.gather(H[..., None, :], RKR, (root * y)[..., None], root[..., None], e, marginal=False)


@torch.no_grad()
def stream(
    base: Basis,
    X: Tensor,
    y: Tensor,
    noise: Tensor,
    mean: Tensor | float,
    w: Tensor | None = None,
    seen: Tensor | None = None,
) -> CentredRows:
    """Collapsed rows in bounded memory: each chunk of data is folded into one triangle."""
    folded, done = None, 0
    w = torch.ones_like(y) if w is None else w
    chunks = zip(X.split(ROWS, -2), y.split(ROWS, -1), w.split(ROWS, -1), strict=True)
    for i, (X_, y_, w_) in enumerate(chunks):
        seen_ = None if seen is None else seen[i * ROWS : (i + 1) * ROWS]
        rows = least_squares.centre(gaussian_rows(base, X_, y_, noise, marginal=False, w=w_, seen=seen_), mean)
        folded = least_squares.compress(rows) if folded is None else least_squares.compress(folded, rows)
        done += y_.shape[-1]
        log.debug("%d of %d rows", done, y.shape[-1])
    assert folded is not None  # data without rows are refused earlier
    return folded
