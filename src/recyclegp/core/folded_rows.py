"""Rows about one basis in a triangle, whatever constant mean they will have: what can be kept of some of them.

Rows Hv + m·ones ≈ ρ of many sites are stacked, and QR leaves of [H  ρ−m₀·ones  ones] no more than a triangle R of M + 2
columns. Triangles fold again, so that a sum of many can be kept as a tree of sums. Of the last two columns any mean m
is settled later: ρ̃ = ρ₀ − (m − m₀)·ones, with what no v can explain below the M-th row. m₀ is near the means that will
be asked for, so that no digits are lost in the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .least_squares import CentredRows, Rows


class FoldedRows(NamedTuple):
    R: Tensor  # (at most M + 2, M + 2)
    e: Tensor
    slack: Tensor


def fold(rows: Rows, reference: float) -> FoldedRows:
    """About a reference mean m₀."""
    columns = torch.cat([rows.H, (rows.rho - reference * rows.ones)[:, None], rows.ones[:, None]], dim=1)
    return FoldedRows(_triangle(columns), rows.e, rows.slack)


def join(parts: Sequence[FoldedRows]) -> FoldedRows:
    """Rows stack, constants add."""
    if len(parts) == 1:
        return parts[0]
    R, e, slack = zip(*parts, strict=True)
    return FoldedRows(_triangle(torch.cat(R)), torch.stack(e).sum(), torch.stack(slack).sum())


def centre(folded: FoldedRows, reference: float, mean: float) -> CentredRows:
    """Pseudo-observations of v alone, in at most M rows: what no v can explain goes into e."""
    M = folded.R.shape[1] - 2
    rho = folded.R[:, M] - (mean - reference) * folded.R[:, M + 1]
    residual = rho[M:].square().sum()
    return CentredRows(folded.R[:M, :M], rho[:M], folded.e - 0.5 * residual, folded.slack)


def _triangle(columns: Tensor) -> Tensor:
    return torch.linalg.qr(columns, mode="r").R if len(columns) else columns
