"""scikit-learn's own checks of what an estimator must be: all of them pass.

Softmax classifiers have 32 inducing points here: the default for the checks' twenty rows takes twice the time.
"""

from __future__ import annotations

import pytest

pytest.importorskip("sklearn")
from sklearn.utils.estimator_checks import parametrize_with_checks

from recyclegp.sklearn import RecyclableGPClassifier, RecyclableGPRegressor


@pytest.mark.slow
@parametrize_with_checks([RecyclableGPRegressor()])
def test_contract_of_regressors(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [RecyclableGPClassifier(), RecyclableGPClassifier(likelihood="categorical-softmax", inducing=32)]
)
def test_contract_of_classifiers(estimator, check):
    check(estimator)
