"""docs/calibration.md and its figure, from the results of benchmarks/where_merging_loses.py.

Everything but the explanations comes from the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, Colormap, ListedColormap
from matplotlib.figure import Figure

from calibration_cases import ALONE, LENGTHSCALE_1D, ROUNDS_POINTS, TEST_POINTS
from calibration_results import LOSS, Cell, Results, Where, cells, losing
from plot_pictures import shrink

LEVELS = (-10.0, 0.01, 0.03, LOSS, 0.3, 1.0, 100.0)  # nats, the borders between colours
SHADES = ("#f7fbff", "#e3eef9", "#c6dbef", "#fdc38d", "#f16913", "#a63603")  # blues are bearable, oranges lose
DARK = 1.0  # from here on letters are white
WRONG = 1.25  # a factor that matters
WIDTH = 120  # of a line of the page
FIGURE = "where-merging-loses.png"
Found = dict[Where, Cell]

HEAD = """# Calibration: where merging loses

<!-- written by benchmarks/where_merging_loses.py; do not edit -->

A merge is made from small files and sees no rows. How much worse is it than one model that has seen all of them, and
are its intervals as wide as they should be? That depends on how much each owner knows alone. Here it is measured from
easy cases to hopeless ones, and those that lose stay in.

## What is measured

- **Data.** A smooth random function of D inputs (a Gaussian process with an RBF kernel of unit variance on [−1, 1]^D;
  lengthscale √D, and {short} for D = 1), with noise of standard deviation {noises}. {total} rows in all, {seeds}
  functions for each D; the figures are means over these.
- **Owners.** *Random*: each has rows from everywhere. *Adjoining*: rows are sorted by the first input and cut, so that
  each owner knows one slice and nothing beside it. With 5 rows each there are {most} owners, with 500 there are two.
- **The merge.** `merge(fit_many(parts))`, nothing else said: {publish}.
- **The excess.** NLPD is the mean of −log p(y) at {tests} new points, in nats; lower is better. The excess is by how
  much it is higher than that of the exact GP which was given all rows, and learned its hyperparameters from them.
  0.1 nats are lost, for instance, by standard deviations that are a quarter too small, or 40% too large. Slightly
  negative figures are luck: on these test points the merge happened to do better.
- **95%** is the share of the new y inside the central 95% interval. It should be 0.95; less is overconfident.

```bash
python benchmarks/where_merging_loses.py --json FILE                       # {minutes}
python benchmarks/where_merging_loses.py --publish 64 --json OTHER         # the same with other points
python benchmarks/where_merging_loses.py --show FILE --beside OTHER --docs docs   # this page, from the files
```

The results of which this page is made are in `benchmarks/results`.

"""

ONE_SHOT = """Three things make a case hard, and they add up.

- **Too few rows to see the function.** Five rows of a line with several bends tell their owner neither how smooth the
  function is nor which part of y is noise. The merge pools what all owners say about both, but what nobody could see is
  not in the files. The noise is then believed too large, where rows cannot follow the function (random owners of a
  line), or too small, so that intervals are too narrow (five or ten rows of several inputs; "noise ×" below). More
  noise makes this milder, not worse: the exact GP knows less, too.
- **Many dimensions.** In 8 or 16 dimensions every row is far from every other, and a module speaks of the surroundings
  of a few points. What its rows say elsewhere, at distances that only other owners' rows would bridge, is lost when
  they are replaced by points.
- **Fewer points than rows say something about.** A module has at most half as many points as rows, unless you say
  otherwise: a point for each row would say nearly everything about them ([privacy](privacy.md)). With five or ten rows
  that is two or five points.
"""

ROUNDS = """## What helps

**More points**, where you can afford what they say: `publish=` a number. As many as rows help owners with few rows.

**More rows per owner.** Owners who trust each other can fit one module together. Down each column of the figure a
case becomes easy sooner or later.

**Rounds.** What one message cannot say, many can. `recyclegp.baselines.mapreduce` fits one sparse GP to everybody's
rows, which stay where they are: in each round owners send sums over their rows at M common points (M² numbers), and get
back what they need for their share of the gradient. It does not matter how few rows an owner has, nor which. The price:
everybody must be there for every round, and sends far more in all.{table}
That is the way to go where the tables below show more than {loss} nats and the files cannot say more. Up to eight
inputs, owners with fifty rows or more gain little by it.

