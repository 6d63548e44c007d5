# %% [markdown]
# # A plan agreed beforehand
#
# Owners who agree on points, kernel and noise before they look at their rows get more than an approximation: merging
# their modules gives, to rounding, the sparse regression (SGPR) of all rows in one place.

# %%
import gpytorch
import numpy as np

import recyclegp as rgp

# %% [markdown]
# ## The plan
#
# It is public and holds no data: the region, a grid of points over it, a kernel in agreed units, the noise variance.

# %%
Z = np.linspace(0, 10, 21)[:, None]
kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
kernel.base_kernel.lengthscale, kernel.outputscale = 1.2, 2.0
plan = {"inducing": Z, "kernel": kernel, "learn": False, "noise": 0.25, "method": "collapsed"}

# %% [markdown]
# ## Everybody follows it

# %%
rng = np.random.default_rng(4)


def rows(low, high, count):
    X = rng.uniform(low, high, (count, 1))
    return X, np.sin(X[:, 0]) + 0.5 * rng.standard_normal(count)


data = [rows(0, 4, 200), rows(1, 7, 50), rows(6, 10, 400)]
modules = [rgp.fit(X, y, name=f"owner-{k}", **plan) for k, (X, y) in enumerate(data)]
e = rgp.merge(modules, inducing=Z, kernel=kernel, learn=False)

# %% [markdown]
# ## What it gives
#
# The same plan, given all rows at once:

# %%
central = rgp.fit(np.concatenate([X for X, _ in data]), np.concatenate([y for _, y in data]), name="all", **plan)
X = np.linspace(0, 10, 500)[:, None]
for what, merged, all_rows in zip(("mean", "variance"), e.predict(X), central.predict(X), strict=True):
    print(f"largest difference in {what}: {np.abs(merged - all_rows).max():.1e}")
print(f"slack {e.slack:.1e} nats; bound {e.bound:.6f}, central evidence {central.evidence:.6f}")

# %%
rgp.plot.save([e], "plan.png")
