# %% [markdown]
# # A tour in two minutes
#
# Three hospitals have measured blood pressure against age. None of them may give away a row. Each fits a model at home
# and sends a small file; from the three files comes one model that knows what all of them know.
#
# Every cell below was run when this page was made. It takes some ten seconds.
#
# ## Three small tables
#
# Each hospital has seen other ages, and 60 patients or fewer. We play all three; in truth no table leaves its
# hospital.

# %%
from pathlib import Path

import numpy as np
import pandas as pd

import recyclegp as rgp


def pressure(age):
    return 112 + 0.25 * age + 12 / (1 + np.exp(-(age - 55) / 4))  # what nobody knows: it rises most about the age of 55


def patients(seed, youngest, oldest, rows):
    rng = np.random.default_rng(seed)
    age = rng.uniform(youngest, oldest, rows).round(1)
    return pd.DataFrame({"age": age, "pressure": (pressure(age) + 4 * rng.standard_normal(rows)).round(1)})


north, west, south = patients(1, 18, 66, 60), patients(2, 30, 80, 50), patients(3, 42, 90, 60)
west["pressure"] = (west["pressure"] / 7.50062).round(2)  # west measures in kPa, and has not said so
print(north.head(3))

# %% [markdown]
# ## In each hospital: fit, look, send
#
# `fit` learns a Gaussian process and returns a *module*: a few points, and what is known about the function there. That
# is what the file holds.

# %%
inbox = Path("inbox")
inbox.mkdir(exist_ok=True)
for name, table, unit in [("north", north, "mmHg"), ("west", west, None), ("south", south, "mmHg")]:
    module = rgp.fit(table[["age"]], table["pressure"], unit=unit, name=name)
    module.save(inbox / f"{name}.safetensors")

# %% [markdown]
# Before it is sent, look at what is in it. These are all the numbers about blood pressure that the file of north holds,
# in place of 60 patients: at a few ages that are nobody's, what the mean pressure is, and how sure north is of it.

# %%
module = rgp.load(inbox / "north.safetensors")
mean, variance = module.predict(module.inducing)
print(module)
print(f"{(inbox / 'north.safetensors').stat().st_size:,} bytes, {module.kept:.0%} of what the rows say is kept")
for age, m, sd in sorted(zip(module.inducing[:, 0], mean, np.sqrt(variance), strict=True)):
    print(f"at {age:4.1f} years: {m:5.1f} ± {sd:.1f}")

# %% [markdown]
# ([What can be inferred from it](../privacy.md) is another question, and worth asking before you send yours.)
#
# ## Anywhere: who disagrees?
#
# From here on nobody needs a table. `screen` asks of each file how well it fits what the others say.

# %%
print(rgp.screen(inbox))

# %% [markdown]
# West contradicts the two others, and would agree in other units. Somebody calls west and hears: kPa. A module is
# converted without its rows:

# %%
converted = rgp.load(inbox / "west.safetensors").transform(output_scale=7.50062, unit="mmHg")
converted.save(inbox / "west.safetensors")
modules = [rgp.load(file) for file in sorted(inbox.iterdir())]
print(rgp.screen(modules))

# %% [markdown]
# ## Merge
#
# One call. The result, an *ensemble*, is a Gaussian process like any other.

# %%
everybody = rgp.merge(modules)
print(everybody)
rgp.plot.save([*modules, everybody], "tour.png", region={"age": (18, 92)})

# %% [markdown]
# Each hospital's model ends where its patients end; the black one reaches over all ages. The light band holds 95% of
# new patients, the dark one the mean pressure at each age.
#
# ## Predict
#
# Questions are a table with the same columns. `predict` is about the function, `predict_interval` about new patients.

# %%
new = pd.DataFrame({"age": [25.0, 50.0, 85.0]})
mean, variance = everybody.predict(new)
low, high = everybody.predict_interval(new)
for age, m, sd, a, b in zip(new["age"], mean, np.sqrt(variance), low, high, strict=True):
    said = f"{age:.0f} years: {m:.1f} ± {sd:.1f} mmHg, 95% of patients from {a:.0f} to {b:.0f}"
    print(f"{said} (in truth the mean is {pressure(age):.1f})")

# %% [markdown]
# ## What was it worth?
#
# The error over all ages, of each hospital alone, of the three files, and of one model that was given all 170 rows:

# %%
ages = pd.DataFrame({"age": np.linspace(18, 90, 73)})
rows = pd.concat([north, west.assign(pressure=west["pressure"] * 7.50062), south])
central = rgp.fit(rows[["age"]], rows["pressure"], name="all rows in one place")
for model, label in [*((m, m.name) for m in modules), (everybody, "merged"), (central, central.name)]:
    error = model.predict(ages)[0] - pressure(ages["age"]).to_numpy()
    print(f"{label:22s} {np.sqrt(np.mean(error**2)):.2f} mmHg")

# %% [markdown]
# ## One hospital withdraws
#
# With `relearn=True` nothing is left of south: neither what it said, nor what was chosen with its help. The model no
# longer knows the oldest patients, and says so by a wider band.

# %%
without = everybody.remove("south", relearn=True)
sds = {label: np.sqrt(e.predict(new)[1]) for label, e in {"with": everybody, "without": without}.items()}
print(f"{', '.join(without.names)}: at 85 years ± {sds['without'][2]:.1f} mmHg, with south ± {sds['with'][2]:.1f}")
both = ["everybody", "without south"]
rgp.plot.save([everybody, without], "tour_without.png", region={"age": (18, 92)}, names=both)

# %% [markdown]
# ## Save
#
# The merged model is a file, too: to be loaded and asked here or elsewhere, to be added to, or to be merged again.

# %%
everybody.save("everybody.safetensors")
again = rgp.load("everybody.safetensors")
difference = np.abs(again.predict(new)[0] - mean).max()
print(f"{Path('everybody.safetensors').stat().st_size:,} bytes; answers differ by {difference:.1g} mmHg")

# %% [markdown]
# ## From here
#
# The same [with a CSV file and no Python](../start-csv.md), or [in Python](../start-python.md) with what to know first;
# [tables that are less tidy](../messy-tables.md); [what the words mean](../glossary.md).
