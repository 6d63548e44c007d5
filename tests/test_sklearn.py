"""scikit-learn's own checks of what an estimator must be: all of them, and all but one pass.

Softmax classifiers have 32 inducing points here: the default for the checks' twenty rows takes twice the time.
"""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn")
from sklearn.utils.estimator_checks import parametrize_with_checks

from recyclegp.sklearn import RecyclableGPClassifier, RecyclableGPRegressor

WHY = (
    "the kernel, the noise and the points are learned, to a hundredth of a nat, from rows that are weighted or there "
    "several times: predictions agree to a few digits, and not to seven"
)


def expected(estimator):
    return {"check_sample_weight_equivalence_on_dense_data": WHY}


@pytest.mark.slow
@parametrize_with_checks([RecyclableGPRegressor()], expected_failed_checks=expected)
def test_contract_of_regressors(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [RecyclableGPClassifier(), RecyclableGPClassifier(likelihood="categorical-softmax", inducing=32)],
    expected_failed_checks=expected,
)
def test_contract_of_classifiers(estimator, check):
    check(estimator)
