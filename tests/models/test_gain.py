"""Whether merging helps, by the rows that were held back."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import recyclegp as rgp
from recyclegp.errors import ContradictionWarning
from recyclegp.local.held_back import is_held_back
from recyclegp.models.gain import Gain, Verdict

pytestmark = pytest.mark.filterwarnings("ignore::recyclegp.errors.PrivacyWarning")
SHARE = 0.3


def rows(seed, n=40, noise=0.3, turned=False):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 6, n)
    f = np.sin(x) * (-1 if turned else 1)
    return pd.DataFrame({"day": x}), f + noise * rng.standard_normal(n), f


@pytest.fixture(scope="module")
def modules():
    return [rgp.fit(*rows(seed)[:2], hold_back=SHARE, name=f"m{seed}", publish=10) for seed in range(4)]


@pytest.fixture(scope="module")
def merged(modules):
    return rgp.merge(modules, learn=False)


def test_it_is_the_difference_of_two_scores_on_the_rows_that_were_held_back(modules, merged):
    X, y, _ = rows(0)
    held = is_held_back(X, y, SHARE)
    assert modules[0].rows == (~held).sum()
    told = merged.log_density(X[held], y[held], owner="m0")
    alone = modules[0].log_density(X[held], y[held])
    found = merged.gain(X, y, name="m0")
    assert found.name == "m0"
    assert found.rows == held.sum()
    assert found.merged == pytest.approx(-told.mean())
    assert found.alone == pytest.approx(-alone.mean())
    assert found.gain == pytest.approx((told - alone).mean())
    assert found.standard_error == pytest.approx(stats.sem(told - alone))


def test_neither_the_order_of_rows_nor_of_columns_nor_more_columns_matter(merged):
    X, y, _ = rows(1)
    order = np.random.default_rng(0).permutation(len(X))
    first = merged.gain(X, y, owner="m1")
    again = merged.gain(X.assign(other=1.0)[["other", "day"]].iloc[order], y[order], owner="m1")
    assert again.rows == first.rows
    assert again[2:] == pytest.approx(first[2:])
    assert merged.gain(X.to_numpy(), y, name="m1")[2:] == pytest.approx(first[2:])


def test_files_find_the_same_rows(modules, merged, tmp_path):
    X, y, _ = rows(2)
    merged.save(tmp_path / "e.safetensors")
    assert rgp.load(tmp_path / "e.safetensors").gain(X, y, name="m2") == pytest.approx(merged.gain(X, y, name="m2"))
    small = merged.drop_sites()
    with pytest.raises(rgp.RecycleGPError, match=r"the ensemble has only the name of m2.* module"):
        small.gain(X, y, name="m2")
    again = small.gain(X, y, module=modules[2])
    assert again[2:] == pytest.approx(merged.gain(X, y, name="m2")[2:])
    called = small.gain(X, y, name="m2", module=modules[2].rename("mine"))
    assert called == pytest.approx(again)


def test_merging_helps_whoever_has_few_rows_and_hurts_whoever_is_another():
    few, many = rows(10, 60, 0.5), [rows(seed, 200, 0.5) for seed in (11, 12, 13)]
    how = {"publish": 12, "privacy": "things"}
    ms = [rgp.fit(X, y, name=f"m{i}", **how) for i, (X, y, _) in enumerate(many)]
    mine = rgp.fit(few[0].iloc[:60], few[1], hold_back=0.7, name="mine", **how)
    helped = rgp.merge([*ms, mine], owners=None, learn=False).gain(few[0], few[1])
    assert helped.verdict is Verdict.HELPS
    assert "merging helps by" in str(helped)
    assert "fit with all rows" in str(helped)
    X, y, _ = rows(14, 150, 0.1, turned=True)
    other = rgp.fit(X, y, hold_back=0.3, name="other", **how)
    hurt = rgp.merge([*ms, other], owners=None, learn=False).gain(X, y)
    assert hurt.verdict is Verdict.HURTS
    assert "merging hurts by" in str(hurt)
    assert "your own module" in str(hurt)


@pytest.mark.slow
def test_a_flagged_owner_is_answered_from_its_own_module():
    ms = [rgp.fit(*rows(seed, 60, 0.1)[:2], name=f"m{seed}", publish=8) for seed in range(4)]
    X, y, _ = rows(9, 100, 0.1)
    other = rgp.fit(X, 10 * y + 40, name="other", publish=8, hold_back=SHARE)
    with pytest.warns(ContradictionWarning):
        e = rgp.merge([*ms, other])
    with pytest.warns(ContradictionWarning, match="its own module alone"):
        found = e.gain(X, 10 * y + 40)
    assert found.gain == pytest.approx(0, abs=1e-6)
    assert found.verdict is Verdict.UNCLEAR


# --- every kind of y ------------------------------------------------------------------------------


def owners(kind, seed, n=60):
    X, y, f = rows(seed, n)
    rng = np.random.default_rng(100 + seed)
    return X, {
        "gaussian": y,
        "student-t": y,
        "heteroscedastic": y,
        "bernoulli": (y > 0).astype(int),
        "bernoulli-probit": y > 0,
        "poisson": rng.poisson(np.exp(f)),
        "categorical": np.where(y > 0.5, "high", np.where(y < -0.5, "low", "middle")),
        "categorical-softmax": np.where(y > 0.5, "high", np.where(y < -0.5, "low", "middle")),
    }[kind]


@pytest.mark.parametrize(
    "kind",
    ["gaussian", "student-t", "bernoulli", "bernoulli-probit", "poisson", "categorical", "heteroscedastic",
     pytest.param("categorical-softmax", marks=pytest.mark.slow)],
)  # fmt: skip
def test_every_likelihood(kind):
    tables = [owners(kind, seed) for seed in (1, 2)]
    ms = [rgp.fit(X, y, likelihood=kind, hold_back=SHARE, name=f"m{i}", publish=6) for i, (X, y) in enumerate(tables)]
    e = rgp.merge(ms, learn=False)
    for i, (X, y) in enumerate(tables):
        held = is_held_back(X, y, SHARE)
        found = e.gain(X, y, name=f"m{i}")
        assert found.rows == held.sum()
        assert found.alone == pytest.approx(-ms[i].log_density(X[held], y[held]).mean(), rel=1e-6)
        assert found.merged == pytest.approx(-e.log_density(X[held], y[held], owner=f"m{i}").mean(), rel=1e-6)


@pytest.mark.filterwarnings("ignore:modules name different targets")
def test_outputs_that_some_owners_lack():
    def table(seed):
        X, y, f = rows(seed, 50)
        return X, pd.DataFrame({"heat": y, "salt": 2 * f + 0.2 * y})

    (X0, Y0), (X1, Y1), (X2, Y2) = (table(seed) for seed in (1, 2, 3))
    Y0 = Y0.mask(np.random.default_rng(0).uniform(size=Y0.shape) < 0.2)
    Y0.iloc[0] = 0.0
    how = {"hold_back": SHARE, "publish": 6}
    both = rgp.fit(X0, Y0, name="both", missing="allow", **how)
    heat = rgp.fit(X1, Y1["heat"], name="heat", **how)
    salt = rgp.fit(X2, Y2[["salt"]].to_numpy(), target="salt", name="salt", **how)
    e = rgp.merge([heat, both, salt], learn=False, outputs="independent")
    seen = Y0.notna().any(axis=1)
    found = e.gain(X0[seen], Y0[seen], name="both")
    held = is_held_back(X0[seen], Y0[seen], SHARE)
    one = both.log_density(X0[seen][held], Y0[seen][held])
    assert found.alone == pytest.approx(-np.nanmean(one, axis=1).mean())
    for module, X, y in ((heat, X1, Y1["heat"]), (salt, X2, Y2[["salt"]])):
        held = is_held_back(X, y, SHARE)
        found = e.gain(X, y, name=module.name)
        assert found.rows == held.sum()
        assert found.alone == pytest.approx(-module.log_density(X[held], y[held].to_numpy().ravel()).mean())
        whole = e.part(module.name).log_density(X[held], y[held].to_numpy().ravel(), owner=module.name)
        assert found.merged == pytest.approx(-whole.mean())
    assert e.gain(X2, Y2["salt"], module=salt) == pytest.approx(e.gain(X2, Y2, name="salt"))


def test_classes_that_the_module_has_never_met():
    X, y = owners("categorical", 1)
    held = np.flatnonzero(is_held_back(X, y, SHARE))
    y = y.copy()
    y[y == "middle"] = "low"
    how = {"likelihood": "categorical", "publish": 6, "hold_back": SHARE}
    other = rgp.fit(*owners("categorical", 2), name="other", **how)
    for i in held:  # one row that is held back has a class that no other row has
        new = y.copy()
        new[i] = "middle"
        if is_held_back(X, new, SHARE)[i]:
            break
    mine = rgp.fit(X, new, name="mine", **how)
    assert mine.classes == ("high", "low")
    found = rgp.merge([other, mine], learn=False).gain(X, new, name="mine")
    assert found.left_out == 1
    assert found.rows == is_held_back(X, new, SHARE).sum() - 1
    assert math.isfinite(found.alone)


def test_levels_are_found_by_name():
    def table(seed, n=80):
        X, y, _ = rows(seed, n)
        ward = np.array(["east", "north", "south"])[np.random.default_rng(seed).integers(seed % 2, 3 - seed % 3, n)]
        return X.assign(ward=ward), y

    tables = [table(seed) for seed in (1, 2, 3)]
    ms = [
        rgp.fit(X, y, categories=["ward"], hold_back=SHARE, name=f"m{i}", publish=8) for i, (X, y) in enumerate(tables)
    ]
    e = rgp.merge(ms, learn=False)
    for i, (X, y) in enumerate(tables):
        assert e.gain(X[["ward", "day"]], y, name=f"m{i}").rows == is_held_back(X, y, SHARE).sum()


def test_people():
    tables = [rows(seed, 200)[:2] for seed in (1, 2)]
    ms = [rgp.fit(X, y, privacy="people", hold_back=SHARE, name=f"m{i}") for i, (X, y) in enumerate(tables)]
    assert rgp.merge(ms).gain(*tables[0], name="m0").rows == is_held_back(*tables[0], SHARE).sum()


# --- what is wrong is said ------------------------------------------------------------------------


def test_whose_rows_they_are(merged, modules):
    X, y, _ = rows(0)
    for how, said in (
        ({}, "whose rows are these.*name.*m0, m1, m2, m3"),
        ({"name": "nobody"}, "name='nobody': nobody here is called so; there are m0"),
        ({"owner": "nobody"}, "owner='nobody': nobody here is called so; there are m0"),
    ):
        with pytest.raises(rgp.RecycleGPError, match=said):
            merged.gain(X, y, **how)
    plain = rgp.merge([rgp.fit(X, y, name="plain", publish=8)], learn=False)
    with pytest.raises(rgp.RecycleGPError, match=r"no rows were held back of any module here.*hold_back=0\.1"):
        plain.gain(X, y)
    with pytest.raises(rgp.RecycleGPError, match="plain: no rows were held back of it"):
        plain.gain(X, y, name="plain")
    one = rgp.merge([modules[0], rgp.fit(X, y, name="plain", publish=8)], learn=False)
    assert one.gain(X, y).name == "m0"
    with pytest.raises(rgp.RecycleGPError, match="units were changed since"):
        merged.transform(output_scale=2).gain(X, 2 * y, name="m0")


def test_another_table_is_noticed(merged):
    X, y, _ = rows(0)
    with pytest.raises(rgp.RecycleGPError, match="X lacks the columns day"):
        merged.gain(X.rename(columns={"day": "hour"}), y, name="m0")
    with pytest.raises(rgp.RecycleGPError, match="y has 39 rows but X has 40"):
        merged.gain(X, y[1:], name="m0")
    with pytest.warns(rgp.RecycleGPWarning, match=r"m0 was fitted to \d+ rows, and this table has \d+ that"):
        merged.gain(X[::2], y[::2], name="m0")


def test_words():
    assert str(Gain("a", 12, 1.1, 1.8, 0.2)).startswith(
        "merged 1.10, alone 1.80 on 12 rows held back: merging helps by 0.70 ± 0.2"
    )
    assert "merging hurts by 0.70 ± 0.2; do not use" in str(Gain("a", 12, 1.8, 1.1, 0.2))
    unclear = Gain("a", 12, 1.1, 1.2, 0.2)
    assert unclear.verdict is Verdict.UNCLEAR
    assert "merged is 0.10 ± 0.2 better, which may be chance" in str(unclear)
    one = Gain("a", 1, 1.1, 1.9, math.nan)
    assert one.verdict is Verdict.UNCLEAR
    assert "on 1 row held back: merged is 0.80 better, which may be chance" in str(one)
    assert "changes nothing" in str(Gain("a", 9, 1.0, 1.0, 0.0))


@pytest.mark.slow
def test_the_verdict_is_rarely_wrong():
    """Of owners whom merging neither helps nor hurts, it says so to about one in twenty."""
    rng = np.random.default_rng(0)
    said = []
    for _ in range(4000):
        d = rng.standard_normal(12)
        said.append(Gain("a", 12, 0.0, d.mean(), stats.sem(d)).verdict)
    assert np.mean([v is not Verdict.UNCLEAR for v in said]) == pytest.approx(0.05, abs=0.015)
