"""Tables of docs/benchmarks.md: how fast, from kept results of speed.py, guard.py and gpu.py.

    python benchmarks/speed.py --json benchmarks/results/speed.json
    python benchmarks/guard.py --json benchmarks/results/guard.json
    python benchmarks/gpu.py --json benchmarks/results/gpu.json
    python benchmarks/pages.py

guard-before.json has rows of today's guard over the sources of the commit before it: `PYTHONPATH` has these, and
RECYCLEGP_COMMIT says which they are. Rows of commands are left out (`--only`): that version starts them otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import guard_rows
import speed_rows
from gpu import LIMITS
from pages import RESULTS, Column, read, table
from speed_rows import markdown, shown

Found = Mapping[str, Any]

GUARD: list[Column] = [
    ("what", "what", ""),
    ("found", lambda row: f"{row.found:,.4g}", ">"),
    ("limit", lambda row: f"{row.sign} {row.limit:,g}", ">"),
    ("", lambda row: "ok" if row.holds else "LOST", ""),
    ("wanted", lambda row: "" if row.target is None else f"{row.sign} {row.target:,g}", ">"),
    ("", "verdict", ""),
]
WHOLE: list[Column] = [
    ("rows", lambda row: f"{row.sizes['K'] * row.sizes['n']:,}", ">"),
    ("K", lambda row: f"{row.sizes['K']:,}", ">"),
    ("fit", lambda row: shown(row.raw["fit"]), ">"),
    ("merge", lambda row: shown(row.raw["merge"]), ">"),
    ("M", lambda row: row.raw["M"], "d"),
    ("predict 10,000", lambda row: shown(row.raw["predict"]), ">"),
    ("NLPD above the oracle", lambda row: row.raw["excess"], ".4f"),
    ("peak memory", lambda row: f"{row.raw['peak_mib']:.0f} MiB", ">"),
    ("of which imports", lambda row: f"{row.raw['import_mib']:.0f} MiB", ">"),
]
COSTS = [column for column in WHOLE if column[0] not in ("M", "NLPD above the oracle")]
GPU: list[Column] = [
    ("work", "work", ""),
    ("seconds", "seconds", ".2f"),
    ("limit", "limit", ""),
    ("", "verdict", ""),
    ("CPU cores beside it", "cpu", ""),
    ("ratio", "ratio", ""),
]


def run(said: Found, python: str = "") -> str:
    """Command, commit and machine, in a sentence above a table."""
    machine = said.get("machine", said)
    if "command" not in machine:
        return f"`{python}`, at a commit that was not written down."
    words = [f"`{machine['command']}` at commit {machine['commit']}"]
    if threads := machine.get("torch_threads"):
        words.append(f"{threads} thread{'s' * (threads > 1)}")
    words += [f"{machine['cores']} cores", f"torch {machine['torch']}"]
    if load := said.get("load_per_minute"):
        words.append(f"load {min(load):.1f} to {max(load):.1f}")
    short = " A short run, of small sizes: not to be quoted." * bool(said.get("options", {}).get("quick"))
    return ", ".join(words) + "." + short


def speed_rows_of(said: Found) -> list[speed_rows.Row]:
    return [speed_rows.Row.from_dict(row) for row in said["rows"]]


def guard_rows_of(said: Found) -> list[guard_rows.Row]:
    return [guard_rows.Row(**{field: row[field] for field in guard_rows.Row._fields}) for row in said["rows"]]


def speed(said: Found) -> str:
    """With a note on each row that has one."""
    rows = speed_rows_of(said)
    notes = [f"- *{row.name}* / *{row.against}*: {row.note}" for row in rows if row.note and row.section != "whole"]
    return "\n\n".join([run(said), markdown(rows), "\n".join(notes)])


def whole(said: Found, columns: list[Column]) -> str:
    rows = {tuple(row.sizes.values()): row for row in speed_rows_of(said) if "peak_mib" in row.raw}
    return f"{run(said)}\n\n{table(columns, rows.values())}"


def guard(said: Found) -> str:
    return f"{run(said)}\n\n{table(GUARD, guard_rows_of(said))}"


def before(said: Found) -> str:
    """What the guard says of an earlier version: the rows that are lost."""
    rows = guard_rows_of(said)
    lost = [row for row in rows if not row.holds]
    return f"{run(said)} {len(lost)} of {len(rows)} rows are lost:\n\n{table(GUARD[:4], lost)}"


def gpu(said: Found) -> str:
    """What has a limit, and the same work on the CPU cores beside it, where that was measured."""
    whole = said["whole"]
    rows: list[dict[str, Any]] = []
    for name in ("fit", "merge"):
        rows.append(_limited(name, f"{name} of {whole['modules']:,} × {whole['rows']} rows", whole[name]))
        if beside := said.get("whole, cpu"):
            rows[-1] |= _beside(whole[name], beside[name] * whole["modules"] / beside["modules"])
    if exact := said.get("exact fits"):
        rows.append(_row(f"exact fits of {exact['modules']:,} × {exact['rows']} rows", exact["seconds"]))
        if beside := said.get("exact fits, cpu"):
            rows[-1] |= _beside(exact["seconds"], beside["seconds"] * exact["modules"] / beside["modules"])
    if exact := said.get("exact merge"):
        work = f"exact merge of {exact['pseudo-observations']:,} pseudo-observations, kernel learned"
        rows.append(_limited("exact merge", work, exact["seconds"]))
    command = "python benchmarks/gpu.py --json benchmarks/results/gpu.json"
    return f"{said['device']}. {run(said, command)}\n\n{table(GPU, rows)}"


def _row(work: str, seconds: float) -> dict[str, Any]:
    return {"work": work, "seconds": seconds, "limit": "", "verdict": "", "cpu": "", "ratio": ""}


def _limited(name: str, work: str, seconds: float) -> dict[str, Any]:
    verdict = "ok" if seconds <= LIMITS[name] else "LOST"
    return _row(work, seconds) | {"limit": f"≤ {LIMITS[name]:g}", "verdict": verdict}


def _beside(here: float, there: float) -> dict[str, str]:
    return {"cpu": shown(there), "ratio": f"{there / here:.1f}×"}


def in_short(said: Found) -> str:
    """A merge beside its rival, and the largest data that were run from rows to predictions; of a short run nothing."""
    if said["options"]["quick"]:
        return ""
    rows = speed_rows_of(said)
    vem = next(row for row in rows if row.against == "VEM, published rates")
    large = max((row for row in rows if "peak_mib" in row.raw), key=lambda row: row.sizes["K"] * row.sizes["n"])
    threads = said["machine"]["torch_threads"]
    return (
        f"merging 50 modules takes {shown(vem.ours)}, {'more than ' * vem.bounded}{speed_rows.digits(vem.ratio or 0)} "
        f"times less than variational EM as published; {large.sizes['K'] * large.sizes['n']:,} rows take "
        f"{shown(large.ours)} from fits to predictions ({threads} thread{'s' * (threads > 1)})"
    )


def pages() -> dict[str, dict[str, str]]:
    kept = {name: read(RESULTS / f"{name}.json") for name in ("speed", "guard", "guard-before", "gpu")}
    return {
        "benchmarks.md": {
            "speed": speed(kept["speed"]),
            "whole": whole(kept["speed"], WHOLE),
            "guard": guard(kept["guard"]),
            "guard before": before(kept["guard-before"]),
            "gpu": gpu(kept["gpu"]),
        },
        "howto-big-data.md": {"costs": whole(kept["speed"], COSTS)},
    }
