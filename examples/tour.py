# %% [markdown]
# # A tour in two minutes
#
# Three hospitals have measured blood pressure against age. None of them may give away a row. Each fits a model at home
# and sends a small file; from the three files comes one model that knows what all of them know.
#
# Every cell below was run when this page was made. It takes less than half a minute.
#
# ## Three small tables
#
# Each hospital has seen other ages, and 300 patients or fewer. We play all three; in truth no table leaves its
# hospital.

# %%
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

import recyclegp as rgp


def pressure(age):
    """What nobody knows: it rises most about the age of 55."""
    return 112 + 0.25 * age + 12 / (1 + np.exp(-(age - 55) / 4))


def patients(seed, youngest, oldest, rows):
    rng = np.random.default_rng(seed)
    age = rng.uniform(youngest, oldest, rows).round(1)
    measured = pressure(age) + 4 * rng.standard_normal(rows)
    return pd.DataFrame({"age": age, "pressure": measured.round(1)})


north = patients(1, 18, 66, 300)
west = patients(2, 30, 80, 250)
south = patients(3, 42, 90, 300)
west["pressure"] = (west["pressure"] / 7.50062).round(2)  # in kPa, and nobody says so
print(north.head(3))

# %% [markdown]
# ## In each hospital: fit, look, send
#
# `fit` learns a Gaussian process and returns a *module*: a few points, and what is known about the function there. That
# is what the file holds. With `privacy="people"` it says little about any one of the patients.

# %%
inbox = Path(tempfile.mkdtemp(prefix="inbox-"))  # a new folder, so that nobody's files are touched
a = rgp.fit(north[["age"]], north["pressure"], privacy="people", unit="mmHg", name="north")
b = rgp.fit(west[["age"]], west["pressure"], privacy="people", name="west")
c = rgp.fit(south[["age"]], south["pressure"], privacy="people", unit="mmHg", name="south")
for module in (a, b, c):
    module.save(inbox / f"{module.name}.safetensors")

# %% [markdown]
# Before it is sent, look at what is in it. In place of 300 patients, the file of north says at a few ages that are
# nobody's what the mean pressure is, and how sure north is of it. (It also says how these values go together, the
# kernel, the noise, the number of rows, and the names.)

# %%
file = inbox / "north.safetensors"
module = rgp.load(file)
print(module)
print(f"{file.stat().st_size:,} bytes, {module.kept:.0%} of what the rows say is kept")

ages = np.sort(module.inducing, axis=0)
mean, variance = module.predict(ages)
for age, m, sd in zip(ages[:, 0], mean, np.sqrt(variance), strict=True):
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
file = inbox / "west.safetensors"
rgp.load(file).transform(output_scale=7.50062, unit="mmHg").save(file)
modules = [rgp.load(each) for each in sorted(inbox.iterdir())]
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
answers = {"age": new["age"], "mean": mean, "± (sd)": np.sqrt(variance)}
answers |= {"95% from": low, "to": high, "true mean": pressure(new["age"])}
print(pd.DataFrame(answers).round(1).to_string(index=False))

# %% [markdown]
# ## What was it worth?
#
# The error over all ages, of each hospital alone, of the three files, and of one model that was given all 850 rows:

# %%
ages = pd.DataFrame({"age": np.linspace(18, 90, 73)})
rows = pd.concat([north, west.assign(pressure=west["pressure"] * 7.50062), south])
central = rgp.fit(rows[["age"]], rows["pressure"], name="all rows in one place")
models = {m.name: m for m in modules} | {"merged": everybody, central.name: central}
for label, model in models.items():
    error = model.predict(ages)[0] - pressure(ages["age"]).to_numpy()
    print(f"{label:22s} {np.sqrt(np.mean(error**2)):.2f} mmHg")

# %% [markdown]
# ## One hospital withdraws
#
# With `relearn=True` nothing is left of south: neither what it said, nor what was chosen with its help. The model no
# longer knows the oldest patients, and says so by a wider band.

# %%
without = everybody.remove("south", relearn=True)
oldest = pd.DataFrame({"age": [85.0]})
(more,), (less,) = (np.sqrt(e.predict(oldest)[1]) for e in (without, everybody))
print(f"{without.names}: at 85 years ± {more:.1f} mmHg, with south ± {less:.1f}")
rgp.plot.save(
    [everybody, without],
    "tour_without.png",
    names=["everybody", "without south"],
    region={"age": (18, 92)},
)

# %% [markdown]
# ## Save
#
# The merged model is a file, too: to be loaded and asked here or elsewhere, to be added to, or to be merged again.

# %%
file = inbox / "everybody.safetensors"
everybody.save(file)
difference = np.abs(rgp.load(file).predict(new)[0] - mean).max()
print(f"{file.stat().st_size:,} bytes; answers differ by {difference:.1g} mmHg")

# %% [markdown]
# ## From here
#
# The same [with a CSV file and no Python](../start-csv.md), or [in Python](../start-python.md) with what to know first;
# [tables that are less tidy](../messy-tables.md); [what the words mean](../glossary.md).
