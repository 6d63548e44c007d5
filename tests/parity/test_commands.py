"""Every command that takes a model takes one of one output, several outputs, classes or varying noise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_cli import answer, call, ok
from parity_cases import KINDS, LEVELS, LIKELIHOODS, OWNERS, ensemble, module, rows

# take no model, wait for a browser (tests/serve), or need a hub (tests/hub)
LEFT_OUT = {"demo", "experiment", "keygen", "keys", "modules", "serve", "hub", "join", "leave", "coordinate"}
LEFT_OUT |= {"gather_sum", "join_sum"}  # take a plan (tests/plans)


def table(kind: str, seed: int, path: Path) -> Path:
    X, y = rows(kind, seed, 40)
    columns = {"x": X[:, 0]}
    columns |= {"a": y[:, 0], "b": y[:, 1]} if "outputs" in kind else {"a": y}
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def targets(kind: str) -> str:
    return "a,b" if "outputs" in kind else "a"


@pytest.fixture(scope="module", params=KINDS)
def folder(request, tmp_path_factory):
    """Modules, their ensemble and tables of one kind."""
    kind, found = request.param, tmp_path_factory.mktemp("kind")
    (found / "parts").mkdir()
    for owner in OWNERS:
        module(kind, owner).save(found / "parts" / f"{owner}.safetensors")
    ensemble(kind, "exact").save(found / "exact.safetensors")
    ensemble(kind, "points").save(found / "points.safetensors")
    table(kind, 3, found / "rows.csv")
    (found / "kind").write_text(kind)
    return found


def likelihood_of(kind: str) -> list[str]:
    levels = ["--classes", ",".join(LEVELS)] if kind == "levels" else []
    return ["--likelihood", LIKELIHOODS.get(kind, "gaussian"), *levels]


MODELS = ("parts/north.safetensors", "exact.safetensors", "points.safetensors")


def kind_of(folder: Path) -> str:
    return (folder / "kind").read_text()


def test_every_command_is_here():
    from recyclegp.cli import PANELS

    here = Path(__file__).read_text()
    names = {function.__name__ for functions in PANELS.values() for function in functions}
    assert [name for name in names - LEFT_OUT if f'"{name}"' not in here] == []


def test_fit_and_merge(folder, tmp_path):
    kind = kind_of(folder)
    how = ["--target", targets(kind), "--publish", 8, "--allow-small", "-q", *likelihood_of(kind)]
    for seed in (1, 2):
        ok("fit", table(kind, seed, tmp_path / f"{seed}.csv"), "-o", tmp_path / f"{seed}.safetensors", *how)
    ok("merge", tmp_path / "1.safetensors", tmp_path / "2.safetensors", "-o", tmp_path / "e.safetensors", "-q")
    assert rgp.load(tmp_path / "e.safetensors").names == ["1", "2"]


@pytest.mark.parametrize("model", MODELS)
def test_what_a_file_is_asked(folder, model, tmp_path):
    kind, file, data = kind_of(folder), folder / model, folder / "rows.csv"
    facts = answer("inspect", file)
    assert len(facts["functions"]) == len(rgp.load(file).functions)
    ok("predict", file, data, "-o", tmp_path / "p.csv")
    assert len(pd.read_csv(tmp_path / "p.csv")) == 40
    scored = answer("score", file, data, "--target", targets(kind))
    each = scored.get("scores", [scored])
    assert all(np.isfinite(one["nlpd"]) for one in each)
    if kind == "censored times":
        assert "nobody knows" in call("calibrate", file, data, "-t", "a", "-o", tmp_path / "c.json").output
    else:
        ok("calibrate", file, data, "--target", "a", "-o", tmp_path / "c.json")
        ok("predict", file, data, "--calibration", tmp_path / "c.json", "-o", tmp_path / "q.csv")
    ok("plot", file, "-o", tmp_path / "figure.png", "-q")
    ok("plot", file, "-o", tmp_path / "figure.html", "-q")
    assert (tmp_path / "figure.png").stat().st_size > 1000


@pytest.mark.parametrize("model", MODELS)
def test_what_a_file_is_told(folder, model, tmp_path):
    kind, file, out = kind_of(folder), folder / model, tmp_path / "out.safetensors"
    ok("transform", file, "--input-scale", "x=10", "-o", out, "-q")
    before, after = rgp.load(file), rgp.load(out)
    X = np.linspace(1, 5, 4)[:, None]
    np.testing.assert_allclose(after.predict(10 * X)[0], before.predict(X)[0], rtol=1e-6, atol=1e-8)
    pytest.importorskip("cryptography")
    ok("keygen", "-o", tmp_path / "key")
    ok("sign", out, "--key", tmp_path / "key.pem")
    ok("verify", out, "--trusted", tmp_path)
    if model.startswith("parts"):
        return
    table(kind, 9, tmp_path / "new.csv")
    ok("update", file, tmp_path / "new.csv", "--target", targets(kind), "-o", tmp_path / "u.safetensors", "-q")
    east = tmp_path / "east.safetensors"
    module(kind, "east").save(east)
    ok("add", file, east, "-o", tmp_path / "a.safetensors", "-q")
    ok("remove", tmp_path / "a.safetensors", "east", "--keep-kernel", "-o", tmp_path / "r.safetensors", "-q")
    ok("remove", tmp_path / "a.safetensors", "east", "-o", tmp_path / "l.safetensors", "-q")
    ok("reweight", file, "north=0.5", "-o", tmp_path / "w.safetensors", "-q")
    assert rgp.load(tmp_path / "u.safetensors").names == [*OWNERS, "update-1"]
    assert rgp.load(tmp_path / "r.safetensors").names == rgp.load(tmp_path / "l.safetensors").names == list(OWNERS)
    assert "removed" in ok("inspect", tmp_path / "r.safetensors").stdout


def test_owners_answer_a_plan(folder, tmp_path):
    kind, agreed = kind_of(folder), tmp_path / "plan.safetensors"
    if kind == "correlated outputs":
        assert call("plan", folder / "exact.safetensors", "-o", agreed).exit_code == 2
        return
    ok("plan", folder / "exact.safetensors", "--points", 6, "-o", agreed, "-q")
    for seed in (1, 2):
        data = table(kind, seed, tmp_path / f"{seed}.csv")
        how = ["--target", targets(kind), "-o", tmp_path / f"a{seed}.safetensors", "-q", "--things"]
        ok("contribute", agreed, data, *how)
    files = [tmp_path / f"a{seed}.safetensors" for seed in (1, 2)]
    following = tmp_path / "next.safetensors"
    found = answer("combine", agreed, *files, "-o", tmp_path / "e.safetensors", "--next", following)
    assert found["names"] == ["1", "2"]
    assert answer("inspect", following)["round"] == 1
    assert answer("inspect", files[0])["answers_plan"] == answer("inspect", agreed)["digest_of_plan"]


def test_what_merging_adds(folder, tmp_path):
    kind, data, out = kind_of(folder), table(kind_of(folder), 6, tmp_path / "mine.csv"), tmp_path / "mine.safetensors"
    how = ["--target", targets(kind), "--publish", 8, "--hold-back", 0.3, "--things", "-q", *likelihood_of(kind)]
    ok("fit", data, "-o", out, *how)
    for merged in ("exact", "points"):
        ok("add", folder / f"{merged}.safetensors", out, "-o", tmp_path / "e.safetensors", "-q")
        found = answer("gain", tmp_path / "e.safetensors", data)
        assert found["name"] == "mine"
        assert found["rows"] + rgp.load(out).rows == 40
        assert found["verdict"] in ("merging helps", "merging hurts", "cannot tell")


def test_modules_beside_each_other(folder):
    parts = sorted((folder / "parts").iterdir())
    assert call("screen", *parts).exit_code == 0
    assert len(answer("screen", *parts)["modules"]) == len(OWNERS)
    ok("compare", folder / "exact.safetensors", *parts)
