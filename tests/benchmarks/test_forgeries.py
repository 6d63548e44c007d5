"""The search for the worst forgery: what is forged, and that it keeps what does more harm."""

import warnings

import numpy as np
import pytest
import torch

import forgeries
import recyclegp as rgp
from forged_files import BY_POINT, Forgery, forged
from robustness_cases import honest_modules, parts
from robustness_cases import test_rows as rows_to_ask


@pytest.fixture(scope="module")
def modules():
    X = np.linspace(0, 6, 60)[:, None]
    return [
        rgp.fit(X[k::3], np.sin(X[k::3, 0]) + 0.1, name=f"m{k}", publish=6, learn=False, privacy="things")
        for k in range(3)
    ]


def truth(modules):
    return forgeries.Truth.of(modules, np.linspace(0.2, 5.8, 40)[:, None])


def test_every_statement_of_a_file_can_be_forged(modules):
    m = modules[0]
    one, site = m.latents[0], m.latents[0].site
    plain = forged(m, Forgery()).latents[0]
    np.testing.assert_allclose(plain.site.rho, -site.rho)  # the opposite function, and nothing else
    assert plain.rows == one.rows
    for name in Forgery._fields:
        value = np.linspace(0.5, 1.5, len(site.Z)) if name in BY_POINT else 1.5
        value = value[:, None] if name == "places" else value
        other = forged(m, Forgery(**{name: value}))
        if name not in ("chi2", "left_open", "residual", "dof") or one.noise_evidence is not None:
            assert repr((other.latents, other.likelihoods)) != repr(((plain,), m.likelihoods)), name


