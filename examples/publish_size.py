# %% [markdown]
# # How many points to publish
#
# The local fit is as rich as the rows allow; publishing keeps its marginal at n points. Too few points lose what lies
# between them. Here four owners know one quarter each of a surface, and publish the same posterior at 4 to 32 points.

# %%
from pathlib import Path

import numpy as np

import recyclegp as rgp

NOISE = 0.1


def f(X):
    return np.sin(2 * X[:, 0]) * np.cos(1.5 * X[:, 1]) + 0.3 * X[:, 0]


def rows(seed, low, count):
    rng = np.random.default_rng(seed)
    X = rng.uniform(low, np.add(low, 2), (count, 2))
    return X, f(X) + NOISE**0.5 * rng.standard_normal(count)


quarters = [(0, 0), (2, 0), (0, 2), (2, 2)]
data = [rows(k, low, 200) for k, low in enumerate(quarters)]
rng = np.random.default_rng(99)
X_test = rng.uniform(0, 4, (4000, 2))
y_test = f(X_test) + NOISE**0.5 * rng.standard_normal(len(X_test))

# %% [markdown]
# A module can be published again at fewer points, without fitting again: `module.publish(n)`.

# %%
modules = [rgp.fit(X, y, publish=32, name=f"owner-{k}") for k, (X, y) in enumerate(data)]
central = rgp.fit(np.concatenate([X for X, _ in data]), np.concatenate([y for _, y in data]), publish=64)
best = -central.log_density(X_test, y_test).mean()
print("points   bytes   mean of -log p(y)   above central   RMSE of f")
for n in (4, 8, 16, 32):
    published = [m.publish(n) if n < 32 else m for m in modules]
    published[0].save("module.safetensors")
    e = rgp.merge(published)
    nlpd = -e.log_density(X_test, y_test).mean()
    rmse = np.sqrt(np.mean((e.predict(X_test)[0] - f(X_test)) ** 2))
    size = Path("module.safetensors").stat().st_size
    print(f"{len(published[0].inducing):6d} {size:7d} {nlpd:19.3f} {nlpd - best:15.4f} {rmse:11.3f}")
print(f"central {best:26.3f}")

# %% [markdown]
# Nothing is gained any more where neighbouring points are well within one lengthscale of each other. The last of the
# ensembles:

# %%
rgp.plot.save([e], "publish_size.png")
