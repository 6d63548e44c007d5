# %% [markdown]
# # Three laboratories, one optimisation
#
# Three laboratories look for the best setting of the same process. Each has run a campaign of its own, in its
# own part of the range, and none hands out its table. Every round each fits a Gaussian process at home
# (BoTorch's `SingleTaskGP`, as it would anyway), publishes it as a module, and the merged model chooses the next
# three experiments by noisy expected improvement. How far does that get, compared with going on alone, and with
# pooling all rows in one place?
#
# `python examples/three_laboratories.py` takes about a minute; with `--full` it draws the documentation's figure in
# about eight.

# %%
import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from botorch.acquisition.logei import qLogNoisyExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.test_functions import Hartmann
from gpytorch.mlls import ExactMarginalLogLikelihood
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import recyclegp as rgp
from recyclegp.errors import PublishingWarning

options = argparse.ArgumentParser(description="Three laboratories, one optimisation")
options.add_argument("--full", action="store_true", help="eight repetitions of ten rounds")
options.add_argument("--seeds", type=int, help="repetitions (default 2)")
options.add_argument("--rounds", type=int, help="rounds of three experiments (default 4)")
options.add_argument("--figure", type=Path, default=Path("demo-output/three-laboratories.png"), help="where to draw")
args, _ = options.parse_known_args()
SEEDS = args.seeds or (8 if args.full else 2)
ROUNDS = args.rounds or (10 if args.full else 4)

# %% [markdown]
# ## The process nobody knows
#
# Hartmann's function of three settings, to be maximised, measured with noise. Each laboratory's first six
# experiments lie in its own third of the first setting.

# %%
LABS, FIRST, NOISE = 3, 6, 0.1
process = Hartmann(dim=3, negate=True)
BEST = process.optimal_value
BOUNDS = process.bounds.double()


def measure(X, rng):
    return process(X)[:, None] + NOISE * torch.tensor(rng.normal(size=(len(X), 1)))


def first_campaigns(rng):
    X = rng.uniform(size=(LABS, FIRST, 3))
    X[..., 0] = (np.arange(LABS)[:, None] + X[..., 0]) / LABS
    return [(x, measure(x, rng)) for x in torch.tensor(X)]


# %% [markdown]
# ## At home
#
# BoTorch's own model with BoTorch's own fit. What leaves the laboratory is `rgp.from_gpytorch(gp)`: the posterior
# at points, none of them an experiment, that keep 99% of what the model knows. Six experiments of three settings are
# so few that this takes more points than experiments, and from these the experiments can be computed: a
# `PrivacyWarning` says so. Where that may not be, `publish=len(X)` asks for fewer points, which keep less.


# %%
def fit(X, y):
    gp = SingleTaskGP(X, y, input_transform=Normalize(3, bounds=BOUNDS))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
    return gp


def choose(model, baseline, q, seed):
    """The next q experiments, by noisy expected improvement over the baseline."""
    sampler = SobolQMCNormalSampler(torch.Size([64]), seed=seed)
    acquisition = qLogNoisyExpectedImprovement(model, X_baseline=baseline, sampler=sampler, prune_baseline=True)
    X, _ = optimize_acqf(
        acquisition, BOUNDS, q=q, num_restarts=2, raw_samples=64, options={"seed": seed, "maxiter": 40}
    )
    return X


# %% [markdown]
# ## Three ways to go on
#
# Every way runs three experiments a round, one in each laboratory. Alone, each laboratory chooses its own.
# Merged, the model knows all three campaigns through their modules; its baseline are the published points, since
# nobody's experiments are known to it. "Fewer points" is the same with no more of them than experiments. Pooled is the
# model of all experiments in one place.


# %%
def alone(campaigns, seed):
    return [choose(fit(X, y), X, 1, seed) for X, y in campaigns]


warnings.simplefilter("ignore", PublishingWarning)  # which says what is said above, in every round


