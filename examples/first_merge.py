# %% [markdown]
# # A first merge
#
# Two laboratories measure the same curve, each over its own part. They fit apart, exchange two small files, and
# merge them.

# %%
from statistics import NormalDist

import numpy as np

import recyclegp as rgp

rng = np.random.default_rng(0)


def f(x):
    return np.sin(2 * x) + 0.3 * x


def measured(low, high, rows, noise):
    """What a laboratory has: it stays there."""
    X = rng.uniform(low, high, (rows, 1))
    return X, f(X[:, 0]) + noise * rng.standard_normal(rows)


X_a, y_a = measured(0, 3.5, 120, 0.2)
X_b, y_b = measured(2.5, 6, 80, 0.4)

# %% [markdown]
# ## In each laboratory
#
# `fit` learns kernel and noise and returns a module. `publish` is the number of points at which it speaks.

# %%
a = rgp.fit(X_a, y_a, publish=12, name="lab-a")
b = rgp.fit(X_b, y_b, publish=12, name="lab-b")
for m in (a, b):
    m.save(f"{m.name}.safetensors")
    print(m)

# %% [markdown]
# ## Anywhere
#
# Whoever has the two files can merge them. No rows are needed.

# %%
e = rgp.merge(["lab-a.safetensors", "lab-b.safetensors"])
print(e)

# %% [markdown]
# The ensemble answers like any Gaussian process: mean and variance of f, the same of a new measurement, joint draws,
# log densities.

# %%
X = np.array([[1.0], [3.0], [5.0]])
mean, variance = e.predict(X)
half = NormalDist().inv_cdf(0.975)  # standard deviations on either side of the mean that hold 95%
for x, m, v in zip(X[:, 0], mean, variance, strict=True):
    print(f"f({x:g}) = {m:.3f} ± {half * v**0.5:.3f}   truth {f(x):.3f}")

# %%
rgp.plot.save([a, b, e], "first_merge.png", names=["lab-a", "lab-b", "merged"])

# %% [markdown]
# ## Against all rows in one place
#
# The yardstick is one exact fit of all 200 rows. Both are asked for the log density of 1,000 new measurements with the
# noise of laboratory a. The ensemble's own noise is one number for both laboratories, so the noise is passed here.

# %%
X_new, y_new = measured(0, 6, 1000, 0.2)
central = rgp.fit(np.r_[X_a, X_b], np.r_[y_a, y_b], publish=64, name="central")
models = {"lab-a alone": a, "lab-b alone": b, "merged": e, "central": central}
for label, model in models.items():
    mean, variance = model.predict(X_new)
    total, square = variance + 0.2**2, (y_new - mean) ** 2
    nlpd = 0.5 * np.mean(np.log(2 * np.pi * total) + square / total)
    print(f"{label:12s} mean of -log p(y) {nlpd:6.3f}   RMSE {np.sqrt(square.mean()):.3f}")
