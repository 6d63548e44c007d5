"""A data set as requests for its functions; a likelihood of three functions needs one class and one entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.likelihoods import FAMILIES, Likelihood, Moments, Scale, SeveralFunctions, Sharing
from recyclegp.likelihoods.base import Expected
from recyclegp.local.functions import requests_for
from recyclegp.local.options import FitOptions
from recyclegp.local.request import Method
from recyclegp.local.together import Group

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 5, (30, 2))
Y = np.sin(X.sum(1))


def asked(y, **options):
    data = {name: options.pop(name) for name in ("noise", "weights") if name in options}
    return requests_for(X, y, "a", FitOptions.of(**options), **data)


def test_one_function_is_a_group_of_one():
    found = asked(Y, target="level")
    assert (found.group, found.likelihood.functions) == (Group(1, Sharing.NOTHING), ("f",))
    assert [t.name for t in found.targets] == ["level"]
    (request,) = found.requests
    assert (request.method, request.rows, request.counts) == (Method.EXACT, 30, None)


def test_functions_of_the_same_rows_have_the_same_inputs():
    found = asked(np.c_[Y, -Y, Y**2], unit=["m", "s", None])
    assert found.group == Group(3, Sharing.SHAPE)
    assert len({id(r.X) for r in found.requests}) == 1
    assert len({tuple(r.entropy) for r in found.requests}) == 1
    assert [(t.name, t.unit) for t in found.targets] == [("y1", "m"), ("y2", "s"), ("y3", None)]


def test_equal_rows_are_equal_in_all_outputs():
    both = np.c_[Y, -Y]
    twice = np.r_[np.arange(30), 4, 7]
    found = requests_for(X[twice], both[twice], "a", FitOptions())
    assert [len(r.y) for r in found.requests] == [30, 30]
    assert [r.rows for r in found.requests] == [32, 32]
    assert sorted(found.requests[0].counts.tolist())[-3:] == [1, 2, 2]
    both[7, 1] += 1
    apart = requests_for(np.r_[X, X[7:8]], np.r_[both, [[both[7, 0], 3.0]]], "a", FitOptions())
    assert [r.counts for r in apart.requests] == [None, None]


def test_the_method_is_that_of_the_output_with_most_rows():
    """Functions that are solved together have one."""
    n = 3100
    x = RNG.uniform(0, 5, (n, 1))
    y = np.c_[np.sin(x[:, 0]), np.where(np.arange(n) < 100, x[:, 0], np.nan)]
    found = requests_for(x, y, "a", FitOptions.of(missing="allow"))
    assert [r.method for r in found.requests] == [Method.COLLAPSED] * 2
    assert all(r.inducing for r in found.requests)


def test_other_ways_to_see_classes_are_made_where_they_are_learned():
    labels = np.where(Y > 0, "up", "down")
    assert len(asked(labels, likelihood="categorical").alternatives) == 2
    assert asked(labels, likelihood="categorical", learn=False).alternatives == ()
    assert asked(labels, likelihood="categorical-softmax").alternatives == ()


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (Y, {"missing": "allow"}, r"missing='allow' is for y of shape \(n, C\)"),
        (Y, {"missing": "keep"}, "missing='keep'; use 'refuse', 'allow', 'drop'"),
        (Y, {"classes": ["a"]}, "classes: only likelihoods 'categorical' and 'ordinal'"),
        (np.c_[Y, Y], {"classes": ["a"]}, "classes: only likelihoods 'categorical' and 'ordinal'"),
        (np.c_[Y, Y * np.nan], {}, "y holds 30 missing values; pass missing='allow'"),
        (np.c_[Y, Y] * np.nan, {"missing": "allow"}, "y has no values at all"),
        (np.c_[Y, Y], {"target": ["a"]}, "target has 1 names for 2 outputs"),
        (np.c_[Y, Y], {"unit": ["a"]}, "unit has 1 entries for 2 outputs"),
        (np.c_[Y, Y], {"noise": np.ones((30, 3))}, r"noise has shape \(30, 3\)"),
        (Y, {"likelihood": "heteroscedastic", "noise": 0.1}, "noise: likelihood 'heteroscedastic' has none to give"),
        (Y > 0, {"likelihood": "categorical", "noise": 0.1}, "noise: likelihood 'categorical' has none to give"),
        (Y > 9, {"likelihood": "categorical"}, r"y has one class only \(False\); pass classes="),
        (Y, {"labels": ["a", "b"]}, "labels: likelihood 'gaussian' has no classes"),
    ],
)
def test_what_cannot_be_is_said(y, options, message):
    with pytest.raises(rgp.RecycleGPError, match=message):
        asked(y, **options)


# --- a new likelihood -------------------------------------------------------------------------


@dataclass(frozen=True)
class Threefold(SeveralFunctions):
    """y ~ N(f + g + h, 0.01): three functions of which only the sum is seen."""

    name: ClassVar[str] = "threefold"

    @property
    def functions(self) -> tuple[str, ...]:
        return ("f", "g", "h")

    @property
    def meaning(self) -> str:
        return "three functions"

    @property
    def parts(self) -> tuple[Likelihood, ...]:
        return (self,) * 3

    def check(self, y):
        return y

    def seen_by_functions(self, y):
        return y.expand(3, -1)

    def scale_of(self, y, w):
        return Scale(torch.zeros_like(w[:, 0]), torch.ones_like(w[:, 0]))

    def expected_jointly(self, y, mean, variance):
        rest, noise = y[..., 0, :] - mean.sum(-2), 0.01
        value = -0.5 * (np.log(2 * np.pi * noise) + (rest.square() + variance.sum(-2)) / noise)
        slope = (rest / noise)[..., None, :].expand_as(mean)
        return Expected(value, slope, torch.full_like(mean, -0.5 / noise))

    def observed(self, at):
        return Moments(at.mean.sum(-1), at.variance.sum(-1) + 0.01)


def test_a_likelihood_of_three_functions(monkeypatch):
    monkeypatch.setitem(FAMILIES, "threefold", Threefold)
    m = rgp.fit(X, Y, likelihood="threefold", inducing=20, name="a")
    assert m.functions == ("f", "g", "h")
    mean, _ = m.predict_y(X)
    assert np.corrcoef(mean, Y)[0, 1] > 0.95
    many = rgp.fit_many([(X, Y), (X, -Y)], likelihood="threefold", inducing=20)
    assert [len(some.latents) for some in many] == [3, 3]