def merged(campaigns, seed, as_many_as_rows=False):
    modules = [
        rgp.from_gpytorch(fit(X, y), name=f"lab-{k}", publish=len(X) if as_many_as_rows else "auto")
        for k, (X, y) in enumerate(campaigns)
    ]
    ensemble = rgp.merge(modules)
    return choose(ensemble.to_botorch(), torch.tensor(ensemble.inducing), LABS, seed).split(1)


def fewer_points(campaigns, seed):
    return merged(campaigns, seed, as_many_as_rows=True)


def pooled(campaigns, seed):
    X, y = (torch.cat(parts) for parts in zip(*campaigns, strict=True))
    return choose(fit(X, y), X, LABS, seed).split(1)


def regret(X):
    return BEST - float(process(X).max())


def run(way, seed):
    """Regret after every round: of the laboratories together, or of each where they do not talk."""
    rng = np.random.default_rng(seed)
    campaigns = first_campaigns(rng)
    torch.manual_seed(seed)  # BoTorch draws its starting points from the global state
    found = []
    for step in range(ROUNDS + 1):
        experiments = [X for X, _ in campaigns] if way is alone else [torch.cat([X for X, _ in campaigns])]
        found.append([regret(X) for X in experiments])
        if step < ROUNDS:
            new = way(campaigns, 100 * seed + step)
            campaigns = [
                (torch.cat([X, x]), torch.cat([y, measure(x, rng)])) for (X, y), x in zip(campaigns, new, strict=True)
            ]
    return np.array(found)  # (rounds + 1, 3 or 1)


# %%
WAYS = {"each alone": alone, "merged": merged, "merged, fewer points": fewer_points, "pooled rows": pooled}
results = {}
for name, way in WAYS.items():
    start = time.perf_counter()
    results[name] = np.concatenate([run(way, seed) for seed in range(SEEDS)], axis=1)
    median = np.median(results[name], axis=1)
    print(f"{name:20s} median regret {median[0]:.3f} → {median[-1]:.4f}   ({time.perf_counter() - start:.0f} s)")
# luck among three: the best of laboratories that do not talk, which none of them could know
best = results["each alone"].reshape(ROUNDS + 1, SEEDS, LABS).min(-1)
results["best alone"] = best
print(f"{'best alone':20s} median regret {np.median(best[0]):.3f} → {np.median(best[-1]):.4f}")

# %% [markdown]
# ## The regret
#
# Best possible value less that of the best experiment so far: medians and quartiles over the repetitions. "Each alone"
# counts a laboratory's own experiments. "Best alone" is the luckiest of the three, as seen by somebody who knew all
# their results: with as many experiments as the other curves, it shows what choosing them together is worth.

# %%
COLOURS = {
    "each alone": "#56B4E9",
    "best alone": "#0072B2",
    "merged": "#D55E00",
    "merged, fewer points": "#CC79A7",
    "pooled rows": "#000000",
}  # Okabe & Ito
STYLES = {
    "each alone": ":",
    "best alone": "-.",
    "merged": "-",
    "merged, fewer points": (0, (6, 1, 1, 1)),
    "pooled rows": "--",
}
figure = Figure(figsize=(7, 4), layout="constrained", dpi=150)
axes = figure.subplots()
for name in COLOURS:
    values = results[name]
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75], axis=1)
    axes.fill_between(range(ROUNDS + 1), low, high, color=COLOURS[name], alpha=0.15, lw=0)
    axes.plot(range(ROUNDS + 1), middle, ls=STYLES[name], color=COLOURS[name], lw=2, marker="o", ms=3, label=name)
axes.set(yscale="log", xlabel="rounds of three experiments", ylabel="regret", xlim=(0, ROUNDS))
axes.yaxis.set_major_formatter("{x:g}")
axes.set_title(f"Three laboratories, Hartmann's function, {SEEDS} repetitions", loc="left", fontsize=10, weight="bold")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
args.figure.parent.mkdir(parents=True, exist_ok=True)
FigureCanvasAgg(figure).print_figure(args.figure)
print(f"wrote {args.figure}")
