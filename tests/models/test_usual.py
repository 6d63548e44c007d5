"""Who goes first does not decide what others may be, where one bad module must not stop all."""

import warnings

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp

X = np.linspace(0, 6, 45)
Y = np.sin(X)
OTHERS = ("east", "north", "south")


def fitted(name, k, inputs=None, y=None, **options):
    rows = slice(k, None, 3)
    table = pd.DataFrame({"hour": X, "day": 0.1 * X})[["hour"]] if inputs is None else inputs
    usual = {"publish": 6, "learn": False, "privacy": "things"}
    target = pd.Series(Y if y is None else y)
    return rgp.fit(table.iloc[rows], target.iloc[rows].to_numpy(), name=name, **{**usual, **options})


def table(**columns):
    return pd.DataFrame(columns)


CITIES = np.array(["a", "b", "c"])[np.arange(45) // 3 % 3]
TWO = np.c_[Y, X]
LEVELS = (["low", "middle", "high"], ["high", "low", "middle"])
ORDER = [np.array(names)[np.digitize(Y, [-0.3, 0.3])] for names in LEVELS]
CASES = {  # of the first, of the others, and why the first is left out
    "inputs": (dict(inputs=table(hour=X, day=X)), {}, "it has 2 inputs, where most have 1"),
    "columns": (dict(inputs=table(xx=X)), {}, "it has the columns xx, where most have hour"),
    "categories": (
        dict(inputs=table(hour=X, city=X)),
        dict(inputs=table(hour=X, city=CITIES)),
        "it has categories in none, where most have them in city",
    ),
    "unit": (dict(target="level", unit="feet"), dict(unit="m"), "it has y in 'feet', where most have y in 'm'"),
    "logarithm": (
        dict(y=np.exp(Y), likelihood="lognormal"),
        dict(y=np.exp(Y)),
        "it has f that is the logarithm of y, where most have f that is y",
    ),
    "outputs": (dict(y=TWO, target=["a", "b"]), {}, "it has outputs, where most have one function"),
    "levels": (
        dict(y=ORDER[1], likelihood="ordinal", classes=["high", "low", "middle"]),
        dict(y=ORDER[0], likelihood="ordinal", classes=["low", "middle", "high"]),
        "it has the levels high < low < middle, where most have low < middle < high",
    ),
    "classes": (
        dict(y=(Y > 0).astype(float), likelihood="bernoulli", labels=("no", "yes")),
        dict(y=(Y > 0).astype(float), likelihood="bernoulli", labels=("yes", "no")),
        "it contradicts what most have: class 1 is 'no' for one and 'yes' for the other",
    ),
}


@pytest.mark.parametrize("what", CASES)
def test_the_first_is_left_out_and_not_the_others(what):
    first, others, why = CASES[what]
    if np.ndim(first.get("y")) == 2:
        aaa = rgp.fit(X[::3, None], TWO[::3], name="aaa", target=["a", "b"], publish=6, learn=False, privacy="things")
    else:
        aaa = fitted("aaa", 0, **first)
    honest = [fitted(name, k, **others) for k, name in enumerate(OTHERS)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        e = rgp.merge([aaa, *honest], learn=False, trust=None, on_failure="skip")
        alone = rgp.merge(honest, learn=False, trust=None)
    assert e.names == list(OTHERS)
    ((name, reason),) = e.skipped
    assert name == "aaa"
    assert reason.startswith(why), reason
    assert e.frame[:3] == alone.frame[:3]
    assert (e.bound, e.rows) == (alone.bound, alone.rows)


def test_one_output_beside_several_is_no_stranger():
    outputs = [
        rgp.fit(X[k::3, None], TWO[k::3], name=f"m{k}", target=["a", "b"], publish=6, learn=False, privacy="things")
        for k in range(2)
    ]
    inputs = pd.DataFrame(X[:, None])
    single = rgp.fit(inputs.to_numpy()[::3], Y[::3], target="a", name="one", publish=6, learn=False, privacy="things")
    unnamed = rgp.fit(inputs.to_numpy()[1::3], Y[1::3], name="aaa", publish=6, learn=False, privacy="things")
    with pytest.warns(rgp.RecycleGPWarning, match="left out of the merge: aaa"):
        e = rgp.merge([unnamed, single, *outputs], learn=False, trust=None, on_failure="skip")
    assert sorted(e.names) == ["m0", "m1", "one"]
