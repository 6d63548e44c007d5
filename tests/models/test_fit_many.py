"""Many models at once are the same models: padding, companions and batches change nothing."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.kernels import parse
from recyclegp.kernels.gpytorch_objects import to_gpytorch
from recyclegp.local import batch, batch_fit, batching

SIZES = (7, 31, 40, 36, 33, 8)


def parts(likelihood: str, D: int, sizes=SIZES, seed: int = 0):
    rng = np.random.default_rng([seed, D])
    made = []
    for n in sizes:
        X = rng.normal(size=(n, D)) * rng.uniform(0.5, 30, D) + rng.normal(size=D)
        f = np.sin(1.7 * (X / X.std(0)).sum(1)) * rng.uniform(0.5, 2)
        noise = 0.2 * rng.normal(size=n)
        y = {
            "gaussian": lambda f=f, noise=noise: 40 * (f + noise) + 7,
            "student-t": lambda f=f, noise=noise, n=n: f + 0.1 * rng.standard_t(3, size=n),
            "poisson": lambda f=f: rng.poisson(np.exp(f)).astype(float),
            "negative-binomial": lambda f=f: rng.negative_binomial(2, 2 / (2 + np.exp(f))).astype(float),
            "bernoulli": lambda f=f, n=n: (rng.uniform(size=n) < 1 / (1 + np.exp(-3 * f))).astype(float),
            "bernoulli-probit": lambda f=f, noise=noise: (f + noise > 0).astype(float),
        }[likelihood]()
        made.append((X, y))
    return made


CASES = [  # kinds of model, and columns of X
    ("gaussian", "exact", "rbf", {"publish": 5}, 1),
    ("gaussian", "exact", "rbf", {"publish": 5}, 2),
    ("gaussian", "exact", "matern32 + linear", {"publish": 4}, 2),
    ("gaussian", "collapsed", "rbf", {"inducing": 4}, 1),
    ("gaussian", "collapsed", "rbf", {"inducing": 4}, 2),
    ("gaussian", "collapsed", "rbf * periodic", {"inducing": 6, "publish": 3}, 1),
    ("gaussian", "dual", "matern52", {"inducing": 5}, 2),
    ("bernoulli", "dual", "rbf", {"inducing": 6, "publish": 4}, 1),
    ("bernoulli", "dual", "rbf", {"inducing": 6, "publish": 4}, 2),
    ("bernoulli-probit", "dual", "rbf", {"inducing": 5}, 2),
    ("poisson", "dual", "rq", {"inducing": 5}, 1),
    ("negative-binomial", "dual", "rbf", {"inducing": 5}, 1),
    ("student-t", "dual", "rbf", {"inducing": 5}, 2),
]


@pytest.mark.slow
@pytest.mark.parametrize(("likelihood", "method", "kernel", "options", "D"), CASES)
def test_fit_many_is_fit(likelihood, method, kernel, options, D):
    """Evidence to 1e-4, of ragged data sets, for every method and likelihood."""
    data = parts(likelihood, D)
    options = {"likelihood": likelihood, "method": method, "kernel": kernel, "seed": 3, **options}
    names = [f"m{i}" for i in range(len(data))]
    together = rgp.fit_many(data, names=names, **options)
    assert [m.name for m in together] == names
    for (X, y), m in list(zip(data, together, strict=True))[::2]:  # the shortest, and two of unequal length
        alone = rgp.fit(X, y, **options)
        assert m.rows == alone.rows == len(y)
        assert m.evidence == pytest.approx(alone.evidence, abs=1e-4)
        assert m.convergence.converged == alone.convergence.converged
        mean, var = m.predict(X)
        mean_alone, var_alone = alone.predict(X)
        scale = np.sqrt(var_alone.max())
        np.testing.assert_allclose(mean, mean_alone, atol=2e-3 * scale)
        np.testing.assert_allclose(var, var_alone, atol=2e-3 * scale**2)


def test_arrays_whose_columns_lie_together_are_the_same_data():
    """As the arrays of a DataFrame are."""
    data = parts("gaussian", 2, sizes=(30, 30, 30))
    for a, b in zip(rgp.fit_many(data), rgp.fit_many([(np.asfortranarray(X), y) for X, y in data]), strict=True):
        np.testing.assert_array_equal(a.inducing, b.inducing)
        assert a.noise == b.noise


@pytest.mark.parametrize("method", ["exact", "collapsed", "dual"])
def test_padding_is_exact_at_fixed_hyperparameters(method):
    """Nothing learned, nothing chosen: to rounding."""
    kernel = to_gpytorch(parse("rbf", 2).with_theta(torch.tensor([0.3, -0.2, 0.4], dtype=torch.float64)), 2)
    Z = np.random.default_rng(1).normal(size=(5, 2))
    points = {"publish": Z} if method == "exact" else {"inducing": Z}
    data = [(X / 10, y) for X, y in parts("gaussian", 2, sizes=(33, 40, 35))]
    options = {"kernel": kernel, "learn": False, "noise": 30.0, "method": method, **points}
    for (X, y), m in zip(data, rgp.fit_many(data, **options), strict=True):
        alone = rgp.fit(X, y, **options)
        np.testing.assert_allclose(m.evidence, alone.evidence, rtol=1e-11)
        np.testing.assert_allclose(m.predict(X)[0], alone.predict(X)[0], rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(m.predict(X)[1], alone.predict(X)[1], rtol=1e-8)


def test_learn_false_with_default_noise_in_many():
    kernel = to_gpytorch(parse("matern52", 1), 1)
    data = parts("gaussian", 1)
    together = rgp.fit_many(data, kernel=kernel, learn=False, method="collapsed", inducing=3)
    alone = [rgp.fit(X, y, kernel=kernel, learn=False, method="collapsed", inducing=3) for X, y in data]
    np.testing.assert_allclose([m.evidence for m in together], [m.evidence for m in alone], rtol=1e-10)


@pytest.mark.slow
def test_a_model_does_not_notice_its_companions():
    """The same data in two different crowds, one with a pathological companion."""
    data = parts("student-t", 1, sizes=(30, 31, 32))
    X, y = data[0]
    strange = (X, np.where(np.arange(30) == 3, 1e9, 1e-7 * y))
    a = rgp.fit_many(data, likelihood="student-t", inducing=4)[0]
    b = rgp.fit_many([data[0], strange], likelihood="student-t", inducing=4)[0]
    assert a.evidence == pytest.approx(b.evidence, abs=1e-6)


@pytest.mark.slow
def test_narrow_slices_and_small_windows_change_nothing(monkeypatch):
    data = parts("gaussian", 1, sizes=(40,) * 7)
    expected = [m.evidence for m in rgp.fit_many(data, method="collapsed", inducing=3)]
    monkeypatch.setattr(batch, "FEATURES", 40 * 3 * 2)
    monkeypatch.setattr(batching, "WINDOW", 120)
    monkeypatch.setattr(batching, "MODELS", 2)
    found = [m.evidence for m in rgp.fit_many(iter(data), method="collapsed", inducing=3)]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_an_iterator_is_read_as_needed(monkeypatch):
    """Data that arrive one by one are fitted in windows: memory does not grow with their number."""
    monkeypatch.setattr(batching, "WINDOW", 60)
    ahead, solved, real = [], 0, batch_fit.solve

    def solve(jobs, group):
        nonlocal solved
        solved += len(jobs)
        return real(jobs, group)

    monkeypatch.setattr(batch_fit, "solve", solve)

    def stream():
        for i, pair in enumerate(parts("gaussian", 1, sizes=(20,) * 12)):
            ahead.append(i - solved)
            yield pair

    kernel = to_gpytorch(parse("rbf", 1), 1)
    assert len(rgp.fit_many(stream(), kernel=kernel, learn=False, publish=3)) == 12
    assert max(ahead) <= 3


# --- failures ---------------------------------------------------------------------------------


def failing(monkeypatch, names, alone):
    """Models that fail in company, and with `alone` also by themselves."""
    real = batch_fit.solve

    def solve(jobs, group):
        if alone and len(jobs) == group.functions and jobs[0].name in names:
            raise rgp.RecycleGPError("no jitter mends it")
        made = real(jobs, group)
        fine = [i for i in made.positions if len(jobs) == group.functions or jobs[i].name not in names]
        return made._replace(positions=fine, models=made.models.take(torch.tensor(fine)))

    monkeypatch.setattr(batch_fit, "solve", solve)


def options(data):
    return {"names": [f"ward-{i}" for i in range(len(data))], "method": "collapsed", "inducing": 3}


def test_a_failed_model_is_tried_again_alone(monkeypatch):
    data = parts("gaussian", 1, sizes=(30,) * 4)
    expected = [m.evidence for m in rgp.fit_many(data, **options(data))]
    failing(monkeypatch, {"ward-2"}, alone=False)
    found = rgp.fit_many(data, **options(data))
    np.testing.assert_allclose([m.evidence for m in found], expected, atol=1e-4)


def test_a_model_that_fails_twice_is_named(monkeypatch):
    data = parts("gaussian", 1, sizes=(30,) * 4)
    failing(monkeypatch, {"ward-1", "ward-3"}, alone=True)
    with pytest.raises(rgp.RecycleGPError, match=r"(?s)2 of the models.*ward-1.*ward-3.*on_failure='skip'"):
        rgp.fit_many(data, **options(data))
    with pytest.warns(rgp.RecycleGPWarning, match=r"ward-1.*ward-3"):
        rest = rgp.fit_many(data, on_failure="skip", **options(data))
    assert [m.name for m in rest] == ["ward-0", "ward-2"]


def test_a_whole_batch_that_fails_is_tried_one_by_one(monkeypatch):
    data = parts("gaussian", 1, sizes=(30,) * 3)
    real = batch_fit.solve

    def solve(jobs, group):
        if len(jobs) > 1:
            raise rgp.RecycleGPError("all of them")
        return real(jobs, group)

    monkeypatch.setattr(batch_fit, "solve", solve)
    assert len(rgp.fit_many(data, **options(data))) == 3


def test_bad_data_are_named_before_any_work(monkeypatch):
    data = parts("gaussian", 1, sizes=(30,) * 3)
    data[2][1][4] = np.nan
    monkeypatch.setattr(batch_fit, "solve", lambda jobs, group: pytest.fail("work began"))
    with pytest.raises(rgp.RecycleGPError, match=r"data set 2 \(ward-2\).*NaN"):
        rgp.fit_many(data, **options(data))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"names": ["a"]}, "names has 1 entries for 2"),
        ({"on_failure": "ignore"}, "on_failure"),
        ({"method": "magic"}, "method='magic'"),
    ],
)
def test_bad_options(change, message):
    with pytest.raises(rgp.RecycleGPError, match=message):
        rgp.fit_many(parts("gaussian", 1, sizes=(9, 9)), **change)


@pytest.mark.parametrize("names", [["a"], ["a", "b", "c"]])
def test_names_of_an_iterator(names):
    with pytest.raises(rgp.RecycleGPError, match="names has"):
        rgp.fit_many(iter(parts("gaussian", 1, sizes=(9, 9))), names=names, method="collapsed", inducing=2)


def test_pairs_only():
    with pytest.raises(rgp.RecycleGPError, match="pairs"):
        rgp.fit_many([np.zeros((3, 1))])


def test_nothing_to_fit():
    assert len(rgp.fit_many([])) == 0


def test_the_bar_is_on_standard_error(capfd):
    data = parts("gaussian", 1, sizes=(9, 9))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rgp.fit_many(data, method="collapsed", inducing=8, publish=8, progress=True, allow_small=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "fitting" in err
    rgp.fit_many(data, method="collapsed", inducing=2)
    assert capfd.readouterr() == ("", "")


def test_names_that_repeat_are_refused_before_any_work():
    data = parts("gaussian", 1, sizes=(9, 9, 9))
    with pytest.raises(rgp.RecycleGPError, match="names: 'b' is given more than once"):
        rgp.fit_many(data, names=["a", "b", "b"])


def test_successes_are_not_lost_with_a_failure(monkeypatch):
    """They are in the error, which survives pickling."""
    real = batch_fit.solve

    def solve(requests, group):
        made = real(requests, group)
        fine = [i for i in made.positions if requests[i].name != "bad"]
        return made._replace(positions=fine, models=made.models.take(torch.tensor(fine)) if fine else None)

    monkeypatch.setattr(batch_fit, "solve", solve)
    data = parts("gaussian", 1, sizes=(9, 9, 9))
    with pytest.raises(rgp.FitManyError, match="1 of the models failed") as failed:
        rgp.fit_many(data, names=["a", "bad", "c"], inducing=3, method="collapsed")
    again = pickle.loads(pickle.dumps(failed.value))
    assert [m.name for m in failed.value.modules] == [m.name for m in again.modules] == ["a", "c"]
    assert set(again.failures) == {"bad"}


def test_linear_kernels_are_one_batch():
    """Their centres differ, but a centre is a number, not a structure."""
    data = parts("gaussian", 1, sizes=(12, 12, 12))
    solved = []
    with pytest.MonkeyPatch.context() as patch:
        real = batch_fit.solve
        patch.setattr(batch_fit, "solve", lambda *asked: solved.append(len(asked[0])) or real(*asked))
        rgp.fit_many(data, kernel="rbf + linear", method="collapsed", inducing=3)
    assert solved == [3]


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
@pytest.mark.parametrize(
    "options", [{"publish": 64}, {"publish": "auto"}, {"publish": None, "method": "collapsed", "inducing": 7}], ids=str
)
def test_each_has_the_points_that_its_own_rows_allow(options):
    """Also where they are solved side by side."""
    made = rgp.fit_many(parts("gaussian", 2, sizes=(31, 40, 36, 33)), rows_per_point=5, learn=False, **options)
    assert [len(m.inducing) for m in made] == [6, 7 if options["publish"] is None else 8, 7, 6]


def test_a_data_set_that_is_too_small_for_a_point_is_named():
    with pytest.raises(rgp.RecycleGPError, match=r"data set 1 \(b\): rows_per_point=10: 7 rows"):
        rgp.fit_many(parts("gaussian", 1, sizes=(30, 7)), names=["a", "b"], rows_per_point=10)


# --- several functions ------------------------------------------------------------------------


def several(sizes=(20, 21, 20), seed=0):
    """Each data set for each kind of model: outputs, classes, varying noise."""
    data = parts("gaussian", 1, sizes=sizes, seed=seed)
    return {
        "outputs": ([(X, np.c_[y, 3 - y]) for X, y in data], {}),
        "classes": ([(X, np.where(y > 7, "high", "low")) for X, y in data], {"likelihood": "categorical"}),
        "softmax": (
            [(X, np.where(y > 7, "high", "low")) for X, y in data],
            {"likelihood": "categorical-softmax", "inducing": 6},
        ),
        "noise": (data, {"likelihood": "heteroscedastic", "inducing": 6}),
    }


KINDS = list(several())


@pytest.mark.parametrize("kind", KINDS)
def test_several_functions_are_columns_too(kind, tmp_path):
    data, how = several()[kind]
    names = ["a", "b", "c"]
    made = rgp.fit_many(iter(data), names=names, owners=["o", "o", "p"], times=[1, None, 2.5], progress=False, **how)
    assert isinstance(made, rgp.Modules)
    assert made.names == names
    assert [(m.owner, m.time) for m in made] == [("o", 1.0), ("o", None), ("p", 2.5)]
    alone = rgp.fit(*data[1], name="b", **how)
    assert made[1].functions == alone.functions
    assert made[1].evidence == pytest.approx(alone.evidence, abs=1e-3)
    assert [len(share) for share in made.kept] == [len(alone.functions)] * 3
    made.save(tmp_path / "all.safetensors")
    for one, other in zip(made, rgp.load_many(tmp_path / "all.safetensors"), strict=True):
        assert (one.about, one.likelihoods) == (other.about, other.likelihoods)
        for p, q in zip(one.latents, other.latents, strict=True):
            assert all(torch.equal(s, t) for s, t in zip(p.site, q.site, strict=True))
            assert p._replace(site=None) == q._replace(site=None)
    assert rgp.merge(made[:2], trust=None).names == ["a", "b"]


@pytest.mark.parametrize("kind", KINDS)
def test_failures_of_several_functions(kind, monkeypatch, capfd):
    data, how = several(sizes=(20, 20, 20))[kind]
    failing(monkeypatch, {"b"}, alone=True)
    with pytest.raises(rgp.FitManyError, match=r"1 of the models failed \(b: no jitter mends it\)") as failed:
        rgp.fit_many(data, names=["a", "b", "c"], **how)
    assert failed.value.modules.names == ["a", "c"]
    with pytest.warns(rgp.RecycleGPWarning, match="1 model was left out"):
        rest = rgp.fit_many(data, names=["a", "b", "c"], on_failure="skip", progress=True, **how)
    assert rest.names == ["a", "c"]
    assert "fitting" in capfd.readouterr().err


def test_noises_of_cells_beside_outputs():
    data = several()["outputs"][0]
    noise = [np.full(Y.shape, [4.0, 9.0]) for _, Y in data]
    made = rgp.fit_many([(X, Y, n) for (X, Y), n in zip(data, noise, strict=True)])
    np.testing.assert_allclose([m.noise for m in made], [(4.0, 9.0)] * 3)
    alone = rgp.fit(*data[0], noise=noise[0])
    assert made[0].evidence == pytest.approx(alone.evidence, abs=1e-3)
    with pytest.raises(rgp.RecycleGPError, match=r"data set 0 .*noise has shape \(3,\)"):
        rgp.fit_many([(*data[0], np.ones(3))])


def test_outputs_that_some_have_not_seen():
    """Are not there; and one may be seen in few rows only."""
    (X, Y), other = several()["outputs"][0][:2]
    without, few = Y.copy(), Y.copy()
    without[:, 1], few[5:, 0] = np.nan, np.nan
    made = rgp.fit_many([(X, without), (X, few), other], missing="allow", allow_small=True)
    assert [m.functions for m in made] == [("y1",), ("y1", "y2"), ("y1", "y2")]
    assert [p.rows for p in made[1].latents] == [5, 20]
    assert made[1].rows == 20


def test_times_reach_the_merge():
    data = parts("gaussian", 1, sizes=(20, 20))
    made = rgp.fit_many(data, names=["old", "new"], times=["2026-01-01", "2026-03-01"])
    aged = rgp.merge(made, half_life=59)
    assert {r["name"]: r["weight"] for r in aged.report()} == pytest.approx({"old": 0.5, "new": 1.0})
    with pytest.raises(rgp.RecycleGPError, match="times has 1 entries for 2 data sets"):
        rgp.fit_many(data, times=[1])
    with pytest.raises(rgp.RecycleGPError, match="times has 1 entries and data has more"):
        rgp.fit_many(iter(data), times=[1])
    with pytest.raises(rgp.RecycleGPError, match=r"times\[1\]='soon'"):
        rgp.fit_many(data, times=[1, "soon"])


def test_equal_rows_among_many():
    """Plain arrays of one shape, of which one has a row twice: as when it is fitted alone."""
    data = [(X.copy(), y.copy()) for X, y in parts("gaussian", 1, sizes=(20, 20, 20))]
    data[1][0][7], data[1][1][7] = data[1][0][3], data[1][1][3]
    made = rgp.fit_many(data, publish=6)
    alone = rgp.fit(*data[1], publish=6)
    np.testing.assert_allclose(made[1].inducing, alone.inducing, rtol=1e-3)
    assert made[1].evidence == pytest.approx(alone.evidence, abs=1e-4)
    assert [m.rows for m in made] == [20, 20, 20]
