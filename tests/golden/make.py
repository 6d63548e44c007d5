"""Made the golden files of schema 1 beside it. Run once per schema, never to make a failing test pass.

python tests/golden/make.py
"""

import json
import math
from pathlib import Path

import numpy as np
import torch

import recyclegp as rgp

HERE = Path(__file__).parent
FAMILIES = ("gaussian", "bernoulli", "bernoulli-probit", "poisson", "student-t")
KERNELS = ("rbf", "matern52", "rq", "rbf + linear", "matern32 * periodic")
POINTS = [[-1.0, 0.3], [0.2, 1.1], [1.7, -2.0]]
TARGETS = [0.0, 1.0, 1.0]


def targets(likelihood: str, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if likelihood.startswith("bernoulli"):
        return (f + 0.3 * rng.standard_normal(len(f)) > 0).astype(float)
    if likelihood == "poisson":
        return rng.poisson(np.exp(f)).astype(float)
    noise = rng.standard_t(4, len(f)) if likelihood == "student-t" else rng.standard_normal(len(f))
    return f + 0.1 * noise


def log_density(name: str, parameters: tuple[float, ...], y: float, mean: float, variance: float) -> float:
    """log ∫ p(y|f) N(f; mean, variance) df by a fine sum: the answer itself, not the library's way to it."""
    z = np.linspace(-14, 14, 20_001)
    f = mean + math.sqrt(variance) * z
    if name == "gaussian":
        log_p = -0.5 * (math.log(2 * math.pi * parameters[0]) + (y - f) ** 2 / parameters[0])
    elif name == "bernoulli":
        log_p = -np.logaddexp(0, -(2 * y - 1) * f)
    elif name == "bernoulli-probit":
        log_p = np.log([0.5 * math.erfc(-(2 * y - 1) * x / math.sqrt(2)) for x in f])
    elif name == "poisson":
        log_p = y * f - np.exp(f) - math.lgamma(y + 1)
    else:
        s2, df = parameters
        constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(math.pi * df * s2)
        log_p = constant - (df + 1) / 2 * np.log1p((y - f) ** 2 / (s2 * df))
    return float(np.log(np.sum(np.exp(log_p - 0.5 * z**2)) * (z[1] - z[0]) / math.sqrt(2 * math.pi)))


def expected(model: rgp.Module | rgp.Ensemble) -> dict[str, object]:
    mean, variance = model.predict(np.array(POINTS))
    facts: dict[str, object] = {"mean": mean.tolist(), "variance": variance.tolist(), "evidence": model.evidence}
    for p in model.likelihoods:
        facts[f"log_density {p.name}"] = [
            log_density(p.name, p.parameters, y, m, v) for y, m, v in zip(TARGETS, mean, variance, strict=True)
        ]
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
