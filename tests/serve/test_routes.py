"""The routes, asked as the page asks, and as it never would."""

import os
import tempfile
import time

import numpy as np
import pandas as pd
import pytest

import cases_serve as cases
import recyclegp as rgp
from hostile_files import GOLDEN, rebuilt, taken_apart

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from recyclegp.serve import app, state


@pytest.fixture(scope="module")
def modules():
    return cases.modules()[:3]


@pytest.fixture
def serve_state(modules):
    return cases.serve_state(modules)


@pytest.fixture
def client(serve_state):
    with cases.running(serve_state) as address:
        yield cases.Client(address)


def saved(model, folder):
    model.save(folder / "m.safetensors")
    return (folder / "m.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("", "text/html"),
        ("page.js", "text/javascript"),
        *((f"{name}.js", "text/javascript") for name in ("owners", "modules", "files", "drawing", "maps")),
        ("page.css", "text/css"),
        ("icon.svg", "image/svg+xml"),
    ],
)
def test_assets_need_nothing_from_elsewhere(client, path, kind):
    answer = client.get(path)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith(kind)
    addresses = {a for a in answer.text.split('"') if a.startswith(("http:", "https:", "//"))}
    assert addresses <= {"http://www.w3.org/2000/svg"}  # the name of a language, which is not looked up
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "style=", "onclick="):
        assert forbidden not in answer.text


def test_other_paths_are_not_files(client):
    for path in ("app.py", "../serve/app.py", "%2e%2e/errors.py", "page.html", "api", "api/view"):
        assert client.get(path).status in (404, 405)


def test_view_and_map(client):
    told = client.post("api/view", {"choice": {"off": [1]}, "column": 0}).json()
    assert [r["position"] for r in told["rows"]] == [0, 2]
    assert len(client.post("api/owners", {}).json()["places"]) == 3


@pytest.mark.parametrize(("kind", "starts"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_picture(client, kind, starts):
    answer = client.post("api/picture", {"choice": {"off": [1]}, "kind": kind})
    assert answer.headers["content-disposition"] == f'attachment; filename="figure.{kind}"'
    assert answer.content.startswith(starts)


def test_other_kinds_of_pictures_are_refused(client):
    answer = client.post("api/picture", {"kind": 'png"; x="'})
    assert (answer.status, answer.json()) == (422, {"error": "kind: choose one of png, svg, pdf"})


def test_the_file_is_that_of_merge(client, modules, tmp_path):
    answer = client.post("api/file", {"choice": {"off": [1]}})
    assert answer.headers["content-disposition"] == 'attachment; filename="merged.safetensors"'
    assert answer.content == saved(rgp.merge([modules[0], modules[2]]), tmp_path)


@pytest.mark.parametrize(
    ("question", "status", "message"),
    [
        (b"{", 422, "not JSON"),
        (b"[" * 100_000, 422, "not JSON"),
        (b"[]", 422, "must be an object"),
        (b'{"column": "0"}', 422, "column must be a whole number"),
        (b'{"column": 7}', 422, "column 7: there are 1 inputs"),
        (b'{"column": null}', 422, "a map is of two inputs, and there are 1"),
        (b'{"levels": {"ward": "a"}}', 422, "levels: ward is no column of categories"),
        (b'{"levels": 3}', 422, "levels must be an object"),
        (b'{"whose": 9}', 422, "whose 9: there are 3 modules"),
        (b'{"function": 1.5}', 422, "function must be a whole number"),
        (b'{"function": -1}', 422, "function -1: there are 1"),
        (b'{"choice": {"off": [0, 1, 2]}}', 422, "nobody is switched on"),
        (b'{"choice": {"off": [9]}}', 422, "no module at '9'"),
        (b'{"choice": {"units": {"0": {"output_scale": NaN}}}}', 422, "output_scale"),
        (b'"' + b"x" * 2**20 + b'"', 413, "larger than the 1 MiB"),
    ],
)
def test_wrong_questions_have_an_answer(client, question, status, message):
    answer = client.post("api/view", question)
    assert answer.status == status
    assert message in answer.json()["error"]


def test_questions_are_json(client):
    assert client.ask("POST", "api/view", b"{}", {"content-type": "text/plain"}).status == 415
    assert client.ask("POST", "api/view", b"{}").status == 415


def test_what_breaks_inside_is_not_shown(modules):
    broken = cases.serve_state(modules, settings=state.Settings(learn=np.array([True, False])))
    with cases.running(broken) as address:
        answer = cases.Client(address).post("api/view", {})
    assert answer.status == 500
    assert answer.json() == {"error": "something went wrong here; the terminal says more"}


# --- uploads ---


def test_an_upload_joins_the_others(client, tmp_path):
    content = saved(cases.fitted(cases.table(4, 0, 6), "late"), tmp_path)
    assert client.upload(content, "C:\\folder/late.safetensors").json() == {"added": 1, "file": "late.safetensors"}
    told = client.get("api/about").json()["modules"]
    assert [m["name"] for m in told] == ["north", "south", "east", "late"]
    assert told[3]["source"] == "late.safetensors"
    assert len(client.post("api/view", {}).json()["rows"]) == 4


def test_uploads_leave_nothing_on_the_disk(client, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    content = saved(cases.fitted(cases.table(4, 0, 6), "late"), tmp_path)
    os.remove(tmp_path / "m.safetensors")
    assert client.upload(content).status == 200
    assert client.upload(content[:-9]).status == 422
    assert client.post("api/file", {}).status == 200
    assert os.listdir(tmp_path) == []


def test_uploads_that_are_broken_off_are_no_errors_of_the_server(client, caplog, tmp_path, monkeypatch):
    assert client.get("api/about").status == 200
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for _ in range(5):
        client.begin("api/upload?name=late.safetensors", b"x" * 1000, length=100_000)
    assert client.get("api/about").status == 200
    deadline = time.monotonic() + 10
    while os.listdir(tmp_path) and time.monotonic() < deadline:  # some may only begin now
        time.sleep(0.02)
    assert [name for name in os.listdir(tmp_path) if name.startswith("recyclegp-")] == []
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


def test_an_upload_that_says_it_is_too_large_is_not_read(client):
    answer = client.upload(b"x", **{"content-length": str(2**40)})
    assert answer.status == 413
    assert answer.json()["error"] == "larger than the 64 MiB that this page takes"


def test_an_upload_that_is_too_large_is_not_read_to_its_end(client, monkeypatch, tmp_path):
    monkeypatch.setattr(app, "LARGEST_FILE", 3000)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    chunks = (b"x" * 1000 for _ in range(5))
    assert client.upload(chunks, **{"transfer-encoding": "chunked"}).status == 413  # it does not say how large it is
    assert os.listdir(tmp_path) == []


def test_uploads_are_read_strictly_and_never_executed(client):
    before = client.get("api/about").json()
    pickle = b"cos\nsystem\n(S'exit 1'\ntR."
    module = taken_apart((GOLDEN / "gaussian.safetensors").read_bytes())
    stranger = rebuilt(module.outer, module.header | {"kind": "program"}, module.body)
    for content in (b"", pickle, b"import os", (GOLDEN / "gaussian.safetensors").read_bytes()[:-8], stranger):
        answer = client.upload(content, "evil.safetensors")
        assert answer.status == 422
        assert answer.json()["error"].startswith("evil.safetensors: ")
        assert tempfile.gettempdir() not in answer.json()["error"]
    assert client.get("api/about").json() == before


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda ms: rgp.merge(ms), "it holds an ensemble, not a module; --recycle"),
        (lambda ms: ms[0], "its module is called 'north', as one of north.safetensors"),
        (lambda ms: rgp.load(GOLDEN / "gaussian.safetensors"), "2 input columns and 'north' has 1"),
    ],
)
def test_uploads_that_cannot_be_shown(client, modules, tmp_path, make, message):
    answer = client.upload(saved(make(modules), tmp_path))
    assert answer.status == 422
    assert message in answer.json()["error"]


