"""Partitions of a small data set, in all the forms that engines take, for tests whose workers import this too."""

import time
from functools import partial
from pathlib import Path

import gpytorch
import numpy as np
import pandas as pd
import torch

import recyclegp as rgp

X_NEW = np.linspace(0, 10, 41)[:, None]
Z = np.linspace(0, 10, 12)[:, None]


def pair(k, of=12, rows=30):
    """Neighbours overlap, and are not equally many."""
    rng = np.random.default_rng(k)
    X = rng.uniform(10 * k / of, 10 * (k + 1) / of + 0.5, (rows + 4 * (k % 3), 1))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(len(X))


def pairs(of=12):
    return [pair(k, of) for k in range(of)]


def names(of=12):
    return [f"part-{k}" for k in range(of)]


def slowly(k, seconds, of=12):
    """A loader that gives somebody time to kill its worker."""
    time.sleep(seconds)
    return pair(k, of)


def loaders(seconds=0.0, of=12):
    return [partial(slowly, k, seconds, of) for k in range(of)]


def table(k, of=12):
    X, y = pair(k, of)
    return pd.DataFrame({"x": X[:, 0], "y": y})


def parquet(folder, of=12):
    """A folder of files, each of them a partition."""
    folder = Path(folder)
    folder.mkdir()
    for k in range(of):
        table(k, of).to_parquet(folder / f"part-{k:02d}.parquet", index=False)
    return folder


def plan():
    """A kernel and points that everybody has agreed upon: nothing is learned."""
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    kernel.outputscale, kernel.base_kernel.lengthscale = torch.tensor(1.0), torch.tensor(1.5)
    return {"kernel": kernel, "learn": False, "noise": 0.01, "inducing": Z, "method": "collapsed"}


def plain(data, fit, merge):
    """What all engines must agree with."""
    modules = rgp.fit_many(data, names=names(len(data)), **fit)
    return rgp.merge(modules, keep="names", owners=None, trust=None, **merge)


def same_bits(a, b):
    """Nothing can tell these two ensembles apart."""
    said = [np.array_equal(s, t) for s, t in zip(a.predict(X_NEW), b.predict(X_NEW), strict=True)]
    return all(said) and a.names == b.names and (a.evidence, a.bound, a.noise) == (b.evidence, b.bound, b.noise)


def states(folder):
    """When each file of modules was written."""
    return {p.name: p.stat().st_mtime_ns for p in sorted(Path(folder).glob("chunk-*.safetensors"))}
