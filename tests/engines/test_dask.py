"""A real cluster of worker processes: the same ensemble, whoever dies meanwhile."""

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("distributed")

import dask
from dask import delayed
from distributed import Client, LocalCluster

import recyclegp as rgp
from cases_partitions import (
    X_NEW,
    Z,
    loaders,
    names,
    pair,
    pairs,
    parquet,
    plain,
    plan,
    same_bits,
    states,
    table,
)
from recyclegp.engines import joblib

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

OPTIONS = {"publish": 6, "merge": {"inducing": 10}}
SUPPORT = Path(__file__).parents[1] / "support"


@pytest.fixture(scope="module")
def cluster():
    """Of two processes; a task that ends two of them is given up."""
    patience = dask.config.set({"distributed.scheduler.allowed-failures": 1})
    with patience, LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", processes=True) as made:
        yield made


@pytest.fixture
def client(cluster):
    with Client(cluster, timeout=30) as made:
        made.wait_for_workers(2, timeout=60)
        yield made


@pytest.fixture(scope="module")
def expected():
    """Made by one process."""
    return joblib.fit_partitions(pairs(), jobs=1, per_task=1, **OPTIONS)


def run(client, partitions, **options):
    return rgp.engines.dask.fit_partitions(client, partitions, progress=False, **{**OPTIONS, "per_task": 1, **options})


def test_the_bits_of_one_process(client, expected):
    assert same_bits(run(client, pairs()), expected)


def test_the_answer_of_fit_many_and_merge(client):
    agreed = {"inducing": Z, "kernel": plan()["kernel"], "learn": False}
    ours = rgp.engines.dask.fit_partitions(client, pairs(), merge=agreed, **plan())
    theirs = plain(pairs(), plan(), agreed)
    for a, b in zip(ours.predict(X_NEW), theirs.predict(X_NEW), strict=True):
        assert abs(a - b).max() < 1e-8
    assert ours.evidence == pytest.approx(theirs.evidence, rel=1e-10)


def test_all_forms_of_partitions(client, tmp_path, expected):
    import dask.dataframe as dd

    assert same_bits(run(client, [delayed(pair)(k) for k in range(12)]), expected)
    assert same_bits(run(client, loaders()), expected)
    by_file = run(client, parquet(tmp_path / "rows"), target="y", names=names())
    lazily = dd.from_map(table, range(12))
    assert same_bits(run(client, lazily, target="y"), by_file)
    assert same_bits(run(client, lazily.persist(), target="y"), by_file)
    assert same_bits(joblib.fit_partitions(lazily, jobs=1, target="y", per_task=1, **OPTIONS), by_file)


def test_tasks_have_names_that_the_dashboard_shows(client):
    run(client, pairs())
    seen = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes))
    assert {"fit", "points", "evidence", "evidence-gradient", "slack", "fold", "agreement"} <= set(seen)


def test_errors_arrive_as_they_are(client):
    with pytest.raises(rgp.RecycleGPError, match=r"partition 1 \(part-1\): a partition was loaded as a int"):
        run(client, [pair(0), lambda: 3])


# --- somebody dies ----------------------------------------------------------------------------


def kill_one_when(client, happened):
    """A thread that ends one worker, once something has happened; it says which process it was, and when."""
    killed = []

    def wait():
        while not happened():
            time.sleep(0.02)
        pids = client.run(os.getpid)
        killed.append(next(iter(pids.values())))
        os.kill(killed[0], signal.SIGKILL)
        killed.append(time.monotonic())

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    return thread, killed


@pytest.mark.parametrize("chunks", [2, 12])
def test_a_worker_that_is_killed_changes_nothing(client, tmp_path, expected, chunks):
    """While others are fitted, or once all are: then while the merge goes on."""
    before = set(client.run(os.getpid).values())
    thread, killed = kill_one_when(client, lambda: len(states(tmp_path)) >= chunks)
    ours = run(client, loaders(seconds=0.2), folder=tmp_path)
    ended = time.monotonic()
    thread.join(timeout=60)
    process, when = killed
    assert process in before
    assert when < ended
    assert same_bits(ours, expected)
    assert len(states(tmp_path)) == 12
    assert not list(tmp_path.glob(".*"))


def test_a_task_that_ends_every_worker_is_given_up(client):
    with pytest.raises(rgp.RecycleGPError, match=r"task 'fit' was given up.*per_task"):
        run(client, [partial(os._exit, 1)])


CLIENT = """
import sys
import warnings
warnings.simplefilter("ignore")
from distributed import Client
from cases_partitions import loaders
from recyclegp.engines.dask import fit_partitions
if __name__ == "__main__":
    with Client(sys.argv[1], timeout=30) as client:
        fit_partitions(client, loaders(seconds=0.5), folder=sys.argv[2], per_task=1, publish=6, merge={"inducing": 10})
"""


def test_a_client_that_is_killed_is_resumed(cluster, client, tmp_path, expected):
    script, folder = tmp_path / "client.py", tmp_path / "modules"
    script.write_text(CLIENT)
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), *filter(None, sys.path)])}
    process = subprocess.Popen([sys.executable, str(script), cluster.scheduler_address, str(folder)], env=environment)
    try:
        deadline = time.monotonic() + 120
        while len(states(folder)) < 3:
            assert process.poll() is None, "the client ended by itself"
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait(timeout=30)
    while any(client.processing().values()):  # what was being fitted may still be finished
        assert time.monotonic() < deadline
        time.sleep(0.1)
    written = states(folder)
    assert 3 <= len(written) < 12
    assert same_bits(run(client, loaders(), folder=folder), expected)
    assert {name: when for name, when in states(folder).items() if name in written} == written
    assert len(states(folder)) == 12
