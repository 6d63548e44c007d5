"""Banana's four quadrants fitted with GPyTorch, each as a tutorial of theirs does it, converted and merged.

    python benchmarks/peers_banana.py [--data-dir DIR] [--seed SEED] [--json FILE]

The tutorials' recipes, in float32, with 25 inducing points where they leave the number open:
SVGP regression (whitened, points at the first rows and learned, Adam 0.01, batches of 1024, 4 epochs), non-Gaussian
likelihoods (unwhitened, points fixed, Adam 0.1, 50 full batches), natural gradients (NGD 0.1 and Adam 0.01); and
each again for longer. They are compared with four modules of `fit` with as many points, merged the same way.
NLPD is the mean of −log p(y_t) on the same test rows, "as they are" that of a merge with learn=False, which takes the
median of the owners' kernels; "floored" counts directions of q(u) that were wider than the prior, about which the
conversion warns.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import gpytorch
import numpy as np
import torch
from gpytorch.variational import (
    CholeskyVariationalDistribution,
    NaturalVariationalDistribution,
    UnwhitenedVariationalStrategy,
    VariationalStrategy,
)

import recyclegp as rgp
from data import MissingDataError, Split, banana, shuffled
from recyclegp.experiments.data import quadrants

POINTS, MERGED = 25, 100  # inducing points of an owner, and of the merged model
ALLOWED = 0.02  # nats above our own modules, unless the conversion warned
LIKELIHOOD = "bernoulli-probit"  # which is GPyTorch's


class Recipe(NamedTuple):
    name: str
    strategy: type
    epochs: int
    rate: float
    learn_points: bool
    natural: bool = False


RECIPES = (
    Recipe("SVGP, 4 epochs", VariationalStrategy, 4, 0.01, True),
    Recipe("SVGP, 400 epochs", VariationalStrategy, 400, 0.01, True),
    Recipe("SVGP, 1000 epochs", VariationalStrategy, 1000, 0.01, True),
    Recipe("non-Gaussian, 50 steps", UnwhitenedVariationalStrategy, 50, 0.1, False),
    Recipe("non-Gaussian, 500 steps", UnwhitenedVariationalStrategy, 500, 0.1, False),
    Recipe("NGD, 4 epochs", VariationalStrategy, 4, 0.01, True, natural=True),
    Recipe("NGD, 400 epochs", VariationalStrategy, 400, 0.01, True, natural=True),
)
BATCH = 1024


class Classifier(gpytorch.models.ApproximateGP):
    def __init__(self, Z: torch.Tensor, recipe: Recipe) -> None:
        q = (NaturalVariationalDistribution if recipe.natural else CholeskyVariationalDistribution)(len(Z))
        super().__init__(recipe.strategy(self, Z, q, learn_inducing_locations=recipe.learn_points))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def train(X: np.ndarray, y: np.ndarray, recipe: Recipe, seed: int) -> Classifier:
    inputs, labels = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)
    n = len(y)
    torch.manual_seed(seed)
    model, likelihood = Classifier(inputs[:POINTS], recipe), gpytorch.likelihoods.BernoulliLikelihood()
    elbo = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=n)
    if recipe.natural:
        optimisers = [
            gpytorch.optim.NGD(model.variational_parameters(), num_data=n, lr=0.1),
            torch.optim.Adam(model.hyperparameters(), lr=recipe.rate),
        ]
    else:
        optimisers = [torch.optim.Adam(model.parameters(), lr=recipe.rate)]
    model.train(), likelihood.train()
    for _ in range(recipe.epochs):
        for rows in torch.randperm(n).split(BATCH):
            for optimiser in optimisers:
                optimiser.zero_grad()
            loss = -elbo(model(inputs[rows]), labels[rows])
            loss.backward()
            for optimiser in optimisers:
                optimiser.step()
    return model.eval()


class Row(NamedTuple):
    recipe: str
    nlpd: float
    excess: float  # over our own modules, merged the same way
    unlearned: float  # NLPD with learn=False
    floored: int  # directions of 4 × 25
    warned: int  # owners, of 4, whose conversion warned
    seconds: float

    @property
    def kept(self) -> bool:
        return self.excess <= ALLOWED or self.warned > 0


def nlpd(model: rgp.Ensemble, s: Split) -> float:
    return float(-model.log_density(s.X_test, s.y_test).mean())


def convert(model: Classifier, name: str, rows: int) -> tuple[rgp.Module, int]:
    """The module, and how many directions its warning names."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", rgp.RecycleGPWarning)
        module = rgp.from_gpytorch(model, gpytorch.likelihoods.BernoulliLikelihood(), name=name, rows=rows)
    mine = [str(w.message) for w in said if issubclass(w.category, rgp.RecycleGPWarning)]
    return module, int(mine[0].split(": ")[1].split(" of ")[0]) if mine else 0


def peers(s: Split, recipe: Recipe, ours: float, seed: int) -> Row:
    begun = time.perf_counter()
    trained = [train(X, y, recipe, seed) for X, y in quadrants(s.X, s.y)]
    seconds = time.perf_counter() - begun
    sizes = [len(y) for _, y in quadrants(s.X, s.y)]
    made = [convert(m, f"quadrant-{k}", n) for k, (m, n) in enumerate(zip(trained, sizes, strict=True))]
    modules, floored = [m for m, _ in made], [f for _, f in made]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)  # that some had not converged is counted above
        merged = nlpd(rgp.merge(modules, inducing=MERGED), s)
        unlearned = nlpd(rgp.merge(modules, inducing=MERGED, learn=False), s)
    return Row(recipe.name, merged, merged - ours, unlearned, sum(floored), sum(f > 0 for f in floored), seconds)


def own(s: Split) -> float:
    parts = quadrants(s.X, s.y)
    modules = rgp.fit_many(parts, likelihood=LIKELIHOOD, publish=POINTS, names=[f"quadrant-{k}" for k in range(4)])
    return nlpd(rgp.merge(modules, inducing=MERGED), s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="+", help="recipes whose names begin so")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    try:
        s = shuffled(*banana(options.data_dir), test=0.33, seed=options.seed)
    except MissingDataError as missing:
        raise SystemExit(str(missing)) from None
    ours = own(s)
    print(f"four modules of fit, merged: {ours:.4f}")
    header = (
        f"{'GPyTorch recipe':26}{'NLPD':>10}{'excess':>11}{'as they are':>12}{'floored':>8}{'warned':>7}{'train s':>8}"
    )
    print(header, flush=True)
    rows = []
    for recipe in RECIPES:
        if options.only and not recipe.name.startswith(tuple(options.only)):
            continue
        row = peers(s, recipe, ours, options.seed)
        rows.append(row)
        mark = "" if row.kept else "  MISSED"
        print(
            f"{row.recipe:26}{row.nlpd:10.4f}{row.excess:11.4f}{row.unlearned:12.4f}{row.floored:8d}{row.warned:5d}/4"
            f"{row.seconds:8.1f}{mark}",
            flush=True,
        )
    if options.json:
        options.json.write_text(json.dumps({"ours": ours, "rows": [r._asdict() for r in rows]}, indent=1))


if __name__ == "__main__":
    main()
