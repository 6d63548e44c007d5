"""Modules whose search elsewhere had not ended: they are of use, and never decide what is learned."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.core import sites
from recyclegp.core.effects import NO_EFFECTS
from recyclegp.core.posterior import Joint
from recyclegp.core.sites import Site
from recyclegp.kernels import parse
from recyclegp.merging.member import Member
from recyclegp.merging.merge_config import _as_far_as_they_agree
from recyclegp.merging.site_store import SiteStore
from recyclegp.merging.unfinished import agreeing_share, consistent_share, finished_part, is_absurd
from recyclegp.merging.verdicts import Standing, Verdict
from recyclegp.record import Latent

KERNEL = "rbf(outputscale=2, lengthscale=0.5)"
AUTHORS = Path(__file__).parents[3] / "shared" / "data" / "authors"


def rbf(A: np.ndarray, B: np.ndarray, variance: float = 2.0, length: float = 0.5) -> np.ndarray:
    return variance * np.exp(-0.5 * np.square((A[:, None] - B[None]) / length).sum(-1))


def stopped(rng: np.random.Generator, low: float, name: str) -> rgp.Module:
    """The mean of q has moved; its covariance is the identity, wider than the prior in some directions."""
    Z = low + np.linspace(0, 1, 5)[:, None]
    mean = 2 * np.sin(3 * Z[:, 0]) + 0.1 * rng.standard_normal(5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rgp.Module.from_moments(Z, mean, np.eye(5), kernel=KERNEL, noise=0.04, name=name)


def finished(rng: np.random.Generator, low: float, name: str) -> rgp.Module:
    X = rng.uniform(low, low + 1, (60, 1))
    return rgp.fit(X, 2 * np.sin(3 * X[:, 0]) + 0.2 * rng.standard_normal(60), name=name)


@pytest.mark.parametrize("beside", [False, True])
def test_what_counts_of_a_site_against_numpy(beside: bool) -> None:
    """Directions of the whitened site whose statement lies too far away are gone; the rest has its share left.

    Beside others the site says that f(Z) is where q had its mean, in these directions, as precisely as before.
    """
    m = stopped(np.random.default_rng(3), 0.0, "a")
    latent: Latent = m.latents[0]
    found = finished_part(latent, beside=beside)
    Z = latent.known_site.Z.numpy()
    L = np.linalg.cholesky(rbf(Z, Z) + latent.jitter * np.eye(5))
    T = latent.known_site.Rt.numpy() @ L
    p, U = np.linalg.eigh(T.T @ T)
    moved = U.T @ T.T @ latent.known_site.rho.numpy()
    counts = moved**2 <= 30**2 * p * (1 + p)
    assert 0 < counts.sum() < 5
    Rt = found.known_site.Rt.numpy() @ L
    want = counts.mean() * (U[:, counts] * p[counts]) @ U[:, counts].T
    np.testing.assert_allclose(Rt.T @ Rt, want, atol=1e-7 * want.max())
    said = Rt.T @ found.known_site.rho.numpy()
    mean_of_q = np.linalg.solve(np.eye(5) + T.T @ T, T.T @ latent.known_site.rho.numpy())
    natural = p[counts] * (U[:, counts].T @ mean_of_q) if beside else moved[counts]
    np.testing.assert_allclose(said, counts.mean() * U[:, counts] @ natural, atol=1e-7 * np.abs(said).max())


@pytest.mark.parametrize("order", [("bad", "good"), ("good", "bad")])
def test_beside_others_it_says_where_q_had_its_mean_whoever_comes_first(order: tuple[str, str]) -> None:
    rng = np.random.default_rng(5)
    modules = {"bad": stopped(rng, 0.0, "bad"), "good": finished(rng, 0.5, "good")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        both = rgp.merge([modules[name] for name in order], learn=False)
        alone = rgp.merge([modules["bad"]], learn=False)
        added = rgp.merge([modules["good"]], learn=False).add([modules["bad"]])
    own = modules["bad"].latents[0]
    for e, beside in ((both, True), (alone, False), (added, True)):
        kept = next(m for m in e.groups[0].members if m.name == "bad").latent.known_site
        torch.testing.assert_close(kept.rho, finished_part(own, beside=beside).known_site.rho)


def test_a_merge_of_nothing_finished_is_not_absurd() -> None:
    rng = np.random.default_rng(4)
    modules = [stopped(rng, 0.9 * k, f"m{k}") for k in range(5)]
    with pytest.warns(rgp.RecycleGPWarning, match="was not learned"):
        e = rgp.merge(modules)
    X = np.linspace(0, 4, 50)[:, None]
    mean, _ = e.predict(X)
    assert np.abs(mean).max() < 10
    assert all(row["weight"] > 0 for row in e.report())


@pytest.mark.parametrize("position", [0, 2])
def test_one_unfinished_module_does_not_decide_what_is_learned(position: int) -> None:
    rng = np.random.default_rng(7)
    good = [finished(rng, 0.8 * k, f"m{k}") for k in range(4)]
    bad = stopped(rng, 0.8 * position, "bad")
    mixed = [*good[:position], bad, *good[position + 1 :]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = rgp.merge([*good[:position], *good[position + 1 :]])
        both = rgp.merge(mixed)
    assert both.names == [m.name for m in mixed]
    torch.testing.assert_close(both.kernel.base_kernel.lengthscale, alone.kernel.base_kernel.lengthscale)
    X = rng.uniform(0, 3.4, (200, 1))
    y = 2 * np.sin(3 * X[:, 0]) + 0.2 * rng.standard_normal(200)
    clean = -rgp.merge(good).log_density(X, y).mean()
    left_out, now = -alone.log_density(X, y).mean(), -both.log_density(X, y).mean()
    assert now < max(left_out, clean) + 0.02


def test_a_result_far_outside_what_anybody_says_is_absurd() -> None:
    m = finished(np.random.default_rng(1), 0.0, "a")
    e = rgp.merge([m, finished(np.random.default_rng(2), 0.5, "b")])
    members = e.groups[0].members
    kernel = e.groups[0].form.kernel
    assert not is_absurd(kernel, e.groups[0].form.mean, members)
    assert is_absurd(kernel.with_theta(kernel.theta + 6.0), e.groups[0].form.mean, members)
    assert is_absurd(kernel, 1e4, members)


def test_modules_of_small_regions_say_by_their_means_how_large_f_is() -> None:
    """Each sees next to nothing of a wave of height 20; together they see all of it."""
    rng = np.random.default_rng(0)
    edges = np.linspace(0, 4, 201)
    x = [np.sort(rng.uniform(a, b, 60)) for a, b in pairwise(edges)]
    parts = [(at[:, None], 20 * np.sin(3 * at) + rng.normal(size=60)) for at in x]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # two points keep little
        modules = rgp.fit_many(parts, privacy="things", publish=2, progress=False)
    e = rgp.merge(modules)
    own = max(float(m.kernel_spec.diagonal(torch.zeros(1, 1, dtype=torch.float64))) for m in modules)
    group = e.groups[0]
    assert float(group.form.kernel.diagonal(torch.zeros(1, 1, dtype=torch.float64))) > 100 * own
    assert not is_absurd(group.form.kernel, group.form.mean, group.members)
    grid = np.linspace(0.05, 3.95, 50)
    mean, _ = e.predict(grid[:, None])
    assert np.sqrt(np.mean((mean - 20 * np.sin(3 * grid)) ** 2)) < 0.5


def of_the_authors(d: Mapping[str, np.ndarray], likelihood: str) -> list[rgp.Module]:
    modules = []
    for i in range(sum(key.endswith("_Z") and key.startswith("module") for key in d)):
        L = d[f"module{i}_L"].reshape(d[f"module{i}_L"].shape[-2:])
        variance, length = (float(np.ravel(d[f"module{i}_{key}"])[0]) for key in ("var", "ls"))
        noise = float(np.ravel(d[f"module{i}_sigma"])[0]) ** 2 if likelihood == "gaussian" else None
        kernel = f"rbf(outputscale={variance!r}, lengthscale={length!r})"
        Z, mean = d[f"module{i}_Z"], d[f"module{i}_m"].ravel()
        modules.append(
            rgp.Module.from_moments(Z, mean, L @ L.T, kernel=kernel, likelihood=likelihood, noise=noise, name=f"m{i}")
        )
    return modules


@pytest.mark.skipif(not AUTHORS.exists(), reason="modules of the authors' program are not here")
@pytest.mark.parametrize(
    ("name", "likelihood", "most"), [("banana", "bernoulli", 0.27), ("regression10k", "gaussian", 2.9)]
)
def test_modules_of_the_authors_program(name: str, likelihood: str, most: float) -> None:
    d = np.load(AUTHORS / f"{name}.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules = of_the_authors(d, likelihood)
        X, y = d["test_x"], d["test_y"].ravel()
        found = -rgp.merge(modules).log_density(X, y).mean()
        fixed = -rgp.merge(modules, learn=False).log_density(X, y).mean()
    assert found <= most
    assert found <= fixed + 0.03


@pytest.mark.slow
@pytest.mark.skipif(not AUTHORS.exists(), reason="modules of the authors' program are not here")
def test_one_of_the_authors_modules_among_three_of_ours_costs_next_to_nothing() -> None:
    d = np.load(AUTHORS / "banana.npz")
    X, y = d["test_x"], d["test_y"].ravel()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = of_the_authors(d, "bernoulli")
        rows = [(d[f"data{i}_x"], d[f"data{i}_y"].ravel()) for i in range(4)]
        ours = [rgp.fit(*own, name=f"o{i}", likelihood="bernoulli", privacy="things") for i, own in enumerate(rows)]
        found = [-rgp.merge([*ours[:i], theirs[i], *ours[i + 1 :]]).log_density(X, y).mean() for i in range(4)]
        clean = -rgp.merge(ours).log_density(X, y).mean()
    assert max(found) <= clean + 0.02


@pytest.mark.parametrize("knows", [0.01, 4.0])
def test_so_much_counts_as_agrees_with_what_the_others_know(knows: float) -> None:
    """The squared distance of each row under N(Rᵀm, RᵀCR + I), against NumPy."""
    rng = np.random.default_rng(8)
    Z, Rt, rho, mean = rng.standard_normal((4, 1)), rng.standard_normal((4, 4)), rng.standard_normal(4), np.full(4, 5.0)
    C = knows * np.eye(4)

    class Others(NamedTuple):
        def joint(self, X: torch.Tensor) -> Joint:
            return Joint(torch.as_tensor(mean), torch.as_tensor(C))

    site = Site(*map(torch.as_tensor, (Z, Rt, rho)), torch.zeros((), dtype=torch.float64))
    kernel = rgp.fit(Z, rho).latents[0].kernel
    away = rho - Rt @ mean
    ratio = away @ np.linalg.solve(Rt @ C @ Rt.T + np.eye(4), away) / 4
    found = agreeing_share(site, Others(), kernel, NO_EFFECTS)  # type: ignore[arg-type]
    assert found == pytest.approx(min(1.0, 1 / ratio))
    assert agreeing_share(site._replace(rho=site.Rt @ torch.as_tensor(mean)), Others(), kernel, NO_EFFECTS) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("screened", [1.0, 0.5, 0.01])
def test_what_screening_has_taken_away_is_not_taken_away_again(screened: float) -> None:
    """What was published agrees as far as a ratio says; the smaller of that and of what screening left counts."""
    rng = np.random.default_rng(8)
    m = finished(rng, 0.0, "a")
    own = m.latents[0]
    site = own.known_site
    mean = (rng.standard_normal(len(site.Z)) + 3.0).tolist()

    class Others(NamedTuple):
        def joint(self, X: torch.Tensor) -> Joint:
            return Joint(X.new_tensor(mean), 0.3 * torch.eye(len(X), dtype=X.dtype))

    verdict = Verdict(Standing.UNCHECKED, "it is too sure", share=screened, weight=2.0) if screened < 1 else None
    member = Member(m.about, own, m.likelihoods, 2.0 * screened, verdict=verdict)
    store = SiteStore()
    store.put(site, member.weight, 0)
    form = SimpleNamespace(posterior=Others(), kernel=own.kernel, effects=NO_EFFECTS)
    problem = SimpleNamespace(members=[member], store=store)
    (found,), left = _as_far_as_they_agree(problem, form, {0})  # type: ignore[arg-type]
    agrees = agreeing_share(sites.weighted(site, torch.tensor(2.0)), Others(), own.kernel, NO_EFFECTS)  # type: ignore[arg-type]
    assert 0.01 < agrees < 0.5
    assert found.weight == pytest.approx(2.0 * min(screened, agrees))
    assert found.verdict is not None
    assert (found.verdict.weight, found.verdict.share) == (2.0, pytest.approx(min(screened, agrees)))
    ((_, counts),) = left.each()
    torch.testing.assert_close(counts.Rt, found.weight**0.5 * site.Rt)


class KnownInPart(NamedTuple):
    """Four points of f ~ N(0, I) at the first two of which it is known with variances of a hundredth."""

    def joint(self, X: torch.Tensor) -> Joint:
        return Joint(*(torch.as_tensor(np.array(v)) for v in ([5.0, -5.0, 0.0, 0.0], np.diag([0.01, 0.01, 1.0, 1.0]))))


FAR_APART = torch.tensor([[0.0], [1e3], [2e3], [3e3]], dtype=torch.float64)  # of which none says anything of another


@pytest.mark.parametrize("sure", [1.0, 1e9])
@pytest.mark.parametrize("away", [0.05, 2.0])
def test_whoever_decides_nothing_counts_as_far_as_it_is_where_it_is_known(sure: float, away: float) -> None:
    """Σ z²/(c + 1/s) = 2 + 2·√4 over the two points that are known, whatever it says of the others."""
    kernel = parse("rbf", 1)
    kernel = kernel.with_theta(torch.zeros_like(kernel.theta))
    root = 4 * sure**0.5
    says = torch.tensor([5.0 + away, -5.0, 100.0, 0.0], dtype=torch.float64)
    site = Site(FAR_APART, root * torch.eye(4, dtype=torch.float64), root * says, torch.zeros((), dtype=torch.float64))
    found = consistent_share(site, KnownInPart(), kernel, NO_EFFECTS)  # type: ignore[arg-type]
    if sure == 1:  # sixteen numbers of noise one say less than the others know
        assert found == agreeing_share(site, KnownInPart(), kernel, NO_EFFECTS)  # type: ignore[arg-type]
    elif away == 0.05:
        assert found == 1
    else:
        noise = 1 / (found * root**2)
        assert away**2 / (0.01 + noise) == pytest.approx(6.0, rel=1e-6)


def elsewhere(rng: np.random.Generator, offset: float, name: str) -> rgp.Module:
    """The moments of a search that had ended, from another program."""
    m = finished_with(rng, offset, name)
    Z = m.latents[0].known_site.Z.numpy()
    mean, covariance = m.predict_joint(Z)
    return rgp.Module.from_moments(
        Z, mean, covariance, kernel=m.kernel_spec.describe(), prior_mean=m.latents[0].mean, noise=m.noise, name=name
    )


def finished_with(rng: np.random.Generator, offset: float, name: str) -> rgp.Module:
    X = rng.uniform(0, 3, (60, 1))
    y = 2 * np.sin(3 * X[:, 0]) + offset + 0.2 * rng.standard_normal(60)
    return rgp.fit(X, y, kernel="rbf", name=name, privacy="things")


@pytest.mark.parametrize("fitted", [3, 5])
def test_imports_whose_owners_differ_as_others_do_are_not_in_doubt(fitted: int) -> None:
    rng = np.random.default_rng(8)
    offsets = (0.0, 1.5, -1.0, 0.8, -1.6)[:fitted]
    modules = [finished_with(rng, b, f"m{k}") for k, b in enumerate(offsets)]
    modules.append(elsewhere(rng, 1.2, "import"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = rgp.merge(modules).report()
    assert all(row["weight"] == 1 for row in report)


def test_one_wrong_fit_does_not_put_imports_in_doubt() -> None:
    """Of two modules fitted here one is in another unit; three imports agree with each other."""
    rng = np.random.default_rng(9)
    fits = [finished_with(rng, 0.0, "m0"), finished_with(rng, 0.0, "m1").transform(output_scale=10.0)]
    imports = [elsewhere(rng, 0.0, f"import{k}") for k in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = rgp.merge([*fits, *imports]).report()
    assert [row["weight"] for row in report[2:]] == [1, 1, 1]


@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
@pytest.mark.parametrize("first", [True, False])
def test_one_of_a_single_output_counts_whether_it_comes_before_those_of_several_or_after(first: bool) -> None:
    rng = np.random.default_rng(24)
    X = rng.uniform(0, 2, (40, 1))
    both = rgp.fit(X, np.c_[np.sin(3 * X), np.cos(X)], target=["heat", "salt"], name="both", learn=False, publish=8)
    Z = np.linspace(2.5, 3.5, 5)[:, None]
    single = rgp.Module.from_moments(
        Z, 2 * np.sin(3 * Z[:, 0]), np.eye(5), kernel=KERNEL, noise=0.04, name="single", target="heat"
    )
    assert not single.convergence.converged
    e = rgp.merge([single, both] if first else [both, single], learn=False)
    other = rgp.merge([both, single] if first else [single, both], learn=False)
    alone = rgp.merge([both], learn=False)
    at = np.linspace(0, 4, 9)[:, None]
    np.testing.assert_allclose(e.predict(at)[0], other.predict(at)[0], rtol=1e-7, atol=1e-9)
    assert np.abs(e.predict(at)[0] - alone.predict(at)[0])[:, 0].max() > 0.05
