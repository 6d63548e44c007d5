"""Pages of the documentation from measured results: tables and numbers between markers, prose around them.

    python benchmarks/pages.py [--check]

writes the tables of all pages anew from the files in benchmarks/results, or says which pages differ from them. What
stands between `<!--=name-->` and `<!--/-->` is written by a program; all else on a page is written by hand. A marker
that begins a line holds a table or other paragraphs; one within a line holds a number.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.figure import Figure

from plot_pictures import shrink

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = Path(__file__).parent / "results"
MARKED = re.compile("<!--=(.+?)-->.*?<!--/-->", flags=re.DOTALL)
# each has pages(), a dictionary of pages with the texts of their markers, made from the files in results
BENCHMARKS = ("where_merging_loses", "what_leaks", "robustness", "scaling", "calibrate")

Column = tuple[str, str | Callable[[Any], Any], str]


# --- results ------------------------------------------------------------------------------------


def read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def write(file: Path, found: Any) -> None:
    """Rows one below the other, so that two runs can be compared line by line."""
    named = {"": found} if isinstance(found, list) else found
    parts = [(f"{json.dumps(name)}: " if name else "") + _listed(some) for name, some in named.items()]
    text = ",\n".join(parts)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text((text if isinstance(found, list) else f"{{{text}}}") + "\n", encoding="utf-8")


def _listed(some: Any) -> str:
    if not isinstance(some, list):
        return json.dumps(some, ensure_ascii=False, allow_nan=False)
    return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False, allow_nan=False) for row in some) + "\n]"


def rounded(value: Any, form: str) -> Any:
    """As it is written, so that a page made from the file is the page made from the run."""
    if isinstance(value, dict):
        return {key: rounded(one, form) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(one, form) for one in value]
    return float(format(value, form)) if isinstance(value, float) else value


# --- pages --------------------------------------------------------------------------------------


def table(columns: Sequence[Column], rows: Iterable[Any]) -> str:
    """In Markdown. Columns are (title, key or function of a row, format); those without a format are text."""
    lines = [[title for title, _, _ in columns], *([_cell(row, *c[1:]) for c in columns] for row in rows)]
    head, *body = ("| " + " | ".join(line) + " |" for line in lines)
    return "\n".join([head, "|" + "".join("--:|" if form else "---|" for *_, form in columns), *body])


def _cell(row: Any, key: str | Callable[[Any], Any], form: str) -> str:
    value = key(row) if callable(key) else row[key] if isinstance(row, Mapping) else getattr(row, key)
    return "–" if value is None else value if isinstance(value, str) else format(value, form)


def names(text: str) -> list[str]:
    return MARKED.findall(text)


def filled(text: str, values: Mapping[str, str]) -> str:
    """The page with these texts at its markers; what has no new text stays as it is."""
    unknown = set(values) - set(names(text))
    if unknown:
        raise ValueError(f"the page has no marker for {', '.join(sorted(unknown))}")

    def new(found: re.Match[str]) -> str:
        if found[1] not in values:
            return found[0]
        around = "\n\n" if text[: found.start()].endswith("\n") else ""
        return f"<!--={found[1]}-->{around}{values[found[1]]}{around}<!--/-->"

    return MARKED.sub(new, text)


def publish(folder: Path, pages: Mapping[str, Mapping[str, str]], partly: bool = False) -> None:
    """Pages that the folder does not have begin as those of the documentation. No page mixes two runs by mistake."""
    for page, values in pages.items():
        own = folder / page
        text = (own if own.exists() else DOCS / page).read_text(encoding="utf-8")
        missing = set(names(text)) - set(values)
        if missing and not partly:
            raise SystemExit(f"{page} is not written: this run did not measure {', '.join(sorted(missing))}")
        folder.mkdir(parents=True, exist_ok=True)
        own.write_text(filled(text, values), encoding="utf-8")


def show(pages: Mapping[str, Mapping[str, str]]) -> None:
    for page, values in pages.items():
        print(f"# {page}")
        for name, value in values.items():
            print(f"\n{name}:\n\n{value}" if "\n" in value else f"{name}: {value}")


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
