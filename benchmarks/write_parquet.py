"""A folder of Parquet files for benchmarks/cluster.py: rows of many regions, in no order.

    python benchmarks/write_parquet.py FOLDER [--rows N] [--regions N] [--files N] [--seed N]

Columns are x, region and y; a region is an interval of x. One file is in memory at a time.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

WIDTH = 40.0  # of all regions together


def write(folder: Path, rows: int, regions: int, files: int, seed: int) -> None:
    import pyarrow
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    for i in range(files):
        rng = np.random.default_rng([seed, i])
        x = rng.uniform(0, WIDTH, rows * (i + 1) // files - rows * i // files)
        y = np.sin(x) + np.cos(x / 3) + 0.3 * rng.standard_normal(len(x))
        table = pyarrow.table({"x": x, "region": (x / WIDTH * regions).astype(np.int32), "y": y})
        parquet.write_table(table, folder / f"rows-{i:04d}.parquet")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--regions", type=int, default=200)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    write(options.folder, options.rows, options.regions, options.files, options.seed)
