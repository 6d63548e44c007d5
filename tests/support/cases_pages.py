"""What pages take for granted: the tables and objects that their readers have, or are asked to imagine.

A page names one of these in a comment above the block that needs it: `<!-- given: stations -->`. Each function writes
files into the current folder, or returns names for the Python of the page, or both.
"""

from pathlib import Path

import numpy as np
import pandas as pd

import recyclegp as rgp
from cases_cli import owner, written
from cases_joint import classes, outputs, varying


def stations():
    """Temperatures over the hours of a day, of which two stations have seen one part each, and hours to predict."""
    rng = np.random.default_rng(1)
    for name, low, high in (("north", 0, 13), ("south", 10, 23)):
        hour = rng.uniform(low, high, 120)
        noisy = 15 - 6 * np.cos(hour / 3.8) + 0.7 * rng.standard_normal(120)
        written(pd.DataFrame({"hour": hour, "temperature": noisy}), f"{name}.csv")
    written(pd.DataFrame({"hour": [3, 12, 21]}), "new.csv")


def module(seed, low, high, path):
    """A file, whose module is returned as well."""
    path, table = Path(path), owner(seed, low, high)
    m = rgp.fit(table[["day", "depth"]], table.y, publish=8, name=path.stem)
    path.parent.mkdir(exist_ok=True)
    m.save(path)
    return m


def drawn():
    """Two modules, and what is merged of them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, (60, 1))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    a, b = rgp.fit(X, y, publish=8, name="a"), rgp.fit(X + np.pi, y, publish=8, name="b")
    a.save("a.safetensors")
    return {"a": a, "b": b, "e": rgp.merge([a, b])}


def hospitals():
    """A table at home; what others have sent."""
    renamed = {"day": "age", "depth": "dose", "y": "pressure"}
    written(owner(1, 0, 3).rename(columns=renamed), "patients.csv")
    for seed, path in enumerate(("inbox/north.safetensors", "inbox/south.safetensors", "late/west.safetensors")):
        module(seed, 0, 4, path)
    written(owner(3, 0, 4), "questions.csv")


def days():
    """Tables of some days, and modules of others."""
    rgp.merge([module(1, 0, 3, "monday.safetensors")]).save("city.safetensors")
    module(2, 0, 3, "wednesday.safetensors")
    for seed, day in enumerate(("tuesday", "thursday", "friday"), start=3):
        written(owner(seed, 0, 3), f"{day}.csv")


def functions():
    """Tables of several outputs, of classes, and of noise that varies."""
    kinds = {"low": "ant", "middle": "bee", "top": "wasp"}
    for seed, name in enumerate(("north", "south")):
        written(outputs(seed, 0, 6), f"{name}.csv")
    for seed, name in enumerate(("forest", "meadow")):
        written(classes(seed, 0, 6).replace({"kind": kinds}), f"{name}.csv")
    for seed, name in enumerate(("early", "late")):
        written(varying(seed, 0, 6), f"{name}.csv")
    for seed, name in enumerate(("test", "new"), start=3):
        every = outputs(seed, 0, 6, 30).assign(kind=classes(seed, 0, 6, 30)["kind"].map(kinds), y=0.5)
        written(every, f"{name}.csv")


def large():
    """A table of many rows, or so it is said."""
    written(owner(1, 0, 3), "large.csv")


def plants():
    """Three tables, and a folder with their modules."""
    for folder in ("plants", "answers"):
        Path(folder).mkdir()
    for seed, name in enumerate(("north", "south", "east")):
        table = owner(seed, 0, 6, 80)
        written(table, f"{name}.csv")
        m = rgp.fit(table[["day", "depth"]], table["y"], name=name, privacy="things", target="y")
        m.save(f"plants/{name}.safetensors")


def inbox():
    """A folder with modules of three wards that differ, and questions with answers."""
    Path("inbox").mkdir()
    for seed, (name, offset) in enumerate({"ward-6": -1.0, "ward-7": 0.1, "ward-8": 0.9, "north": 0.3}.items()):
        table = owner(seed, 0, 6)
        m = rgp.fit(table[["day", "depth"]], table["y"] + offset, name=name, privacy="things")
        m.save(f"inbox/{name}.safetensors")
    asked = owner(9, 0, 6)
    written(asked, "test.csv")
    return {"X": asked[["day", "depth"]], "y": asked["y"]}


def five_hospitals():
    """An inbox of modules about blood pressure, age and dose: east measures in kPa, and a sixth file is damaged.

    Also what the coordinator has besides: rows that no owner has seen, and a late module.
    """
    Path("inbox").mkdir()
    Path("late").mkdir()
    ages = {
        "east": (20, 60),
        "north": (25, 70),
        "south": (40, 85),
        "west": (30, 80),
        "city": (20, 85),
        "check": (20, 85),
    }
    for seed, (name, (low, high)) in enumerate(ages.items(), start=1):
        rng = np.random.default_rng(seed)
        age, dose = rng.uniform(low, high, 200), rng.uniform(5, 50, 200)
        pressure = 100 + 0.4 * age - 10 * np.tanh((dose - 20) / 8) + 5 * rng.standard_normal(200)
        table = pd.DataFrame({"age": age.round(1), "dose": dose.round(1), "pressure": pressure.round(1)})
        if name == "check":
            written(table, "check.csv")
            continue
        y = table["pressure"] * (0.133322 if name == "east" else 1)
        unit = None if name == "east" else "mmHg"
        m = rgp.fit(table[["age", "dose"]], y, name=name, privacy="people", target="pressure", unit=unit)
        m.save(f"{'late' if name == 'city' else 'inbox'}/{name}.safetensors")


def numbers(seed):
    """Two inputs and a measured wave, as tensors."""
    import torch

    made = torch.Generator().manual_seed(seed)
    X = 4 * torch.rand(30, 2, generator=made, dtype=torch.float64)
    return X, torch.sin(X[:, 0]) + 0.1 * torch.rand(30, generator=made, dtype=torch.float64)


def gpytorch_model():
    """A model of GPyTorch's, and rows of somebody else."""
    import torch

    from cases_gpytorch import LIKELIHOODS, sparse

    X, y = numbers(20)
    given = {"model": sparse(), "likelihood": LIKELIHOODS["gaussian"](), "torch": torch, "X": X.numpy()}
    return given | {"X_b": X.numpy(), "y_b": y.numpy()}


