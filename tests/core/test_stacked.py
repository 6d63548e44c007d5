"""All sites at once: RᵀKR against NumPy, however they come in packs, and the part of it within owners."""

import numpy as np
import pytest
import torch

from recyclegp.core import stacked
from recyclegp.core.packing import pack
from recyclegp.core.sites import Site
from recyclegp.kernels import parse

SIZES = [(3, 2), (3, 2), (3, 2), (4, 4), (3, 2)]  # points and rows of each site


@pytest.fixture
def sites():
    rng = np.random.default_rng(11)

    def one(points, rows):
        parts = rng.normal(size=(points, 2)), rng.normal(size=(rows, points)), rng.normal(size=rows), np.array(0.7)
        return Site(*map(torch.from_numpy, parts))

    return [one(*size) for size in SIZES]


def gram(sites, K):
    """RᵀKR with R written out."""
    R = np.zeros((len(K), sum(len(s.rho) for s in sites)))
    row = column = 0
    for s in sites:
        points, rows = len(s.Z), len(s.rho)
        R[row : row + points, column : column + rows] = s.Rt.numpy().T
        row, column = row + points, column + rows
    return R.T @ K @ R


@pytest.mark.parametrize("small", [0, 2**20], ids=["each pack apart", "neighbours together"])
def test_packs_of_one_size_that_follow_each_other_are_one_block(sites, small, monkeypatch):
    monkeypatch.setattr(stacked, "SMALL", small)
    whole = stacked.stack([pack([s], [i]) for i, s in enumerate(sites)], owners=[7, 7, 8, 9, 9])
    assert len(whole.blocks) == (5 if small == 0 else 3)
    kernel = parse("rbf", 2)
    theta = kernel.theta.clone().requires_grad_()
    found = whole.gram(kernel.with_theta(theta))
    K = kernel.matrix(whole.Z, whole.Z).detach().numpy()
    np.testing.assert_allclose(found.detach(), gram(sites, K), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(whole.rho, np.concatenate([s.rho for s in sites]))
    assert whole.member.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 4, 4]
    assert whole.owner.tolist() == [7, 7, 7, 7, 8, 8, 9, 9, 9, 9, 9, 9]
    assert whole.point_owner.tolist() == [7] * 6 + [8] * 3 + [9] * 7
    # ∂/∂θ ΣW∘(RᵀKR) = ΣW∘(Rᵀ(∂K/∂θ)R), by central differences
    W = np.random.default_rng(12).normal(size=found.shape)
    (found * torch.from_numpy(W)).sum().backward()
    for i in range(len(theta)):
        step = torch.zeros_like(kernel.theta)
        step[i] = 1e-6
        up, down = (kernel.with_theta(kernel.theta + s).matrix(whole.Z, whole.Z).numpy() for s in (step, -step))
        expected = (W * gram(sites, (up - down) / 2e-6)).sum()
        assert float(theta.grad[i]) == pytest.approx(expected, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("owners", [[7, 7, 8, 9, 9], [3, 1, 4, 0, 5]], ids=["some with several", "one site each"])
def test_within_owners_it_is_that_of_all(sites, owners):
    whole = stacked.stack([pack([s], [i]) for i, s in enumerate(sites)], owners=owners)
    kernel = parse("matern52", 2)
    theta = kernel.theta.clone().requires_grad_()
    K = kernel.matrix(whole.Z, whole.Z).numpy()
    same = whole.owner[:, None] == whole.owner[None, :]
    found = whole.own_gram(kernel.with_theta(theta)) * same
    np.testing.assert_allclose(found.detach(), gram(sites, K) * same.numpy(), rtol=1e-12, atol=1e-12)
    W = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(13))
    (slope,) = torch.autograd.grad((found * W).sum(), theta)
    (expected,) = torch.autograd.grad((whole.gram(kernel.with_theta(theta)) * same * W).sum(), theta)
    np.testing.assert_allclose(slope, expected, rtol=1e-10)
