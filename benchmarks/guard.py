"""Has anything become slower, or worse? Ratios, counts and scores that must hold; a lost row ends with exit code 1.

    python benchmarks/guard.py [--only NAME …] [--json FILE]

Times are those that one thread has computed, and are compared only with something that is computed in turn with them in
this process; of several rounds the best counts, and a row that is lost is measured again before it is believed. Limits
leave a margin for a busy machine. Counts need none: how many tensor calls and evaluations a merge makes, how many
Python modules a command imports, how many bytes a file has. Nor do scores, of merges of the same data every time.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from speed import fix_threads, machine

TRIES = 3  # of a ratio, until it is within its limit


def main(arguments: list[str] | None = None) -> int:
    environment = fix_threads(1)

    import torch

    import guard_accuracy
    import guard_counts
    import guard_ratios
    from guard_rows import HEADER, Row

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows: dict[str, Callable[[], Iterator[Row]]] = {**guard_counts.ROWS, **guard_accuracy.ROWS, **guard_ratios.ROWS}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=rows, metavar="NAME", help=", ".join(rows))
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the rows are kept")
    asked = parser.parse_args(arguments)
    begun, lost, kept = time.perf_counter(), 0, []
    print(HEADER, flush=True)
    for name in asked.only or rows:
        found = list(rows[name]())
        for _ in range(TRIES - 1):
            if name not in guard_ratios.ROWS or all(row.holds for row in found):
                break
            found = [a.better(b) for a, b in zip(found, rows[name](), strict=True)]
        for row in found:
            print(row, flush=True)
        kept += [row._asdict() | {"name": name} for row in found]
        lost += sum(not row.holds for row in found)
    if asked.json is not None:
        import pages

        pages.write(asked.json, {"machine": machine(environment, arguments), "rows": kept})
    print(f"{lost} lost, {time.perf_counter() - begun:.0f} s")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