"""

# Alternatives that were measured on the same cases and lost to what is there: Markdown, or nothing.
TRIED = """\
Choices were made on random functions of other lengthscales (0.6, 1 and 2 times √D) and seeds than those above, and on
real tables (concrete, Boston housing, quakes, Ames housing, wages, kin40k).

- **Every module at its own noise.** Five rows of four inputs: 0.1 to 0.5 nats worse than now, and a coverage of 0.82
  to 0.9.
- **One noise from the residuals alone** (Σ residual/Σ freedom). Good where functions are smooth. Where a few rows
  cannot resolve the function, what is left of it counts as noise: 0.05 where the truth was 0.01 (twenty rows of four
  inputs). It is where the search begins.
- **Sites rescaled by σ'²/σ²**, without the blur. What points leave open does not grow with the noise: on kin40k the
  evidence then fell by 80 nats although nothing had become worse, and could no longer be compared.
- **Noises always apart**, shrunk by as much as the evidence asked for, without a threshold. Equal noises then differ
  a little: 0.01 to 0.02 nats at sixteen inputs.
- **One factor for all sites** (A = τI + …) learned by the evidence, without anything about noise in the files. Pupils
  of 133 classes gained by it, those of 2,410 schools did not: there the kernel became rough instead.
- **A stronger prior on local noise about a tenth of the variance of y**, or lengthscales with heavy-tailed priors.
  The first is still too small for a few noisy rows; with the second, searches ended where one input does not count at
  all, or with a noise of nothing.
- **Other places for points.** Centres of clusters are as good as moved points, but as many centres as rows are the
  rows. Moving points by the information itself instead of the variance they explain finds the same places at several
  times the price.
