"""docs/privacy-measured.md, its figure and the marked section of docs/privacy.md, from benchmarks/what_leaks.py.

Everything but the explanations comes from the rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from leak_cases import ATTACKS, KEPT, MERGED, Leak, Way
from leak_results import Results, best_auc, best_caught, excess, said, y_ratio
from plot_pictures import shrink

FIGURE = "what-leaks.png"
BEGIN, END = "<!-- measured: written by benchmarks/what_leaks.py -->", "<!-- end of what was measured -->"
WIDTH = 120  # of a line of the page
SERIES = {  # kind → colour, marker and what it is called in the figure
    "points": ("#2166ac", "o", "points per row"),
    "kept": ("#e08214", "s", "share kept"),
    "digits": ("#1b7837", "^", "the default, rounded"),
    "rows": ("#b2182b", "X", "rows as points"),
}

HEAD = """# What leaks, measured

<!-- written by benchmarks/what_leaks.py; do not edit -->

What can somebody find out about the people behind a module, who has the file and knows how the library works? Here
modules are attacked, and beside each attack stands how well the module predicts. [What leaves your
machine](privacy.md) says what to do about it.

These are attacks that we could think of. Others may do better: **nothing on this page is a guarantee.**

![Chance to tell members from strangers, against what predictions lose](figures/{figure})

## What is measured

