"""Owners who ask for themselves: a share of what their own module says, and a noise that is known as far as it is."""

import numpy as np
import pytest
import torch
from scipy import stats

import recyclegp as rgp

X = np.linspace(-2, 2, 9)[:, None]


def owners(unlike, K=6, rows=25, seed=0):
    """Functions of one kind, or each with a size, a frequency and a noise of its own."""
    rng, found = np.random.default_rng(seed), []
    for k in range(K):
        x = rng.uniform(-3, 3, (rows, 1))
        size, pace, phase = (4.0**k / 8, 0.5 + 0.8 * k, 2.0 * k) if unlike else (1.0, 1.5, 0.0)
        y = size * np.sin(pace * x[:, 0] + phase) + 0.1 * size * rng.standard_normal(rows)
        found.append(rgp.fit(x, y, name=f"w{k}"))
    return found


@pytest.fixture(scope="module")
def modules():
    return owners(unlike=True)


@pytest.fixture(scope="module")
def ensemble(modules):
    with pytest.warns(rgp.RecycleGPWarning):  # they have little in common
        return rgp.merge(modules)


def test_owners_who_have_little_in_common_are_answered_from_their_own(ensemble):
    assert ensemble.groups[0].own_share > 0.3


def test_a_share_is_of_the_mixture(ensemble, modules):
    """Mean and variance of f from the two answers, at the share."""
    group = ensemble.groups[0]
    own = next(m for m in group.members if m.weight == 1)
    a, posterior = group.own_share, group.process(own.owner, of_y=False).posterior
    module = next(m for m in modules if m.name == own.name)
    mean, variance = (np.asarray(t) for t in module.predict(X))
    first = posterior.first.predict(torch.as_tensor(X))
    expected = (1 - a) * first.mean.numpy() + a * mean
    spread = (1 - a) * first.variance.numpy() + a * variance + a * (1 - a) * (first.mean.numpy() - mean) ** 2
    found = ensemble.predict(X, owner=own.owner)
    np.testing.assert_allclose(found[0], expected, rtol=1e-9)
    np.testing.assert_allclose(found[1], spread, rtol=1e-9)


def test_it_is_kept_in_files_and_in_other_units(ensemble, tmp_path):
    ensemble.save(tmp_path / "e.safetensors")
    again = rgp.load(tmp_path / "e.safetensors")
    assert again.groups[0].own_share == ensemble.groups[0].own_share
    np.testing.assert_allclose(again.predict_y(X, owner="w1"), ensemble.predict_y(X, owner="w1"), rtol=1e-10)


def test_who_comes_later_and_the_shared_function_have_none(ensemble, modules):
    later = ensemble.add(owners(unlike=True, K=1, seed=9)[0].rename("late"))
    group = later.groups[0]
    assert not hasattr(group.process("late", of_y=False).posterior, "share")
    assert not hasattr(group.process(None, of_y=False).posterior, "share")


def test_one_function_is_answered_together():
    alike = owners(unlike=False)
    e = rgp.merge(alike)
    assert e.groups[0].own_share < 0.2
    for how in ({"owners": None}, {"owners": "smooth"}, {"learn": False}):
        assert rgp.merge(alike, **how).groups[0].own_share == 0


def test_a_noise_of_few_rows_is_student_t():
    """y is t where f is known, with as many degrees of freedom as there are for its noise."""
    rng, modules = np.random.default_rng(3), []
    for k in range(3):
        x = np.repeat(np.linspace(-1, 1, 2), 6)[:, None]
        modules.append(rgp.fit(x, rng.standard_normal(12), name=f"w{k}"))
    e = rgp.merge(modules, owners=None, trust=None)
    group = e.groups[0]
    noise = group.noise_of("w1", 0)
    belief, own = group.noises[0].dof, [m.noise_evidence.dof for m in group.members]
    dof = sum(own) if np.isinf(belief) else own[1] + belief
    f = torch.zeros(1, dtype=torch.float64)
    high = float(noise.interval(f, f, 0.95).high[0])
    sd = group.members[1].noise ** 0.5
    assert high == pytest.approx(sd * stats.t(dof).ppf(0.975), rel=0.01)
    assert high > 1.02 * sd * stats.norm.ppf(0.975)
