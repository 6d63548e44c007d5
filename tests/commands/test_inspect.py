"""recyclegp inspect and compare: what is in files, and how modules agree."""

import hashlib

import gpytorch
import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import NORTH, answer, call, module, ok, owner
from recyclegp.commands.inspect import _rows as compared


def test_inspect_says_what_is_in_a_module(owners):
    path = owners / "parts" / "north.safetensors"
    facts, m = answer("inspect", path), rgp.load(path)
    assert facts["content_id"] == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    assert facts["bytes"] == path.stat().st_size
    assert (facts["kind"], facts["name"], facts["rows"], facts["schema"]) == ("module", "north", 40, 3)
    assert facts["region"]["day"] == [m.inducing[:, 0].min(), m.inducing[:, 0].max()]
    assert facts["noise"] == m.noise
    assert facts["contains_data_rows"] is False
    words = ok("inspect", path).stdout
    for phrase in (
        "north, 40 rows of 2 inputs",
        "day from ",
        "matern52(",
        "schema 3",
        "yes, after",
        "no: recyclegp placed them",
    ):
        assert phrase in words, words
    assert facts["content_id"] in words


def test_inspect_says_what_is_in_an_ensemble(owners):
    path = owners / "city.safetensors"
    facts, e = answer("inspect", path), rgp.load(path)
    assert (facts["kind"], facts["names"], facts["keeps"]) == ("ensemble", ["north", "south"], "sites")
    assert (facts["slack"], facts["bound"], facts["evidence"]) == (e.slack, e.bound, e.evidence)
    words = ok("inspect", path).stdout
    assert "of 2 modules (north, south), 80 rows of 2 inputs" in words
    assert "can be removed" in words


def test_inspect_says_how_owners_differ(wards, owners, out):
    facts, e = answer("inspect", wards / "city.safetensors"), rgp.load(wards / "city.safetensors")
    assert facts["owners"] == e.owners == ["ward-1", "ward-2", "ward-3", "ward-4"]
    assert (facts["offset_sd"], facts["smooth_sd"]) == (e.offset_sd, e.smooth_sd)
    assert e.offset_sd > 0.3
    words = ok("inspect", wards / "city.safetensors").stdout
    assert f"owners              differ by a constant of sd {e.offset_sd:.3g}" in words
    alike = answer("inspect", owners / "city.safetensors")
    assert (alike["offset_sd"], alike["smooth_sd"]) == (0, 0)
    assert "differ" not in ok("inspect", owners / "city.safetensors").stdout
    ok("merge", wards / "parts", "--owners", "smooth", "--inducing", "all", "--no-learn", "-o", out)
    e = rgp.load(out)
    said = f"sd {e.offset_sd:.3g} and by a smooth function of {e.smooth_sd:.3g} times the sd of the shared one"
    assert said in ok("inspect", out).stdout


def test_inspect_says_which_form_an_ensemble_has(owners, out):
    for inducing, form in (("all", "exact"), (5, "points")):
        facts = answer("merge", owners / "parts", "--inducing", inducing, "--no-learn", "-o", out)
        e = rgp.load(out)
        assert (facts["form"], facts["size"], facts["slack"]) == (form, str(e.size), e.slack)
        words = ok("inspect", out).stdout
        assert f"form                {e.size}\n" in words
    assert "5 points, slack" in words


def test_inspect_does_not_vouch_for_points_from_elsewhere(tmp_path):
    m = module(NORTH, "m")
    rgp.Module.from_moments(
        [[0.0, 1.0], [1.0, 0.0]], [0.0, 1.0], 0.01 * np.eye(2), kernel=m.kernel, noise=0.1, name="w"
    ).save(tmp_path / "w.safetensors")
    assert answer("inspect", tmp_path / "w.safetensors")["contains_data_rows"] is None
    words = ok("inspect", tmp_path / "w.safetensors").stdout
    assert "is any point a row  not known: somebody else chose them" in words
    assert "the columns have no names" in words


def test_inspect_of_many_is_a_table(owners):
    parts = answer("inspect", owners / "parts")
    assert [f["name"] for f in parts] == ["north", "south"]
    table = ok("inspect", owners / "parts", owners / "city.safetensors").stdout
    assert len(table.splitlines()) == 4
    for phrase in ("north", "south", "ensemble of 2", parts[0]["content_id"][7:15]):
        assert phrase in table


def test_inspect_as_a_check(owners, tmp_path):
    assert ok("inspect", owners / "parts", "-q").output == ""
    (tmp_path / "bad.safetensors").write_bytes((owners / "city.safetensors").read_bytes()[:-5])
    assert "not a complete recyclegp file" in one_line(call("inspect", tmp_path / "bad.safetensors", "-q"))


