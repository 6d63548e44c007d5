# %% [markdown]
# # Different kinds of observations, one function
#
# One owner measures a quantity, one counts events, and one only knows yes or no. If all three are about the same
# function f, their modules can be merged: counts have the rate exp(f), yes has the odds exp(f).

# %%
import numpy as np

import recyclegp as rgp

rng = np.random.default_rng(2)


def f(x):
    return 1.2 * np.sin(1.4 * x) + 0.2 * x - 0.3


def inputs(low, high, rows):
    return rng.uniform(low, high, (rows, 1))


X_m, X_c, X_b = inputs(0, 2.5, 60), inputs(1.5, 5, 150), inputs(4, 7, 500)
y_m = f(X_m[:, 0]) + 0.3 * rng.standard_normal(60)
y_c = rng.poisson(np.exp(f(X_c[:, 0])))
y_b = rng.uniform(size=500) < 1 / (1 + np.exp(-f(X_b[:, 0])))

# %%
measured = rgp.fit(X_m, y_m, name="measured", publish=10)
counted = rgp.fit(X_c, y_c, name="counted", publish=10, likelihood="poisson")
judged = rgp.fit(X_b, y_b, name="yes-or-no", publish=10, likelihood="bernoulli")
e = rgp.merge([measured, counted, judged])
print(e)

# %%
grid = np.linspace(0, 7, 351)[:, None]
models = {"measured": measured, "counted": counted, "yes-or-no": judged, "merged": e}
for label, model in models.items():
    rmse = np.sqrt(np.mean((model.predict(grid)[0] - f(grid[:, 0])) ** 2))
    print(f"{label:10s} RMSE of f over the whole region {rmse:.3f}")

# %%
rgp.plot.save(list(models.values()), "mixed_tasks.png", names=list(models))

# %% [markdown]
# ## Asking for observations
#
# An ensemble of several likelihoods must be told which kind of observation is meant.

# %%
x = np.array([[1.0], [3.0], [6.0]])
print("mean measurement", np.round(e.predict_y(x, likelihood="gaussian")[0], 2))
print("expected count  ", np.round(e.predict_y(x, likelihood="poisson")[0], 2))
print("probability     ", np.round(e.predict_proba(x, likelihood="bernoulli")[:, 1], 2))
print("truth: f        ", np.round(f(x[:, 0]), 2))

# %% [markdown]
# ## Units
#
# Log-odds and log-rates have fixed units; measurements do not. A thermometer that reads 20 + 5 f speaks about f
# only after conversion. `transform` does it on the module, without the rows:

# %%
thermometer = rgp.fit(X_m, 20 + 5 * y_m, name="thermometer", publish=10)
converted = thermometer.transform(output_scale=1 / 5, output_shift=-20 / 5)
print("before ", np.round(thermometer.predict(x)[0], 2))
print("after  ", np.round(converted.predict(x)[0], 2))
print("wanted ", np.round(measured.predict(x)[0], 2))
