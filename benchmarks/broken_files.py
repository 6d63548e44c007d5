"""What came of broken files: a table from the record of `make fuzz`.

make fuzz FUZZ_ARGS="--cases 1000000 --record fuzz.jsonl"
python benchmarks/broken_files.py --record fuzz.jsonl --commit ID --json benchmarks/results/fuzz.json
python benchmarks/broken_files.py --show benchmarks/results/fuzz.json [--docs docs]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pages import RESULTS, Column, publish, read, rounded, show, table, write

KINDS = (  # in the order of fuzz_cases.Kind
    "files that are read, and asked for predictions",
    "files that are asked everything else",
    "messages of sums, signatures, key rings, keys, dictionaries",
    "files that are merged with three honest modules, or fewer",
)
NAMES = ("cases", "working", "slowest", "which", "memory", "failed")  # of fuzz_files.Found
COLUMNS: list[Column] = [
    ("what is done with what was changed", "kind", ""),
    ("cases", "cases", ",d"),
    ("refused", lambda row: row["cases"] - row["working"], ",d"),
    ("tracebacks, hangs, or nobody named", lambda row: len(row["failed"]), "d"),
    ("slowest, s of a processor", "slowest", ".2f"),
    ("most memory above idle, MiB", "memory", ".1f"),
]


def summed(blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each kind: cases and failures of all blocks, the slowest case and the most memory of any."""
    kinds = []
    for k, kind in enumerate(KINDS):
        some = [dict(zip(NAMES, block["found"][k], strict=True)) for block in blocks]
        slowest = max(some, key=lambda one: one["slowest"])
        kinds.append(
            {
                "kind": kind,
                "cases": sum(one["cases"] for one in some),
                "working": sum(one["working"] for one in some),
                "failed": sorted(case for one in some for case in one["failed"]),
                "slowest": slowest["slowest"],
                "which": slowest["which"],
                "memory": max(one["memory"] for one in some),
            }
        )
    return kinds


def values(found: dict[str, Any]) -> dict[str, str]:
    kinds = found["kinds"]
    cases, failed = sum(row["cases"] for row in kinds), sum(len(row["failed"]) for row in kinds)
    short = f"**{cases:,} cases, {failed or 'none'} of which failed** (commit {found['commit']})."
    return {"fuzz-short": short, "fuzz": table(COLUMNS, kinds)}


def of_page() -> dict[str, str]:
    """Of the kept result."""
    return values(read(RESULTS / "fuzz.json"))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--record", type=Path, metavar="FILE", help="what make fuzz has recorded")
    source.add_argument("--show", type=Path, metavar="FILE", help="an earlier --json")
    parser.add_argument("--commit", default="not known", help="of which the record is")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the sums")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write the table of robustness.md")
    asked = parser.parse_args(arguments)
    if asked.show:
        found = read(asked.show)
    else:
        blocks = [json.loads(line) for line in asked.record.read_text(encoding="utf-8").splitlines()]
        command = f'make fuzz FUZZ_ARGS="--cases {max(b["last"] for b in blocks)} --record {asked.record.name}"'
        found = {"commit": asked.commit, "command": command, "kinds": rounded(summed(blocks), ".5g")}
    if asked.json:
        write(asked.json, found)
    show({"robustness.md": values(found)})
    if asked.docs:
        publish(asked.docs, {"robustness.md": values(found)}, partly=True)


if __name__ == "__main__":
    main()
