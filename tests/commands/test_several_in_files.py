"""Files of several outputs, of classes, and of noise that varies: units, ensembles, and what is in them."""

import io
import warnings

import gpytorch
import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok, written
from cases_joint import classes, outputs, varying

INPUTS = ["day", "depth"]
FEW = ["--publish", 8, "-q"]


# --- units ---


def test_files_of_outputs_get_other_units(several, out):
    X = outputs(7, 0, 6, 9)[INPUTS]
    there = X.assign(day=24 * X.day + 5)
    options = ["--input-scale", "day=24", "--input-shift", "day=5", "--output-scale", "heat=1.8", "--output-shift"]
    options += ["heat=32", "--unit", "heat=°F", "-o", out]
    for name in ("north", "all"):
        before = rgp.load(several / f"{name}.safetensors")
        facts = answer("transform", several / f"{name}.safetensors", *options)
        expected = before.predict(X)[0] * [1.8, 1] + [32, 0]
        np.testing.assert_allclose(rgp.load(out).predict(there)[0], expected, rtol=1e-8)
        assert [f["target"] for f in facts["functions"]] == ["heat in °F", "salt"]
    ok("transform", several / "all.safetensors", "--output-scale", "2", "-o", out)
    np.testing.assert_allclose(rgp.load(out).predict(X)[0], 2 * before.predict(X)[0], rtol=1e-8)


def test_varying_noise_and_classes_get_other_units(several, out):
    X = varying(7, 0, 6, 9)[["day"]]
    before = rgp.load(several / "all-noisy.safetensors")
    ok("transform", several / "all-noisy.safetensors", "--output-scale", "-3", "--output-shift", "1", "-o", out)
    np.testing.assert_allclose(rgp.load(out).predict_y(X)[0], 1 - 3 * before.predict_y(X)[0], rtol=1e-8)
    np.testing.assert_allclose(rgp.load(out).predict_y(X)[1], 9 * before.predict_y(X)[1], rtol=1e-8)
    X = classes(7, 0, 6, 9)[INPUTS]
    before = rgp.load(several / "all-kinds.safetensors")
    ok("transform", several / "all-kinds.safetensors", "--input-scale", "day=24", "-o", out)
    found = rgp.load(out).predict_proba(X.assign(day=24 * X.day))
    np.testing.assert_allclose(found, before.predict_proba(X), rtol=1e-7)


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("all-kinds", ["--output-scale", "2"], "--output-scale, --output-shift and --unit do not apply to classes"),
        ("all-noisy", ["--output-scale", "y=2"], "--output-scale: only outputs have names"),
        ("all", ["--output-scale", "sugar=2"], "--output-scale: no output sugar; there are heat, salt"),
        ("all", ["--output-scale", "heat"], "--output-scale heat: write a number, or OUTPUT=NUMBER"),
        ("all", ["--output-scale", "salt=0"], "--output-scale salt=0; pass numbers that are not zero"),
        ("all", ["--unit", "heat=K", "--unit", "kg"], "--unit kg: give one, or OUTPUT=UNIT"),
        ("all", ["--input-scale", "dose=2"], "no input column dose"),
    ],
)
def test_units_that_are_none(several, out, name, options, said):
    assert said in one_line(call("transform", several / f"{name}.safetensors", *options, "-o", out))
    assert not out.exists()


def test_unknown_classes_are_named(several, tmp_path, out):
    test = classes(7, 0, 6, 10)
    test.loc[0, "kind"] = "huge"
    path = written(test, tmp_path / "test.csv")
    result = call("score", several / "all-kinds.safetensors", path, "--target", "kind")
    assert "does not know: huge" in one_line(result)
    result = call("update", several / "all-kinds.safetensors", path, "--target", "kind", "-o", out)
    assert "does not know: huge" in one_line(result)
    assert not out.exists()


# --- ensembles ---


