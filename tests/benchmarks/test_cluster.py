"""benchmarks/cluster.py runs, and says what it has measured."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from write_parquet import write

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "cluster.py"


def test_rows_of_all_regions_are_in_every_file(tmp_path):
    write(tmp_path, 1000, 5, 3, 0)
    files = [pd.read_parquet(path) for path in sorted(tmp_path.iterdir())]
    assert sum(map(len, files)) == 1000
    assert all(set(f["region"]) == set(range(5)) for f in files)


@pytest.mark.slow
def test_the_script(tmp_path):
    pytest.importorskip("distributed")
    pytest.importorskip("psutil")
    out = tmp_path / "found.json"
    command = [sys.executable, SCRIPT, "--only", "overhead", "parquet", "--rounds", "1", "--rows", "6000"]
    command += ["--partitions", "4", "--rows-each", "20"]
    done = subprocess.run([*command, "--json", out], capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())
    assert found["parquet"]["rows"] == 6000
    ours, theirs = found["overhead"]["one_worker"], found["overhead"]["plain"]
    assert ours["evidence"] == pytest.approx(theirs["evidence"], rel=1e-3)
    assert ours["client_peak_mib"] > 0
    assert ours["largest_worker_peak_mib"] > 0