- **Tables.** Random functions of two and four inputs with little and much noise (standard deviation 0.1 and 0.5, where
  the function varies by 1); the diabetes table of scikit-learn (10 columns, one year's progress of 442 patients); and
  a made-up survey of six columns of whole numbers, two of them 0 or 1.
- **Modules.** {modules} for each table and way to publish, of {rows} rows each: random halves of {pool} people. The
  other half are strangers of the same population. [More rows](#more-rows) leak less.
- **NLPD** is the mean of −log p(y) for fresh rows in nats, lower is better; "merged" is that of a merge of
  {merged} such modules of different people.
- **Points on lines** are a control: not what the library does, but what it did until these attacks were written. Each
  point was on the line between two neighbouring rows.

```bash
python benchmarks/what_leaks.py --json FILE              # {minutes} of one core
python benchmarks/what_leaks.py --show FILE --docs docs  # this page, from the file
```

The results of which this page is made are in `benchmarks/results`.

## The attacks

**Was this person among the rows?** The attacker has x and y of {pool} people, half of whom were.

| attack | a person rather was a member, if … |
|---|---|
| residual | the module predicts y well |
| ratio | y is likelier for a row than for a stranger, given all that the file says about f |
| nearness | x is near a published point (y is not needed) |
| lines | a published point is on the line between this x and somebody else's (y is not needed) |
| shadows | the first three look as in other modules made with this person, and not as in those made without |

The last one is known as LiRA; here the attacker has {others} other modules, made from the same {pool} people. *AUC* is
the chance that a member scores higher than a stranger: 0.5 is guessing, 1 is certainty. *Found* is the share of members
that an attacker finds who is wrong about one stranger in a hundred: 0.01 is guessing. The tables have both for the
best of the five attacks.

**What was the y of somebody whose x is known?** The module predicts everybody's y; that is its purpose. What counts is
how much better the guess is for members. A better guess than the prediction leaves out the prior's pull towards its
mean. *y* is its error for members, as a share of the prediction's error for strangers: 1 if nothing leaks, 0 if
every outcome can be computed.

**What was the x of somebody?** *x* is the distance from a point to the nearest row, in median distances between
neighbouring rows; for a fresh row of the same population it is about 1. Where columns are whole numbers, or have few
decimals: the share of points that become somebody's complete x when they are rounded to whole units (*rounded*; in
brackets the share of fresh people who happen to have the same complete x as somebody in the table), and the share of
rows that follow exactly from points on lines between them (*solved*).
"""


def page(results: Results) -> str:
    plan = results.plan
    text = HEAD.format(
        figure=FIGURE,
        modules=plan.modules,
        rows=plan.rows,
        pool=2 * plan.rows,
        others=plan.modules - 1,
        merged=MERGED,
        minutes=f"{max(1, round(results.seconds / 60))} minutes",
    )
    text += _larger(results)
    for name in plan.tables:
        text += f"\n## {name[0].upper()}{name[1:]}\n\n" + _table(results.where(name)) + "\n" + _by_attack(results, name)
    return text


def _larger(results: Results) -> str:
    """The default for more rows, beside that for few."""
    if not results.larger:
        return ""
    text = f"\n## More rows\n\nThe default, for {results.plan.rows} and for {results.plan.larger} rows:\n\n"
    names = [f"{name} | with {results.plan.larger}" for name in ("points", "AUC", "found", "y")]
    text += f"| table | {' | '.join(names)} |\n|---|" + "--:|" * 8 + "\n"
    for leak in results.larger:
        text += f"| {leak.table} | "
        few = results.where(leak.table, leak.kind, leak.value)[0]
        for of, form in ((lambda k: k.points, ".0f"), (best_auc, ".2f"), (best_caught, ".2f"), (y_ratio, ".2f")):
            text += f"{of(few):{form}} | {of(leak):{form}} | "
        text = text.rstrip(" ") + "\n"
    return text


def _table(leaks: Sequence[Leak]) -> str:
    whole = leaks[0].values_right is not None
    names = ["published", "points", "kept", "NLPD", "merged", "AUC", "found", "y", "x"]
    names += ["rounded", "solved"] if whole else []
    text = "| " + " | ".join(names) + " |\n|---|" + "--:|" * (len(names) - 1) + "\n"
    for leak in leaks:
        cells = [said(leak), f"{leak.points:.0f}", f"{leak.kept:.0%}", f"{leak.nlpd:.3f}", f"{leak.merged_nlpd:.3f}"]
        cells += [f"{best_auc(leak):.2f}", f"{best_caught(leak):.2f}", f"{y_ratio(leak):.2f}", f"{leak.x_distance:.2f}"]
        if whole:
            cells += [f"{leak.values_right:.2f} ({leak.values_by_chance:.2f})", f"{leak.rows_solved:.2f}"]
        text += "| " + " | ".join(cells) + " |\n"
    return text


def _by_attack(results: Results, name: str) -> str:
    """Some of the ways, attack by attack."""
    text = "AUC of each attack:\n\n| published | " + " | ".join(ATTACKS) + " |\n|---|" + "--:|" * len(ATTACKS) + "\n"
    for leak in results.where(name):
        if leak.kind in ("points", "rows", "lines") or Way(leak.kind, leak.value) == Way("kept", KEPT):
            text += f"| {said(leak)} | " + " | ".join(f"{leak.auc[attack]:.2f}" for attack in ATTACKS) + " |\n"
    return text


# --- the section of privacy.md ----------------------------------------------------------------


def with_summary(text: str, results: Results) -> str:
    """The page with its marked section written anew."""
    found = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), flags=re.DOTALL)
    if not found.search(text):
        raise ValueError(f"the page has no section from {BEGIN} to {END}")
    return found.sub(lambda _: f"{BEGIN}\n\n{summary(results)}\n{END}", text)


def summary(results: Results) -> str:
    """Each way in a line: the mean over all tables, and the worst of them."""
    rows = results.plan.rows
    text = (
        f"| published, of {rows} rows | points | nats lost | AUC | members found | error of y | x from points |\n"
        "|---|" + "--:|" * 6 + "\n"
    )
    for way in results.plan.ways:
        some = results.where(kind=way.kind, value=way.value)
        lost = _middle_and(some, lambda leak: excess(leak, results.leaks), max)
        text += f"| {said(way)} | {np.mean([leak.points for leak in some]):.0f} | {lost} | "
        text += f"{_middle_and(some, best_auc, max)} | {_middle_and(some, best_caught, max)} | "
        text += f"{_middle_and(some, y_ratio, min)} | {_middle_and(some, lambda leak: leak.x_distance, min)} |\n"
    explained = (
        f"Means over {len(results.plan.tables)} tables, and in brackets the worst of them. *Nats lost*: NLPD of fresh "
        "rows above that of the best way. *AUC*: the chance to tell a member from a stranger by the best of five "
        "attacks, 0.5 is guessing. *Members found*: by an attacker who is wrong about one stranger in a hundred; 0.01 "
        "is guessing. *Error of y*: of somebody whose x is known, for members as a share of that for strangers. *x "
        "from points*: from a point to the nearest row, in distances between neighbouring rows; a fresh row has about "
        "1."
    )
    return f"{text}\n{fill(explained, WIDTH)}\n\n![Leakage against NLPD](figures/{FIGURE})\n"


def _middle_and(leaks: Sequence[Leak], of: Callable[[Leak], float], worst: Callable[[list[float]], float]) -> str:
    values = [of(leak) for leak in leaks]
    return f"{np.mean(values):.2f} ({worst(values):.2f})"


# --- the figure ---------------------------------------------------------------------------------


def picture(results: Results, file: Path) -> None:
    """AUC of the best attack against what predictions lose; a panel for each table."""
    names = results.plan.tables
    figure = Figure(figsize=(12, 3.9 * ((len(names) + 2) // 3) + 0.6), layout="constrained")
    panels = figure.subplots((len(names) + 2) // 3, 3, squeeze=False, sharex=True, sharey=True).ravel()
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    for panel, name in zip(panels, names, strict=False):
        _panel(panel, name, results)
    for panel in panels[::3]:
        panel.set_ylabel("AUC of the best attack")
    for panel in panels[-3:]:
        panel.set_xlabel("nats per row that predictions lose")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    figure.suptitle(f"What leaks, and what it buys: modules of {results.plan.rows} rows", fontsize=12)
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        raw = Path(folder) / file.name
        figure.savefig(raw, dpi=130)
        shrink(raw, file)


def _panel(panel: Axes, name: str, results: Results) -> None:
    for kind, (colour, marker, label) in SERIES.items():
        some = sorted(results.where(name, kind), key=lambda leak: leak.value)
        if not some:
            continue
        lost, auc = [excess(leak, results.leaks) for leak in some], [best_auc(leak) for leak in some]
        panel.plot(lost, auc, color=colour, marker=marker, label=label, lw=1.2, ms=6, clip_on=False)
        for x, y, leak in zip(lost, auc, some, strict=True):
            text, place, side = _mark(leak)
            panel.annotate(
                text, (x, y), xytext=place, textcoords="offset points", color=colour, fontsize=8, ha=side, va="center"
            )
    panel.axhline(0.5, color="grey", lw=0.8, ls=":")
    panel.set_xscale("symlog", linthresh=0.01)
    panel.set_xlim(-0.004, 1.2)
    panel.set_xticks([0, 0.01, 0.1, 1], labels=["0", "0.01", "0.1", "1"])
    panel.set_ylim(0.48, 1.03)
    panel.set_title(name, fontsize=11)
    panel.spines[["top", "right"]].set_visible(False)


def _mark(leak: Leak) -> tuple[str, tuple[int, int], str]:
    """What stands beside a marker, how far from it, and on which side; nothing where digits change nothing."""
    if leak.kind == "kept":
        return f"{leak.value:.0%}", (-6, -4), "right"
    if leak.kind == "points":
        return f"1/{1 / leak.value:.0f}", (6, 5), "left"
    if leak.kind == "digits" and leak.value <= 2:
        return f"{leak.value:g} digit{'s' if leak.value > 1 else ''}", (6, -6), "left"
    return "", (0, 0), "left"
