# %% [markdown]
# # Hospitals that exchange files
#
# Three hospitals record how blood pressure depends on age and dose. Rows stay where they are; one file for each
# hospital is sent to a coordinator, who merges what is in the inbox, looks for files that disagree with the rest, and
# can take a hospital out again.

# %%
import hashlib
from pathlib import Path

import numpy as np
import pandas as pd

import recyclegp as rgp


def pressure(age, dose):
    return 110 + 0.5 * (age - 50) - 12 * np.tanh(dose / 2)


def patients(seed, rows, ages):
    """One hospital's table, in mmHg."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"age": rng.uniform(*ages, rows), "dose": rng.uniform(0, 5, rows)})
    return table, pressure(table.age, table.dose) + 6 * rng.standard_normal(rows)


tables = {
    "north": patients(1, 200, (20, 60)),
    "east": patients(2, 150, (40, 90)),
    "south": patients(3, 250, (25, 85)),
}
X, y = tables["east"]
tables["east"] = X, y / 7.50062  # east measures in kPa, and nobody knows
inbox = Path("inbox")
inbox.mkdir(exist_ok=True)

# %% [markdown]
# ## In each hospital
#
# A DataFrame's column names go into the file: modules whose columns come in another order are put right, and
# modules with other columns are refused.

# %%
for name, (X, y) in tables.items():
    rgp.fit(X, y, privacy="people", name=name).save(inbox / f"{name}.safetensors")
for file in sorted(inbox.iterdir()):
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    print(f"{file.name:20s} {file.stat().st_size:6d} bytes   sha256 {digest[:16]}…")

# %% [markdown]
# The digest is what `recyclegp inspect` calls the content id. Read it out on the telephone and you know that the file
# that arrived is the one that was sent.
#
# ## At the coordinator
#
# Two files have come first. `report` compares what each module says with what the others predict for it: surprise is
# about 1 where they agree, and agreement is the probability of a larger one.


# %%
def show(ensemble):
    for row in ensemble.report():
        surprise, agreement = row["surprise"], row["agreement"]
        print(f"{row['name']:6s} surprise {surprise:8.3g}   agreement {agreement:.2g}")


e = rgp.merge([inbox / "north.safetensors", inbox / "south.safetensors"])
show(e)

# %% [markdown]
# Then the third. `add` keeps the kernel that the first two have agreed on, so that a newcomer is judged by it.

# %%
show(e.add(inbox / "east.safetensors"))

# %% [markdown]
# Now nobody agrees with anybody, and east is what has changed. Its mean is a seventh of the others':

# %%
east = rgp.load(inbox / "east.safetensors")
where = pd.DataFrame({"age": [50.0], "dose": [2.5]})
(own,), (others,) = east.predict(where)[0], e.predict(where)[0]
print(f"at age 50, dose 2.5: east says {own:.1f}, the others say {others:.1f}")

# %% [markdown]
# East is asked, and answers: kPa. A module can be converted without its rows.

# %%
east.transform(output_scale=7.50062, unit="mmHg").save(inbox / "east.safetensors")
show(e.add(inbox / "east.safetensors"))

# %% [markdown]
# All three agree. None of this would have been necessary if everybody had said what y is measured in. `fit` takes
# `target=`, `unit=` and, for classes, `labels=`; these words travel in the file, and modules that contradict each
# other are not merged:

# %%
north = rgp.fit(*tables["north"], privacy="people", name="north", target="pressure", unit="mmHg")
east = rgp.fit(*tables["east"], privacy="people", name="east", target="pressure", unit="kPa")
try:
    rgp.merge([north, east])
except rgp.RecycleGPError as error:
    print(error)

# %% [markdown]
# Back to the inbox. Merged together, the three files may choose kernel and points anew:

# %%
e = rgp.merge(inbox)
print(e)

# %% [markdown]
# ## What merging gives
#
# Error of the function over the whole range of ages and doses, beside that of each hospital alone and of a fit of all
# 600 rows in one place.

# %%
ages, doses = np.meshgrid(np.linspace(20, 90, 30), np.linspace(0, 5, 20))
grid = pd.DataFrame({"age": ages.ravel(), "dose": doses.ravel()})
truth = pressure(grid.age, grid.dose).to_numpy()
rows = pd.concat([X for X, _ in tables.values()])
y = np.concatenate([tables["north"][1], tables["east"][1] * 7.50062, tables["south"][1]])
models = {f"{name} alone": rgp.load(inbox / f"{name}.safetensors") for name in tables}
models |= {"merged": e, "central": rgp.fit(rows, y)}
for label, model in models.items():
    mean, _ = model.predict(grid)
    print(f"{label:12s} RMSE of f {np.sqrt(np.mean((mean - truth) ** 2)):.2f} mmHg")

# %%
rgp.plot.save([e], "hospitals.png")

# %% [markdown]
# ## Hospitals that differ
#
# So far every hospital measured the same function. Real ones do not: cuffs and habits differ. Here are eight hospitals,
# each of which reads a few mmHg too high or too low. Merged as if they did not differ, they are worse than each alone.
# By default `merge` lets the evidence decide whether owners have a constant of their own.

# %%
rng = np.random.default_rng(4)
bias = dict(zip("ABCDEFGH", 8 * rng.standard_normal(8), strict=True))
ours, tests = [], {}
for i, (name, shift) in enumerate(bias.items()):
    X, y = patients(10 + i, 80, (20, 90))
    ours.append(rgp.fit(X, y + shift, privacy="people", name=name))
    X, y = patients(50 + i, 200, (20, 90))
    tests[name] = X, y + shift


def score(models, owners):
    """Mean of −log p(y) over all hospitals' new patients: lower is better."""
    asked = zip(models, tests.values(), owners, strict=True)
    return -np.mean([model.log_density(X, y, owner=owner).mean() for model, (X, y), owner in asked])


same, differ = rgp.merge(ours, owners=None, trust=None, learn=False), rgp.merge(ours)
print(f"each alone                {score(ours, bias):.3f}")
print(f"merged, owners=None       {score([same] * 8, bias):.3f}")
print(f"merged, each for its own  {score([differ] * 8, bias):.3f}")
print(f"a hospital nobody has met {score([differ] * 8, ['new'] * 8):.3f}")
print(f"hospitals differ by {differ.offset_sd:.1f} mmHg (standard deviation)")
for row in differ.report()[:3]:
    known = f"{row['offset']:+.1f} ± {row['offset_sd']:.1f} mmHg"
    print(f"{row['owner']} reads {known}, in truth {bias[row['owner']]:+.1f}")

# %% [markdown]
# `differ.predict(X)` is the shared function, `differ.predict(X, owner="B")` that of hospital B. For somebody nobody has
# met, `owner="new"`, the spread between hospitals is part of the variance.
# Questions about y without an owner mean that.
#
# ## A hospital withdraws
#
# With `relearn=True` kernel, points, mean and noise are chosen anew, from the files that are left. Here the result is
# the ensemble that was never given the file of south. Without `relearn=True` what south said about f is gone as well,
# but the kernel and the points stay those that were chosen together with south.

# %%
without = e.remove("south", relearn=True)
never = rgp.merge([inbox / "east.safetensors", inbox / "north.safetensors"])
difference = np.abs(without.predict(grid)[0] - never.predict(grid)[0]).max()
print(without.names, f"largest difference {difference:.1e} mmHg")
