"""Rounds over partitions are rounds over owners."""

import numpy as np
import pytest

import recyclegp as rgp
from cases_plans import answers, owners, plan

T = np.random.default_rng(5).uniform(-2, 2, (7, 2))


def test_partitions_together_are_all_rows():
    """Also where a task answers for several of them."""
    of, agreed = owners(6, 240), plan(12, learn=False)
    direct = agreed.combine(answers(agreed, of))[0]
    for per_task in (1, 4):
        e, last = rgp.engines.joblib.rounds(list(of.values()), rounds=1, plan=agreed, jobs=1, per_task=per_task)
        assert last.done
        held = rgp.Plan(points=agreed.points, kernel=agreed.kernel, noise=agreed.noise, mean=2.0, learn=False)
        scored = held.combine(answers(held, of, score=True))[0]
        np.testing.assert_allclose(e.predict(T), scored.predict(T), atol=1e-8)
        assert np.abs(e.predict(T)[0] - direct.predict(T)[0]).max() < 0.2
        assert len(e.names) == (6 if per_task == 1 else 2)
    with pytest.raises(rgp.RecycleGPError, match="rounds is 0"):
        rgp.engines.joblib.rounds(list(of.values()), rounds=0)


@pytest.mark.parametrize("per_task", [1, 3])
def test_learning_over_partitions(per_task):
    of, agreed = owners(3, 240), plan(12)
    e, last = rgp.engines.joblib.rounds(list(of.values()), rounds=3, plan=agreed, jobs=1, per_task=per_task)
    now = agreed
    while now.evaluations < 3:
        direct, now = now.combine(answers(now, of, score=True))
    np.testing.assert_allclose(e.predict(T), direct.predict(T), atol=1e-6)
    assert last.noise == pytest.approx(now.noise, rel=1e-6)


@pytest.mark.slow
def test_on_a_cluster(tmp_path):
    distributed = pytest.importorskip("distributed")
    of = owners(4, 200)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        e, last = rgp.engines.dask.rounds(client, list(of.values()), rounds=2, points=12, folder=tmp_path)
    here, same = rgp.engines.joblib.rounds(list(of.values()), rounds=2, points=12, jobs=1)
    np.testing.assert_allclose(e.predict(T), here.predict(T), atol=1e-8)
    assert last.round == same.round
