"""The worst that forged files do to a merge: a search over everything that a file may say.

    python benchmarks/forgeries.py [--steps N] [--seeds N] [--first-seed N] [--processes N] [--json FILE]
    python benchmarks/forgeries.py --show FILE

Some of 20 owners forge their files. They know all files, agree on what to say, and see what becomes of the merge: each
step changes some of their statements at random, and is kept where the merged function is farther from that of the
honest than before. Statements are all that is in a file: the function (scale, shift, sign), how sure of it they are,
noise and what rows say about it, rows, kept share, kernel, prior mean, and where the points are.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import recyclegp as rgp
from jobs import done
from pages import Column, read, rounded, show, table, write
from recyclegp.likelihoods import Gaussian
from robustness_cases import honest_modules, test_rows

OWNERS, ATTACKERS, DIMENSIONS, SEEDS = 20, (1, 2, 6), (1, 4), 2
STEPS = 150
REACH = 40.0  # logarithms within which a statement is forged: from e⁻⁴⁰ to e⁴⁰ times the true one


class Forgery(NamedTuple):
    """What is said instead of the truth: logarithms of factors, but for those that say otherwise."""

    scale: float = 0.0  # of f, negative in itself
    shift: float = 0.0  # of f, in itself
    sure: float = 0.0  # precision
    noise: float = 0.0
    rows: float = 0.0
    densities: float = 0.0
    chi2: float = 0.0
    left_open: float = 0.0
    residual: float = 0.0
    dof: float = 0.0
    outputscale: float = 0.0
    lengthscale: float = 0.0
    mean: float = 0.0  # in itself
    stretch: float = 0.0  # of the points
    move: float = 0.0  # of the points, in itself


IN_ITSELF = ("shift", "mean", "move")
SIZES = np.array([1.0 if name in IN_ITSELF else 3.0 for name in Forgery._fields])  # of a step
FIRST = (Forgery(), Forgery(sure=7), Forgery(noise=12), Forgery(rows=30), Forgery(shift=3), Forgery(sure=20, rows=20))


class Trial(NamedTuple):
    attackers: int
    dimension: int
    seed: int
    steps: int


def forged(m: rgp.Module, f: Forgery) -> rgp.Module:
    """A module of the opposite function, and of what else is said."""
    one, by = m.latents[0], dict(zip(f._fields, np.exp(np.array(f)), strict=True))
    site, evidence = one.known_site, one.noise_evidence
    rho = -by["scale"] * site.rho + f.shift * site.Rt.sum(-1)
    root = by["sure"] ** 0.5
    site = site._replace(Z=site.Z * by["stretch"] + f.move, Rt=site.Rt * root, rho=rho * root)
    if evidence is not None:
        factors = (by["chi2"], by["left_open"], by["residual"], by["dof"])
        evidence = type(evidence)(*(a * b for a, b in zip(evidence, factors, strict=True)))
    theta = one.kernel.theta.clone()
    theta[0] += f.outputscale
    theta[1:] += f.lengthscale
    rows = max(1, min(10**15, round(one.rows * by["rows"])))
    latent = one._replace(
        site=site,
        kernel=one.kernel.with_theta(theta),
        mean=one.mean + f.mean,
        rows=rows,
        effective_rows=rows * by["densities"],
        noise_evidence=evidence,
    )
    noise = Gaussian(float(m.likelihoods[0].values[0]) * by["noise"])
    return replace(m, latents=(latent,), likelihoods=(noise,))


def harm(modules: list[rgp.Module], X: np.ndarray, clean: np.ndarray) -> dict[str, Any]:
    """How far the merged function is from that of the honest, in its standard deviations."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            e = rgp.merge(modules)
            away = np.sqrt(np.mean((e.predict(X)[0] - clean) ** 2)) / clean.std()
    except rgp.RecycleGPError as refused:
        return {"away": 0.0, "refused": str(refused)[:80], "kernel": "", "noise": 0.0}
    return {"away": float(away), "refused": "", "kernel": e.kernel_spec.describe(), "noise": float(e.noise)}


def search(trial: Trial) -> dict[str, Any]:
    """The worst that was found."""
    torch.set_num_threads(1)
    rng = np.random.default_rng([trial.attackers, trial.dimension, trial.seed])
    modules = honest_modules(OWNERS, trial.dimension, trial.seed)
    X = test_rows(trial.dimension, trial.seed)[0]
    bad, honest = modules[: trial.attackers], modules[trial.attackers :]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clean_merge = rgp.merge(honest)
    clean = clean_merge.predict(X)[0]

    def tried(f: Forgery) -> dict[str, Any]:
        return harm([*(forged(m, f) for m in bad), *honest], X, clean)

    outcomes = [(tried(f), f) for f in FIRST]
    refused = sum(bool(o["refused"]) for o, _ in outcomes)
    worst, best = max(outcomes, key=lambda o: o[0]["away"])
    size = 1.0
    for _ in range(trial.steps - len(FIRST)):
        chosen = rng.random(len(best)) < 0.25
        step = np.where(chosen, size * SIZES * rng.standard_normal(len(best)), 0.0)
        f = Forgery(*np.clip(np.array(best) + step, -REACH, REACH))
        now = tried(f)
        refused += bool(now["refused"])
        better = now["away"] > worst["away"]
        size = min(4.0, size * 1.5) if better else max(0.05, size * 0.96)  # the one-fifth rule, roughly
        if better:
            worst, best = now, f
    said = {name: round(value, 2) for name, value in best._asdict().items() if abs(value) > 0.01}
    clean_words = {"clean kernel": clean_merge.kernel_spec.describe(), "clean noise": float(clean_merge.noise)}
    return {**trial._asdict(), **worst, **clean_words, "refused": refused, "said": said}


COLUMNS: list[Column] = [
    ("forged, of 20", "attackers", "d"),
    ("inputs", "dimension", "d"),
    ("seed", "seed", "d"),
    ("farthest from the honest merge, in sd of f", "away", ".3f"),
    ("noise variance", "noise", ".3g"),
    ("of the honest", "clean noise", ".3g"),
    ("refused", "refused", "d"),
    ("tried", "steps", "d"),
    ("what was said", lambda row: ", ".join(f"{k} {v:g}" for k, v in row["said"].items()), ""),
]


def values(found: list[dict[str, Any]]) -> dict[str, str]:
    """The worst of each kind of trial first."""
    rows = sorted(found, key=lambda row: (row["attackers"], row["dimension"], -row["away"]))
    return {"forgeries": table(COLUMNS, rows)}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS, help="forgeries that are tried in each trial")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: an earlier --json")
    asked = parser.parse_args(arguments)
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    trials = [Trial(a, D, seed, asked.steps) for D, seed, a in product(DIMENSIONS, seeds, ATTACKERS)]
    found = read(asked.show) if asked.show else []
    for row in () if asked.show else done([(search, t) for t in trials], asked.processes):
        found.extend(rounded([row], ".5f"))
        if asked.json:  # also of a run that is ended early
            write(asked.json, found)
    show({"robustness.md": values(found)})


if __name__ == "__main__":
    main()