"""


def page(results: Results, beside: Sequence[Results]) -> str:
    ours = cells(results, results.references)
    others = [cells(other, results.references) for other in beside]
    text = _head(results) + f"![Excess NLPD of merges](figures/{FIGURE})\n\n"
    text += summary([results.label, *(b.label for b in beside)], [ours, *others])
    text += "\n## Where one shot cannot do\n\n" + where_it_loses(ours) + "\n" + ONE_SHOT + "\n"
    text += helps(results)
    text += f"## What was tried and not kept\n\n{TRIED.strip()}\n\n" if TRIED.strip() else ""
    text += _columns(results, beside)
    for (noise, owners), part in groupby(ours, key=lambda where: (where.noise, where.owners)):
        text += f"### {owners.capitalize()} owners, noise {noise:g}\n\n"
        text += table(list(part), ours, {b.label: o for b, o in zip(beside, others, strict=True)}) + "\n"
    return text.rstrip("\n") + "\n"


def _head(results: Results) -> str:
    grid = results.grid
    automatic = "as many points as the library chooses"
    return HEAD.format(
        short=LENGTHSCALE_1D,
        noises=" or ".join(f"{noise:g}" for noise in grid.noises),
        total=f"{grid.total:,}",
        seeds=grid.seeds,
        most=grid.total // min(grid.rows),
        publish=automatic if results.publish == "auto" else f"at most {results.publish} points each",
        tests=f"{TEST_POINTS:,}",
        minutes=f"{results.cpu_seconds / 60:.0f} minutes of one core",
    )


def summary(labels: Sequence[str], found: Sequence[Found]) -> str:
    """Each run in one line."""
    text = (
        f"|  | cases | lose more than {LOSS:g} | median excess | worst | 95% in the mean | least |\n|---|" + "--:|" * 6
    )
    for label, some in zip(labels, found, strict=True):
        excess = np.array([cell.excess for cell in some.values()])
        covered = np.array([cell.coverage for cell in some.values()])
        numbers = (f"{np.nanmedian(excess):.3f}", f"{np.nanmax(excess):.2f}")
        inside = (f"{np.nanmean(covered):.3f}", f"{np.nanmin(covered):.3f}")
        text += f"\n| {label} | {len(some)} | {len(losing(some))} | " + " | ".join(numbers + inside) + " |"
    return text + "\n"


def where_it_loses(found: Found) -> str:
    """The cases that lose, and what is wrong with them."""
    lost = losing(found)
    if not lost:
        return f"No case loses more than {LOSS:g} nats.\n"
    kinds = list(dict.fromkeys((where.noise, where.owners) for where in found))
    text = f"{len(lost)} of {len(found)} cases lose more than {LOSS:g} nats, those with so many rows per owner:\n\n"
    text += "| D | " + " | ".join(f"{owners}, noise {noise:g}" for noise, owners in kinds) + " |\n"
    text += "|--:|" + "---|" * len(kinds) + "\n"
    for D in sorted({where.dimension for where in found}):
        said = [", ".join(str(w.rows) for w in lost if (w.noise, w.owners, w.dimension) == (*k, D)) for k in kinds]
        text += f"| {D} | " + " | ".join(rows or "none" for rows in said) + " |\n"
    bad = [found[where] for where in lost]
    little, much = sum(c.noise < 1 / WRONG for c in bad), sum(c.noise > WRONG for c in bad)
    astray = sum(c.rmse > WRONG for c in bad)
    what = (
        f"What is wrong in them: in {little} the noise that is believed is too small by more than a factor of"
        f" {WRONG:g}, so that intervals are too narrow; in {much} it is too large by as much; in {astray} the error of"
        " the mean is larger by more than that factor than the exact GP's. (A case can be counted twice.)"
    )
    return f"{text}\n{fill(what, WIDTH)}\n"


def helps(results: Results) -> str:
    """What to do where one shot cannot do, and what rounds reach, where they were measured."""
    if not results.rounds:
        return ROUNDS.format(table="", loss=f"{LOSS:g}")
    exact = {(r.dimension, r.noise, r.seed): r.nlpd for r in results.references}
    text = "| D | noise | excess | 95% | rounds | bytes per owner |\n|" + "--:|" * 6 + "\n"
    of = sorted(results.rounds)
    for (D, noise), group in groupby(of, key=lambda r: (r.dimension, r.noise)):
        some = list(group)
        over = float(np.mean([r.nlpd - exact[r.dimension, r.noise, r.seed] for r in some]))
        covered, count, sent = (np.mean([getattr(r, key) for r in some]) for key in ("coverage", "rounds", "bytes"))
        text += f"| {D} | {noise:g} | {number(over, 3)} | {covered:.3f} | {count:.0f} | {sent:,.0f} |\n"
    said = f" Measured with {ROUNDS_POINTS} points and {min(results.grid.rows)} rows each:\n\n{text}"
    return ROUNDS.format(table=said, loss=f"{LOSS:g}")


def _columns(results: Results, beside: Sequence[Results]) -> str:
    said = [
        f'"Excess" is in nats over the exact GP on all rows; ± is its standard deviation over the {results.grid.seeds}'
        ' functions. "RMSE ×" is the error of the mean, against the function itself, as a multiple of the exact GP\'s;'
        ' "noise ×" the noise that the merge believes in, as a multiple of the true one. "Alone" is the excess of'
        f" single modules, the mean over at most {ALONE} of them: what an owner has who does not merge."
        ' "Points" and "bytes" are what a module has and what leaves its owner.'
    ]
    if beside:
        named = ", ".join(f'"{other.label}"' for other in beside)
        said.append(f"Beside it the excess, and the share in the interval, of {named}.")
    said.append(f"In bold: more than {LOSS:g} nats.")
    skipped, failed = results.grid.skipped(), sum(bool(row.failed) for row in results.merged)
    if skipped:
        said.append(f"Left out: {', '.join(map(str, skipped))} rows each, for want of a second owner.")
    if failed:
        said.append(f"{failed} merges failed.")
    if not skipped and not failed:
        said.append("No case was left out, and no merge failed.")
    return f"## All figures\n\n{fill(' '.join(said), WIDTH)}\n\n"


def table(part: Sequence[Where], ours: Found, others: dict[str, Found]) -> str:
    names = ["D", "rows each", "excess", "±", "95%", "RMSE ×", "noise ×", "alone", "points", "bytes"]
    names += [name for label in others for name in (label, "95%")]
    lines = ["| " + " | ".join(names) + " |", "|" + "--:|" * len(names)]
    for where in part:
        cell = ours[where]
        row = [str(where.dimension), str(where.rows), _excess(cell), f"{cell.spread:.3f}", f"{cell.coverage:.3f}"]
        row += [
            f"{cell.rmse:.2f}",
            f"{cell.noise:.2f}",
            f"{cell.alone:.2f}",
            f"{cell.published:.0f}",
            f"{cell.bytes:,.0f}",
        ]
        for found in others.values():
            row += [_excess(found[where]), f"{found[where].coverage:.3f}"] if where in found else ["–", "–"]
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def _excess(cell: Cell) -> str:
    if np.isnan(cell.excess):
        return "failed"
    return f"**{number(cell.excess, 3)}**" if cell.excess > LOSS else number(cell.excess, 3)


# --- the figure ---------------------------------------------------------------------------------


def heat_map(results: Results, beside: Sequence[Results], file: Path) -> None:
    """Rows per owner × D; a panel for each noise and kind of owner. In small print those beside."""
    grid, colours = results.grid, ListedColormap(SHADES)
    scale = BoundaryNorm(LEVELS, len(SHADES))
    found = [cells(some, results.references) for some in (results, *beside)]
    figure = Figure(figsize=(10.5, 4.9 * len(grid.noises) + 0.9), layout="constrained")
    panels = figure.subplots(len(grid.noises), len(grid.owners), squeeze=False)
    for axes, noise in zip(panels, grid.noises, strict=True):
        for panel, owners in zip(axes, grid.owners, strict=True):
            _panel(panel, noise, owners, results, found, colours, scale)
    small = f"; small: {' · '.join(other.label for other in beside)}" if beside else ""
    figure.suptitle(
        f"Nats per point lost against the exact GP on all rows\nlarge: {results.label}{small}", fontsize=11.5
    )
    legend = figure.colorbar(
        panels[0, 0].images[0], ax=panels, orientation="horizontal", aspect=50, shrink=0.7, pad=0.02, spacing="uniform"
    )
    legend.set_ticks(LEVELS[1:-1], labels=[f"{level:g}" for level in LEVELS[1:-1]])
    legend.set_label("excess NLPD in nats")
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        raw = Path(folder) / file.name
        figure.savefig(raw, dpi=130)
        shrink(raw, file)


def _panel(
    panel: Axes,
    noise: float,
    owners: str,
    results: Results,
    found: Sequence[Found],
    colours: Colormap,
    scale: BoundaryNorm,
) -> None:
    rows, dimensions = [r for r in results.grid.rows if r not in results.grid.skipped()], results.grid.dimensions
    where = [[Where(noise, owners, D, r) for D in dimensions] for r in rows]
    excess = np.array([[found[0][w].excess if w in found[0] else np.nan for w in line] for line in where])
    panel.imshow(excess, cmap=colours, norm=scale, aspect="auto")
    for (i, j), value in np.ndenumerate(excess):
        ink = "white" if value > DARK else "black"
        panel.text(j, i - 0.12, number(value), ha="center", va="center", fontsize=12, color=ink)
        others = [number(some[where[i][j]].excess) if where[i][j] in some else "–" for some in found[1:]]
        panel.text(j, i + 0.27, " · ".join(others), ha="center", va="center", fontsize=8.5, color=ink)
    panel.set_xticks(range(len(dimensions)), labels=[f"D = {D}" for D in dimensions])
    panel.set_yticks(range(len(rows)), labels=[str(r) for r in rows])
    panel.set_ylabel("rows of each owner")
    panel.set_title(f"{owners} owners, noise {noise:g}", fontsize=11)
    panel.tick_params(length=0)
    panel.spines[:].set_visible(False)
    panel.set_xticks(np.arange(len(dimensions) - 1) + 0.5, minor=True)
    panel.set_yticks(np.arange(len(rows) - 1) + 0.5, minor=True)
    panel.grid(which="minor", color="white", linewidth=2)
    panel.tick_params(which="minor", length=0)


def number(value: float, digits: int = 2) -> str:
    """No minus before nothing."""
    if np.isnan(value):
        return "–"
    short = f"{value:.{digits}f}"
    return short.removeprefix("-") if float(short) == 0 else short