def test_a_wave_is_said_as_surely_as_the_truth(modules):
    """ρ = Rᵀ(f + wave) and R as it was; a point of which it is surer keeps what it says of f there."""
    site = modules[0].latents[0].site
    wave = np.cos(np.arange(len(site.Z)))
    waved = forged(modules[0], Forgery(gain=1, wave=wave)).latents[0].site
    np.testing.assert_allclose(waved.rho, site.rho + site.Rt @ torch.from_numpy(wave))
    np.testing.assert_allclose(waved.Rt, site.Rt)
    surer = forged(modules[0], Forgery(gain=1, surer=np.full(len(site.Z), 2.0))).latents[0].site
    np.testing.assert_allclose(surer.Rt, np.e * site.Rt)
    np.testing.assert_allclose(surer.Rt.T @ surer.rho, np.e**2 * site.Rt.T @ site.rho, rtol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
@pytest.mark.parametrize(
    ("said", "seed", "differ"),
    [
        (forgeries.ELSEWHERE, 0, 0.0),
        (forgeries.APART, 0, 0.0),
        (forgeries.APART, 5, 0.0),
        (forgeries.APART, 6, 0.0),
        (forgeries.ELSEWHERE, 10, 0.1),
        (forgeries.ELSEWHERE, 11, 0.3),
    ],
)
def test_six_who_agree_do_not_decide_how_far_twenty_owners_differ(said, seed, differ):
    """Where nobody else has data; constants of their own explain them, and had moved f by 0.3 to 5 deviations."""
    constants = differ * np.random.default_rng([seed, 77]).standard_normal(forgeries.OWNERS)
    some = [(X, y + c) for (X, y), c in zip(parts(forgeries.OWNERS, 1, seed), constants, strict=True)]
    modules = rgp.fit_many(some, progress=False)
    bad, honest = [forged(m, said) for m in modules[:6]], modules[6:]
    assert forgeries.harm([*bad, *honest], forgeries.Truth.of(honest, rows_to_ask(1, seed)[0])).away < 0.03
    assert [row["trust"] for row in rgp.merge([*bad, *honest]).report()[6:]] == 14 * ["trusted"]


def test_what_cannot_be_merged_does_no_harm(modules):
    honest = truth(modules[1:])
    nothing = forgeries.harm(modules[1:], honest)
    assert (nothing.refused, nothing.away, nothing.noise, nothing.sd) == ("", 0.0, 1.0, 1.0)
    assert forgeries.harm([forged(modules[0], Forgery(gain=1, shift=0.2)), *modules[1:]], honest).away > 0.01
    twice = forgeries.harm([modules[1], modules[1]], honest)  # two of one name
    assert (twice.away, bool(twice.refused)) == (0.0, True)


def test_a_change_is_of_one_of_them_or_of_all_alike(modules):
    rng = np.random.default_rng(0)
    said = (Forgery(), Forgery(rows=39.0))
    found = [forgeries.changed(said, 1.0, (6, 1), rng) for _ in range(60)]
    both = [one for one in found if one[0] is not said[0] and one[1] is not said[1]]
    assert 0 < len(both) < len(found)
    assert all(abs(getattr(f, name)) <= forgeries.REACH for one in found for f in one for name in forgeries.NUMBERS)
    assert all(np.shape(f.places) in ((), (6, 1)) for one in found for f in one)


def test_the_search_ends_with_the_worst_it_has_tried(monkeypatch):
    """Also where the merges are told beforehand: it keeps what is farther, and begins again from there."""
    away = iter([0.1, 0.5, *np.linspace(0.2, 0.9, 18)])
    seen = []

    def harm(files, honest):
        seen.append(files)
        return forgeries.Harm(away=next(away))

    monkeypatch.setattr(forgeries, "harm", harm)
    row = forgeries.search(forgeries.Trial(2, 1, 0, 20))
    assert row["tried"] == len(seen) == 20
    assert row["away"] == 0.9
    assert all(len(files) == forgeries.OWNERS for files in seen)


def test_each_kind_of_harm_is_sought_from_the_worst_of_its_kind(monkeypatch):
    """Forgeries that do a lot of one harm are changed further where the next one seeks that."""
    starts = len(forgeries.starts(1))
    changed, told = [], []

    def change(said, size, shape, rng):
        changed.append(said)
        return (Forgery(noise=float(len(changed))),)

    def harm(files, honest):
        told.append(len(told))
        k = len(told)
        return forgeries.Harm(away=1.0 if k == 2 else 0.0, noise=3.0 if k == 3 else 1.0, sd=float(k == starts + 3))

    monkeypatch.setattr(forgeries, "changed", change)
    monkeypatch.setattr(forgeries, "harm", harm)
    row = forgeries.search(forgeries.Trial(1, 1, 0, starts + 6))
    begun = forgeries.starts(1)
    assert [said for said in (changed[0], changed[3])] == [begun[1], begun[1]]
    assert [said for said in (changed[1], changed[4])] == [begun[2], begun[2]]
    assert changed[5] == (Forgery(noise=3.0),)  # the third change was the worst of the sd
    assert (row["away"], row["noise"], row["sd"]) == (1.0, 3.0, 1.0)
    assert row["said of sd"] == [{"gain": -1.0, "noise": 3.0}]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
@pytest.mark.parametrize("forgery", [forgeries.NOISY, forgeries.NOISY._replace(dof=-0.6), Forgery(gain=1, chi2=4.3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_one_file_changes_the_common_noise_by_a_few_percent(forgery, seed):
    """Which says two noises at once."""
    modules, X = honest_modules(forgeries.OWNERS, 1, seed), rows_to_ask(1, seed)[0]
    found = forgeries.harm([forged(modules[0], forgery), *modules[1:]], forgeries.Truth.of(modules[1:], X))
    assert (found.noise < 1.1, found.sd < 1.1) == (True, True)


def test_the_page_has_the_worst_of_each_kind_first():
    plain = {"seed": 0, "noise": 1.0, "sd": 1.0, "kernel": "rbf", "clean kernel": "rbf", "refused": 0, "tried": 9}
    row = plain | {"said": [{"rows": 3.0}, {"rows": 3.0}, {}]}
    rows = [row | {"attackers": a, "dimension": 1, "away": away} for a, away in ((6, 0.1), (2, 0.2), (2, 0.3))]
    values = forgeries.values(rows)
    lines = values["forgeries"].splitlines()
    assert [line.split("|")[6].strip() for line in lines[2:]] == ["0.300", "0.200", "0.100"]
    assert "At most 0.300" in values["forgeries-short"]
    assert "over 27 forgeries" in values["forgeries-short"]
    assert "2 × rows 3; 1 × the truth" in values["forged"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
@pytest.mark.parametrize(
    ("attackers", "dimension", "times"), [(1, 1, 10), (2, 1, 12), (2, 1, 20), (6, 1, 20), (2, 4, 20)]
)
def test_more_rows_do_not_make_a_site_that_is_surer_believable(attackers, dimension, times):
    """e^times surer, of as many more rows: within what rows can say."""
    assert away(attackers, dimension, Forgery(sure=times, rows=times)) < 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    "forgery",
    [
        Forgery(gain=1, noise=-20, residual=-20, sure=20),
        Forgery(gain=1, dof=20, chi2=-20, residual=-20, sure=20, rows=20),
    ],
    ids=["no noise", "no residuals"],
)
@pytest.mark.parametrize("attackers", [2, 6])
def test_rows_that_say_there_is_no_noise_do_not_make_everybody_sure(attackers, forgery):
    assert away(attackers, 1, forgery) < 0.1


def away(attackers, dimension, forgery):
    modules, X = honest_modules(forgeries.OWNERS, dimension, 0), rows_to_ask(dimension, 0)[0]
    honest = modules[attackers:]
    bad = [forged(m, forgery) for m in modules[:attackers]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        return forgeries.harm([*bad, *honest], forgeries.Truth.of(honest, X)).away


@pytest.mark.slow
def test_who_denies_that_rows_know_their_noise_does_not_decide_it():
    """Elsewhere, 29 times less noise, and no degrees of freedom: the common noise had become 105 times less."""
    modules = honest_modules(20, 1, 10)
    truth = forgeries.Truth.of(modules[2:], rows_to_ask(1, 10)[0])
    rng = np.random.default_rng(0)
    points = len(modules[1].latents[0].known_site.Z)
    by_point = {"wave": 1.2 * rng.standard_normal(points), "surer": 2.28 * rng.standard_normal(points)}
    numbers = {"noise": -3.36, "densities": 0.72, "left_open": -3.43, "residual": -2.88, "dof": -20.23}
    places = {"stretch": 19.14, "move": -2.98, "lengthscale": 2.21}
    bad = forged(modules[1], Forgery(gain=0.0, **numbers, **places, **by_point))
    assert forgeries.harm([bad, *modules[2:]], truth).noise < 1.5
