"""Owners who ask for themselves: a share of what their own module says, and a noise that is known as far as it is."""

import numpy as np
import pytest
import torch
from scipy import stats

import recyclegp as rgp
from recyclegp.errors import ContradictionWarning

X = np.linspace(-2, 2, 9)[:, None]


def owners(unlike, K=6, rows=25, seed=0):
    """Functions of one kind, or each with a size, a frequency and a noise of its own."""
    rng, found = np.random.default_rng(seed), []
    for k in range(K):
        x = rng.uniform(-3, 3, (rows, 1))
        size, pace, phase = (1.5**k / 4, 0.5 + 0.35 * k, 2.0 * k) if unlike else (1.0, 1.5, 0.0)
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


def with_ripples(size, noise, name, rng):
    """Of a function that all share but for these ripples, which look like a rougher function with little noise."""
    x = rng.uniform(-3, 3, (40, 1))
    y = np.sin(1.5 * x[:, 0]) + size * np.sin(7 * x[:, 0] + 8) + noise * rng.standard_normal(40)
    return rgp.fit(x, y, name=name)


@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
def test_who_counts_less_has_so_much_more_of_its_own_answer(tmp_path):
    """What the merge has not taken of a module that is surer than the others expect, its owner is answered from it."""
    rng = np.random.default_rng(0)
    modules = [*(with_ripples(0, 0.1, f"w{k}", rng) for k in range(8)), with_ripples(0.2, 0.02, "rippled", rng)]
    e = rgp.merge(modules)
    group = e.groups[0]
    k, name = 8, "rippled"
    weight, a = group.members[k].weight, group.own_share
    assert 0 < weight < 1
    assert group.members[k].verdict.is_unexpected
    posterior = group.process(name, of_y=False).posterior
    assert posterior.share == pytest.approx(1 - weight * (1 - a))
    mean, _ = e.predict(X, owner=name)
    first = posterior.first.predict(torch.as_tensor(X)).mean.numpy()
    own = np.asarray(modules[k].predict(X)[0])
    np.testing.assert_allclose(mean, first + posterior.share * (own - first), rtol=1e-9)
    e.save(tmp_path / "e.safetensors")
    again = rgp.load(tmp_path / "e.safetensors")
    np.testing.assert_allclose(again.predict_y(X, owner=name), e.predict_y(X, owner=name), rtol=1e-10)
    # somebody has made it count less: the merge answers
    lighter = rgp.merge(modules, weights={name: weight}, trust=None)
    assert not hasattr(lighter.groups[0].process(name, of_y=False).posterior, "share")


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


def doses(half, highest, name, rng):
    """Fifteen plants under doses that grow by factors of three, of a weed killer of this strength."""
    x = np.repeat([0.0, *(highest / 3.0 ** np.arange(6)[::-1])], 3)[:, None]
    y = 2 / (1 + (x[:, 0] / half) ** 1.2) + 0.05 * rng.standard_normal(len(x))
    kept = rng.permutation(len(x))[:15]
    return rgp.fit(x[kept], y[kept], name=name)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_kernel_that_two_camps_have_bent_answers_nobody(seed):
    """It is so rough that neighbouring points have nothing to do with each other: each is better off alone."""
    rng = np.random.default_rng(seed)
    weak = [doses(3.0, 150.0, f"weak {i}", rng) for i in range(3)]
    strong = [doses(0.15, 3.0, f"strong {i}", rng) for i in range(2)]
    with pytest.warns(ContradictionWarning, match="does not help these owners"):
        e = rgp.merge([*weak, *strong])
    for m in (*weak, *strong):
        np.testing.assert_allclose(e.predict(X**2, owner=m.name), m.predict(X**2), rtol=1e-9)
    found = e.predict_y(X**2, owner="weak 0")  # with a noise that is known as far as fifteen rows say
    assert (np.asarray(found[1]) >= np.asarray(weak[0].predict(X**2)[1]) + weak[0].noise).all()


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
