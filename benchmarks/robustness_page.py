"""docs/robustness.md and its figure, from the outcomes of benchmarks/robustness.py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import fill
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from experiments_page import shrink
from robustness_cases import HONEST, NOISE, ROWS, SPOILED, TEST_POINTS, Outcome

MODELS = {
    "screened": 'merge, trust="learn"',
    "trusting": "merge, trust=None",
    "poe": "PoE",
    "gpoe": "gPoE",
    "rbcm": "rBCM",
}
COLOURS = {"screened": "#1b5e9c", "trusting": "#d1611c", "poe": "#8c8c8c", "gpoe": "#b08bc9", "rbcm": "#6aa56a"}
WIDTH = 118  # of a line of the page
TOLERABLE = 0.3  # share of bad modules up to which a merge must hold

HEAD = """# Robustness: modules that are wrong

<!-- written by benchmarks/robustness.py; do not edit -->

A coordinator merges files from people it has never met. Some are wrong: in other units, with the opposite sign, of
another function, far too sure of themselves. `merge` looks for them by itself (`trust="learn"`): those that clearly
contradict the others do not count, and a warning says who they are and why. This page measures what bad modules do,
and what is left of it.

## What is measured

{trials} trials with fixed seeds: {owners} owners with overlapping data ({rows}), functions of {dimensions} inputs
drawn from a GP of unit variance on [−1, 1]^D, noise {noise}, {seeds} functions for each. The first 0 to 40% of the
modules are bad, in one of seven ways:

| kind | what is wrong |
|---|---|
| shifted | y + 0.5 or y − 0.5 |
| scaled | 1.8 y |
| other units | 1.8 y + 32 |
| sign-flipped | −y |
| random | each of a random function of its own |
| overconfident | covariance divided by 100 |
| colluding | all of one and the same wrong function |

NLPD at {tests} new points, in nats, less that of a merge of the honest modules alone; *PoE*, *gPoE* and *rBCM* are
committees of the same modules.

```bash
python benchmarks/robustness.py --json benchmarks/results/robustness.json
python benchmarks/robustness.py --show benchmarks/results/robustness.json --docs docs   # this page
```

![NLPD above that of the honest modules alone](figures/robustness.png)

"""

HOW = """## How it works

Every module says something about the values of f at common points, with its doubt. Given those who are trusted, each
module has a probability of saying what it says, itself left out (a leave-one-out prediction, without leaving one
out). It is compared with the probability of the same under other explanations: a function of its own, a change of
units a·f + b, or a doubt that is far too small. A module for which one of these is better by more than 8 nats is left
out, and the trusted set is the one that makes all that is said most probable, each module that is left out at that
price; the search begins at everybody, and at the friends of each of a few modules.

The first screening is at the median of the modules' own kernels, because a kernel that is learned with bad modules
bends until it believes them. Where somebody stands out, kernels, noise and owners' effects are learned from the
trusted and from everybody, and the screening is repeated under each; the evidence decides between them. Where noise
or kernel suit nobody, all are further from each other than they say, and only what stands out from that is flagged.

- **Honest merges do not pay.** Where nobody stands out, the modules are merged as with `trust=None`.
- **Owners that differ are no contradiction**: what `owners=` allows (an offset, a smooth departure) is taken into
  account. But where at least eight trusted owners do not differ at all, those few who do are flagged.
- **Only a majority can say who is wrong.** Where no majority agrees, nobody is flagged. Of two modules that
  contradict each other nobody can say who is right.
- **Modules that overlap nobody cannot be checked**, and are marked so: the others must know at least 40% of what a
  module says. Such a module is believed where it speaks alone.

## What it cannot do

- Small lies pass. A shift below the doubt of the module itself is not seen, and does little harm.
- Liars in the majority, or in a region where they are the majority, are believed.
- A liar who knows the others' modules can say what they say wherever they speak, and anything elsewhere.
  [Signatures](commands.md) say from whom a file is, not that it is true.
