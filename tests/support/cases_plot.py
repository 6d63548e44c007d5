"""Small fitted models of every kind that can be drawn."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy import stats

import recyclegp as rgp
from recyclegp.plot import figure
from recyclegp.plot.scene import scenes

LIKELIHOODS = ("gaussian", "bernoulli", "poisson")
DIMENSIONS = (1, pytest.param(2, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow))  # to be drawn
NAMES = ("ward-7", "lab-2", "st. mary")
BAND_SDS = stats.norm.ppf(0.975)  # standard deviations from the mean to the edge of a 95% band


def rows(dimension, likelihood, k, n=40):
    """Three owners, each with a third of the first input's range."""
    rng = np.random.default_rng([dimension, k, LIKELIHOODS.index(likelihood)])
    X = rng.uniform(0, 4, (n, dimension))
    X[:, 0] = rng.uniform(2 * k - 0.3, 2 * k + 2.3, n)
    f = np.sin(1.7 * X[:, 0]) + 0.4 * np.cos(X[:, -1])
    if likelihood == "gaussian":
        return X, f + 0.3 * rng.standard_normal(n)
    if likelihood == "bernoulli":
        return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-3 * f))).astype(float)
    return X, rng.poisson(np.exp(f + 0.7)).astype(float)


@functools.cache
def modules(dimension, likelihood):
    found = []
    for k, name in enumerate(NAMES):
        X, y = rows(dimension, likelihood, k)
        found.append(rgp.fit(X, y, likelihood=likelihood, publish=7, name=name, learn=False))
    return tuple(found)


@functools.cache
def ensemble(dimension, likelihood):
    return rgp.merge(list(modules(dimension, likelihood)), inducing=9, learn=False)


OFFSETS = (-1.2, 0.3, 1.0)  # constants by which owners differ


@functools.cache
def of_owners(dimension, count=3):
    """Modules of the same function over the same region, each with a constant of its own."""
    found = []
    for k in range(count):
        rng = np.random.default_rng([dimension, k])
        X = rng.uniform(0, 6, (40, dimension))
        y = np.sin(X[:, 0]) + OFFSETS[k % 3] + 0.2 * rng.standard_normal(40)
        found.append(rgp.fit(X, y, publish=7, name=NAMES[k] if count == 3 else f"m{k}", learn=False))
    return tuple(found)


@functools.cache
def differing(dimension, count=3, inducing="all"):
    """An ensemble whose owners differ."""
    return rgp.merge(of_owners(dimension, count), inducing=inducing, learn=False, owners="offset")


def objects(dimension, likelihood, kind):
    ms, e = list(modules(dimension, likelihood)), ensemble(dimension, likelihood)
    return {"module": ms[:1], "modules": ms, "ensemble": [e], "all": [*ms, e], "names": [e.forget_sites()]}[kind]


def drawn(models, at=None, title=None, **options):
    """The figure as `save` draws it, with its axes."""
    return figure.new(scenes(models, at=at, **options), title)


def line(ax, colour, among=None):
    """The one long line of this colour: a mean."""
    (found,) = [each for each in ax.lines if each.get_color() == colour and len(each.get_xdata()) > 100]
    return found


def bands(ax, colour):
    """Filled bands of this colour, narrowest first: (x, low, high)."""
    found = []
    for each in ax.collections:
        face = each.get_facecolor()[0]
        if np.allclose(face[:3], [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)], atol=2e-3):
            vertices = each.get_paths()[0].vertices
            x = np.unique(vertices[:, 0])
            low = np.array([vertices[vertices[:, 0] == v, 1].min() for v in x])
            high = np.array([vertices[vertices[:, 0] == v, 1].max() for v in x])
            found.append((x, low, high))
    return sorted(found, key=lambda b: float(np.mean(b[2] - b[1])))
