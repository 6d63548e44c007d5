# %% [markdown]
# # Data that keep arriving
#
# An ensemble can take in new rows (`update`) or new modules (`add`). Each returns a new ensemble; the old one stays as
# it is.

# %%
import numpy as np

import recyclegp as rgp

rng = np.random.default_rng(5)


def f(x):
    return np.sin(1.5 * x) + 0.5 * np.cos(4 * x)


def batch(low, high, rows=200):
    X = rng.uniform(low, high, (rows, 1))
    return X, f(X[:, 0]) + 0.3 * rng.standard_normal(rows)


grid = np.linspace(0, 6, 301)[:, None]


def show(label, model):
    """The error is over all of the grid, also where nobody has looked yet."""
    rmse = np.sqrt(np.mean((model.predict(grid)[0] - f(grid[:, 0])) ** 2))
    print(f"{label:22s} RMSE {rmse:.3f}   slack {model.slack:8.3g} nats, {len(model.inducing)} points")


# %% [markdown]
# ## Everywhere at once: `update`
#
# Batches from the same region. Kernel, mean and noise stay, and so do the points as long as they can express the new
# rows; only the least-squares problem grows.

# %%
e = rgp.merge(rgp.fit(*batch(0, 6), publish=24, name="monday"))
show("monday", e)
for day in ("tuesday", "wednesday", "thursday"):
    e = e.update(*batch(0, 6), name=day)
    show(day, e)

# %% [markdown]
# ## Somewhere new: `add`, and when to relearn
#
# Where batches move on, an ensemble whose points were chosen automatically appends new ones. Points that were given
# stay behind: what is said beyond them cannot be expressed, and the slack counts, in nats, how much that is.

# %%
e = rgp.merge(rgp.fit(*batch(0, 2), publish=12, name="part-0"))
show("part-0", e)
for k in (1, 2):
    module = rgp.fit(*batch(2 * k, 2 * k + 2), publish=12, name=f"part-{k}")
    fixed = rgp.merge(e.to_module("so far"), inducing=e.inducing, kernel=e.kernel, learn=False)
    show(f"part-{k} on fixed points", fixed.add(module))
    e = e.add(module)
    show(f"part-{k} added", e)
e = e.add(rgp.fit(*batch(0, 6), publish=12, name="part-3"), relearn=True)
show("and relearn", e)

# %% [markdown]
# `relearn=True` chooses kernel, mean, noise and points anew: worth its time when many modules have come. It needs the
# modules' sites, so the ensemble must have been merged with `keep="sites"`, which is the default.

# %%
rgp.plot.save([e], "streaming.png")

# %% [markdown]
# ## Forgetting
#
# Old batches can be given less weight, or be removed. With `relearn=False` both keep the kernel and the points.

# %%
older = e.reweight({"part-0": 0.5})
gone = e.remove("part-0", relearn=False)
for label, model in (("all", e), ("part-0 at half weight", older), ("without part-0", gone)):
    sd = model.predict(np.array([[1.0]]))[1][0] ** 0.5
    print(f"{label:22s} sd of f(1) = {sd:.3f}")
