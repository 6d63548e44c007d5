"""What README.md, the home page and the page for ethics boards say of measurements, in a few sentences.

`python benchmarks/pages.py` writes them between markers, from the kept results, as it writes the tables of other pages.
"""

from __future__ import annotations

from typing import Any

import calibration_page
import leak_page
import robustness_page
import speed_page
import units
from pages import RESULTS, read

MOST_INPUTS = 16  # of the cases that are hard for another reason than few rows


def loses(run: dict[str, Any]) -> str:
    """How often a merge is worse than one model of all rows, and where."""
    found = calibration_page.cells(run, run["references"])
    lost = calibration_page.losing(found)
    dimension, rows = (lost.index.get_level_values(name) for name in ("dimension", "rows"))
    few = rows[dimension < MOST_INPUTS].max()
    where = f"owners with at most {few} rows" + f", or {MOST_INPUTS} inputs" * bool((dimension >= MOST_INPUTS).any())
    return (
        f"of {len(found)} cases from easy to hopeless, {len(lost)} lose more than {calibration_page.LOSS:g} nats per "
        f"point: {where}. The median costs {found.excess.median():.3f}, the worst {found.excess.max():.2f}. "
        f"Its 95% intervals hold {found.coverage.mean():.1%} of new observations in the mean"
    )


def finds(outcomes: list[dict[str, Any]], tables: list[dict[str, Any]]) -> str:
    """How many wrong modules screening finds, as long as most modules are right."""
    found = {cell["part"]: cell for cell in robustness_page.cells(robustness_page.excess(outcomes), "part")}
    cell = found[robustness_page.PARTS[1]]
    accused = f"{cell['accused']:.2%}" if cell["accused"] else "none"
    return (
        f"where at most {robustness_page.TOLERABLE:.0%} of the modules are wrong, {cell['found']:.1%} of these are "
        f"found ({told(tables)}), and {accused} of the honest ones are accused"
    )


def told(rows: list[dict[str, Any]]) -> str:
    """What happens on real tables where one of five owners has measured in another unit."""
    wrong = [row for row in rows if row["kind"] in units.KINDS]
    return f"of {len(wrong)} wrong units on real tables, {sum(row['flagged'] or row['asked'] for row in wrong)}"


def leaks(run: dict[str, Any]) -> str:
    """What the best attack found in tables of people: people among a hundred of them."""
    found = leak_page.patients(run["patients"])
    worst = {kind: 100 * found[found.kind == kind].best_caught.max() for kind in ("people", "kept")}
    return (
        "Whoever may wrongly suspect one outsider in a hundred finds 1 in 100 of the people in a table by guessing. "
        f"In {found.table.nunique()} tables the best attack on files made with `--people` found at most "
        f"{worst['people']:.1f} in 100; without that option, up to {worst['kept']:.0f}."
    )


def pages() -> dict[str, dict[str, str]]:
    lost = loses(read(RESULTS / "calibration-auto.json"))
    screened = finds(read(RESULTS / "robustness.json"), read(RESULTS / "units.json"))
    fast = speed_page.in_short(read(RESULTS / "speed.json"))
    attacked = leaks(read(RESULTS / "what-leaks.json"))

    def text(folder: str) -> str:
        speed = f"\n- **Speed**: {fast} ([benchmarks]({folder}benchmarks.md))." if fast else ""
        return (
            f"- **Against one model of all rows**, in [nats]({folder}glossary.md#nats): {lost} "
            f"([where merging loses]({folder}calibration.md)).\n"
            f"- **Against modules that are wrong**: {screened} ([robustness]({folder}robustness.md)).{speed}"
        )

    short = {"../README.md": {"in short": text("docs/")}, "index.md": {"in short": text("")}}
    return short | {"data-protection.md": {"measured": attacked}}
