"""Publishing against explicit marginalisation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import reference as ref
from problems import SCALE, check_close, check_site, spread
from recyclegp.core import linalg, sites
from recyclegp.core.publishing import publish
from recyclegp.kernels import parse


@pytest.mark.parametrize("jitter", [0.3, 1e-13])
def test_published_site_is_the_marginal_under_its_own_jitter(jitter):
    """Old points carry their jitter, new ones no more than that and no more than rounding asks for."""
    rng = np.random.default_rng(2)
    kernel, mean = ref.Kernel("matern32", tuple(0.7 * SCALE), 1.9), 1.3
    spec = parse("matern32", 2).with_theta(torch.tensor(np.log([1.9, *(0.7 * SCALE)])))
    Z, new = spread(rng, 5), spread(rng, 4)
    new[0] = Z[3]  # a point they have in common
    Rt, rho, e = rng.standard_normal((3, 5)), rng.normal(1, 1, 3), np.float64(0.4)
    site, found, *_ = publish(
        sites.Site(*(torch.tensor(t) for t in (Z, Rt, rho, e))), jitter, spec, mean, torch.tensor(new)
    )
    assert found == pytest.approx(min(jitter, 1.9 * linalg.RELATIVE_JITTER), rel=1e-12)
    C = kernel(Z, new) + found * (Z[:, None] == new).all(-1)
    W = C @ np.linalg.inv(kernel(new, new) + found * np.eye(4))
    Q = kernel(Z, Z) + jitter * np.eye(5) - W @ C.T
    # R'u − ρ with u = m + W(u' − m) + N(0, Q) is N(R'(m + W(u' − m)) − ρ, R'QR); t(u) is its density at unit noise
    noise = np.eye(3) + Rt @ Q @ Rt.T
    A, r = Rt @ W, rho - mean * Rt @ (1 - W.sum(1))
    precision = np.linalg.inv(noise)
    constant = e - 0.5 * (ref.logdet(noise) + r @ precision @ r)
    check_site(site, ref.Site(new, A.T @ precision @ A, A.T @ precision @ r, constant), 1e-9)
    check_close(site.Z, new)
