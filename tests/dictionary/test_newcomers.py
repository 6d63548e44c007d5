"""Who comes after a merge is screened at its own price; whoever does not clearly agree has everybody screened."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.errors import ContradictionWarning
from recyclegp.merging import newcomers
from recyclegp.merging.consensus import Consensus, fit, statements
from recyclegp.merging.member import stored

NAMES = [f"m{i:02d}" for i in range(12)]
OPTIONS = {"inducing": 25, "owners": None}


def truth(X):
    return 3 + np.sin(X[:, 0]) + 0.3 * X[:, 1]


def module(name, seed, change=lambda y: y, rows=60, noise=0.2, **options):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (rows, 2))
    y = change(truth(X) + noise * rng.normal(size=rows))
    return rgp.fit(X, y, name=name, publish=14, **{"kernel": "rbf", **options})


@pytest.fixture(scope="module")
def modules():
    return [module(name, i) for i, name in enumerate(NAMES)]


@pytest.fixture
def merged(modules, request):
    d = rgp.Dictionary(f"memory://newcomers-{request.node.name}")
    for m in modules:
        d.add(m)
    return d, d.merge(**OPTIONS)


def same(one, other, tolerance=1e-10):
    X = np.random.default_rng(9).uniform(-3, 3, (40, 2))
    for a, b in zip((*one.predict(X), *one.predict_y(X)), (*other.predict(X), *other.predict_y(X)), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


def test_who_agrees_is_added_at_its_own_price(merged, monkeypatch):
    d, first = merged
    kept, read, real = d._memory.last.kept, [], d.read
    monkeypatch.setattr(d, "read", lambda name: (read.append(name), real(name))[1])
    for i, name in enumerate(("n1", "n2", "n3")):
        d.add(module(name, 50 + i, rows=30))
        now = d.merge(**OPTIONS)
        assert d._memory.last.kept is kept
        first = first.add(d.get(name))
        same(now, first)
    assert [m.verdict.standing.value for m in now._members] == ["trusted"] * 15
    assert {m.name for m in now._members if m.added_after_merge} == {"n1", "n2", "n3"}
    assert set(read) == {"n1", "n2", "n3"}
    d.remove("n2")  # nothing was learned from it
    same(d.merge(**OPTIONS), first.remove("n2"))
    assert d._memory.last.kept is kept


BAD = {
    "the other sign": lambda m: m.transform(output_scale=-1.0),
    "another unit": lambda m: m.transform(output_scale=10.0),
    "another place": lambda m: m.transform(input_scale=[25.4, 1.0]),
    "a level of its own": lambda m: m.transform(output_shift=4.0),
}


@pytest.mark.parametrize("what", BAD)
def test_who_does_not_clearly_agree_has_everybody_screened(merged, what):
    d, _ = merged
    kept = d._memory.last.kept
    d.add(BAD[what](module("liar", 70)))
    assert d.merge_again(**OPTIONS) is None
    with pytest.warns(ContradictionWarning):
        now = d.merge(**OPTIONS)
    assert d._memory.last.kept is not kept
    with pytest.warns(ContradictionWarning):
        wanted = rgp.merge([d.get(entry.name) for entry in d.list()], **OPTIONS)
    same(now, wanted)
    (flagged,) = [m for m in now._members if m.name == "liar"]
    assert flagged.verdict.standing.value != "trusted"


def test_nobody_is_compared_with_what_it_has_said_itself(merged, monkeypatch):
    """Otherwise a module could move away from the others step by step."""
    d, first = merged
    d.add(module("n1", 50))
    d.merge(**OPTIONS)
    seen, real = [], newcomers.agree
    monkeypatch.setattr(newcomers, "agree", lambda *given: (seen.append(given), real(*given))[1])
    kept = d._memory.last.kept
    d.replace(module("n1", 51))
    now = d.merge(**OPTIONS)
    ((form, members, _, new),) = seen
    assert [m.name for m in members] == list(NAMES)
    assert [m.name for m in new] == ["n1"]
    np.testing.assert_allclose(form.solution.v, first.groups[0].form.solution.v, rtol=0, atol=1e-6)
    assert d._memory.last.kept is kept
    same(now, first.add(d.get("n1")))


def test_left_out_is_as_if_it_were_not_there(merged):
    d, first = merged
    kept = d._memory.last.kept
    d.add(BAD["the other sign"](module("liar", 70)))
    again = d.merge(without=["liar"], **OPTIONS)
    assert again is first  # nothing has changed
    d.add(module("n1", 50))
    same(d.merge(without=["liar"], **OPTIONS), first.add(d.get("n1")))
    assert d._memory.last.kept is kept
    assert d.merge_again(**OPTIONS) is None  # now it is there


def members_of(e, module):
    """Of one more module, as the ensemble counts it."""
    return tuple(m for m in e.add(module)._members if m.name == module.name)


def test_claims_that_nobody_can_make(merged):
    """Noise, rows and sites that a merge would not believe, although what they say of f is right."""
    _, first = merged
    form, members = first.groups[0].form, first._members
    at = newcomers.levels(members, stored(members, now=False))
    (honest,) = members_of(first, module("n1", 50))
    assert newcomers.agree(form, members, at, [honest])
    assert not newcomers.agree(form, members, at, [honest, honest])  # one is a copy of the other
    assert not newcomers.agree(form, members, at, [members[3]])
    (gaussian,) = honest.likelihoods
    loud = honest._replace(likelihoods=(type(gaussian)(gaussian.values[0] * 1e6),))
    assert not newcomers.agree(form, members, at, [loud])
    site = honest.latent.site
    sure = site._replace(Rt=site.Rt * 1e3, rho=site.rho * 1e3)
    assert not newcomers.agree(form, members, at, [honest._replace(latent=honest.latent._replace(site=sure))])


def test_the_distance_of_a_newcomer_against_numpy(merged):
    """z² = eᵀ(I + RᵀVR)⁻¹e with e = ρ − Rᵀm, where N(m, V) is what the others say of f at its points."""
    _, e = merged
    (new,) = members_of(e, module("n1", 50, rows=40))
    form, site = e.groups[0].form, new.site_now
    with stored([new]) as store:
        said = statements(form.basis, store, form.mean)
    nobody = torch.zeros(1, dtype=torch.bool)
    found = fit(said, Consensus(nobody, form.solution.v, form.solution.C, 0.0, 0.0), form.mean, 1.0)
    mean, V = e.predict_joint(site.Z.numpy())
    R = site.Rt.numpy()
    error = site.rho.numpy() - R @ mean
    z2 = error @ np.linalg.solve(np.eye(len(R)) + R @ V @ R.T, error)
    np.testing.assert_allclose(float(found.chi2[0]), z2, rtol=1e-6)


def test_learned_anew_although_nothing_has_changed(merged):
    """What was remembered may be one that somebody was only added to."""
    d, _ = merged
    d.add(module("n1", 50))
    quick = d.merge(**OPTIONS)
    assert {m.name for m in quick._members if m.added_after_merge} == {"n1"}
    assert d.merge_again(relearn=True, **OPTIONS) is None
    d.merge(**OPTIONS)
    anew = d.merge(relearn=True, **OPTIONS)
    assert not any(m.added_after_merge for m in anew._members)
    same(anew, rgp.merge([d.get(entry.name) for entry in d.list()], **OPTIONS))
    assert d.merge(**OPTIONS) is anew
