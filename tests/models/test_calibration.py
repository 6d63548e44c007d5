"""Split-conformal intervals: against the definition, in a file, and how often they hold."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import recyclegp as rgp
from cases_cli import INPUTS, TRAIN, owner, target
from recyclegp.arrays import LARGEST
from recyclegp.experiments.data import random_function
from recyclegp.likelihoods import StudentT
from recyclegp.storage import digest
from recyclegp.storage.calibration import DIGEST


@pytest.fixture(scope="module")
def model():
    return rgp.fit(TRAIN[INPUTS], TRAIN["y"], publish=6, name="north")


def of(kind):
    return rgp.fit(TRAIN[INPUTS], target(TRAIN, kind), likelihood=kind, publish=6, name=kind)


LOCAL = owner(21, 0, 6, 60)
NEW = owner(22, 0, 6, 40)[INPUTS]


def test_the_factor_is_an_order_statistic(model):
    c = rgp.calibrate(model, LOCAL[INPUTS], LOCAL["y"])
    mean, variance = model.predict_y(LOCAL[INPUTS])
    scores = np.sort(np.abs(LOCAL["y"] - mean) / np.sqrt(variance))
    assert c.calibration.rows == 60
    assert c.calibration.levels == (0.5, 0.8, 0.9, 0.95)  # 99% needs 99 rows
    expected = [scores[math.ceil(61 * level) - 1] for level in c.calibration.levels]
    assert c.calibration.quantiles == pytest.approx(expected)
    mean, variance = model.predict_y(NEW)
    low, high = c.predict_interval(NEW, 0.9)
    assert low == pytest.approx(mean - expected[2] * np.sqrt(variance))
    assert high == pytest.approx(mean + expected[2] * np.sqrt(variance))
    assert np.stack(c.predict_interval(NEW)) == pytest.approx(np.stack(c.predict_interval(NEW, 0.95)))


def test_calibration_rows_are_held_as_promised(model):
    c = rgp.calibrate(model, LOCAL[INPUTS], LOCAL["y"], levels=[0.25, 0.7])
    for level in (0.25, 0.7):
        assert c.covers(LOCAL[INPUTS], LOCAL["y"], level).sum() == math.ceil(61 * level)


def test_tensors_come_back_as_tensors(model):
    c = rgp.calibrate(model, LOCAL[INPUTS], LOCAL["y"])
    x = torch.tensor(NEW.to_numpy(), requires_grad=True)
    low, high = c.predict_interval(x)
    assert isinstance(low, torch.Tensor)
    assert bool((torch.autograd.grad((high - low).sum(), x)[0] != 0).any())
    assert c.covers(x.detach(), np.zeros(40)).shape == (40,)


def test_outliers_without_a_variance():
    m = rgp.fit(TRAIN[INPUTS], target(TRAIN, "student-t"), likelihood="student-t", publish=6, name="t")
    heavy = replace(m, likelihoods=(StudentT(0.04, 1.5),))
    assert (heavy.predict_y(NEW)[1] == LARGEST).all()  # a number stands for what is infinite
    y = target(LOCAL, "student-t")
    c = rgp.calibrate(heavy, LOCAL[INPUTS], y)
    assert c.covers(LOCAL[INPUTS], y, 0.9).sum() == math.ceil(61 * 0.9)


def test_counts_get_whole_numbers():
    m, y = of("poisson"), target(LOCAL, "poisson")
    c = rgp.calibrate(m, LOCAL[INPUTS], y)
    low, high = c.predict_interval(LOCAL[INPUTS], 0.9)
    assert np.array_equal(low, np.round(low))
    assert low.min() >= 0
    mean, variance = m.predict_y(LOCAL[INPUTS])
    within = np.abs(y - mean) / np.sqrt(variance) <= c.calibration.quantile(0.9) + 1e-12
    assert np.array_equal((low <= y) & (y <= high), within)
    assert within.sum() >= math.ceil(61 * 0.9)


def test_classes_get_sets():
    m, y = of("bernoulli"), target(LOCAL, "bernoulli")
    c = rgp.calibrate(m, LOCAL[INPUTS], y)
    p = m.predict_proba(LOCAL[INPUTS])
    scores = np.sort(1 - p[np.arange(60), y])
    assert c.calibration.quantile(0.8) == pytest.approx(scores[math.ceil(61 * 0.8) - 1])
    among = c.predict_set(LOCAL[INPUTS], 0.8)
    assert among.dtype == bool
    assert among.any(1).all()
    expected = (1 - p <= c.calibration.quantile(0.8)) | (p == p.max(1, keepdims=True))
    assert np.array_equal(among, expected)
    assert c.covers(LOCAL[INPUTS], y, 0.8).sum() >= math.ceil(61 * 0.8)
    assert c.is_of_classes
    with pytest.raises(rgp.RecycleGPError, match="use predict_set"):
        c.predict_interval(NEW)


def test_whose_rows_they_are():
    wards = [
        rgp.fit(owner(i, 0, 6)[INPUTS], owner(i, 0, 6)["y"] + b, publish=6, name=f"w{i}")
        for i, b in enumerate((-1.0, 0.1, 0.9, 0.4))
    ]
    e = rgp.merge(wards, owners="offset")
    mine = rgp.calibrate(e, LOCAL[INPUTS], LOCAL["y"] - 1.0, owner="w0")
    stranger = rgp.calibrate(e, LOCAL[INPUTS], LOCAL["y"] - 1.0)
    assert mine.calibration.owner == "w0"
    widths = [np.subtract(*c.predict_interval(NEW)[::-1]).mean() for c in (mine, stranger)]
    assert widths[0] < 0.7 * widths[1]
    low, high = mine.predict_interval(NEW)
    assert 0.5 * (low + high) == pytest.approx(e.predict_y(NEW, owner="w0")[0])
    with pytest.raises(rgp.RecycleGPError, match="nobody here is called so"):
        rgp.Calibrated(e, replace(mine.calibration, owner="w9"))


def test_what_cannot_be_calibrated(model):
    X, y = LOCAL[INPUTS][:10], LOCAL["y"][:10]
    few = rgp.calibrate(model, X, y)
    assert few.calibration.levels == (0.5, 0.8, 0.9)
    with pytest.raises(rgp.RecycleGPError, match=r"level=0.95 needs a calibration with at least 19 rows.*has 10"):
        few.predict_interval(NEW)
    with pytest.raises(rgp.RecycleGPError, match=r"level=0.7 was not calibrated, but 0.5, 0.8, 0.9"):
        few.predict_interval(NEW, 0.7)
    with pytest.raises(rgp.RecycleGPError, match=r"there are 10 calibration rows, and 19 are needed"):
        rgp.calibrate(model, X, y, levels=[0.5, 0.95])
    with pytest.raises(rgp.RecycleGPError, match="levels="):
        rgp.calibrate(model, X, y, levels=[])
    with pytest.raises(rgp.RecycleGPError, match="no rows"):
        rgp.calibrate(model, X[:0], y[:0])
    with pytest.raises(rgp.RecycleGPError, match=r"levels=1;"):
        rgp.calibrate(model, X, y, levels=[1.0])
    with pytest.raises(rgp.RecycleGPError, match=r"y has shape \(9,\) but X has 10 rows"):
        rgp.calibrate(model, X, y[:9])
    with pytest.raises(TypeError, match="not str"):
        rgp.calibrate("city", X, y)
    with pytest.raises(rgp.RecycleGPError, match="has no classes; use predict_interval"):
        few.predict_set(NEW)


# --- in a file --------------------------------------------------------------------------------


def test_a_file_gives_back_what_was_saved(model, tmp_path):
    c = rgp.calibrate(model, LOCAL[INPUTS], LOCAL["y"])
    c.save(tmp_path / "c.json")
    found = rgp.Calibration.load(tmp_path / "c.json")
    assert found == c.calibration
    again = rgp.Calibrated(model, found)
    assert np.array_equal(again.predict_interval(NEW), c.predict_interval(NEW))
    assert (tmp_path / "c.json").stat().st_size < 1000


BROKEN = {
    "recyclegp_calibration": [3, 1, 2.0, True, "2"],
    "likelihood": ["normal", 3, None],
    "owner": [3, []],
    "rows": [0, -1, 60.5, True, "60", 5, 1e99],
    "levels": [[], [0.5], "0.5", *([*a, 0.8, 0.9] for a in ([0.9, 0.5], [0.0, 0.5], [0.5, 0.5])), [0.5, 0.8, 0.9, 1.0]],
    "quantiles": [[1.0], [-1.0, 1.0, 2.0, 3.0], *([1, 2, 3, a] for a in (2.5, None, "4", 1e300))],
    "content_id": ["ab", 3, "Z" * 64, "A" * 64],
}  # fmt: skip


def write_sealed(path, said):
    """With the digest of what it says now."""
    content = json.dumps({**said, "digest": digest.ZEROS}).encode()
    path.write_bytes(digest.replaced(DIGEST, content, digest.of(content)))


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in BROKEN.items() for v in values])
def test_broken_files_are_refused(model, tmp_path, field, value):
    path = tmp_path / "c.json"
    rgp.calibrate(model, LOCAL[INPUTS], LOCAL["y"]).save(path)
    content = json.loads(path.read_text())
    write_sealed(path, {**content, field: value})
    with pytest.raises(rgp.RecycleGPError, match=r"c\.json: "):
        rgp.Calibration.load(path)
    del content[field]
    write_sealed(path, content)
    with pytest.raises(rgp.RecycleGPError, match="not a calibration as"):
        rgp.Calibration.load(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a": 1, "a": 2}', b"[" * 5000, b" " * 70_000, b'{"rows": NaN}'],
)
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(rgp.RecycleGPError, match=r"c\.json: "):
        rgp.Calibration.load(path)
    with pytest.raises(rgp.RecycleGPError, match="not a file"):
        rgp.Calibration.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        rgp.Calibration.load(tmp_path / "absent.json")


# --- how often it holds -----------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_coverage_of_a_merge_with_a_right_and_a_wrong_kernel(kernel):
    """The mean over many divisions of other rows into those that calibrate and those that test."""
    rng = np.random.default_rng(4)
    f = random_function(rng, 2, 0.7)
    X = rng.uniform(-1, 1, (2300, 2))
    y = f(X) + 0.2 * rng.standard_t(5, 2300)
    owners = [(X[k : k + 100], y[k : k + 100]) for k in range(0, 300, 100)]
    e = rgp.merge(rgp.fit_many(owners, kernel=kernel, publish=20))
    rest = np.arange(300, 2300)
    held = {0.9: [], 0.95: []}
    for _ in range(100):
        order = rng.permutation(rest)
        c = rgp.calibrate(e, X[order[:100]], y[order[:100]], levels=held)
        for level, found in held.items():
            found.append(c.covers(X[order[100:]], y[order[100:]], level).mean())
    for level, found in held.items():
        assert np.mean(found) == pytest.approx(level, abs=0.015)
