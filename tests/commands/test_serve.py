"""recyclegp serve: the page as a command, from its address to Ctrl-C, and what it says where it cannot."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
import webbrowser

import numpy as np
import pytest

import cases_serve as cases
import recyclegp as rgp
from cases_bad import one_line
from cases_cli import call, ok, written
from cases_joint import outputs

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from recyclegp.extras import install
from recyclegp.serve import server

MOST_SECONDS = 5.0  # from Ctrl-C to the end, on a machine that has nothing else to do


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve")
    (folder / "parts").mkdir()
    for m in cases.modules()[:3]:
        m.save(folder / "parts" / f"{m.name}.safetensors")
    rgp.merge(folder / "parts").save(folder / "city.safetensors")
    cases.table(5, 0, 9).to_csv(folder / "test.csv", index=False)
    return folder


@pytest.fixture
def served(monkeypatch):
    """What would have been served; nothing runs, and nothing is opened."""
    found = []

    class Page:
        address = "http://127.0.0.1:1/token/"

        def run(self):
            found.append("run")

    @contextlib.contextmanager
    def page(serve_state, port, threads):
        found.extend([serve_state, port, threads])
        yield Page()

    monkeypatch.setattr(server, "page", page)
    monkeypatch.setattr(webbrowser, "open", lambda address: found.append(address))
    return found


def test_options_reach_the_page(folder, served):
    said = ok(
        "serve",
        folder / "parts",
        "--port",
        8123,
        "--threads",
        2,
        "--no-open",
        "--trust",
        "none",
        "--no-learn",
        "--json",
    )
    serve_state, port, threads, ran = served
    assert json.loads(said.stdout) == {"address": "http://127.0.0.1:1/token/", "modules": 3}
    assert (port, threads, ran) == (8123, 2, "run")
    assert serve_state.snapshot.settings == ("auto", None, False)
    assert serve_state.snapshot.test is None
    assert [(m.name, s) for m, s, *_ in serve_state.snapshot.held] == [
        (n, f"{n}.safetensors") for n in ("east", "north", "south")
    ]


def test_the_browser_is_opened(folder, served):
    ok("serve", folder / "parts")
    assert "http://127.0.0.1:1/token/" in served


def test_a_test_table_is_read(folder, served):
    ok("serve", folder / "parts", "--test", folder / "test.csv", "--no-open")
    test = served[0].snapshot.test
    assert (len(test.y), list(test.X), test.label) == (60, ["hour"], "test.csv")


def test_a_test_table_may_hold_categories(served, tmp_path):
    rows = cases.table(0, 0, 6).assign(ward=["a", "b"] * 30)[["ward", "hour", "level"]]
    cases.fitted(rows, "m").save(tmp_path / "m.safetensors")
    rows.to_csv(tmp_path / "test.csv", index=False)
    ok("serve", tmp_path / "m.safetensors", "--test", tmp_path / "test.csv", "--no-open")
    serve_state = served[0]
    assert serve_state.snapshot.test.X["ward"].tolist() == rows["ward"].tolist()
    assert serve_state.scores(serve_state.snapshot.usual)["f"].rmse < 0.3


def test_a_test_table_may_have_several_outputs(several, served, tmp_path):
    files = [several / f"{name}.safetensors" for name in ("north", "south")]
    rows = outputs(9, 0, 6)
    rows.loc[::2, "salt"] = np.nan
    path = written(rows, tmp_path / "test.csv")
    ok("serve", *files, "--test", path, "--owners", "none", "--no-open")
    assert list(served[0].snapshot.test.y) == ["heat", "salt"]
    found = served[0].usual()
    expected = rgp.metrics.score_outputs(found.ensemble, rows[["day", "depth"]], rows)
    assert served[0].scores(served[0].snapshot.usual) == expected


def test_ensembles_are_recycled_if_asked(folder, served):
    said = one_line(call("serve", folder / "city.safetensors", "--no-open"))
    assert "city.safetensors: it holds an ensemble, not a module; --recycle takes it as one module" in said
    ok("serve", folder / "city.safetensors", "--recycle", "--no-open")
    assert served[0].snapshot.modules[0].name == "city"


def test_names_that_repeat(folder, served, tmp_path):
    rgp.load(folder / "parts" / "north.safetensors").save(tmp_path / "copy.safetensors")
    files = (folder / "parts" / "north.safetensors", tmp_path / "copy.safetensors")
    assert "copy.safetensors: its module is called 'north', as one of north" in one_line(
        call("serve", *files, "--no-open")
    )
    ok("serve", *files, "--file-names", "--no-open")
    assert [m.name for m in served[0].snapshot.modules] == ["north", "copy"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--test", "absent.csv"], "absent.csv: No such file or directory"),
        (["--test", "TEST", "--target", "height"], "no column 'height'"),
        (["--trust", "maybe"], "--trust maybe: use learn, report or none"),
        (["--port", "99999"], "--port"),
    ],
)
def test_what_is_wrong_is_one_line(folder, served, options, message):
    given = [folder / "test.csv" if o == "TEST" else o for o in options]
    assert message in one_line(call("serve", folder / "parts", "--no-open", *given))
    assert served == []


def test_without_the_extra_it_is_named(folder, monkeypatch):
    monkeypatch.delitem(sys.modules, "recyclegp.serve.server")
    monkeypatch.delattr("recyclegp.serve.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    said = one_line(call("serve", folder / "parts", "--no-open"))
    assert said == f"recyclegp: serve needs uvicorn; {install('serve')}"


def slowness():
    """How many times longer everything takes, because the machine has other things to do."""
    wall, own = time.monotonic(), time.process_time()
    while time.process_time() - own < 0.2:
        sum(range(1000))
    return max(1.0, (time.monotonic() - wall) / (time.process_time() - own))


def asked_in_vain(client):
    with contextlib.suppress(OSError, http.client.HTTPException):
        client.post("api/view", {"choice": {"off": [1]}})


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is a signal")
def test_it_serves_until_ctrl_c(folder):
    program = "from recyclegp.cli import app; app(prog_name='recyclegp')"
    command = [sys.executable, "-c", program, "serve", str(folder / "parts"), "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            client = cases.Client(process.stdout.readline().strip())
            assert [m["name"] for m in client.get("api/about").json()["modules"]] == ["east", "north", "south"]
            assert len(client.post("api/view", {"choice": {"off": [0]}}).json()["rows"]) == 2
            most = MOST_SECONDS * slowness()
            threading.Thread(target=asked_in_vain, args=(client,), daemon=True).start()  # it is at work meanwhile
            process.send_signal(signal.SIGINT)
            start = time.monotonic()
            said, errors = process.communicate(timeout=12 * most)
            assert time.monotonic() - start < most
        finally:
            process.kill()
    assert process.returncode == 0
    assert said == ""
    assert errors.strip() == "3 modules on the page above; Ctrl-C ends it"