"""


class Cell(NamedTuple):
    """Means over trials: NLPD above the clean merge, and the shares of modules that were flagged."""

    excess: dict[str, float]
    worst: float  # excess of the screened merge, the largest
    found: float
    accused: float
    trials: int


def cell(outcomes: Sequence[Outcome]) -> Cell:
    excess = {name: float(np.mean([getattr(o, name) - o.clean for o in outcomes])) for name in MODELS}
    bad, honest = sum(o.bad for o in outcomes), sum(o.owners - o.bad for o in outcomes)
    return Cell(
        excess,
        max(o.screened - o.clean for o in outcomes),
        sum(o.found for o in outcomes) / bad if bad else float("nan"),
        sum(o.accused for o in outcomes) / honest,
        len(outcomes),
    )


def kinds(outcomes: Iterable[Outcome]) -> list[str]:
    present = {o.kind for o in outcomes}
    return [kind for kind in (HONEST, *SPOILED) if kind in present]


def share(o: Outcome) -> float:
    return round(o.bad / o.owners, 2)


def cells(outcomes: Sequence[Outcome]) -> dict[tuple[str, float], Cell]:
    """By kind and share of bad modules."""
    found = {}
    for kind in kinds(outcomes):
        some = [o for o in outcomes if o.kind == kind]
        for s in sorted({share(o) for o in some}):
            found[kind, s] = cell([o for o in some if share(o) == s])
    return found


COLUMNS = ("bad modules", "share", *MODELS.values(), "worst", "found", "false alarms", "trials")


def rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    return [
        [
            kind,
            f"{s:.0%}",
            *(f"{c.excess[name]:.3f}" for name in MODELS),
            f"{c.worst:.3f}",
            "" if np.isnan(c.found) else f"{c.found:.1%}",
            f"{c.accused:.2%}",
            str(c.trials),
        ]
        for (kind, s), c in cells(outcomes).items()
    ]


def table(outcomes: Sequence[Outcome]) -> Table:
    shown = Table(title="NLPD above a merge of the honest modules alone, in nats")
    for name in COLUMNS:
        shown.add_column(name, justify="left" if name == "bad modules" else "right")
    for row in rows(outcomes):
        shown.add_row(*row)
    return shown


def page(outcomes: Sequence[Outcome]) -> str:
    dimensions, owners = sorted({o.dimension for o in outcomes}), sorted({o.owners for o in outcomes})
    head = HEAD.format(
        trials=len(outcomes),
        owners=" or ".join(map(str, owners)),
        rows=", ".join(f"{ROWS[D]} rows each for D = {D}" for D in dimensions),
        dimensions=" or ".join(map(str, dimensions)),
        noise=NOISE,
        seeds=len({o.seed for o in outcomes}),
        tests=f"{TEST_POINTS:,}",
    )
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---|" + "--:|" * (len(COLUMNS) - 1)]
    lines += ["| " + " | ".join(row) + " |" for row in rows(outcomes)]
    return head + "\n".join([*summary(outcomes), "", *lines, "", *reasons(outcomes), "", HOW])


def summary(outcomes: Sequence[Outcome]) -> list[str]:
    """The whole table in a few sentences."""
    few, honest = cell([o for o in outcomes if 0 < share(o) <= TOLERABLE]), [o for o in outcomes if not o.bad]
    said = [
        f"Up to {TOLERABLE:.0%} bad modules: {_found(few)}, where without screening it is "
        f"{few.excess['trusting']:.2f} on average."
    ]
    beyond = [o for o in outcomes if share(o) > TOLERABLE]
    if beyond:
        said.append(f"With {max(map(share, beyond)):.0%}: {_found(cell(beyond))}.")
    if honest:
        most = max(abs(o.screened - o.trusting) for o in honest)
        said.append(
            f"Without bad modules {cell(honest).accused:.2%} of {sum(o.owners for o in honest)} are accused, and the "
            f"largest difference from a merge that trusts everybody is {most:.4f}."
        )
    return fill(" ".join(said), WIDTH).splitlines()


def _found(c: Cell) -> str:
    return (
        f"{c.found:.1%} of them are found, {c.accused:.2%} of the honest ones are accused, and the merge is "
        f"{c.excess['screened']:.3f} nats from the clean one on average, {c.worst:.3f} at worst"
    )


def reasons(outcomes: Sequence[Outcome]) -> list[str]:
    """What was said about the bad ones, most often first."""
    lines = ["## What it says about them", "", "| bad modules | reasons, as they were given |", "|---|---|"]
    for kind in kinds(outcomes):
        said = [reason for o in outcomes if o.kind == kind for reason in o.reasons]
        if said:
            often = sorted(set(said), key=lambda r: (-said.count(r), r))[:4]
            lines.append(f"| {kind} | {'; '.join(often)} |")
    return lines


def figure(outcomes: Sequence[Outcome], file: Path) -> None:
    """One panel for each kind: share of bad modules against the excess, on a scale that shows both ends."""
    bad = [kind for kind in kinds(outcomes) if kind != HONEST]
    drawn = Figure(figsize=(3.1 * min(4, len(bad)), 2.9 * -(-len(bad) // 4)), layout="constrained")
    axes = drawn.subplots(-(-len(bad) // 4), min(4, len(bad)), sharex=True, sharey=True, squeeze=False).flatten()
    found, honest = cells(outcomes), [o for o in outcomes if not o.bad]
    for ax, kind in zip(axes, bad, strict=False):
        for name, label in MODELS.items():
            points = [(0.0, cell(honest))] if honest else []
            points += [(s, c) for (k, s), c in found.items() if k == kind]
            x, y = [s for s, _ in points], [c.excess[name] for _, c in points]
            width = 2.2 if name == "screened" else 1.3
            ax.plot(x, y, "o-", color=COLOURS[name], label=label, linewidth=width, markersize=3.5)
        ax.set_yscale("symlog", linthresh=0.1)
        ax.set_title(kind, fontsize=10)
        ax.axhline(0, color="#cccccc", linewidth=0.8, zorder=0)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    for ax in axes[len(bad) :]:
        ax.axis("off")
    axes[len(bad) if len(bad) < len(axes) else 0].legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="center")
    drawn.supxlabel("bad modules", fontsize=10)
    drawn.supylabel("nats above the honest modules alone", fontsize=10)
    drawn.savefig(file, dpi=150)
    shrink(file, file)