def test_modules_of_one_output_join_by_the_name_of_their_target(several, tmp_path, out):
    table = outputs(5, 3, 6)
    path = written(table[["day", "depth", "salt"]], tmp_path / "west.csv")
    ok("fit", path, "--target", "salt", "-o", tmp_path / "west.safetensors", *FEW)
    ok("merge", tmp_path / "west.safetensors", several / "north.safetensors", "-o", out, "--owners", "none", "-q")
    found = rgp.load(out)
    assert found.part("salt").names == ["west", "north"]
    assert found.part("heat").names == ["north"]
    added = answer("add", several / "all.safetensors", tmp_path / "west.safetensors", "-o", tmp_path / "b.safetensors")
    assert added["names"] == ["north", "south", "east", "west"]
    assert [len(f["names"]) for f in added["functions"]] == [3, 4]


def test_weights_are_those_of_the_library(several, out):
    files = [several / f"{name}.safetensors" for name in ("north", "south")]
    ok("merge", *files, "--weights", "north=0.5", "-o", out, "--owners", "none", "-q")
    own = rgp.merge([rgp.load(f) for f in files], weights={"north": 0.5}, owners=None)
    X = outputs(7, 0, 6, 12)[INPUTS]
    np.testing.assert_allclose(rgp.load(out).predict(X)[0], own.predict(X)[0], rtol=1e-8)


def test_outputs_that_go_together_are_merged_so_if_asked(several, tmp_path, out):
    files = [several / f"{name}.safetensors" for name in ("north", "south", "east")]
    found = answer("merge", *files, "--outputs", "1", "-o", out, "--owners", "none")
    model = rgp.load(out)
    sd = np.sqrt(np.diag(model.output_covariance))
    np.testing.assert_allclose(found["correlation"], model.output_covariance / np.outer(sd, sd))
    assert "heat and salt" in ok("inspect", out).stdout
    X = outputs(7, 0, 6, 12)[INPUTS]
    path = written(X, tmp_path / "new.csv")
    columns = pd.read_csv(io.StringIO(ok("predict", out, path).stdout))
    np.testing.assert_allclose(columns[["heat_mean", "salt_mean"]], model.predict(X)[0], rtol=1e-8)
    apart = answer("merge", *files, "--outputs", "independent", "-o", out, "--owners", "none")
    assert apart["correlation"] is None
    assert "outputs" in one_line(call("merge", *files, "--outputs", "perhaps", "-o", out))


def test_modules_are_called_by_their_files(several, out):
    files = [several / f"{name}-kinds.safetensors" for name in ("north", "south")]
    assert answer("merge", *files, "--file-names", "-o", out)["names"] == ["north-kinds", "south-kinds"]


def test_ensembles_of_several_functions_are_recycled(several, out):
    recycled = answer("merge", several / "all.safetensors", "--recycle", "-o", out)
    assert recycled["names"] == ["all"]
    assert recycled["holds"] == "outputs"
    result = call("merge", several / "all.safetensors", "-o", out)
    assert "--recycle" in one_line(result)


def test_kinds_do_not_mix(several, out, owners):
    result = call("merge", several / "north.safetensors", several / "south-kinds.safetensors", "-o", out)
    assert "one module has outputs, another classes" in one_line(result)
    assert not out.exists()
    result = call("add", owners / "city.safetensors", several / "east.safetensors", "-o", out)
    assert "has outputs (heat, salt) where the ensemble has one function: f; merge all modules anew" in one_line(result)


@pytest.mark.parametrize("kind", ["", "-kinds", "-noisy"])
def test_modules_are_removed_and_reweighted(several, out, kind):
    before = several / f"all{kind}.safetensors"
    assert answer("remove", before, "east", "-o", out, "--keep-kernel")["names"] == ["north", "south"]
    model = rgp.load(before)
    X = (varying if kind == "-noisy" else outputs)(7, 0, 6, 9)[["day"] if kind == "-noisy" else INPUTS]
    np.testing.assert_allclose(
        rgp.load(out).predict(X)[0], model.remove("east", relearn=False).predict(X)[0], rtol=1e-6, atol=1e-9
    )
    ok("reweight", before, "east=0.5", "-o", out, "-q")
    expected = model.reweight({"east": 0.5}).predict(X)[0]
    np.testing.assert_allclose(rgp.load(out).predict(X)[0], expected, rtol=1e-6, atol=1e-9)
    assert "nobody" in one_line(call("remove", before, "nobody", "-o", out))


