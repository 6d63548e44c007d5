"""The worst that forged files do to a merge: a search over everything that a file may say.

    python benchmarks/forgeries.py [--steps N] [--seeds N] [--first-seed N] [--minutes N] [--processes N] [--json FILE]
    python benchmarks/forgeries.py --show FILE [--docs docs]

Some of 20 owners forge their files. They know all files, agree on what each of them says, and see what becomes of the
merge: each step changes some of the statements of one of them, or of all, at random, and is kept where it does more
harm than before. There are three kinds of harm, which are sought in turn, each from the worst forgery of its kind: the
merged function is far from that of the honest, the common noise is too large or too small, or what is known of the
function is (so that intervals cover too much or too little). Statements are all that is in a file of numbers: the
function, at each of its points, how sure of it they are, noise and what rows say about it, rows, kept share, evidence,
kernel, prior mean, and where each point is. (When rows were observed counts only with `half_life=`, and is left alone.)
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import recyclegp as rgp
from forged_files import BY_POINT, IN_ITSELF, NUMBERS, Forgery, forged
from jobs import done
from pages import RESULTS, Column, publish, read, rounded, show, table, write
from provenance import provenance
from robustness_cases import honest_modules, test_rows

OWNERS, ATTACKERS, SEEDS = 20, (1, 2, 6), 2
STEPS, STEPS_4D = 75, 50
REACH = 40.0  # logarithms within which a statement is forged: from e⁻⁴⁰ to e⁴⁰ times the true one
NEAR = 1e-3  # of a standard deviation: changes below it are rounding, and no reason to name a forgery

Said = tuple[Forgery, ...]  # what each of the attackers says
SIZES = np.array([1.0 if name in IN_ITSELF else 3.0 for name in NUMBERS])  # of a step
POINT_SIZES = {"wave": 0.3, "surer": 2.0, "places": 0.3}
SURE = Forgery(sure=20, rows=20)
TRUE = Forgery(gain=1)
ELSEWHERE = Forgery(gain=4.8, shift=-4.5, sure=20, noise=-20, residual=-20, stretch=2.1, move=-3.3)
APART = Forgery(shift=-0.25, chi2=-18, residual=-20, dof=20, stretch=2.3)
NOISY = Forgery(gain=1, noise=4.6, sure=-9.2)  # a hundred times noisier, and ten thousand times less sure
FIRST: tuple[tuple[Forgery, Forgery], ...] = (  # what every other one says, and what those between them say
    (SURE, SURE),
    (SURE._replace(gain=1, wave=0.03), SURE._replace(gain=1, wave=-0.03)),  # small lies, told with certainty
    (Forgery(gain=1, sure=20, noise=-20, residual=-20), Forgery(gain=1, sure=20, noise=-20, residual=-20)),
    (SURE._replace(gain=0.9), TRUE),
    (Forgery(gain=1, rows=30, structure=2), Forgery()),  # one has the rows and the kernel, the other the function
    (SURE._replace(gain=1, dof=20, chi2=-20, residual=-20), TRUE._replace(wave=0.1)),
    (ELSEWHERE, ELSEWHERE),  # of earlier searches: points of which few are where the others are
    (APART, APART),
    (Forgery(sure=7), Forgery(sure=7)),
    (Forgery(noise=12), Forgery(noise=12)),
    (NOISY, TRUE),
    (Forgery(shift=3, gain=1), Forgery(shift=3, gain=1)),
    (Forgery(), Forgery()),
)


class Trial(NamedTuple):
    attackers: int
    dimension: int
    seed: int
    steps: int
    minutes: float = np.inf  # after which a search ends early


class Harm(NamedTuple):
    """What became of one merge, beside that of the honest."""

    away: float = 0.0  # root mean square between the functions, in standard deviations of that of the honest
    noise: float = 1.0  # factor, upwards or downwards
    sd: float = 1.0  # the same of predictive standard deviations of f, on average
    kernel: str = ""
    refused: str = ""


# by what name the harm is known that is sought, and how large it is
GOALS: dict[str, Callable[[Harm], float]] = {
    "away": lambda harm: harm.away,
    "noise": lambda harm: harm.noise,
    "sd": lambda harm: harm.sd,
}


class Truth(NamedTuple):
    """The merge of the honest."""

    X: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    noise: float
    kernel: str

    @staticmethod
    def of(modules: Sequence[rgp.Module], X: np.ndarray) -> Truth:
        e = _merged(modules)
        return Truth(X, *e.predict(X)[:2], float(e.noise), e.kernel_spec.describe())


def _merged(modules: Sequence[rgp.Module]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rgp.merge(modules)


def _factor(logarithms: np.ndarray) -> float:
    return float(np.exp(np.mean(np.abs(logarithms))))


def harm(modules: Sequence[rgp.Module], truth: Truth) -> Harm:
    try:
        e = _merged(modules)
        mean, variance = e.predict(truth.X)[:2]
    except rgp.RecycleGPError as refused:
        return Harm(refused=str(refused)[:80])
    return Harm(
        float(np.sqrt(np.mean((mean - truth.mean) ** 2)) / truth.mean.std()),
        _factor(np.log(float(e.noise) / truth.noise)),
        _factor(0.5 * np.log(variance / truth.variance)),
        e.kernel_spec.describe(),
    )


def starts(attackers: int) -> list[Said]:
    """Crude forgeries, in two roles; alone, an attacker has the first of them."""
    return list(dict.fromkeys(tuple(roles[k % 2] for k in range(attackers)) for roles in FIRST))


def changed(said: Said, size: float, shape: tuple[int, int], rng: np.random.Generator) -> Said:
    """Some statements of one of them, or the same ones of all, at random; for points of this number and dimension."""
    who = range(len(said)) if rng.random() < 0.5 else [int(rng.integers(len(said)))]
    step = np.where(rng.random(len(NUMBERS)) < 0.2, size * SIZES * rng.standard_normal(len(NUMBERS)), 0.0)
    shapes = {"wave": shape[:1], "surer": shape[:1], "places": shape}
    points = {
        name: size * POINT_SIZES[name] * rng.standard_normal(shapes[name]) for name in BY_POINT if rng.random() < 0.2
    }
    found = list(said)
    for k in who:
        numbers = np.clip([getattr(said[k], name) for name in NUMBERS] + step, -REACH, REACH).tolist()
        more = {name: getattr(said[k], name) + by for name, by in points.items()}
        found[k] = said[k]._replace(**dict(zip(NUMBERS, numbers, strict=True)), **more)
    return tuple(found)


def search(trial: Trial) -> dict[str, Any]:
    """The worst that was found."""
    torch.set_num_threads(1)
    begun = time.monotonic()
    rng = np.random.default_rng([trial.attackers, trial.dimension, trial.seed])
    modules = honest_modules(OWNERS, trial.dimension, trial.seed)
    bad, honest = modules[: trial.attackers], modules[trial.attackers :]
    truth = Truth.of(honest, test_rows(trial.dimension, trial.seed)[0])
    tried: list[tuple[Harm, Said]] = []

    def attempt(said: Said) -> Harm:
        files = [forged(m, _fitting(f, m)) for m, f in zip(bad, said, strict=True)]
        tried.append((harm([*files, *honest], truth), said))
        return tried[-1][0]

    def goes_on() -> bool:
        return len(tried) < trial.steps and time.monotonic() - begun < 60 * trial.minutes

    for said in starts(trial.attackers):
        if not tried or goes_on():
            attempt(said)
    found = {goal: max(tried, key=lambda one: value(one[0])) for goal, value in GOALS.items()}
    sizes, most = dict.fromkeys(GOALS, 1.0), max(len(m.latents[0].known_site.Z) for m in bad)
    for goal in cycle(GOALS):  # in turn: the same merges serve all of them
        if not goes_on():
            break
        said = changed(found[goal][1], sizes[goal], (most, trial.dimension), rng)
        now = attempt(said)
        better = GOALS[goal](now) > GOALS[goal](found[goal][0])
        sizes[goal] = min(4.0, sizes[goal] * 1.5) if better else max(0.05, sizes[goal] * 0.96)  # roughly, one in five
        found = {
            name: (now, said) if value(now) > value(found[name][0]) else found[name] for name, value in GOALS.items()
        }
    return _row(trial, truth, tried, found)


def _fitting(f: Forgery, m: rgp.Module) -> Forgery:
    """What is said of as many points as the module has."""
    count = len(m.latents[0].known_site.Z)
    return f._replace(**{name: each[:count] for name in BY_POINT if np.ndim(each := getattr(f, name))})


def _row(
    trial: Trial, truth: Truth, tried: list[tuple[Harm, Said]], found: dict[str, tuple[Harm, Said]]
) -> dict[str, Any]:
    worst, best = found["away"]
    merged = [one for one, _ in tried if not one.refused]
    return {
        "attackers": trial.attackers,
        "dimension": trial.dimension,
        "seed": trial.seed,
        "away": worst.away,
        "noise": max((one.noise for one in merged), default=1.0),
        "sd": max((one.sd for one in merged), default=1.0),
        "kernel": worst.kernel,
        "clean kernel": truth.kernel,
        "refused": len(tried) - len(merged),
        "refusals": sorted({one.refused for one, _ in tried if one.refused}),
        "tried": len(tried),
        "harmless": sum(one.away < NEAR for one in merged),
        "said": [_words(f) for f in best],
        **{f"said of {goal}": [_words(f) for f in found[goal][1]] for goal in GOALS if goal != "away"},
    }


def _words(f: Forgery) -> dict[str, float]:
    """Statements that are not the truth; of those about points how large they are."""
    plain = TRUE._asdict()
    sizes = {name: float(np.sqrt(np.mean(np.square(value)))) for name, value in f._asdict().items() if name in BY_POINT}
    every = {**f._asdict(), **sizes}
    return {name: round(float(value), 2) for name, value in every.items() if abs(value - plain[name]) > 0.01}


def _said(row: dict[str, Any], of: str = "said") -> str:
    """What the attackers say, those who say the same once; earlier results did not seek some kinds of harm."""
    each = [", ".join(f"{name} {value:g}" for name, value in one.items()) or "the truth" for one in row.get(of, [])]
    counts = {words: each.count(words) for words in each}
    return "; ".join(words if count == len(each) else f"{count} × {words}" for words, count in counts.items())


COLUMNS: list[Column] = [
    ("forged, of 20", "attackers", "d"),
    ("inputs", "dimension", "d"),
    ("function", "seed", "d"),
    ("forgeries tried", "tried", "d"),
    ("merges refused", "refused", "d"),
    ("farthest from the honest merge, in sd of f", "away", ".3f"),
    ("noise, factor at most", "noise", ".2f"),
    ("sd of f, factor at most", "sd", ".2f"),
    ("kernel there", "kernel", ""),
    ("kernel of the honest", "clean kernel", ""),
]
WORDS: list[Column] = [
    *COLUMNS[:3],
    ("what was said where it is farthest", _said, ""),
    ("where the noise is worst", lambda row: _said(row, "said of noise"), ""),
    ("where the sd of f is worst", lambda row: _said(row, "said of sd"), ""),
]


def of_page() -> dict[str, str]:
    """Of the kept result."""
    return values(read(RESULTS / "forgeries.json")["trials"])


def values(found: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The worst of each kind of trial first."""
    rows = sorted(found, key=lambda row: (row["dimension"], row["attackers"], -row["away"]))
    return {"forgeries-short": _in_short(found), "forgeries": table(COLUMNS, rows), "forged": table(WORDS, rows)}


