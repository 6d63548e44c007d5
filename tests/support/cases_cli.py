"""What the tests of the command line share: short calls, and small tables of two owners."""

import json

import numpy as np
import pandas as pd
from typer.testing import CliRunner

import recyclegp as rgp
from recyclegp.cli import app


def call(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def ok(*arguments):
    result = call(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def answer(*arguments):
    """What a command says to a machine."""
    return json.loads(ok(*arguments, "--json").stdout)


def owner(seed, low, high, rows=40):
    """Two inputs and a target; the second input hardly matters."""
    rng = np.random.default_rng(seed)
    day, depth = rng.uniform(low, high, rows), rng.uniform(-1, 1, rows)
    y = np.sin(day) + 0.2 * depth + 0.1 * rng.standard_normal(rows)
    return pd.DataFrame({"day": day, "depth": depth, "y": y})


OFFSETS = {"ward-1": -1.0, "ward-2": 0.1, "ward-3": 0.9, "ward-4": 0.4}  # constants by which owners differ


def differing(folder):
    """A folder of modules, each of the same function and a constant of its owner's; one owner has sent two."""
    folder.mkdir()
    for seed, (name, offset) in enumerate(OFFSETS.items()):
        table = owner(seed, 0, 6)
        shifted = table.assign(y=table["y"] + offset)
        module(shifted, name).save(folder / f"{name}.safetensors")
    more = owner(9, 0, 6).assign(y=lambda t: t["y"] + OFFSETS["ward-1"])
    module(more, "ward-1 again", owner="ward-1").save(folder / "ward-1 again.safetensors")
    return folder


def written(table, path):
    table.to_csv(path, index=False)
    return path


NORTH, SOUTH, NEW = owner(0, 0, 4), owner(1, 3, 7), owner(2, 0, 7, 12)
X = NEW[["day", "depth"]]


def module(table, name, **options):
    """Fitted to all columns but y."""
    inputs = [c for c in table if c != "y"]
    return rgp.fit(table[inputs], table["y"], publish=6, name=name, **options)


def means(path):
    """What the model in a file predicts at X."""
    return rgp.load(path).predict(X)[0]


TRAIN, TEST = owner(0, 0, 6), owner(1, 0, 6, 50)
INPUTS = ["day", "depth"]


def target(table, likelihood):
    """y of some kind, for a table of these inputs."""
    f = np.sin(table["day"]) + 0.5
    rng = np.random.default_rng(len(table))
    if likelihood == "poisson":
        return rng.poisson(np.exp(f))
    if likelihood.startswith("bernoulli"):
        return (rng.uniform(size=len(f)) < 1 / (1 + np.exp(-2 * f))).astype(int)
    return f + 0.2 * rng.standard_t(4, len(f))
