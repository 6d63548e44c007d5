"""The cost model counts what is really there, finds rates that are known; and its predictions behave."""

from collections import Counter
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

import recyclegp as rgp
import scaling_model as model
from pages import RESULTS
from recyclegp.core import packing
from recyclegp.engines import executor, fitting, store
from recyclegp.merging import points as choice_of_points
from scaling import main, read, write
from scaling_model import WORK, Run
from scaling_page import case_of, modelled, predictions, values
from scaling_simulation import GIVEN_UP, Setting, ideal, simulate

SMALL = Setting(workers=10, per_worker=4, fit=40.0, reductions=5, reduction=8.0)


def tile(k, rows=40):
    rng = np.random.default_rng(k)
    X = rng.uniform(0, 1, (rows, 2)) + np.array([k % 4, k // 4])
    return X, np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.3 * rng.standard_normal(rows)


@pytest.mark.parametrize("points", [3, 12])
def test_bytes_are_those_of_a_file(tmp_path, points):
    options = {"method": "collapsed", "inducing": points, "publish": None, "learn": False}
    rgp.fit(*tile(0), **options).save(tmp_path / "one")
    assert 0 < (tmp_path / "one").stat().st_size - model.site_bytes(points) < model.HEADER
    many = rgp.fit_many([tile(k) for k in range(32)], progress=False, **options)
    many.save(tmp_path / "many")
    assert (tmp_path / "many").stat().st_size == pytest.approx(model.file_bytes(32, points), rel=0.2)
    assert sum(t.numel() * t.element_size() for m in many for t in m.latents[0].site) == 32 * model.site_bytes(points)


def test_rounds_are_those_that_a_merge_makes(tmp_path):
    from scaling_measure import Serial

    asked, how = Serial(), {"method": "collapsed", "inducing": 4, "publish": None}
    Z = np.stack(np.meshgrid(range(5), range(5)), -1).reshape(-1, 2)[:20] * 0.8
    tiles = [partial(tile, k) for k in range(16)]
    job = fitting.prepared(tiles, **how, merge={"inducing": Z}, per_task=4, progress=False)
    merged = fitting.merge_chunks(asked, fitting.fit_chunks(asked, job, tmp_path), job.merging)
    counted = model.rounds(merged.convergence.evaluations)
    assert Counter(asked.asked) == {
        "evidence": counted.first,
        "evidence-gradient": counted.second,
        "fold": counted.folds,
        "agreement": counted.agreement,
        "region": 1,
        "some-sites": counted.light - 1,
    }
    assert len(asked.asked) == counted.total - counted.points  # points were given


def test_flops_triangles_trees_and_constants_of_the_library():
    passes = (model.first_pass_flops, model.second_pass_flops, model.agreement_flops)
    for flops in (*passes, partial(model.fold_flops, 100.0)):
        for few, many in pairwise((4, 16, 64, 256)):
            assert flops(few, 512) < flops(many, 512)
            assert flops(16, few) < flops(16, many)
        assert flops(16, 2**14) / flops(16, 2**13) == pytest.approx(4, rel=0.25)  # of the order M_k M_*²
    assert model.qr_flops(20, 10) == model.qr_flops(10, 20) == pytest.approx(2 * 20 * 100 - 2 / 3 * 1000)
    assert model.join_flops(10, 10) == pytest.approx(7 * 10 / 3 * 1000)  # seven times two triangles
    assert [model.joins(count) for count in (1, 8, 65)] == [[], [1], [9, 2, 1]]
    assert (model.CHILDREN, model.REMEMBERED) == (executor.CHILDREN, store.REMEMBERED)
    assert (model.POOL, model.FEATURES) == (choice_of_points.POOL, packing.FEATURES)


@pytest.mark.parametrize("stage", list(WORK))
def test_least_squares_find_rates_that_are_known(stage):
    rng = np.random.default_rng(0)
    low = {"modules": 10, "rows": 100, "points": 2, "inducing": 32, "evaluations": 5, "tasks": 10, "bytes": 1}
    high = dict(zip(low, (3000, 2000, 64, 2048, 40, 5000, 10**7), strict=True))
    runs = [Run(stage, 1.0, **{name: int(rng.integers(low[name], high[name])) for name in low}) for _ in range(24)]
    size = {name: np.mean([WORK[stage](r)[name] for r in runs]) for name in WORK[stage](runs[0])}
    true = {name: float(rng.uniform(0.5, 2)) / v for name, v in size.items()}
    true |= {next(iter(size)): 0.0} if len(size) > 1 else {}  # rates may be zero, and never negative
    found = model.fitted([r._replace(seconds=model.seconds({stage: true}, r)) for r in runs])[stage]
    for name, rate in true.items():
        assert found[name] == pytest.approx(rate, rel=1e-5, abs=1e-9 / size[name])
    noisy = model.fitted([r._replace(seconds=float(rng.uniform(0.1, 10))) for r in runs])[stage]
    assert min(noisy.values()) >= 0


@pytest.mark.parametrize(("workers", "each"), [(1, 1), (10, 4), (7, 3)])
@pytest.mark.parametrize("copies", [False, True])
def test_without_noise_and_losses_it_is_the_ideal(workers, each, copies):
    s = SMALL._replace(workers=workers, per_worker=each, copies=copies)
    assert simulate(s).seconds == pytest.approx(ideal(s), rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_losing_workers_never_makes_it_faster(seed):
    s = SMALL._replace(sigma=0.5, restart=5.0, seed=seed)
    assert simulate(s) == simulate(s) != simulate(s._replace(seed=9))
    for rate in (5.0, 50.0):
        kept, gone = simulate(s._replace(losses=rate)), simulate(s._replace(losses=rate, files=False))
        assert min(kept.seconds, gone.seconds) >= simulate(s).seconds - 1e-9
        assert kept.repeated == 0
    assert kept.lost > 0
    assert gone.repeated > 0
    assert gone.seconds > kept.seconds


@pytest.mark.parametrize("each", [0.0, 0.01])  # seconds of the scheduler
@pytest.mark.parametrize("hiccups", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_second_copy_never_hurts_beyond_its_overhead(seed, hiccups, each):
    s = SMALL._replace(sigma=0.8, slow_share=0.2, hiccups=hiccups, per_worker=2, seed=seed, scheduling=each)
    once, twice = simulate(s), simulate(s._replace(copies=True))
    assert twice.copied > 0
    assert twice.seconds <= once.seconds + each * twice.copied + 1e-9


def test_slow_workers_matter_less_with_more_tasks_and_nobody_waits_for_ever():
    few, many = (simulate(SMALL._replace(slow_share=0.1, per_worker=each)).relative for each in (1, 16))
    assert few > 2.5
    assert many < 1.3
    hopeless = simulate(SMALL._replace(losses=3600.0, restart=1.0, files=False, per_worker=1))
    assert hopeless.given_up
    assert hopeless.relative == pytest.approx(GIVEN_UP)


def test_predictions_behave(tmp_path):
    kept = read(RESULTS / "scaling.json")
    write(tmp_path / "again.json", kept)
    assert read(tmp_path / "again.json") == kept
    found = modelled(kept)
    for p in (p for some in predictions(found).values() for p in some):
        assert min(s.seconds for s in p.stages) >= 0
        assert p.seconds == pytest.approx(sum(s.seconds for s in p.stages))
    times = [found.on(case_of(16, 512, k), 100).seconds for k in (64, 10**4, 10**5, 10**6, 10**7)]
    assert times == sorted(times)


@pytest.mark.slow
def test_a_quick_run(tmp_path):
    pytest.importorskip("distributed")
    pytest.importorskip("psutil")
    main(["--measure", "--quick", "--json", str(tmp_path / "run.json")])
    found = read(tmp_path / "run.json")
    assert {*WORK, "whole fit", "whole merge"} <= {r.stage for r in found.runs}
    assert all(r.seconds > 0 for r in found.runs)
    assert "| fit |" in values(found)["scaling.md"]["stages"]
