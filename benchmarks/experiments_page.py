"""The tables of docs/experiments.md from the results of `recyclegp experiment all --full -o DIR`.

    python benchmarks/experiments_page.py DIR [--docs docs]

Everything but the explanations comes from the rows: nobody's victory is written down by hand. Two tables are of kept
results, and written by `python benchmarks/pages.py`: those of `authors_modules` and `groups_page`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import authors_modules
import groups_page
from pages import Column, publish, read
from pages import table as markdown
from plot_pictures import shrink
from recyclegp.experiments import groups
from recyclegp.experiments.registry import EXPERIMENTS, MANY

OURS = ("merged", "pyramid", "update", "add, relearned")
CENTRAL = ("central", "refit", "oracle")
TIE = 5e-4  # nats per point: closer than this nobody has won
PAGE = "experiments.md"
# the figures and the files have all of them
CASES = {"stream": ("after 1", "after 2", "after 5", "after 10"), "drift": ("mean",)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()
    values: dict[str, str] = {}
    (options.docs / "figures").mkdir(parents=True, exist_ok=True)
    for name in EXPERIMENTS:
        folder = options.results / name
        if not (folder / "results.json").exists():
            print(f"{name}: no {folder / 'results.json'}; left as it was")
            continue
        result = read(folder / "results.json")
        values |= {name: introduction(name, result), f"{name}: results": tables(name, result)}
        if result["figure"]:
            shrink(folder / result["figure"], options.docs / "figures" / f"{name}.png")
    publish(options.docs, {PAGE: values}, partly=True)


def pages() -> dict[str, dict[str, str]]:
    """What is made of kept results."""
    return {PAGE: authors_modules.values(read(authors_modules.KEPT)) | groups_page.values(read(groups_page.KEPT))}


def introduction(name: str, result: dict[str, Any]) -> str:
    quick = "" if result["full"] else " **This was a quick run.**"
    threads = f" of {result['threads']} threads" * (result["threads"] > 1)
    return f"{EXPERIMENTS[name].explanation}{quick} {result['seconds'] / 60:.1f} minutes{threads}."


def tables(name: str, result: dict[str, Any]) -> str:
    if name == MANY:
        picture = f"![{result['title']}](figures/{name}.png)"
        return "\n".join([picture, "", one_line_each(result["rows"]), "", *(f"- {n}" for n in result["notes"])])
    text = ""
    for case in dict.fromkeys(row["case"] for row in result["rows"]):
        if case.endswith(CASES.get(name, "")):
            rows = [row for row in result["rows"] if row["case"] == case]
            text += f"### {case}\n\n{verdict(rows)}\n\n{table(rows)}\n\n"
    return (text + "\n".join(f"- {note}" for note in result["notes"])).rstrip()


def one_line_each(rows: list[dict[str, Any]]) -> str:
    """A data set in each line, with the NLPD of every model."""
    by_case: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        by_case.setdefault(row["case"], {})[row["model"]] = row

    def of(model: str, key: str) -> Any:
        return lambda models: models.get(model, {}).get(key)

    def difference(models: dict[str, dict[str, Any]]) -> float | None:
        ours, own = (of(name, "nlpd")(models) for name in (groups.MERGED, groups.ALONE))
        return None if ours is None or own is None else ours - own

    columns: list[Column] = [
        ("set", lambda models: next(iter(models.values()))["case"], ""),
        ("what", of(groups.MERGED, "note"), ""),
        ("**merged**", of(groups.MERGED, "nlpd"), ".3f"),
        ("each alone", of(groups.ALONE, "nlpd"), ".3f"),
        ("merged − alone", difference, "+.3f"),
        ("plain merge", of(groups.PLAIN, "nlpd"), ".3f"),
        ("pooled GP", of(groups.POOLED, "nlpd"), ".3f"),
        ("mixed linear", of(groups.LINEAR, "nlpd"), ".3f"),
        ("95%", of(groups.MERGED, "coverage"), ".3f"),
        ("95%, new owner", of(groups.STRANGER, "coverage"), ".3f"),
    ]
    return markdown(columns, by_case.values())


def verdict(rows: list[dict[str, Any]]) -> str:
    """Who is better than the best of ours, and by how much."""
    scored = [r for r in rows if r["nlpd"] is not None]
    ours = [r for r in scored if r["model"].startswith(OURS)]
    if not ours:
        return ""
    best = min(ours, key=lambda r: r["nlpd"])
    behind = {r["model"]: best["nlpd"] - r["nlpd"] for r in scored if r is not best}
    oracle = behind.pop("oracle", None)
    said = f"Best of ours: {best['model']}, {best['nlpd']:.4f}"
    said += "." if oracle is None else f", {oracle:.4f} above the oracle."
    better = [f"{model} ({nats:.4f})" for model, nats in sorted(behind.items(), key=lambda b: -b[1]) if nats > TIE]
    level = [model for model, nats in behind.items() if abs(nats) <= TIE]
    if better:
        said += f" **Lower NLPD, by so many nats per point:** {'; '.join(better)}."
    elif not all(model.startswith((*OURS, *CENTRAL)) for model in behind):
        said += " Nobody is better by more than half a thousandth of a nat."
    return said + (f" Level within that: {'; '.join(level)}." if level else "")


def table(rows: list[dict[str, Any]]) -> str:
    several, classes = (any(r[key] is not None for r in rows) for key in ("nlpd_sd", "error"))
    on = "/".join(dict.fromkeys(r["on"] for r in rows))
    columns: list[Column] = [
        ("model", lambda r: f"**{r['model']}**" if r["model"].startswith(OURS) else r["model"], ""),
        ("NLPD", "nlpd", ",.4f"),
        *([("± sd", "nlpd_sd", ",.4f")] if several else []),
        (f"RMSE of {on}", "rmse", ",.4f"),
        (f"MAE of {on}", "mae", ",.4f"),
        ("errors", "error", ",.4f") if classes else ("95%", "coverage", ",.3f"),
        ("fit s", "fit_seconds", ",.2f"),
        ("predict s", "predict_seconds", ",.2f"),
        ("bytes", "bytes", ",.0f"),
        ("M", lambda r: r["points"] or "", "d"),
        ("note", "note", ""),
    ]
    return markdown(columns, rows)


if __name__ == "__main__":
    main()
