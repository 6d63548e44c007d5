"""What forged files do to a merge: holes that were found once stay closed."""

import warnings

import pytest

import recyclegp as rgp
from forgeries import Forgery, forged, harm
from robustness_cases import honest_modules
from robustness_cases import test_rows as rows_to_ask


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        yield


def away(attackers, dimension, forgery):
    modules = honest_modules(20, dimension, 0)
    X, honest = rows_to_ask(dimension, 0)[0], modules[attackers:]
    clean = rgp.merge(honest).predict(X)[0]
    return harm([*(forged(m, forgery) for m in modules[:attackers]), *honest], X, clean)["away"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("attackers", "dimension", "times"), [(1, 1, 10), (2, 1, 12), (2, 1, 20), (6, 1, 20), (2, 4, 20)]
)
def test_more_rows_do_not_make_a_site_that_is_surer_believable(attackers, dimension, times):
    """e^times surer, of as many more rows: within what rows can say."""
    assert away(attackers, dimension, Forgery(sure=times, rows=times)) < 0.05
