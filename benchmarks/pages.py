"""Pages of the documentation from measured results: tables between markers, prose around them.

    python benchmarks/pages.py [--check]

writes the tables of all pages anew from the files in benchmarks/results, or says which pages differ from them. What
stands between the lines `<!--=name-->` and `<!--/-->` is written by a program; all else on a page is written by hand,
and has no numbers that another run would change.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogFormatter

from plot_pictures import shrink
from recyclegp.experiments.figures import grid
from recyclegp.plot import style

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = Path(__file__).parent / "results"
MARKED = re.compile("<!--=(.+?)-->.*?<!--/-->", flags=re.DOTALL)
# each has pages(), a dictionary of pages with the texts of their markers, made from the files in results
BENCHMARKS = (
    "where_merging_loses",
    "what_leaks",
    "private_answers",
    "robustness",
    "scaling",
    "calibrate",
    "speed_page",
    "wards",
    "in_short",
    "experiments_page",
)
PARTLY = {"experiments.md"}  # other tables of it are of runs that are not kept

Column = tuple[str, Any, str]  # title, key or function of a row, format; those without a format are text


# of a figure: series (label, x, y, and how they are drawn), and what Axes.set is given
Panel = tuple[Sequence[tuple[str, Any, Any, dict[str, Any]]], Mapping[str, Any]]


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def write(file: Path, found: Any) -> None:
    """Rows one below the other, so that two runs can be compared line by line."""

    def text(some: Any) -> str:
        one = partial(json.dumps, ensure_ascii=False, allow_nan=False)
        return "[\n" + ",\n".join(map(one, some)) + "\n]" if isinstance(some, list) else one(some)

    named = isinstance(found, dict) and ",\n".join(f"{json.dumps(name)}: {text(some)}" for name, some in found.items())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text((f"{{{named}}}" if named else text(found)) + "\n", encoding="utf-8")


def rounded(found: Any, form: str) -> Any:
    """As it is written, so that a page made from the file is the page made from the run."""
    return json.loads(json.dumps(found), parse_float=lambda number: float(format(float(number), form)))


def table(columns: Sequence[Column], rows: Iterable[Any]) -> str:
    """In Markdown."""
    lines = [[title for title, _, _ in columns], *([_cell(row, *c[1:]) for c in columns] for row in rows)]
    head, *body = ("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join([head, "|" + "".join("--:|" if form else "---|" for *_, form in columns), *body])


def _cell(row: Any, key: Any, form: str) -> str:
    value = key(row) if callable(key) else row[key] if isinstance(row, Mapping) else getattr(row, key)
    return "–" if value is None else value if isinstance(value, str) else format(value, form)


def filled(text: str, values: Mapping[str, str]) -> str:
    """The page with these texts between its markers; what has no new text stays as it is."""
    if unknown := set(values) - set(MARKED.findall(text)):
        raise ValueError(f"the page has no marker for {', '.join(sorted(unknown))}")

    def new(found: re.Match[str]) -> str:
        name = found[1]
        return f"<!--={name}-->\n\n{values[name]}\n\n<!--/-->" if name in values else found[0]

    return MARKED.sub(new, text)


def publish(folder: Path, pages: Mapping[str, Mapping[str, str]], partly: bool = False) -> None:
    """Pages that the folder does not have begin as those of the documentation. No page mixes two runs by mistake."""
    for page, values in pages.items():
        own = folder / page
        text = (own if own.exists() else DOCS / page).read_text(encoding="utf-8")
        missing = set(MARKED.findall(text)) - set(values)
        if missing and not (partly or page in PARTLY):
            raise SystemExit(f"{page} is not written: this run did not measure {', '.join(sorted(missing))}")
        folder.mkdir(parents=True, exist_ok=True)
        own.write_text(filled(text, values), encoding="utf-8")


def show(pages: Mapping[str, Mapping[str, str]]) -> None:
    for page, values in pages.items():
        print(f"# {page}")
        for name, value in values.items():
            print(f"\n{name}:\n\n{value}")


def show_or_publish(pages: Mapping[str, Mapping[str, str]], folder: Path | None) -> None:
    """Sections of pages, in the terminal or in a folder where other runs have written the rest."""
    if folder is None:
        show(pages)
    else:
        publish(folder, pages, partly=True)


def figure(panels: Sequence[Panel], columns: int, size: tuple[float, float]) -> Figure:
    """Panels of this size in inches, of the same series, which are explained once, below."""
    rows = -(-len(panels) // columns)
    drawn = Figure(figsize=(size[0] * columns, size[1] * rows + 0.6), layout="constrained")
    axes = style.first(drawn.subplots(rows, columns, squeeze=False, sharex=True, sharey=True), len(panels))
    for ax, (series, how) in zip(axes, panels, strict=True):
        for (label, x, y, look), colour in zip(series, cycle(style.PALETTE)):  # which never ends
            ax.plot(x, y, label=label, **{"color": colour, "linewidth": 1.4, "markersize": 4, "zorder": 3} | look)
        title = how.get("title")
        style.tidy(ax, title, **{name: value for name, value in how.items() if name != "title"})
        ax.minorticks_off()
        _plain(ax)
        grid(ax, "y")
        ax.label_outer()
    explain(drawn, axes[0])
    return drawn


def _plain(ax: Axes) -> None:
    """0.1 and 100 are easier to read than powers of ten, unless numbers are very large."""
    for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        if isinstance(axis.get_major_formatter(), LogFormatter) and max(limits) < 1e5:
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def explain(drawn: Figure, ax: Axes) -> None:
    """What the lines of all panels are, once, below them."""
    lines, labels = ax.get_legend_handles_labels()
    drawn.legend(lines, labels, loc="outside lower center", ncols=min(5, len(labels)), fontsize=9, frameon=False)


def save(figure: Figure, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        raw = Path(folder) / file.name
        figure.savefig(raw, dpi=140)
        shrink(raw, file)


def kept() -> dict[str, dict[str, str]]:
    """All pages, as the kept results have them."""
    return {page: values for name in BENCHMARKS for page, values in import_module(name).pages().items()}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing: name the pages that differ")
    check, pages = parser.parse_args(arguments).check, kept()
    if not check:
        publish(DOCS, pages)
    texts = {page: (DOCS / page).read_text(encoding="utf-8") for page in pages}
    differ = [page for page, values in pages.items() if filled(texts[page], values) != texts[page]]
    if differ:
        raise SystemExit(f"not as in benchmarks/results: {', '.join(differ)}")


if __name__ == "__main__":
    main()
