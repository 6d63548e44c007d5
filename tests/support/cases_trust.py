"""Owners of one function on a line, and modules that are wrong in each of the ways that are known."""

from __future__ import annotations

import functools
import re

import numpy as np

import recyclegp as rgp
from changed import with_latent
from recyclegp.core.sites import weighted

K, ROWS, NOISE = 12, 30, 0.1
BAD = (1, 3, 5)  # owners whose modules are spoiled unless told
X = np.linspace(-1.9, 1.9, 23)[:, None]  # where predictions are compared
SURE = 100.0  # times too small a variance


def truth(x):
    return 0.4 + np.sin(2.3 * x[:, 0]) + 0.3 * np.cos(5 * x[:, 0])


def wrong(x, k):
    """Another function; `k` says which."""
    return 0.2 + np.cos((2.9 + 0.2 * k) * x[:, 0] + 0.8 * k) - 0.4 * np.sin((4 + 0.1 * k) * x[:, 0] + k)


def rows(k, low=-2.0, high=2.0):
    rng = np.random.default_rng([2024, k])
    x = rng.uniform(low, high, (ROWS, 1))
    return x, truth(x) + NOISE * rng.standard_normal(ROWS)


def fitted(data, names):
    return rgp.fit_many(data, names=names, publish=8, progress=False)


@functools.cache
def honest():
    return tuple(fitted([rows(k) for k in range(K)], [f"o{k}" for k in range(K)]))


SPOILED = {
    "shifted": lambda x, y, k: y + (0.5 if k % 2 else -0.5),
    "scaled": lambda x, y, k: 1.8 * y,
    "other units": lambda x, y, k: 1.8 * y + 32,
    "sign-flipped": lambda x, y, k: -y,
    "random": lambda x, y, k: wrong(x, k) + y - truth(x),
    "overconfident": None,  # the module is changed, not the rows
    "colluding": lambda x, y, k: wrong(x, 0) + y - truth(x),
}
REASONS = {
    "shifted": r"shifted by (−|-)?0\.[456]\d*",
    "scaled": r"scaled by about 1\.[789]|in other units: about 1\.[789]·y [+−] 0\.\d+",
    "other units": r"in other units: about 1\.[789]·y \+ 3[12]",
    "sign-flipped": r"opposite sign|scaled by about -(1|0\.9\d|1\.\d)|in other units: about -(1|0\.9\d?|1\.\d)·y.*",
    "random": "unlike everybody else",
    "overconfident": r"overconfident by a factor of \d+(\.\d+)?",
    "colluding": "unlike everybody else",
}


def sure(module):
    """Its likelihood to the power of a hundred."""
    site = weighted(module.latents[0].site, module.latents[0].site.e.new_tensor(SURE))
    return with_latent(module, site=site, noise_evidence=None)


@functools.cache
def spoiled(kind, bad=BAD):
    """All of them, some bad."""
    if kind == "overconfident":
        return tuple(sure(m) if k in bad else m for k, m in enumerate(honest()))
    data = [(x, SPOILED[kind](x, y, k)) for k, (x, y) in zip(bad, map(rows, bad), strict=True)]
    others = dict(zip(bad, fitted(data, [f"o{k}" for k in bad]), strict=True))
    return tuple(others.get(k, m) for k, m in enumerate(honest()))


def explains(kind, reason):
    return re.fullmatch(REASONS[kind], reason) is not None
