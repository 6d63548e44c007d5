"""The search for the worst forgery: what is forged, and that it keeps what does more harm."""

import numpy as np
import pytest

import forgeries
import recyclegp as rgp
from robustness_cases import honest_modules
from robustness_cases import test_rows as rows_to_ask


@pytest.fixture(scope="module")
def modules():
    X = np.linspace(0, 6, 60)[:, None]
    return [
        rgp.fit(X[k::3], np.sin(X[k::3, 0]) + 0.1, name=f"m{k}", publish=6, learn=False, privacy="things")
        for k in range(3)
    ]


def test_every_statement_of_a_file_can_be_forged(modules):
    m = modules[0]
    one, site = m.latents[0], m.latents[0].site
    plain = forgeries.forged(m, forgeries.Forgery()).latents[0]
    np.testing.assert_allclose(plain.site.rho, -site.rho)  # the opposite function, and nothing else
    assert plain.rows == one.rows
    for name in forgeries.Forgery._fields:
        other = forgeries.forged(m, forgeries.Forgery(**{name: 1.5}))
        if name not in ("chi2", "left_open", "residual", "dof") or one.noise_evidence is not None:
            assert repr((other.latents, other.likelihoods)) != repr(((plain,), m.likelihoods)), name


def test_what_cannot_be_merged_does_no_harm(modules):
    X = np.asarray(modules[1].inducing)
    clean = rgp.merge(modules[1:], learn=False).predict(X)[0]
    nothing = forgeries.harm(modules[1:], X, clean)
    assert nothing["refused"] == ""
    assert nothing["away"] < 0.5
    twice = forgeries.harm([modules[1], modules[1]], X, clean)  # two of one name
    assert (twice["away"], bool(twice["refused"])) == (0.0, True)


def test_the_page_has_the_worst_of_each_kind_first():
    row = {"seed": 0, "noise": 1.0, "clean noise": 1.0, "said": {"rows": 3.0}, "refused": 0, "steps": 9}
    rows = [row | {"attackers": a, "dimension": 1, "away": away} for a, away in ((6, 0.1), (2, 0.2), (2, 0.3))]
    lines = forgeries.values(rows)["forgeries"].splitlines()
    assert [line.split("|")[4].strip() for line in lines[2:]] == ["0.300", "0.200", "0.100"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
@pytest.mark.parametrize(
    ("attackers", "dimension", "times"), [(1, 1, 10), (2, 1, 12), (2, 1, 20), (6, 1, 20), (2, 4, 20)]
)
def test_more_rows_do_not_make_a_site_that_is_surer_believable(attackers, dimension, times):
    """e^times surer, of as many more rows: within what rows can say."""
    modules, X = honest_modules(20, dimension, 0), rows_to_ask(dimension, 0)[0]
    honest, forgery = modules[attackers:], forgeries.Forgery(sure=times, rows=times)
    clean = rgp.merge(honest).predict(X)[0]
    bad = [forgeries.forged(m, forgery) for m in modules[:attackers]]
    assert forgeries.harm([*bad, *honest], X, clean)["away"] < 0.05
