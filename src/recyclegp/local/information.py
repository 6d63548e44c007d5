"""How much of what the rows say about f a number of points keeps, in nats.

Rows say ½logdet(I + K_XX/σ²) about f. Of this the points Z keep ½logdet(I + P), where P = HᵀH is the precision that the
rows give to the whitened values at Z; the first m of the points keep what is left when the others are integrated out.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..core import linalg
from ..core.least_squares import CentredRows


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
    """From rows about the values at the points, in whose order these are asked for, and what they leave out (B,).

    ½logdet(I + P) − ½logdet(I + P)_rest, for each rest: the determinants of all lower right blocks come from one
    Cholesky factor of the matrix turned round.
    """
    identity = torch.eye(rows.H.shape[-1], dtype=rows.H.dtype, device=rows.H.device)
    L = linalg.cholesky((identity + rows.H.mT @ rows.H).flip(-2, -1)).L
    first = L.diagonal(dim1=-2, dim2=-1).log().flip(-1).cumsum(-1)
    return Information(first.clamp_min(0.0), first[..., -1].clamp_min(0.0) + left.clamp_min(0.0))
