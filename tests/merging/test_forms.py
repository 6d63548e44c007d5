"""Exact and at points: both answer the same questions, and operations on either are the form made anew."""

from dataclasses import dataclass, fields

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.core import publishing
from recyclegp.core.effects import NO_EFFECTS, Effects
from recyclegp.core.posterior import basis, features
from recyclegp.core.sites import Site
from recyclegp.core.stacked import stack
from recyclegp.errors import RecycleGPError
from recyclegp.kernels import parse
from recyclegp.likelihoods import Gaussian
from recyclegp.local.observations import Observed
from recyclegp.merging import affordable, build
from recyclegp.merging.agreement import compared, remembered
from recyclegp.merging.decay import check_decay, decayed_members
from recyclegp.merging.exact_form import ExactForm
from recyclegp.merging.extending import GrowthLimits, cover, select_for_site
from recyclegp.merging.member import Member, stored
from recyclegp.merging.owners import by_owner, owner_numbers, owner_site
from recyclegp.merging.points_form import PointsForm
from recyclegp.merging.updating import summarise
from recyclegp.record import About, Latent

KERNEL, MEAN, DIFFER = parse("rbf", 2), 0.3, Effects(0.3, 0.1)
KINDS = pytest.mark.parametrize("kind", ["exact", "points"])
STRETCHED = Effects(0.3, 0.1, (0.5, -0.4))
EFFECTS = pytest.mark.parametrize("effects", [NO_EFFECTS, DIFFER, STRETCHED], ids=["alike", "differ", "stretched"])
SAME, ANY = GrowthLimits(200.0, False, None), GrowthLimits(200.0, True, None)
X = torch.tensor(np.random.default_rng(9).uniform(-2, 2, (7, 2)))
Z = torch.tensor(np.random.default_rng(8).uniform(-1, 1, (12, 2)))


def member(i, owner, centre=0.0, weight=1.0, function=0):
    rng = np.random.default_rng(i)
    M = (4, 6, 5)[i % 3]
    r = M if i % 2 else M - 1
    points, Rt = centre + rng.uniform(-1, 1, (M, 2)), 3 * rng.standard_normal((r, M))
    rho = Rt @ np.sin(2 * points[:, 0]) + rng.standard_normal(r)
    site = Site(*(torch.tensor(t) for t in (points, Rt, rho, np.array(rng.standard_normal()))))
    return Member(About(f"m{i}", owner), Latent(site, KERNEL, MEAN, 20), (Gaussian(0.1),), weight, function)


MEMBERS = tuple(member(i, f"o{i % 4}", weight=1 + 0.3 * i) for i in range(6))  # two owners have sent two
FAR = tuple(member(10 + i, f"n{i}", centre=4.0) for i in range(3))


def made(kind, effects=NO_EFFECTS, members=MEMBERS):
    numbers = owner_numbers(members)
    with stored(members) as store:
        if kind == "exact":
            return ExactForm(KERNEL, MEAN, stack(store.packs(1), numbers), effects)
        return PointsForm.of(by_owner(store, numbers, effects), KERNEL, MEAN, Z, effects)


