"""Made the golden files of schema 1 beside it. Run once per schema, never to make a failing test pass.

python tests/golden/make.py
"""

import json
from pathlib import Path

import numpy as np
import torch

import recyclegp as rgp

HERE = Path(__file__).parent
FAMILIES = ("gaussian", "bernoulli", "bernoulli-probit", "poisson", "student-t")
KERNELS = ("rbf", "matern52", "rq", "rbf + linear", "matern32 * periodic")
POINTS = [[-1.0, 0.3], [0.2, 1.1], [1.7, -2.0]]


def targets(likelihood: str, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if likelihood.startswith("bernoulli"):
        return (f + 0.3 * rng.standard_normal(len(f)) > 0).astype(float)
    if likelihood == "poisson":
        return rng.poisson(np.exp(f)).astype(float)
    noise = rng.standard_t(4, len(f)) if likelihood == "student-t" else rng.standard_normal(len(f))
    return f + 0.1 * noise


def expected(model: rgp.Module | rgp.Ensemble) -> dict[str, object]:
    mean, variance = model.predict(np.array(POINTS))
    facts: dict[str, object] = {"mean": mean.tolist(), "variance": variance.tolist(), "evidence": model.evidence}
    for p in model.likelihoods:
        facts[f"log_density {p.name}"] = model.log_density(np.array(POINTS), [0.0, 1.0, 1.0], p.name).tolist()
    return facts


def main() -> None:
    rng = np.random.default_rng(20)
    answers: dict[str, object] = {"points": POINTS}
    modules = []
    for likelihood, kernel in zip(FAMILIES, KERNELS, strict=True):
        X = rng.uniform(-2, 2, (30, 2))
        y = targets(likelihood, np.sin(2 * X[:, 0]) + 0.5 * X[:, 1], rng)
        points = rng.uniform(-2, 2, (7, 2))
        m = rgp.fit(X, y, likelihood=likelihood, kernel=kernel, publish=points, name=likelihood, learn=False)
        m.save(HERE / f"{likelihood}.safetensors")
        answers[likelihood] = expected(m)
        modules.append(m)
    e = rgp.merge(modules, weights=[1, 1, 0.5, 1, 1], inducing=10, learn=False)
    for name, model in (("ensemble", e), ("ensemble-names", e.forget_sites())):
        model.save(HERE / f"{name}.safetensors")
        answers[name] = expected(model)
    (HERE / "expected.json").write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