@pytest.mark.parametrize(
    ("kind", "make", "target"),
    [("", outputs, "heat,salt"), ("-kinds", classes, "kind"), ("-noisy", varying, "y")],
)
def test_new_rows_come_in(several, tmp_path, out, kind, make, target):
    new = make(11, 0, 6, 15)
    path = written(new, tmp_path / "new.csv")
    before = several / f"all{kind}.safetensors"
    found = answer("update", before, path, "--target", target, "-o", out, "--name", "late")
    assert found["names"][-1] == "late"
    columns = target.split(",")
    X, y = new.drop(columns=columns), new[columns if len(columns) > 1 else target]
    expected = rgp.load(before).update(X, y, name="late")
    np.testing.assert_allclose(rgp.load(out).predict(X)[0], expected.predict(X)[0], rtol=1e-6, atol=1e-8)


def test_new_rows_may_lack_an_output(several, tmp_path, out):
    new = outputs(11, 0, 6, 15)[["day", "depth", "salt"]]
    path = written(new, tmp_path / "new.csv")
    result = call("update", several / "all.safetensors", path, "-t", "salt", "-o", out)
    assert "name also heat" in one_line(result)
    assert "--missing allow" in one_line(result)
    found = answer("update", several / "all.safetensors", path, "-t", "salt", "-o", out, "--missing", "allow")
    assert [len(f["names"]) for f in found["functions"]] == [3, 4]


# --- what is in a file ---


def test_inspect_says_what_each_function_is(several):
    module, model = answer("inspect", several / "north.safetensors"), rgp.load(several / "north.safetensors")
    assert (module["kind"], module["holds"], module["name"]) == ("module", "outputs", "north")
    for f, part in zip(module["functions"], map(model.part, model.functions), strict=True):
        assert f["rows"] == 40
        assert f["points"] == 8
        assert f["noise"] == part.noise
        assert f["kept"] == part.kept
        assert f["kernel"] == part.kernel_spec.describe()
    said = ok("inspect", several / "all.safetensors").stdout
    assert "function heat" in said
    words = " ".join(ok("inspect", several / "north.safetensors").stdout.split())
    assert words.count("40 rows, 8 points (0.2 per row)") == 2
    assert words.count(", converged") == 2
    assert "of 3 modules (north, south, east)" in said
    assert "2 outputs: heat, salt" in said
    assert "3 classes: low, middle, top" in ok("inspect", several / "all-kinds.safetensors").stdout
    assert "noise, which varies" in ok("inspect", several / "all-noisy.safetensors").stdout
    table = ok("inspect", several).stdout
    assert "ensemble of 3, 3 classes" in table
    assert "north, 2 outputs" in table
    assert "north, varying noise" in table


@pytest.mark.parametrize("functions", [1, 2])
def test_whether_an_import_holds_rows_is_not_known(tmp_path, out, functions):
    """Its points are its rows here: to say that there are none would be false."""
    batch = torch.Size([functions] if functions > 1 else [])

    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self, rows):
            q = gpytorch.variational.CholeskyVariationalDistribution(len(rows), batch_shape=batch)
            super().__init__(gpytorch.variational.VariationalStrategy(self, rows, q))
            self.mean_module = gpytorch.means.ConstantMean(batch_shape=batch)
            kernel = gpytorch.kernels.RBFKernel(batch_shape=batch)
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel, batch_shape=batch)
            self.double().eval()(rows)  # which begins with the prior
            with torch.no_grad():
                q.variational_mean.add_(rows[:, 0].sin())
                q.chol_variational_covar.mul_(0.3)

        def forward(self, x):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    path, rows = tmp_path / "import.safetensors", torch.linspace(0, 6, 12, dtype=torch.float64)[:, None]
    likelihood = gpytorch.likelihoods.GaussianLikelihood(batch_shape=batch).double()
    made = rgp.from_gpytorch(Sparse(rows), likelihood, name="import")
    np.testing.assert_array_equal(made.inducing, rows)
    made.save(path)
    ok("merge", path, "-o", out)
    for file in (path, out):
        facts = answer("inspect", file)
        assert len(facts["functions"]) == functions
        assert facts["contains_data_rows"] is None
        assert "is any point a row  not known: somebody else chose" in ok("inspect", file).stdout


