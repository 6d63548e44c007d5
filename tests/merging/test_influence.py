"""One forged number must not decide for everybody."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.likelihoods import Gaussian
from recyclegp.merging import influence

AT = np.array([[-0.5], [0.5]])


@pytest.fixture(scope="module")
def honest():
    parts = []
    for k in range(12):
        rng = np.random.default_rng(k)
        X = rng.uniform(-2, 2, (40, 1))
        parts.append((X, 1.3 * np.sin(2.5 * X[:, 0]) + 0.2 * rng.standard_normal(40)))
    return list(rgp.fit_many(parts, publish=10, names=[f"m{k}" for k in range(12)], privacy="things", kernel="rbf"))


def said(module, **changes):
    return replace(module, latents=(module.latents[0]._replace(**changes),))


def flipped(module, times=1.0, **changes):
    site = module.latents[0].site
    return said(module, site=site._replace(Rt=site.Rt * times, rho=-site.rho * times), **changes)


def evidence(module, **changes):
    return module.latents[0].noise_evidence._replace(**changes)


def answers(modules):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        return rgp.merge(modules).predict(AT)[0]


FORGED = {
    "noise": lambda m: replace(flipped(m), likelihoods=(Gaussian(1e4),)),
    "more noise": lambda m: replace(flipped(m), likelihoods=(Gaussian(1e8),)),
    "rows": lambda m: flipped(m, rows=10**15),
    "rows and another kernel": lambda m: flipped(
        m,
        rows=10**15,
        kernel=rgp.fit(AT, AT[:, 0], kernel="linear", learn=False, allow_small=True, privacy="things").kernel_spec,
    ),
    "sure": lambda m: flipped(m, 1e3),
    "surer": lambda m: flipped(m, 1e25),
    "weights of rows": lambda m: flipped(m, effective_rows=1e100),
    "degrees of freedom": lambda m: flipped(m, noise_evidence=evidence(m, dof=1e100, residual=1e-300)),
    "residuals": lambda m: flipped(m, noise_evidence=evidence(m, residual=1e100)),
    "squares": lambda m: flipped(m, noise_evidence=evidence(m, chi2=1e100)),
    "left open": lambda m: flipped(m, noise_evidence=evidence(m, residual_variance=1e100)),
    "prior mean": lambda m: flipped(m, mean=1e99),
    "evidence": lambda m: said(m, site=m.latents[0].site._replace(e=torch.tensor(1e99, dtype=torch.float64))),
}


@pytest.mark.parametrize(
    "what", [pytest.param(w, marks=[] if w in ("noise", "rows") else pytest.mark.slow) for w in FORGED]
)
def test_one_forged_number_does_not_bend_the_merge(honest, what):
    clean = answers(honest[1:])
    np.testing.assert_allclose(answers([FORGED[what](honest[0]), *honest[1:]]), clean, atol=0.05)


def test_a_site_says_no_more_than_its_rows_can(honest):
    """σ² tr(K_ZZ RRᵀ) ≤ n·max k(x, x), for honest modules of any noise."""
    rng = np.random.default_rng(1)
    for noise, n in ((1e-4, 15), (0.09, 60), (4.0, 200)):
        X = rng.uniform(-2, 2, (n, 2))
        m = rgp.fit(X, np.sin(X).sum(1) + noise**0.5 * rng.standard_normal(n), noise=noise, privacy="things")
        site, kernel = m.latents[0].site, m.kernel_spec
        K, Rt = kernel.matrix(site.Z, site.Z).numpy(), site.Rt.numpy()
        assert noise * np.trace(K @ Rt.T @ Rt) <= n * kernel.diagonal(site.Z).max().item() * (1 + 1e-9)


def test_who_says_more_than_its_rows_can_does_not_count(honest):
    site = honest[0].latents[0].site
    sure = said(honest[0], site=site._replace(Rt=1e6 * site.Rt, rho=1e6 * site.rho))
    imported = replace(sure, about=sure.about._replace(method="moments"))
    for module, weight in ((sure, 0.0), (imported, 1e-6)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rgp.RecycleGPWarning)
            row = rgp.merge([module, *honest[1:]]).report()[0]
        assert "more than its rows and its noise allow" in row["trust"]
        assert row["weight"] <= weight


def test_what_cannot_be_is_flagged_where_nobody_else_knows(honest):
    """At one place beside all others', far larger than f can be."""
    site = honest[0].latents[0].site
    far = said(honest[0], site=site._replace(Z=0 * site.Z + 4.0, rho=1e9 * site.rho))
    with pytest.warns(rgp.RecycleGPWarning, match="do not count"):
        e = rgp.merge([far, *honest[1:]])
    np.testing.assert_allclose(e.predict(AT)[0], answers(honest[1:]), atol=1e-6)


def test_votes():
    assert influence.votes([10.0, 20.0]) == [10.0, 20.0]  # of two nobody can say whose is unusual
    assert influence.votes([10.0] * 9 + [1e15]) == [10.0] * 10
    assert influence.votes([5.0] * 6 + [500.0] * 4) == [5.0] * 6 + [500.0] * 4


def test_far_points_do_not_spoil_distances():
    """Of points at 1e12 beside points at one, in two inputs."""
    from recyclegp.kernels import parse

    kernel = parse("rbf", 2)
    near = torch.tensor(np.random.default_rng(0).uniform(0, 1, (6, 2)))
    both = torch.cat([near, near + 1e12])
    K = kernel.matrix(both, both)
    torch.testing.assert_close(K[:6, :6], kernel.matrix(near, near), rtol=1e-10, atol=0)
    assert torch.linalg.eigvalsh(K).min() > -1e-9
