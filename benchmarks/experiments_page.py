"""The tables of docs/experiments.md from the results of `recyclegp experiment all --full -o DIR`.

    python benchmarks/experiments_page.py DIR [--docs docs]

Everything but the explanations comes from the rows: nobody's victory is written down by hand.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from pages import Column, publish, read
from pages import table as markdown
from plot_pictures import shrink
from recyclegp.experiments.registry import EXPERIMENTS

OURS = ("merged", "pyramid", "update", "add, relearned")
CENTRAL = ("central", "refit", "oracle")
TIE = 5e-4  # nats per point: closer than this nobody has won
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
        values["threads"] = "one thread" if result["threads"] == 1 else f"{result['threads']} threads"
        if result["figure"]:
            shrink(folder / result["figure"], options.docs / "figures" / f"{name}.png")
    publish(options.docs, {"experiments.md": values}, partly=True)


def introduction(name: str, result: dict[str, Any]) -> str:
    quick = "" if result["full"] else " **This was a quick run.**"
    return f"{EXPERIMENTS[name].explanation}{quick} {result['seconds'] / 60:.1f} minutes."


def tables(name: str, result: dict[str, Any]) -> str:
    text = ""
    for case in dict.fromkeys(row["case"] for row in result["rows"]):
        if case.endswith(CASES.get(name, "")):
            rows = [row for row in result["rows"] if row["case"] == case]
            text += f"### {case}\n\n{verdict(rows)}\n\n{table(rows)}\n\n"
    return (text + "\n".join(f"- {note}" for note in result["notes"])).rstrip()


def verdict(rows: list[dict[str, Any]]) -> str:
    """Who is better than the best of ours, and by how much."""
    scored = [r for r in rows if r["nlpd"] is not None]
    ours = [r for r in scored if r["model"].startswith(OURS)]
    if not ours:
        return ""
    best = min(ours, key=lambda r: r["nlpd"])
    better = [r for r in scored if r["nlpd"] < best["nlpd"] - TIE and r["model"] != "oracle"]
    better.sort(key=lambda r: r["nlpd"])
    level = [r for r in scored if abs(r["nlpd"] - best["nlpd"]) <= TIE and r["model"] not in ("oracle", best["model"])]
    rivals = [r for r in scored if not r["model"].startswith((*OURS, *CENTRAL))]
    said = f"Best of ours: {best['model']}, {best['nlpd']:.4f}"
    oracle = next((r for r in rows if r["model"] == "oracle"), None)
    said += f", {best['nlpd'] - oracle['nlpd']:.4f} above the oracle. " if oracle else ". "
    if better:
        listed = "; ".join(f"{r['model']} ({best['nlpd'] - r['nlpd']:.4f})" for r in better)
        said += f"**Lower NLPD, by so many nats per point:** {listed}. "
    elif rivals:
        said += "Nobody is better by more than half a thousandth of a nat. "
    if level:
        said += f"Level within that: {'; '.join(r['model'] for r in level)}."
    return said.strip()


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
