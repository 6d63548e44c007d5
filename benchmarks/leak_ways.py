"""Everything else that leaves a machine, for benchmarks/what_leaks.py: each way is attacked as a fit is.

Whatever is published becomes modules of one Gaussian function, one list for each function, so that one set of attacks
serves them all.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import gpytorch
import numpy as np
import pandas as pd
import torch
from gpytorch.variational import NaturalVariationalDistribution, VariationalStrategy
from scipy.spatial import cKDTree
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import leak_inputs as inputs
import leak_outcomes as outcomes
import recyclegp as rgp
from leak_cases import Part, guesses, halves, membership, table

TABLE = "4 inputs, 0.5 noise"
PUBLIC = 20  # points of a plan
Made = list[rgp.Module]  # the functions of one publication


class Elsewhere(NamedTuple):
    """One way to publish what is not a plain fit; None where a number makes no sense."""

    way: str
    points: float
    auc: float  # of the best attack
    auc_error: float
    attack: str
    caught: float
    y: float | None  # error of the best guess at a member's y, as a share of that at a stranger's
    ends: float  # error of the range of points as a guess at smallest and largest values, in spreads


def _each(**options: object) -> Callable[[Part, rgp.Ensemble], Made]:
    return lambda part, others: [rgp.fit(*part, **options)]


def _members(e: rgp.Ensemble, known: Sequence[str]) -> Made:
    """What a file of an ensemble holds of whoever was not there before."""
    return [rgp.Module(m.about, m.likelihoods, (m.latent,)) for m in e._members if m.name not in known]


def _added(privacy: str) -> Callable[[Part, rgp.Ensemble], Made]:
    return lambda part, others: _members(others.add(rgp.fit(*part, name="new", privacy=privacy)), others.names)


def _updated(part: Part, others: rgp.Ensemble) -> Made:
    """What the file has, not what is in memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "e.safetensors"
        others.update(*part, name="new", privacy="things").save(path)
        return _members(rgp.load(path), others.names)


def _to_module(part: Part, others: rgp.Ensemble) -> Made:
    return [others.add(rgp.fit(*part, name="new")).to_module("all")]


def _sklearn(part: Part, rows: bool) -> Made:
    kernel = ConstantKernel(1.0) * RBF([0.5] * part[0].shape[1]) + WhiteKernel(0.25)
    gp = GaussianProcessRegressor(kernel, optimizer=None, normalize_y=True).fit(*part)
    return [rgp.from_sklearn(gp, publish=gp.X_train_ if rows else "auto")]


class _SVGP(gpytorch.models.ApproximateGP):
    """As tutorials begin it: every other row is an inducing point, and stays one."""

    def __init__(self, part: Part) -> None:
        Z = torch.as_tensor(part[0][::2])
        q = NaturalVariationalDistribution(len(Z))
        super().__init__(VariationalStrategy(self, Z, q, learn_inducing_locations=False))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1]))
        self.double().initialize(
            **{"mean_module.constant": part[1].mean(), "covar_module.base_kernel.lengthscale": 0.5}
        )

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def _gpytorch(part: Part, others: rgp.Ensemble) -> Made:
    """One full step of natural gradients is the optimum, where noise is Gaussian."""
    model, likelihood = _SVGP(part), gpytorch.likelihoods.GaussianLikelihood().double().initialize(noise=0.25)
    elbo = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(part[1]))
    step = gpytorch.optim.NGD(model.variational_parameters(), num_data=len(part[1]), lr=1.0)
    (-elbo(model(torch.as_tensor(part[0])), torch.as_tensor(part[1]))).backward()
    step.step()
    return [rgp.from_gpytorch(model, likelihood, rows=len(part[1]))]


def _public_points(part: Part) -> np.ndarray:
    return np.random.default_rng(3).uniform(part[0].min(), part[0].max(), (PUBLIC, part[0].shape[1]))


def _plan(part: Part, others: rgp.Ensemble) -> Made:
    """As docs/howto-plan.md has it: public points and a public kernel."""
    plan = rgp.Plan(points=_public_points(part), kernel=others.kernel, noise=float(others.noise), learn=False)
    return [plan.contribute(*part, privacy="things").module]


