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
from scaling_model import WORK, Case, Run
from scaling_page import best, case_of, fit_values, modelled, predictions
from scaling_simulation import GIVEN_UP, Setting, ideal, simulate

SMALL = Setting(workers=10, per_worker=4, fit=40.0, reductions=5, reduction=8.0)


# --- the model --------------------------------------------------------------------------------


def tile(k, rows=40):
    rng = np.random.default_rng(k)
    X = rng.uniform(0, 1, (rows, 2)) + np.array([k % 4, k // 4])
    return X, np.sin(3 * X[:, 0]) * np.cos(2 * X[:, 1]) + 0.3 * rng.standard_normal(rows)


@pytest.mark.parametrize("points", [3, 12])
def test_bytes_are_those_of_a_file(tmp_path, points):
    options = {"method": "collapsed", "inducing": points, "publish": None, "learn": False}
    rgp.fit(*tile(0), **options).save(tmp_path / "one")
    header = (tmp_path / "one").stat().st_size - model.site_bytes(points)
    assert 0 < header < model.HEADER
    many = rgp.fit_many([tile(k) for k in range(32)], progress=False, **options)
    many.save(tmp_path / "many")
    assert (tmp_path / "many").stat().st_size == pytest.approx(model.file_bytes(32, points), rel=0.2)
    sites = sum(sum(t.numel() * t.element_size() for t in m._site) for m in many)
    assert sites == 32 * model.site_bytes(points)


def test_constants_are_those_of_the_library():
    assert model.CHILDREN == executor.CHILDREN
    assert model.REMEMBERED == store.REMEMBERED
    assert model.POOL == choice_of_points.POOL
    assert model.FEATURES == packing.FEATURES


def test_rounds_are_those_that_a_merge_makes(tmp_path):
    from scaling_measure import Serial

    asked = Serial()
    how = {"method": "collapsed", "inducing": 4, "publish": None}
    Z = np.stack(np.meshgrid(range(5), range(5)), -1).reshape(-1, 2)[:20] * 0.8
    job = fitting.prepared(
        [partial(tile, k) for k in range(16)], how, merge={"inducing": Z}, per_task=4, progress=False
    )
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


@pytest.mark.parametrize(
    "flops",
    [
        model.first_pass_flops,
        model.second_pass_flops,
        model.agreement_flops,
        partial(model.fold_flops, 100.0),
    ],
)
def test_flops_grow_with_points(flops):
    for few, many in pairwise((4, 16, 64, 256)):
        assert flops(few, 512) < flops(many, 512)
        assert flops(16, few) < flops(16, many)
    # with many points M_* every stage is of the order M_k M_*²
    assert flops(16, 2**14) / flops(16, 2**13) == pytest.approx(4, rel=0.25)


def test_the_flops_of_triangles():
    assert model.qr_flops(20, 10) == pytest.approx(2 * 20 * 100 - 2 / 3 * 1000)
    assert model.qr_flops(10, 20) == model.qr_flops(20, 10)
    assert model.join_flops(10, 10) == pytest.approx(7 * 10 / 3 * 1000)  # seven times two triangles
    assert model.joins(1) == []
    assert model.joins(8) == [1]
    assert model.joins(65) == [9, 2, 1]


def designed(stage, rng):
    return [
        Run(
            stage,
            1.0,
            modules=int(rng.integers(10, 3000)),
            rows=int(rng.integers(100, 2000)),
            points=int(rng.integers(2, 64)),
            inducing=int(rng.integers(32, 2048)),
            evaluations=float(rng.integers(5, 40)),
            tasks=int(rng.integers(10, 5000)),
            bytes=int(rng.integers(1, 10**7)),
        )
        for _ in range(24)
    ]


@pytest.mark.parametrize("stage", list(WORK))
def test_least_squares_find_rates_that_are_known(stage):
    rng = np.random.default_rng(0)
    runs = designed(stage, rng)
    size = {name: np.mean([WORK[stage](r)[name] for r in runs]) for name in WORK[stage](runs[0])}
    true = {stage: {name: float(rng.uniform(0.5, 2)) / v for name, v in size.items()}}
    first = next(iter(size))
    true[stage][first] = 0.0 if len(size) > 1 else true[stage][first]  # rates may be zero, and never negative
    made = [r._replace(seconds=model.seconds(true, r)) for r in runs]
    found = model.fitted(made)
    for name, rate in true[stage].items():
        assert found[stage][name] == pytest.approx(rate, rel=1e-5, abs=1e-9 / size[name])


def test_noise_never_makes_a_rate_negative():
    rng = np.random.default_rng(1)
    runs = [r._replace(seconds=float(rng.uniform(0.1, 10))) for r in designed("evaluation", rng)]
    assert all(rate >= 0 for rate in model.fitted(runs)["evaluation"].values())


# --- the simulation ---------------------------------------------------------------------------


def test_without_noise_and_losses_it_is_the_ideal():
    for workers, each in ((1, 1), (10, 4), (7, 3)):
        s = SMALL._replace(workers=workers, per_worker=each)
        assert simulate(s).seconds == pytest.approx(ideal(s), rel=1e-12)
        assert simulate(s._replace(copies=True)).seconds == pytest.approx(ideal(s), rel=1e-12)


def test_the_same_seed_gives_the_same_answer():
    s = SMALL._replace(sigma=0.5, slow_share=0.2, losses=20.0, copies=True, seed=3)
    assert simulate(s) == simulate(s)
    assert simulate(s).seconds != simulate(s._replace(seed=4)).seconds


@pytest.mark.parametrize("seed", range(5))
def test_losing_workers_never_makes_it_faster(seed):
    s = SMALL._replace(sigma=0.5, restart=5.0, seed=seed)
    before = simulate(s)
    for rate in (5.0, 50.0):
        kept, gone = simulate(s._replace(losses=rate)), simulate(s._replace(losses=rate, files=False))
        assert kept.seconds >= before.seconds - 1e-9
        assert gone.seconds >= before.seconds - 1e-9
        assert kept.repeated == 0
    assert kept.lost > 0
    assert gone.repeated > 0
    assert gone.seconds > kept.seconds


@pytest.mark.parametrize("hiccups", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_second_copy_never_hurts_beyond_its_overhead(seed, hiccups):
    s = SMALL._replace(sigma=0.8, slow_share=0.2, hiccups=hiccups, per_worker=2, seed=seed)
    once, twice = simulate(s), simulate(s._replace(copies=True))
    assert twice.copied > 0
    assert twice.seconds <= once.seconds + 1e-9
    each = 0.01
    once, twice = (simulate(s._replace(scheduling=each, copies=copies)) for copies in (False, True))
    assert twice.seconds <= once.seconds + each * twice.copied + 1e-9


def test_slow_workers_matter_less_with_more_tasks():
    slow = SMALL._replace(slow_share=0.1)
    few, many = (simulate(slow._replace(per_worker=each)).relative for each in (1, 16))
    assert few > 2.5
    assert many < 1.3


def test_nobody_waits_for_ever():
    hopeless = simulate(SMALL._replace(losses=3600.0, restart=1.0, files=False, per_worker=1))
    assert hopeless.given_up
    assert hopeless.relative == pytest.approx(GIVEN_UP)


# --- predictions ------------------------------------------------------------------------------


def test_predictions_behave(tmp_path):
    kept = read(RESULTS / "scaling.json")
    write(tmp_path / "again.json", kept)
    assert read(tmp_path / "again.json") == kept
    found = modelled(kept)
    for some in predictions(found).values():
        for p in some:
            assert all(s.seconds >= 0 for s in p.stages)
            assert p.seconds == pytest.approx(sum(s.seconds for s in p.stages))
    times = [found.on(case_of(16, 512, k), 100).seconds for k in (10**4, 10**5, 10**6, 10**7)]
    assert times == sorted(times)
    assert best(found, case_of(16, 512), 100).seconds <= times[2]
    assert found.on(Case(64, 100, 4, 64), 1).seconds < times[2]


@pytest.mark.slow
def test_a_quick_run(tmp_path):
    pytest.importorskip("distributed")
    pytest.importorskip("psutil")
    main(["--measure", "--quick", "--json", str(tmp_path / "run.json")])
    found = read(tmp_path / "run.json")
    assert {*WORK, "whole fit", "whole merge"} <= {r.stage for r in found.runs}
    assert all(r.seconds > 0 for r in found.runs)
    assert "| fit |" in fit_values(found, modelled(found))["stages"]