@pytest.mark.parametrize("kind", ["", "-kinds", "-noisy"])
def test_inspect_says_what_is_left_of_modules_that_were_removed(several, out, kind):
    before = several / f"all{kind}.safetensors"
    assert answer("inspect", before)["modules_removed"] == 0
    assert "removed  " not in ok("inspect", before).stdout
    ok("remove", before, "east", "--keep-kernel", "-o", out, "-q")
    facts, left = answer("inspect", out), rgp.load(out).unlearned
    assert (facts["modules_removed"], facts["guarantee"]) == (1, "traces are left")
    assert facts["traces"] == [trace.value for trace in left.traces]
    assert "kernel" in facts["traces"]
    words = ok("inspect", out).stdout
    assert f"removed{' ' * 13}{left}" in words
    ok("remove", before, "east", "-o", out, "-q")
    assert answer("inspect", out)["guarantee"] == "as if they had never been here"
    assert "the ensemble is as if they had never been here" in ok("inspect", out).stdout


def test_a_folder_may_begin_with_a_file_of_one_function(several, tmp_path, out):
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    table = outputs(5, 3, 6)
    path = written(table[["day", "depth", "salt"]], tmp_path / "a.csv")
    ok("fit", path, "--target", "salt", "-o", inbox / "a.safetensors", *FEW)
    for name in ("north", "south"):
        (inbox / f"{name}.safetensors").write_bytes((several / f"{name}.safetensors").read_bytes())
    merged = answer("merge", inbox, "-o", out, "--owners", "none")
    assert sorted(merged["names"]) == ["a", "north", "south"]
    assert {f["function"]: sorted(f["names"]) for f in merged["functions"]} == {
        "heat": ["north", "south"],
        "salt": ["a", "north", "south"],
    }
    screened = answer("screen", inbox)
    assert sorted(row["name"] for row in screened["modules"]) == ["a", "north", "south"]
    listed = sorted(inbox.iterdir())
    X = table[INPUTS]
    expected = rgp.merge([rgp.load(f) for f in listed], owners=None).predict(X)[0]
    np.testing.assert_allclose(rgp.load(out).predict(X)[0], expected, rtol=1e-6)


def test_compare_has_rows_of_each_function(several):
    rows = answer("compare", several / "all.safetensors", several / "north.safetensors", several / "east.safetensors")
    assert {(r["function"], r["name"]) for r in rows} == {
        (f, n) for f in ("heat", "salt") for n in ("north", "south", "east")
    }
    merged, north = (
        rgp.load(several / "all.safetensors").part("salt"),
        rgp.load(several / "north.safetensors").part("salt"),
    )
    row = next(r for r in rows if (r["function"], r["name"]) == ("salt", "north"))
    gap = np.abs(merged.predict(north.inducing)[0] - north.predict(north.inducing)[0])
    assert row["difference"] == pytest.approx(gap.mean(), rel=1e-6)
    assert "salt" in ok("compare", several / "all.safetensors").stdout


def test_screening_names_the_output_that_is_wrong(several, tmp_path):
    for seed, (name, low, high) in enumerate([("a", 0, 6), ("b", 0, 6), ("c", 0, 6), ("d", 0, 6), ("e", 0, 6)]):
        table = outputs(seed, low, high, 60)
        if name == "c":
            table["salt"] = 60 - table["salt"]  # the opposite sign about 30
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rgp.fit(table[INPUTS], table[["heat", "salt"]], name=name).save(tmp_path / f"{name}.safetensors")
    found = answer("screen", tmp_path)
    assert found["flagged"] == ["c"]
    row = next(r for r in found["modules"] if r["name"] == "c")
    assert row["reason"].startswith("salt: ")
    assert "heat" not in row["reason"]


def test_files_are_signed_and_verified(several, tmp_path):
    ok("keygen", "-o", tmp_path / "key")
    for name in ("north", "all-kinds"):
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes((several / f"{name}.safetensors").read_bytes())
        ok("sign", path, "--key", tmp_path / "key.pem")
        assert "signed by key" in ok("verify", path, "--trusted", tmp_path).stdout
    merged = ["merge", tmp_path / "north.safetensors", "-o", tmp_path / "out.safetensors", "--trusted", tmp_path]
    ok(*merged)
    data = bytearray((tmp_path / "north.safetensors").read_bytes())
    data[-1] ^= 1
    (tmp_path / "north.safetensors").write_bytes(data)
    assert call(*merged).exit_code == 2
