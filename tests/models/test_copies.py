"""A copy of a module under another name counts once, and somebody says so."""

import numpy as np
import pytest

import recyclegp as rgp

X = np.linspace(-2, 2, 7)[:, None]


@pytest.fixture(scope="module")
def modules():
    rng, found = np.random.default_rng(0), []
    for k in range(4):
        x = rng.uniform(-3, 3, (30, 1))
        found.append(rgp.fit(x, np.sin(x[:, 0]) + 0.2 * rng.standard_normal(30), name=f"w{k}", publish=8))
    return found


@pytest.mark.parametrize("count", [1, 5])
def test_copies_count_once(modules, count):
    once = rgp.merge(modules)
    with pytest.warns(rgp.RecycleGPWarning, match=f"{count} of {4 + count} modules are copies .*c0 .a copy of w1"):
        more = rgp.merge([*modules, *(modules[1].rename(f"c{i}").owned_by(f"o{i}") for i in range(count))])
    np.testing.assert_allclose(more.predict_y(X), once.predict_y(X), rtol=1e-6)
    assert [row["weight"] for row in more.report()] == [1.0] * 4 + [0.0] * count
    assert not rgp.screen([*modules, modules[1].rename("c")]).flagged
    np.testing.assert_array_equal(more.predict_y(X, owner="o0"), more.predict_y(X, owner="w1"))


def test_who_says_so_may_count_them_twice(modules):
    twice = rgp.merge([*modules, modules[1].rename("c")], trust=None)
    assert all(row["weight"] == 1 for row in twice.report())
    told = rgp.merge([*modules, modules[1].rename("c")], trust="report")
    assert str(told.report()[4]["trust"]).endswith("a copy of w1, and counts once")


def test_the_same_function_from_other_rows_is_no_copy():
    x = np.linspace(-3, 3, 30)[:, None]
    rng = np.random.default_rng(1)
    kernel, data = (
        rgp.fit(x, np.sin(x[:, 0])).kernel,
        [np.sin(x[:, 0]) + 0.2 * rng.standard_normal(30) for _ in range(3)],
    )
    shared = [
        rgp.fit(x, y, kernel=kernel, learn=False, noise=0.04, inducing=x[::4], method="collapsed", name=f"w{k}")
        for k, y in enumerate(data)
    ]
    assert all(row["weight"] == 1 for row in rgp.merge(shared).report())