def test_compare_gives_the_report_and_the_differences(owners):
    city = rgp.load(owners / "city.safetensors")
    rows = {r["name"]: r for r in answer("compare", owners / "city.safetensors", owners / "parts")}
    for expected in city.report():
        for key, value in expected.items():
            assert rows[expected["name"]][key] == (list(value) if isinstance(value, tuple) else value)  # as JSON has it
    for name in ("north", "south"):
        m = rgp.load(owners / "parts" / f"{name}.safetensors")
        where = pd.DataFrame(m.inducing, columns=m.columns)
        (a, va), (b, vb) = m.predict(where), city.predict(where)
        assert rows[name]["difference"] == pytest.approx(np.mean(np.abs(a - b)))
        assert rows[name]["standardised"] == pytest.approx(np.mean(np.abs(a - b) / np.sqrt(va + vb)))
        kl = np.log(np.sqrt(vb / va)) + (va + (a - b) ** 2) / (2 * vb) - 0.5
        assert rows[name]["nats"] == pytest.approx(np.mean(kl))


def test_compare_is_fair_to_owners_who_differ(wards, tmp_path):
    city, path = rgp.load(wards / "city.safetensors"), wards / "city.safetensors"
    rows = {r["name"]: r for r in answer("compare", path, wards / "parts")}
    assert rows["ward-1 again"]["owner"] == "ward-1"
    assert rows["ward-1"]["offset"] == pytest.approx(rows["ward-1 again"]["offset"])
    for name in ("ward-1 again", "ward-3"):
        m = rgp.load(wards / "parts" / f"{name}.safetensors")
        where = pd.DataFrame(m.inducing, columns=m.columns)
        (a, _), (b, _), (shared, _) = m.predict(where), city.predict(where, m.owner), city.predict(where)
        assert rows[name]["difference"] == pytest.approx(np.mean(np.abs(a - b)))
        assert rows[name]["difference"] < 0.3 * np.mean(np.abs(a - shared))
    head, *lines = ok("compare", path).stdout.splitlines()
    assert head.split()[:4] == ["module", "rows", "weight", "offset"]
    shown = next(line for line in lines if line.startswith("ward-3"))
    assert f"{rows['ward-3']['offset']:.3g} ± {rows['ward-3']['offset_sd']:.2g}" in shown


def test_compare_where_owners_cannot_be_told_apart_is_with_the_shared_function(wards, tmp_path, out):
    options = ("--owners", "offset", "--inducing", 8, "--no-learn", "--keep", "names")
    ok("merge", wards / "parts", *options, "-o", out)
    m, city = rgp.load(wards / "parts" / "ward-3.safetensors"), rgp.load(out)
    rows = {r["name"]: r for r in answer("compare", out, wards / "parts" / "ward-3.safetensors")}
    where = pd.DataFrame(m.inducing, columns=m.columns)
    assert rows["ward-3"]["difference"] == pytest.approx(np.mean(np.abs(m.predict(where)[0] - city.predict(where)[0])))


def test_compare_with_a_stranger(owners, tmp_path):
    far = NORTH.assign(y=NORTH["y"] + 9)
    module(far, "far").save(tmp_path / "far.safetensors")
    rows = answer("compare", owners / "city.safetensors", tmp_path / "far.safetensors", owners / "parts")
    stranger = rows[-1]
    assert (stranger["name"], stranger["member"], stranger["agreement"]) == ("far", False, None)
    assert stranger["standardised"] > 5 * max(r["standardised"] for r in rows[:-1])
    table = ok("compare", owners / "city.safetensors", tmp_path / "far.safetensors").stdout
    assert "far (not in it)" in table
    assert "needs an ensemble" in one_line(call("compare", owners / "parts" / "north.safetensors"))


def test_compare_where_nobody_can_ask_about_a_module_s_points():
    """Within 1e-100 of each other: case 614600 of the fuzz. What is merged beside it is as it was."""
    rng, modules = np.random.default_rng(0), []
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel()).double()
    kernel.base_kernel.lengthscale = 8.0  # which a file can hold in these units, too
    for name, scale in (("near", 5e-51), ("far", 2e-50), ("farther", 2e-50)):
        X = rng.uniform(-1, 1, (30, 1))
        m = rgp.fit(X, np.sin(2 * X[:, 0]), kernel=kernel, name=name, publish=5, learn=False, privacy="things")
        modules.append(m.transform(input_scale=1e-50).transform(input_scale=scale))
    rows = {r["name"]: r for r in compared(rgp.merge(modules, learn=False, trust=None), modules)}
    assert rows["near"]["nats"] is None
    assert rows["far"]["nats"] >= 0


def test_compare_puts_the_least_agreeing_first(owners, tmp_path, out):
    module(NORTH.assign(y=NORTH["y"] + 2), "odd").save(tmp_path / "odd.safetensors")
    module(owner(5, 0, 7), "third").save(tmp_path / "third.safetensors")
    ok("merge", owners / "parts", tmp_path / "odd.safetensors", tmp_path / "third.safetensors", "-o", out)
    agreement = [r["agreement"] for r in answer("compare", out)]
    assert agreement == sorted(agreement)