def _at_points_of_a_plan(part: Part, others: rgp.Ensemble) -> Made:
    """A module of people there: a plan is not answered for them without a guarantee."""
    how = {"inducing": _public_points(part), "kernel": others.kernel, "noise": float(others.noise), "learn": False}
    return [rgp.fit(*part, method="collapsed", privacy="people", **how)]


def _private(epsilon: float) -> Callable[[Part, rgp.Ensemble], Made]:
    """The same, with a guarantee: points between the ends of what is public, here of the others."""

    def answer(part: Part, others: rgp.Ensemble) -> Made:
        ends = others.inducing.min(0), others.inducing.max(0)
        Z = np.random.default_rng(3).uniform(*ends, (PUBLIC, part[0].shape[1]))
        plan = rgp.Plan(points=Z, kernel=others.kernel, noise=float(others.noise))
        privacy = rgp.Privacy(epsilon=epsilon, delta=1e-6, bound=3.0)
        return [plan.contribute(*part, privacy=privacy).module]

    return answer


def _second(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Another output of the same rows, with noise of its own."""
    return X.sum(1) + 0.5 * np.sin(1000 * y)


def _outputs(privacy: str) -> Callable[[Part, rgp.Ensemble], Made]:
    def both(part: Part, others: rgp.Ensemble) -> Made:
        m = rgp.fit(part[0], np.c_[part[1], _second(*part)], privacy=privacy)
        return [m.part(name) for name in m.outputs]

    return both


def _classes(privacy: str) -> Callable[[Part, rgp.Ensemble], Made]:
    def three(part: Part, others: rgp.Ensemble) -> Made:
        words = np.array(["low", "middle", "high"])[np.digitize(part[1], [-0.5, 0.5])]
        m = rgp.fit(part[0], words, likelihood="categorical", classes=["low", "middle", "high"], privacy=privacy)
        return [m.part("low")]

    return three


WAYS: dict[str, Callable[[Part, rgp.Ensemble], Made]] = {
    "fit": _each(privacy="things"),
    "fit, people": _each(privacy="people"),
    "a column of fit_many": lambda part, others: [rgp.fit_many([part], privacy="things", progress=False)[0]],
    "add": _added("things"),
    "add, people": _added("people"),
    "update": _updated,
    "to_module": _to_module,
    "from_sklearn": lambda part, others: _sklearn(part, rows=False),
    "from_sklearn, rows as points": lambda part, others: _sklearn(part, rows=True),
    "from_gpytorch, half of the rows as points": _gpytorch,
    "a plan": _plan,
    "a fit at a plan's points, people": _at_points_of_a_plan,
    "a private answer, ε = 1": _private(1.0),
    "a private answer, ε = 8": _private(8.0),
    "two outputs": _outputs("things"),
    "two outputs, people": _outputs("people"),
    "classes": _classes("things"),
    "classes, people": _classes("people"),
}


def measured_way(way: str, rows: int, modules: int) -> Elsewhere:
    """Publish and attack."""
    known = table(TABLE)
    X, y, member = known.X[: 2 * rows], known.y[: 2 * rows], halves(modules, 2 * rows)
    if way in LEVELS:
        return _with_levels(way, X, y, member)
    far = slice(2 * rows, 4 * rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        halved = zip("ab", np.split(known.X[far], 2), np.split(known.y[far], 2), strict=True)
        others = rgp.merge([rgp.fit(a, b, name=name) for name, a, b in halved])
        made = [WAYS[way]((X[inside], y[inside]), others) for inside in member]
    firsts, numbers = [each[0] for each in made], made[0][0].likelihoods[0].name == "gaussian"
    errors = None
    if numbers:
        functions = list(zip(zip(*made, strict=True), (y, _second(X, y)), strict=False))
        believed = [[outcomes.beliefs(m, X) for m in own] for own, _ in functions]
        each = [
            membership(own, b, [X] * modules, seen, member) for (own, seen), b in zip(functions, believed, strict=True)
        ]
        scores = {attack: sum(s[attack] / s[attack].std() for s in each) for attack in each[0]}
        errors = np.mean([guesses(b, y, inside) for b, inside in zip(believed[0], member, strict=True)], 0)
    else:  # of classes there is no y to be likely
        scale = inputs.spread(X)
        scores = {
            "nearness": np.stack([-cKDTree(m.inducing / scale).query(X / scale)[0] for m in firsts]),
            "precision": np.stack([outcomes.by_precision(m, X) for m in firsts]),
        }
    ends = [_ends(m.inducing, X[inside]) for m, inside in zip(firsts, member, strict=True)]
    return _found(way, firsts, scores, member, errors, ends)


def _found(
    way: str,
    made: Sequence[rgp.Module],
    scores: Mapping[str, np.ndarray],
    member: np.ndarray,
    errors: np.ndarray | None,
    ends: Sequence[float],
) -> Elsewhere:
    aucs = {attack: outcomes.auc(found, member) for attack, found in scores.items()}
    best = max(aucs, key=lambda attack: aucs[attack])
    return Elsewhere(
        way,
        points=float(np.mean([len(m.inducing) for m in made])),
        auc=aucs[best],
        auc_error=outcomes.auc_error(scores[best], member),
        attack=best,
        caught=max(outcomes.caught(found, member) for found in scores.values()),
        y=None if errors is None else float(errors[0] / errors[1]),
        ends=float(np.mean(ends)),
    )


# --- levels -----------------------------------------------------------------------------------


def _places(people: int) -> np.ndarray:
    """Where people live: three fifths in three towns, a quarter in villages of ten, the others each somewhere else."""
    names = np.array([f"farm {i}" for i in range(people)], dtype=object)
    towns, villages = people * 3 // 5, people // 4
    names[:towns] = [f"town {i % 3}" for i in range(towns)]
    names[towns : towns + villages] = [f"village {i // 10}" for i in range(villages)]
    return np.random.default_rng(4).permutation(names)


def _with_levels(way: str, X: np.ndarray, y: np.ndarray, member: np.ndarray) -> Elsewhere:
    """People who are the only ones of their level on the attacker's list: was the farm in the table?

    Beside all other attacks there is one that reads names: whose level is in the file was a member.
    """
    where = _places(len(y))
    names, level = np.unique(where.astype(str), return_inverse=True)
    y = y + 0.5 * np.random.default_rng(6).standard_normal(len(names))[level]
    everybody = pd.DataFrame(X).assign(place=where)
    everybody.columns = everybody.columns.astype(str)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        made = [rgp.fit(everybody[inside], y[inside], **LEVELS[way]) for inside in member]
    told = [m.categories.names(X.shape[1]) for m in made]
    coded = [np.c_[X, [_code(place, names) for place in where]] for names in told]
    believed = [outcomes.beliefs(m, own) for m, own in zip(made, coded, strict=True)]
    read = np.stack([np.isin(where.astype(str), names) * 1.0 for names in told])
    scores = {"names": read, **membership(made, believed, coded, y, member)}
    rare = np.char.startswith(where.astype(str), "farm")
    errors = np.mean([guesses(b, y, inside) for b, inside in zip(believed, member, strict=True)], 0)
    ends = [_ends(m.inducing[:, :-1], X[inside]) for m, inside in zip(made, member, strict=True)]
    return _found(way, made, {k: s[:, rare] for k, s in scores.items()}, member[:, rare], errors, ends)


def _code(place: str, names: Sequence[str]) -> float:
    """A level that the file does not name is the common one of all that are rare, or a new one."""
    wanted = place if place in names else "other"
    return float(names.index(wanted) if wanted in names else len(names))


LEVELS: dict[str, dict[str, object]] = {
    "rare levels, all named": {"privacy": "things", "categories": ["place"]},
    "rare levels": {"privacy": "things"},
    "rare levels, people": {"privacy": "people"},
}


def _ends(points: np.ndarray, rows: np.ndarray) -> float:
    low, high = np.abs(points.min(0) - rows.min(0)), np.abs(points.max(0) - rows.max(0))
    return float(((low + high) / 2 / inputs.spread(rows)).mean())
