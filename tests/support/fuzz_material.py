"""What fuzzing begins with: files of every kind and likelihood, and beside each that can be merged honest modules.

Honest modules are fits of rows of their own, drawn from what the file says, so that none is a copy of another.
"""

import dataclasses
import tempfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

import hostile_files
import recyclegp as rgp
from recyclegp.kernels import Kernel
from recyclegp.kernels.nodes import Index
from recyclegp.storage.atomic import write_atomically

HONEST = 3  # modules beside the one that is not
ROWS = 24  # of each
NOISE = 0.1
MANY_PARTS = " + ".join(["periodic"] * 12)  # of a kernel that takes long
OTHERS = ("lognormal", "survival", "negative-binomial")
COUNTS, TIMES = ("poisson", "negative-binomial"), ("lognormal", "survival")
FITTED = {"learn": False, "privacy": "things", "publish": 4}
LEVELS = (48, 22, 15)  # of index kernels: of more parameters than are learned, of nearly as many, and of half of them


class Merged(NamedTuple):
    """A file that can be merged, and modules that agree with it, as files."""

    content: bytes
    honest: tuple[bytes, ...]


class Material(NamedTuple):
    """All that cases are made of."""

    files: list[bytes]
    merged: list[Merged]
    large: list[Merged]  # likewise, with kernels of very many parameters


class Folder:
    """Models to bytes and back."""

    def __init__(self, folder):
        self.path = Path(folder) / "made.safetensors"

    def content(self, model):
        model.save(self.path)
        return self.path.read_bytes()

    def model(self, content):
        """One module, of an ensemble what it knows; None of others."""
        write_atomically(self.path, content)
        return hostile_files.as_module(self.path)


def material():
    """It takes half a minute, and is the same every time."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        place = Folder(folder)
        files = hostile_files.golden_files() + hostile_files.exchange_files()
        files += [place.content(model) for model in of_other_likelihoods()]
        known, merged = {}, []
        for content in files:
            module = place.model(content)
            if module is None:
                continue
            if kind_of(module) not in known:
                known[kind_of(module)] = tuple(place.content(like(module, k)) for k in range(HONEST))
            merged.append(Merged(content, known[kind_of(module)]))
        honest = [one_input(k, f"honest-{k}") for k in range(HONEST)]
        beside = tuple(map(place.content, honest))
        large = [Merged(place.content(of_many_parameters(levels)), beside) for levels in LEVELS]
    return Material(files, merged, large)


def one_input(seed, name):
    """A module of a function on a line."""
    rng = np.random.default_rng([29, seed])
    X = rng.uniform(0, 3, (ROWS, 1))
    return rgp.fit(X, observed("gaussian", np.sin(2 * X[:, 0]), rng), name=name, **FITTED)


def of_many_parameters(levels):
    """A module of a few kilobytes, and a kernel that would take long to learn."""
    module = one_input(HONEST, "many parameters")
    latent = module.latents[0]
    structure = Index(0, levels, levels)
    kernel = Kernel(structure, torch.ones(structure.size, dtype=torch.float64))
    site = latent.site._replace(Z=torch.arange(len(latent.site.Z), dtype=torch.float64)[:, None])
    return dataclasses.replace(module, latents=(latent._replace(kernel=kernel, site=site),))


def kind_of(module):
    """Modules of one kind can be merged with one another."""
    return module.likelihood, module.functions, module.columns, str(module.categories), module.targets


def of_other_likelihoods():
    """One of each that no golden file has, one with a kernel of many parts, and two of them merged."""
    rng = np.random.default_rng(28)
    X = rng.uniform(-2, 2, (ROWS, 2))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    found = [rgp.fit(X, observed(name, f, rng), likelihood=name, name=name, **FITTED) for name in OTHERS]
    levels = np.array(["low", "middle", "top"], dtype=object)[np.digitize(f, [-0.5, 0.5])]
    found.append(rgp.fit(X, levels, likelihood="categorical-softmax", name="softmax", **FITTED))
    found.append(rgp.fit(X, f, kernel=MANY_PARTS, name="many parts", **FITTED))
    return [*found, rgp.merge([found[0], like(found[0], 0)], learn=False)]


def observed(likelihood, f, rng):
    """y at these values of f."""
    if likelihood.startswith("bernoulli"):
        return (f + 0.5 * rng.standard_normal(len(f)) > f.mean()).astype(float)
    if likelihood in COUNTS:
        return rng.poisson(np.exp(np.clip(f, -3, 3))).astype(float)
    noisy = f + NOISE * rng.standard_normal(f.shape)
    if likelihood not in TIMES:
        return noisy
    known = np.exp(np.clip(noisy, -5, 5))
    return np.where(rng.random(len(f)) < 0.2, -known, known) if likelihood == "survival" else known  # − is censored


def like(module, k):
    """An honest module of what this one says, fitted to rows of its own."""
    rng = np.random.default_rng([28, k])
    low, high = np.where(np.isfinite(module.region), module.region, 0.0).T
    X = rng.uniform(low, high, (ROWS, module.dimension))
    for own in module.categories.levels:
        X[:, own.column] = rng.integers(len(own.names), size=ROWS)
    if module.columns is not None:
        X = pd.DataFrame(module.categories.named(X), columns=module.columns)
        X = X.astype({name: float for i, name in enumerate(module.columns) if i not in module.categories.columns})
    likelihood = module.likelihoods[0]
    told = {"name": f"honest-{k}", "likelihood": likelihood.name, **FITTED}
    if likelihood.name.startswith("categorical"):
        p = np.asarray(module.predict_proba(X))
        drawn = [module.classes[rng.choice(len(row), p=row / row.sum())] for row in p]
        return rgp.fit(X, np.array(drawn, dtype=object), **told)
    f = np.asarray(module.predict(X)[0])
    f = f[:, 0] if likelihood.name == "heteroscedastic" and f.ndim == 2 else f
    targets = {"target": [t.name for t in module.targets], "unit": [t.unit for t in module.targets]}
    if f.ndim == 1:
        targets = {name: value[0] for name, value in targets.items()}
    else:
        del told["likelihood"]
    return rgp.fit(X, observed(likelihood.name, f, rng), **told, **targets)