def same(a, b, tolerance=1e-9):
    for one, other in zip(a.posterior.predict(X), b.posterior.predict(X), strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
    assert a.bound == pytest.approx(b.bound, abs=1e-8)
    assert a.slack == pytest.approx(b.slack, abs=1e-8)


# --- with other sites -------------------------------------------------------------------------


@KINDS
@EFFECTS
def test_growing_is_being_made_of_all(kind, effects):
    form, everyone = made(kind, effects), MEMBERS + FAR
    numbers, first = owner_numbers(everyone), len(MEMBERS)
    assert form.can_append_owner(numbers[:first], numbers[first:])
    with stored(FAR) as store:
        grown = form.grown(store, numbers, first, SAME)
    assert (grown.appended, grown.rechosen) == ([], False)
    same(grown.form, made(kind, effects, everyone))


@KINDS
@EFFECTS
def test_only_and_like_are_being_made_of_these(kind, effects):
    some, form = MEMBERS[1:4], made(kind, effects)
    numbers = owner_numbers(some)
    with stored(some) as store:
        same(form.only(form.grouped(store, numbers), numbers), made(kind, effects, some))
        same(made(kind).like(KERNEL, MEAN, effects, Z, store, numbers), made(kind, effects, some))


def test_points_are_appended_where_the_old_ones_do_not_reach():
    form, numbers = made("points"), owner_numbers(MEMBERS + FAR)
    with stored(FAR) as store:
        stay, grown = (form.grown(store, numbers, len(MEMBERS), limits) for limits in (SAME, ANY))
    assert grown.form.slack < 0.1 * stay.form.slack
    assert len(grown.form.Z) == len(Z) + len(grown.appended)
    assert sorted(grown.appended) == grown.appended
    assert set(grown.appended) <= {0, 1, 2}
    torch.testing.assert_close(grown.form.Z[: len(Z)], Z)


@EFFECTS
def test_an_exact_form_that_becomes_too_large_is_held_at_points(effects):
    form, everyone = made("exact", effects), MEMBERS + FAR
    with stored(FAR) as store:
        found = form.grown(store, owner_numbers(everyone), len(MEMBERS), GrowthLimits(200.0, False, 20))
    assert found.rechosen
    assert found.form.kind == "points"
    lost = made("exact", effects, everyone).bound - found.form.bound
    assert -1e-6 <= lost <= found.form.slack <= 0.1  # nats, beside 200 rows


def test_an_owner_who_is_here_can_be_appended_unless_his_modules_are_one_site():
    assert made("exact", DIFFER).can_append_owner([0, 1], [1])
    assert made("points").can_append_owner([0, 1], [1])
    assert not made("points", DIFFER).can_append_owner([0, 1], [1])
    assert made("points", DIFFER).can_append_owner([0, 1], [2, 3])


@KINDS
@EFFECTS
def test_fading_is_being_made_of_smaller_weights(kind, effects):
    less = decayed_members(MEMBERS, 0.7)
    assert [m.weight for m in less] == pytest.approx([0.7 * m.weight for m in MEMBERS])
    same(made(kind, effects).faded(less, 0.7), made(kind, effects, less))


def test_without_sites_owners_that_differ_cannot_fade_at_points():
    names = tuple(m.with_site(None) for m in MEMBERS)
    with pytest.raises(RecycleGPError, match="decay: an ensemble at points whose owners differ"):
        made("points", DIFFER).faded(names, 0.5)
    with stored(MEMBERS) as store:
        form = made("points").without_sites(store)
    faded = form.faded(names, 0.5)
    same(faded, made("points").faded(decayed_members(MEMBERS, 0.5), 0.5))
    assert faded.marginal is not None


@pytest.mark.parametrize("wrong", [0.0, 1.5, -1.0, "much", float("nan")])
def test_a_decay_is_a_share(wrong):
    with pytest.raises((RecycleGPError, TypeError), match="decay"):
        check_decay(wrong)
    assert check_decay(1) == 1


# --- rows of data -----------------------------------------------------------------------------


def observed(low, high):
    rng = np.random.default_rng(3)
    return Observed(
        torch.tensor(rng.uniform(low, high, (15, 2))), torch.tensor(rng.standard_normal(15)), Gaussian(0.01)
    )


def test_rows_that_points_leave_open_become_points():
    form, new = made("points"), observed(3, 6)
    still = cover(form.kernel, form.Z, form.jitter, new, form.mean, len(form.Z))
    assert torch.equal(still.basis.Z, form.Z)
    assert still.seen.tolist() == [len(form.Z)] * 15
    covered = cover(form.kernel, form.Z, form.jitter, new, form.mean, 512)
    known, added = len(form.Z), covered.basis.Z[len(form.Z) :]
    assert 0 < len(added) <= 15
    assert torch.equal(covered.basis.Z[:known], form.Z)
    assert bool((covered.seen.diff() >= 0).all())
    assert int(covered.seen[-1]) == len(covered.basis.Z)
    left = form.kernel.diagonal(new.X) - features(covered.basis, new.X).square().sum(0)
    assert float(left.max()) < 1e-5  # beside a noise of 0.01
    # one by one they are the same points
    one = form.Z
    for i in range(15):
        row = Observed(new.X[i : i + 1], new.y[i : i + 1], new.likelihood)
        one = cover(form.kernel, one, form.jitter, row, form.mean, 512).basis.Z
    assert torch.equal(one, covered.basis.Z)
    more = form.with_points(covered.basis.Z)
    assert torch.equal(more.Z, covered.basis.Z)
    same(more, form)  # more points, and nothing that they say yet


def test_an_exact_form_has_no_points_of_its_own():
    form = made("exact")
    assert form.with_points(observed(3, 6).X) is form


def test_a_site_is_published_where_it_loses_least():
    """The first point is the best of all, the second the best beside it."""
    form, new = made("points"), observed(0, 1)
    site = summarise(form.basis, form.mean, new).site
    chosen = select_for_site(site, form.Z, form.kernel, 2)

    def lost(points):
        K = form.kernel.matrix
        left = K(site.Z, site.Z) - K(site.Z, points) @ torch.linalg.solve(K(points, points), K(points, site.Z))
        return float((site.Rt @ left @ site.Rt.mT).trace())

    singles = [lost(form.Z[i : i + 1]) for i in range(len(form.Z))]
    assert chosen[0] == int(np.argmin(singles))
    pairs = [lost(form.Z[[chosen[0], i]]) for i in range(len(form.Z)) if i != chosen[0]]
    assert lost(form.Z[chosen]) == pytest.approx(min(pairs), rel=1e-6)


# --- at other points --------------------------------------------------------------------------


@KINDS
@EFFECTS
def test_at_other_points_it_is_the_exact_marginal(kind, effects):
    form = made(kind, effects)
    there = form.at_points(X)
    assert there.Z is X
    for one, other in zip(there.posterior.joint(X), form.posterior.joint(X), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=0)  # but for the jitter of the points
    assert there.bound == pytest.approx(form.bound, abs=1e-4)
    assert there.slack == 0
    assert len(form.at_points(5).Z) == 5


def test_at_points_publishes_as_modules_do():
    form = made("points", DIFFER)
    site = publishing.publish(form.site(), form.jitter, form.kernel, form.mean, X).site
    found = form.at_points(X).site()
    torch.testing.assert_close(found.Rt.mT @ found.Rt, site.Rt.mT @ site.Rt)
    torch.testing.assert_close(found.Rt.mT @ found.rho, site.Rt.mT @ site.rho)
    assert form.at_points(None) is form
    assert form.at_points(len(Z)) is form


def test_an_exact_form_is_at_as_many_points_as_express_it():
    form = made("exact")
    there = form.at_points(None)
    same_at = basis(KERNEL, there.Z).Z
    torch.testing.assert_close(there.posterior.predict(X).mean, form.posterior.predict(X).mean, atol=1e-5, rtol=0)
    assert {tuple(z) for z in same_at.tolist()} <= {tuple(z) for z in form.Z.tolist()}


# --- what it says of members ------------------------------------------------------------------


@EFFECTS
def test_agreements_are_the_same_where_points_express_everybody(effects):
    union = torch.cat([m.site.Z for m in MEMBERS])
    each = tuple(m._replace(about=m.about._replace(owner_override=None)) for m in MEMBERS)
    numbers = owner_numbers(each)
    exact = made("exact", effects, each)
    with stored(each) as store:
        points = PointsForm.of(store, KERNEL, MEAN, union, effects)
        one, other = (remembered(form, each, store) for form in (exact, points))
        shifted = points.agreements(store, first=3)
        judged = exact.agreements(store, under=KERNEL), points.agreements(store, under=KERNEL)
        offsets = points.offsets(store, [*[9] * 2, *numbers], 2)
    for a, b in zip(one, other, strict=True):
        assert a.surprise == pytest.approx(b.surprise, rel=1e-4)
        assert a.agreement == pytest.approx(b.agreement, abs=1e-4)
        assert a.others_add == pytest.approx(b.others_add, abs=1e-4)
        assert (a.offset is None) == (not effects.present)
        assert a.offset is None or a.offset == pytest.approx(b.offset, abs=1e-4)
    assert sorted(shifted) == [3, 4, 5, 6, 7, 8]
    assert sorted(offsets) == numbers
    for k in range(len(each)):
        assert judged[0][k].surprise == pytest.approx(judged[1][k].surprise, rel=1e-3)


def test_a_kernel_that_has_absorbed_a_contradiction_does_not_judge():
    rough = KERNEL.with_theta(KERNEL.theta - torch.tensor([0.0, 4.0, 4.0], dtype=torch.float64))
    with stored(MEMBERS) as store:
        form = ExactForm(rough, MEAN, stack(store.packs(1), owner_numbers(MEMBERS)))
        found = compared(form, MEMBERS, store)
        expected = form.at_kernel(KERNEL).agreements(store)
    assert [m.surprise for m in found] == pytest.approx([expected[k].surprise for k in range(6)])


# --- what it is -------------------------------------------------------------------------------


def test_each_says_what_it_is(monkeypatch):
    exact, points = made("exact"), made("points")
    assert exact.described == f"exact, {len(exact.Z)} points in 2-D, {KERNEL.describe()}"
    assert points.described == f"12 points in 2-D, {KERNEL.describe()}"
    assert (exact.loss_words, points.loss_words) == ("", f", slack {points.slack:.3g}")
    assert (exact.size(None).form, points.size(7).form) == (exact.kind, points.kind) == ("exact", "points")
    assert exact.size(None).pseudo_observations == len(exact.stacked.rho)
    assert points.size(7).pseudo_observations == 7
    assert points.depends_on_choice_of_points
    assert not exact.depends_on_choice_of_points
    monkeypatch.setattr(affordable, "DIRECT", len(exact.stacked.rho) - 1)
    assert exact.depends_on_choice_of_points


def test_points_that_were_chosen_are_changed_and_those_of_modules_are_not():
    exact, points = made("exact"), made("points")
    assert exact.chosen_points.shape == (0, 2)
    assert points.chosen_points is points.Z
    assert exact.recoded(lambda Z: Z + 1) is exact.without_points([0]) is exact
    torch.testing.assert_close(points.recoded(lambda Z: Z + 1).Z, Z + 1)
    torch.testing.assert_close(points.without_points([0, 2]).Z, Z[[0, 2]])


def test_files_have_its_rows_or_its_sites():
    with stored(MEMBERS) as store:
        points, exact = (made(kind).without_sites(store) for kind in ("points", "exact"))
    found = points.own_tensors()
    assert list(found) == [
        "Z",
        *(f"{part}.{key}" for part in ("bound", "evidence") for key in ("H", "rho", "e", "slack")),
    ]
    assert found["bound.H"] is points.bound_rows.H
    assert points.anonymous_sites() == []
    assert exact.own_tensors() == {}
    assert sorted(owned.owner for owned in exact.anonymous_sites()) == [0, 0, 1, 1, 2, 3]


# --- owners -----------------------------------------------------------------------------------


def test_an_owner_has_a_number_and_a_site_for_each_function():
    members = [member(i, owner, function=c) for i, (owner, c) in enumerate((("a", 0), ("a", 1), ("b", 0), ("a", 1)))]
    assert owner_numbers(members) == [0, 1, 2, 1]
    points = {c: len(owner_site(members, "a", c).Z) for c in (0, 1, None)}
    own = [len(m.site.Z) for m in members]
    assert points == {0: own[0], 1: own[1] + own[3], None: own[0] + own[1] + own[3]}
    assert owner_site(members, "b", 1) is None


# --- one more form ----------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OtherForm(PointsForm):
    """One that nobody but the list of forms has heard of."""

    kind = "other"

    @classmethod
    def merged(cls, problem):
        found = PointsForm.merged(problem)
        return found._replace(form=cls(**{f.name: getattr(found.form, f.name) for f in fields(found.form)}))


def test_a_third_form_is_a_class_and_an_entry_in_one_list(monkeypatch, tmp_path):
    monkeypatch.setattr(build, "FORMS", (OtherForm, *build.FORMS))
    x = np.linspace(0, 6, 40)[:, None]
    halves = [rgp.fit(x[i::2], np.sin(x[i::2, 0]), noise=0.01, name=f"half-{i}", publish=5) for i in range(2)]
    ensemble = rgp.merge(halves, learn=False)
    ensemble.save(tmp_path / "e.safetensors")
    again = rgp.load(tmp_path / "e.safetensors")
    assert ensemble.size.form == again.size.form == "other"
    np.testing.assert_array_equal(again.predict(x), ensemble.predict(x))
    assert again.add(halves[0].rename("more")).remove("more").size.form == "other"
