# %% [markdown]
# # Many rows on one machine
#
# 40,000 rows, cut into 200 modules of 200 rows, merged into one model. Rows are made here while they are read; they
# might as well come from files. Nothing holds all of them at once.

# %%
import time

import numpy as np

import recyclegp as rgp

PARTS, ROWS, NOISE = 200, 200, 2.0
edges = np.linspace(0, 5.5, PARTS + 1)


def f(x):
    waves = 4.5 * np.cos(np.pi * (2 * x + 1.5)) - 3 * np.sin(np.pi * (4.3 * x + 0.3))
    return waves + 5 * x - 8


def parts():
    """One (X, y) after the other, each an interval of its own."""
    for k in range(PARTS):
        rng = np.random.default_rng(k)
        X = rng.uniform(edges[k], edges[k + 1], (ROWS, 1))
        yield X, f(X[:, 0]) + NOISE**0.5 * rng.standard_normal(ROWS)


# %% [markdown]
# ## Fit
#
# `fit_many` reads the iterator as it goes and solves hundreds of models as one batched problem. An interval is a
# small part of a wave, so three points say all there is to say.

# %%
start = time.perf_counter()
modules = rgp.fit_many(parts(), names=[f"part-{k}" for k in range(PARTS)], method="collapsed", inducing=3, publish=None)
print(f"{len(modules)} modules in {time.perf_counter() - start:.1f} s")
print(modules[0])

# %% [markdown]
# A module alone knows nothing of the wave's length; its own kernel is a guess. Merging learns one kernel from all.

# %%
start = time.perf_counter()
e = rgp.merge(modules, keep="names")
print(f"merged in {time.perf_counter() - start:.1f} s")
print(e)

# %% [markdown]
# ## Against the truth
#
# The best anybody could do is to know f and the noise.

# %%
rng = np.random.default_rng(10**6)
X = rng.uniform(0, 5.5, (10_000, 1))
y = f(X[:, 0]) + NOISE**0.5 * rng.standard_normal(len(X))
merged = -e.log_density(X, y).mean()
oracle = 0.5 * np.mean(np.log(2 * np.pi * NOISE) + (y - f(X[:, 0])) ** 2 / NOISE)
print(f"mean of -log p(y): merged {merged:.4f}, with f known {oracle:.4f}")
print(f"RMSE of f: {np.sqrt(np.mean((e.predict(X)[0] - f(X[:, 0])) ** 2)):.3f}")

# %%
rgp.plot.save([e], "big_data.png")

# %% [markdown]
# ## A pyramid
#
# Ensembles are modules too. Merging four groups of 50, and then the four results, gives nearly the same as merging
# all at once; each machine, or each month, may make its own.

# %%
groups = [rgp.merge(modules[i : i + 50]).to_module(f"from-{i}") for i in range(0, PARTS, 50)]
pyramid = rgp.merge(groups)
print(f"mean of -log p(y): pyramid {-pyramid.log_density(X, y).mean():.4f}, flat {merged:.4f}")
