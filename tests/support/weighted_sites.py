"""Modules at one kernel and mean, and what they say together, to powers, by dense algebra in NumPy."""

from __future__ import annotations

import gpytorch
import numpy as np
import torch

import recyclegp as rgp
from changed import with_latent

LENGTHS, SIZE, MEAN, NOISE = (0.8, 1.7), 1.3, 0.6, 0.09


def kernel():
    k = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2)).double()
    k.outputscale = torch.tensor(SIZE, dtype=torch.float64)
    k.base_kernel.lengthscale = torch.tensor(LENGTHS, dtype=torch.float64)
    return k


def gram(A, B):
    d = (A[:, None, :] - B[None, :, :]) / np.array(LENGTHS)
    return SIZE * np.exp(-0.5 * (d**2).sum(-1))


def truth(X):
    return MEAN + np.sin(2 * X[:, 0]) + 0.4 * X[:, 1]


def some_rows(n, seed, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    return X, truth(X) + shift + NOISE**0.5 * rng.standard_normal(n)


def made(name, n=12, seed=0, points=5, shift=0.0, **options):
    """A module of n rows at the kernel and mean of all of these."""
    X, y = some_rows(n, seed, shift)
    Z = np.random.default_rng(seed + 100).uniform(-2, 2, (points, 2))
    module = rgp.fit(X, y, kernel=kernel(), learn=False, noise=NOISE, publish=Z, name=name, **options)
    return with_latent(module, mean=MEAN)


def together(sites, weights, owners, at, effects=(0.0, 0.0), mean=MEAN):
    """Mean and variance of the shared f, and the evidence, of sites to powers: all of them at once."""
    offset, smooth = effects
    Z = np.concatenate([s.Z.numpy() for s in sites])
    of_point = np.concatenate([[o] * len(s.Z) for s, o in zip(sites, owners, strict=True)])
    Rt = np.zeros((sum(len(s.rho) for s in sites), len(Z)))
    row = point = 0
    for s, w in zip(sites, weights, strict=True):
        r, M = s.Rt.shape
        Rt[row : row + r, point : point + M] = np.sqrt(w) * s.Rt.numpy()
        row, point = row + r, point + M
    rho = np.concatenate([np.sqrt(w) * s.rho.numpy() for s, w in zip(sites, weights, strict=True)])
    e = sum(w * float(s.e) for s, w in zip(sites, weights, strict=True))
    same = of_point[:, None] == of_point[None, :]
    A = np.eye(len(rho)) + Rt @ (gram(Z, Z) + same * (offset + smooth * gram(Z, Z))) @ Rt.T
    cross = gram(at, Z) @ Rt.T
    rest = rho - mean * Rt.sum(1)
    solved = np.linalg.solve(A, np.column_stack([rest, cross.T]))
    evidence = e - 0.5 * rest @ solved[:, 0] - 0.5 * np.linalg.slogdet(A)[1]
    return mean + cross @ solved[:, 0], SIZE - (cross * solved[:, 1:].T).sum(1), evidence