def _in_short(found: Sequence[dict[str, Any]]) -> str:
    """Measured, and no theorem."""
    worst = {n: max(row["away"] for row in found if row["attackers"] == n) for n in {row["attackers"] for row in found}}
    each = ", ".join(f"{away:.3f} with {n} of {OWNERS}" for n, away in sorted(worst.items()))
    alone = [row for row in found if row["attackers"] == 1]
    noise = (
        f", and one file changes the common noise by a factor of {max(r['noise'] for r in alone):.2f}" if alone else ""
    )
    tried, refused = (sum(row[name] for row in found) for name in ("tried", "refused"))
    return (
        f"**At most {max(worst.values()):.3f} standard deviations of f over {tried} forgeries tried** ({each}){noise}; "
        f"{refused} of the merges were refused. This is measured, and no theorem: another search may find worse."
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS, help="forgeries tried in each trial of one input")
    parser.add_argument("--steps-4d", type=int, default=STEPS_4D, help="the same of four inputs, and one seed; 0: none")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=np.inf, help="after which a trial ends, whatever it has tried")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing: an earlier --json")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write the tables of robustness.md")
    asked = parser.parse_args(arguments)
    seeds = range(asked.first_seed, asked.first_seed + asked.seeds)
    trials = [Trial(n, 1, seed, asked.steps, asked.minutes) for seed in seeds for n in ATTACKERS]
    if asked.steps_4d:
        trials += [Trial(n, 4, asked.first_seed, asked.steps_4d, asked.minutes) for n in ATTACKERS]
    found, of_this_run = read(asked.show)["trials"] if asked.show else [], provenance(arguments)
    for row in () if asked.show else done([(search, t) for t in trials], asked.processes):
        found.append(rounded(row, ".5f"))
        if asked.json:  # also of a run that is ended early
            write(asked.json, {**of_this_run, "trials": found})
    show({"robustness.md": values(found)})
    if asked.docs:
        publish(asked.docs, {"robustness.md": values(found)}, partly=True)


if __name__ == "__main__":
    main()
