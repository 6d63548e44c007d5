# %% [markdown]
# # Outputs, classes, and noise that varies
#
# Three things that are several functions at once: two quantities measured at the same places, the classes of things,
# and a function whose noise is a function, too. Each owner publishes one module; modules are merged as always.

# %%
import numpy as np

import recyclegp as rgp

rng = np.random.default_rng(3)


def rmse(a, b):
    return np.sqrt(np.mean((a - b) ** 2))


# %% [markdown]
# ## Two outputs, of which some cells are missing
#
# North and south measure heat and salt, but not always both: NaN is a cell that was not seen. East has salt only. A
# module of one output joins the others by the name of its target.

# %%


def heat(x):
    return 15 + 4 * np.sin(x)


def salt(x):
    return 34 + np.cos(0.8 * x)


def stations(low, high, rows, missing):
    x = rng.uniform(low, high, rows)
    Y = np.stack([heat(x) + 0.5 * rng.standard_normal(rows), salt(x) + 0.1 * rng.standard_normal(rows)], axis=1)
    Y[rng.uniform(size=Y.shape) < missing] = np.nan
    return x[:, None], Y


names = ["heat", "salt"]
outputs = []
for owner, low, high in (("north", 0, 5), ("south", 3, 8)):
    X, Y = stations(low, high, 80, missing=0.4)
    outputs.append(rgp.fit(X, Y, name=owner, target=names, unit=["°C", "g/kg"], columns=["km"], missing="allow"))
X, Y = stations(6, 10, 60, missing=0.0)
outputs.append(rgp.fit(X, Y[:, 1], name="east", target="salt", unit="g/kg", columns=["km"]))

sea = rgp.merge(outputs)
print(sea)
grid = np.linspace(0, 8, 161)[:, None]
mean, variance = sea.predict(grid)
print(f"RMSE of heat {rmse(mean[:, 0], heat(grid[:, 0])):.3f}, of salt {rmse(mean[:, 1], salt(grid[:, 0])):.3f}")
rgp.plot.save([sea], "several_functions.png")

# %% [markdown]
# ## Classes, of which an owner may have met some only
#
# Labels are text or numbers, as they are. The meadow has no wasps: its module says nothing about them, and the merged
# model knows all three.

# %%
insects = np.array(["ant", "bee", "wasp"])
centres = np.array([[-1.0, -0.5], [1.0, -0.5], [0.0, 1.2]])


def caught(rows, kinds):
    true = rng.integers(0, kinds, rows)
    return centres[true] + 0.6 * rng.standard_normal((rows, 2)), insects[true]


classes = []
for owner, kinds in (("forest", 3), ("garden", 3), ("meadow", 2)):
    X, y = caught(90, kinds)
    columns = ["length", "weight"]
    classes.append(rgp.fit(X, y, likelihood="categorical", name=owner, columns=columns, publish=15))
    print(owner, classes[-1].classes)

everything = rgp.merge(classes)
X, y = caught(500, 3)
log_loss = -np.mean(everything.log_density(X, y))
print(f"merged: log-loss {log_loss:.3f}, wrong {np.mean(everything.predict_class(X) != y):.3f}")
print("probabilities at (0, 0):", np.round(everything.predict_proba(np.zeros((1, 2)))[0], 2))
rgp.plot.save([*classes, everything], "several_functions-classes.png")

# %% [markdown]
# ## Noise that varies
#
# `likelihood="heteroscedastic"` fits y ~ N(f, eᵍ), with a Gaussian process for each of f and g. Both are published, and
# both are merged.

# %%


def noise_sd(x):
    return 0.1 + 0.5 * (x > 5)


varying = []
for owner, low, high in (("morning", 0, 6), ("evening", 4, 10)):
    x = rng.uniform(low, high, 150)
    y = np.sin(x) + noise_sd(x) * rng.standard_normal(150)
    varying.append(rgp.fit(x[:, None], y, likelihood="heteroscedastic", name=owner, columns=["hour"]))

day = rgp.merge(varying)
x = rng.uniform(0, 10, 4000)
y = np.sin(x) + noise_sd(x) * rng.standard_normal(4000)
low, high = day.predict_interval(x[:, None])
inside = (low <= y) & (y <= high)
print(f"95% intervals hold {inside[x < 5].mean():.3f} where it is quiet, {inside[x > 5].mean():.3f} where it is not")
print("noise sd at 2 and 8:", np.round(np.sqrt(day.predict_noise(np.array([[2.0], [8.0]]))), 2))
rgp.plot.save([day], "several_functions-noise.png")
