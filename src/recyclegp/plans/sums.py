"""What an owner sends: sums over its rows, at the plan's points. They add up to those of all rows in one place.

Rows are y = f + effects + noise, with the noise covariance sÑ known but for its level s: Ñ = W⁻² + (σ_b²11ᵀ + σ_d²K)/s,
where W is one unless rows have weights or noises of their own. With h(x) = L⁻¹k(Z, x) and r = y − m:

    G = HÑ⁻¹Hᵀ    b = HÑ⁻¹r    h = HÑ⁻¹1    c = rᵀÑ⁻¹r    a = 1ᵀÑ⁻¹r    o = 1ᵀÑ⁻¹1    t = tr Ñ⁻¹(K − HᵀH)

h, a and o are there so that the mean can be changed afterwards; s enters only where the sums are used (`bound`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..core import linalg
from ..core.effects import Effects
from ..core.posterior import Basis, features
from ..errors import RecycleGPError

AT_ONCE = 2**22  # numbers in the features of rows that are held at once
MOST_TOGETHER = 4096  # rows of one owner whose own function is integrated out: a matrix of their square


NOISY = ("G", "b", "h", "c", "a", "o", "t")  # what has noise, where there is any
NOT_NOISY = torch.zeros(len(NOISY), dtype=torch.float64)


class Sums(NamedTuple):
    n: Tensor  # ()  log-densities of y behind it: rows, each as often as it counts
    logdet: Tensor  # ()  log det Ñ
    G: Tensor  # (M(M+1)/2,)  its lower triangle, row by row
    b: Tensor  # (M,)
    h: Tensor  # (M,)
    c: Tensor  # ()
    a: Tensor  # ()
    o: Tensor  # ()
    t: Tensor  # ()
    noise: Tensor = NOT_NOISY  # (7,)  variances of what was added for privacy to G, b, … (`private.Shape`)

    @property
    def noisy(self) -> bool:
        """Was noise added for privacy?"""
        return bool((self.noise > 0).any())

    @property
    def points(self) -> int:
        return len(self.b)

    def matrix(self) -> Tensor:
        """G, (M, M)."""
        return square(self.G, self.points)

    def shifted(self, change: Tensor | float) -> Sums:
        """About the mean m + change: r ← r − change·1."""
        c = self.c - 2 * change * self.a + change**2 * self.o
        on_G, on_b, on_h, on_c, on_a, on_o, on_t = self.noise.unbind()
        on_c = on_c + 4 * change**2 * on_a + change**4 * on_o
        noise = torch.stack([on_G, on_b + change**2 * on_h, on_h, on_c, on_a + change**2 * on_o, on_o, on_t])
        return self._replace(b=self.b - change * self.h, c=c, a=self.a - change * self.o, noise=noise)


class PlanRows(NamedTuple):
    """Rows of one owner and one function: noise s/w², each counted n times."""

    X: Tensor  # (n, D)
    y: Tensor  # (n,)
    w: Tensor  # (n,)
    counts: Tensor  # (n,)

    def take(self, chosen: Tensor) -> PlanRows:
        return PlanRows(*(t[chosen] for t in self))

    def chunks(self, points: int, together: bool) -> Iterator[PlanRows]:
        """Rows whose features fit into memory; all of them, where an owner's own function couples them."""
        size = len(self.y) if together else max(1, AT_ONCE // points)
        if together and size > MOST_TOGETHER:
            raise RecycleGPError(
                f"X has {size} rows, and where owners differ at most {MOST_TOGETHER} can be looked at together; divide "
                "them among several names"
            )
        return (PlanRows(*part) for part in zip(*(t.split(size) for t in self), strict=True))


@lru_cache(maxsize=4)
def _places(size: int) -> tuple[Tensor, Tensor]:
    """Where in a matrix the numbers of its lower triangle are, row by row; and where in these its entries are."""
    i, j = torch.tril_indices(size, size)
    inside = torch.empty(size, size, dtype=torch.int32)
    inside[i, j] = torch.arange(len(i), dtype=torch.int32)
    return (i * size + j).to(torch.int32), (inside.tril() + inside.tril(-1).mT).reshape(-1)


def triangle(G: Tensor) -> Tensor:
    """The lower triangle of a symmetric matrix, row by row."""
    return G.reshape(-1).index_select(0, _places(len(G))[0].to(G.device))


def square(lower: Tensor, size: int) -> Tensor:
    """The symmetric matrix with this lower triangle."""
    return lower.index_select(0, _places(size)[1].to(lower.device)).reshape(size, size)


def of_rows(base: Basis, rows: PlanRows, mean: float, noise: float, effects: Effects) -> Sums:
    """Of some rows of one owner; differentiable in the basis and in the effects."""
    V, r, w2 = features(base, rows.X), rows.y - mean, rows.w.square()  # h(x) of each row is a column of V
    k = base.kernel.diagonal(rows.X)
    # log Π N(y; f, s/v²)^c has c log v each, where w² = cv²
    log_v = 0.5 * (w2 / rows.counts).log()
    n, logdet = rows.counts.sum(), -2 * (rows.counts * log_v).sum()
    if not effects.present:
        VW = V * w2
        t = (w2 * (k - V.square().sum(0))).sum()
        return Sums(n, logdet, triangle(VW @ V.mT), VW @ r, VW.sum(1), w2 @ r.square(), w2 @ r, w2.sum(), t)
    # E = WDW/s, AAᵀ = I + E, and all that stands beside Ñ⁻¹ is seen through A⁻¹W
    K = base.kernel.matrix(rows.X, rows.X)
    E = rows.w[:, None] * effects.matrix(base.kernel, rows.X, rows.X, K) * rows.w / noise
    A = linalg.cholesky(torch.eye(len(r), dtype=r.dtype, device=r.device) + E).L
    columns = torch.cat([V.mT, r[:, None], torch.ones_like(r)[:, None]], 1)
    seen = linalg.solve_lower(A, rows.w[:, None] * columns)
    H, R, one = seen[:, :-2], seen[:, -2], seen[:, -1]
    half = linalg.solve_lower(A, rows.w[:, None] * (K - V.mT @ V))
    t = linalg.solve_lower(A, rows.w[:, None] * half.mT).diagonal().sum()
    logdet = logdet + 2 * linalg.logdet(A)
    return Sums(n, logdet, triangle(H.mT @ H), H.mT @ R, H.mT @ one, R @ R, R @ one, one @ one, t)


@torch.no_grad()
def of_owner(base: Basis, rows: PlanRows, mean: float, noise: float, effects: Effects) -> Sums:
    """Of all rows of one owner."""
    chunks = rows.chunks(len(base.Z), effects.present)
    return add([of_rows(base, part, mean, noise, effects) for part in chunks])


def add(parts: Sequence[Sums]) -> Sums:
    """Sums of sums are sums."""
    return Sums(*(sum(each[1:], each[0]) for each in zip(*parts, strict=True)))


def weighted(sums: Sums, weight: float) -> Sums:
    """Of rows that count w times."""
    if weight == 1:
        return sums
    return Sums(*(weight * t for t in sums))._replace(noise=weight**2 * sums.noise)