def test_names_of_uploads_are_names():
    assert app.shown_name("../../etc/passwd") == "passwd"
    assert app.shown_name("a\\b") == "b"
    assert app.shown_name("\x1b[2J") == "\\x1b[2J"
    assert app.shown_name("") == "upload.safetensors"
    assert len(app.shown_name("x" * 10_000)) <= app.LONGEST_NAME + 1


# --- what files can be shown ---


def test_files_of_many_modules_and_recycled_ensembles(modules, tmp_path):
    rgp.fit_many([(t[["hour"]], t["level"]) for t in map(cases.table, (1, 2), (0, 3), (5, 8))]).save(
        tmp_path / "many.st"
    )
    assert len(list(state.modules_in(tmp_path / "many.st", "many.st", state.Naming()))) == 2
    rgp.merge(modules).save(tmp_path / "city.safetensors")
    (held,) = state.modules_in(tmp_path / "city.safetensors", "x/city.safetensors", state.Naming(recycle=True))
    assert (held.module.name, held.source) == ("city", "city.safetensors")
    modules[0].save(tmp_path / "a.safetensors")
    (held,) = state.modules_in(tmp_path / "a.safetensors", "a.safetensors", state.Naming(file_names=True))
    assert held.module.name == "a"


def test_modules_of_several_functions_are_shown_and_other_kinds_refused(tmp_path):
    rows = cases.table(0, 0, 6)
    both = rows[["level"]].assign(height=-rows["level"])
    rgp.fit(rows[["hour"]], both, name="two", publish=6, learn=False).save(tmp_path / "t")
    (held,) = state.modules_in(tmp_path / "t", "two.safetensors", state.Naming())
    assert held.module.functions == ("level", "height")
    kinds = np.where(rows["level"] > 4, "up", "down")
    classes = rgp.fit(rows[["hour"]], kinds, likelihood="categorical", name="k", publish=6, learn=False)
    with pytest.raises(rgp.RecycleGPError, match=r"k\.safetensors: one module has outputs, another classes"):
        state.with_modules((held,), list(cases.snapshot([classes]).held))


def test_a_module_of_categories_alone_has_no_curve(tmp_path):
    X = pd.DataFrame({"ward": ["a", "b"] * 20})
    rgp.fit(X, np.arange(40.0), name="m", publish=2, learn=False).save(tmp_path / "m.safetensors")
    with pytest.raises(rgp.RecycleGPError, match="all inputs of module 'm' are categories"):
        list(state.modules_in(tmp_path / "m.safetensors", "m.safetensors", state.Naming()))


def test_there_are_limits(modules, tmp_path, monkeypatch):
    modules[0].save(tmp_path / "a.safetensors")
    monkeypatch.setattr(state, "MOST_POINTS", 3)
    with pytest.raises(rgp.RecycleGPError, match="7 points, and this page shows modules of up to 3; publish"):
        list(state.modules_in(tmp_path / "a.safetensors", "a.safetensors", state.Naming()))
    monkeypatch.setattr(state, "MOST_MODULES", 2)
    with pytest.raises(rgp.RecycleGPError, match="3 modules, and this page shows up to 2"):
        state.with_modules((), list(cases.snapshot(modules).held))