def botorch_model():
    """A model of BoTorch's, and a file of somebody else."""
    from botorch.models import SingleTaskGP
    from botorch.models.transforms import Normalize

    X, y = numbers(30)
    rgp.fit(*(t.numpy() for t in numbers(40)), name="lab-2").save("lab-2.safetensors")
    return {"gp": SingleTaskGP(X, y[:, None], input_transform=Normalize(2))}


def sklearn_models():
    """scikit-learn's fitted models, and rows to go on with."""
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    rng = np.random.default_rng(11)
    X, X_new = rng.uniform(-2, 2, (40, 2)), rng.uniform(-2, 2, (20, 2))
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(40)
    gp = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.02), optimizer=None).fit(X, y)
    gpc = GaussianProcessClassifier(optimizer=None).fit(X, y > 0)
    halves = {"X_a": X[:20], "y_a": y[:20], "X_b": X[20:], "y_b": y[20:]}
    return {"gp": gp, "gpc": gpc, "X": X, "y": y, "X_new": X_new} | halves


def patients():
    """A table with categories, of which the page has shown the like."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {"age": rng.uniform(20, 80, 150), "sex": rng.choice(["f", "m"], 150), "device": rng.choice(["A", "B"], 150)}
    )
    shift = table["device"].map({"A": 0.0, "B": 0.5})
    y = np.sin(table["age"] / 12) + 0.4 * (table["sex"] == "f") + shift + 0.2 * rng.standard_normal(150)
    written(table.assign(y=y), "north.csv")


GIVEN = {
    "patients": patients,
    "stations": stations,
    "modules": drawn,
    "hospitals": hospitals,
    "days": days,
    "functions": functions,
    "large table": large,
    "plants": plants,
    "an inbox": inbox,
    "five hospitals": five_hospitals,
    "a GPyTorch model": gpytorch_model,
    "a BoTorch model": botorch_model,
    "scikit-learn models": sklearn_models,
}
