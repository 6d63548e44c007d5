"""recyclegp gain: at home, with the table that was fitted with --hold-back."""

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok, owner, written
from recyclegp.local.held_back import is_held_back

SHARE = 0.3


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("home")
    for seed, name in enumerate(("north", "south")):
        written(owner(seed, 0, 5), folder / f"{name}.csv")
        how = ["--target", "y", "--hold-back", SHARE, "--publish", 6, "--things", "-q"]
        ok("fit", folder / f"{name}.csv", *how, "-o", folder / f"{name}.safetensors")
    files = [folder / f"{name}.safetensors" for name in ("north", "south")]
    ok("merge", *files, "-o", folder / "city.safetensors", "-q")
    return folder


def test_it_says_what_python_says(home):
    facts = answer("gain", home / "city.safetensors", home / "north.csv", "--name", "north")
    table = pd.read_csv(home / "north.csv")
    X, y = table[["day", "depth"]], table["y"]
    expected = rgp.load(home / "city.safetensors").gain(X, y, name="north")
    assert facts["rows"] == expected.rows == is_held_back(X, y, SHARE).sum()
    assert (facts["name"], facts["owner"]) == ("north", "north")
    for key in ("merged", "alone", "gain", "standard_error"):
        assert facts[key] == pytest.approx(getattr(expected, key))
    assert facts["verdict"] == expected.verdict.value
    said = ok("gain", home / "city.safetensors", home / "north.csv", "--owner", "north").stdout
    assert " ".join(said.split()) == f"north: {expected}"


def test_the_file_says_how_much_was_held_back(home):
    assert answer("inspect", home / "north.safetensors")["held_back"] == SHARE
    assert "held back" in ok("inspect", home / "north.safetensors").stdout


def test_a_module_of_its_own(home, tmp_path):
    small = tmp_path / "small.safetensors"
    files = [home / f"{name}.safetensors" for name in ("north", "south")]
    ok("merge", *files, "--keep", "names", "-o", small, "-q")
    assert "--module" in one_line(call("gain", small, home / "north.csv", "--name", "north"))
    facts = answer("gain", small, home / "north.csv", "--module", home / "north.safetensors")
    assert facts["alone"] == pytest.approx(
        answer("gain", home / "city.safetensors", home / "north.csv", "--name", "north")["alone"]
    )
    wrong = call("gain", small, home / "north.csv", "--module", home / "city.safetensors")
    assert "it holds an ensemble; give the file of your own module" in one_line(wrong)


def test_classes_with_words(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        x = rng.uniform(0, 6, 60)
        table = pd.DataFrame({"x": x, "sick": np.where(np.sin(x) + 0.3 * rng.standard_normal(60) > 0, "yes", "no")})
        how = ["--target", "sick", "--positive", "yes", "--likelihood", "bernoulli", "--hold-back", SHARE]
        ok("fit", written(table, tmp_path / f"{name}.csv"), *how, "--things", "-o", tmp_path / f"{name}.safetensors")
    files = [tmp_path / f"{name}.safetensors" for name in ("north", "south")]
    ok("merge", *files, "-o", tmp_path / "e.safetensors", "-q")
    facts = answer("gain", tmp_path / "e.safetensors", tmp_path / "south.csv", "--name", "south")
    assert facts["rows"] + rgp.load(tmp_path / "south.safetensors").rows == 60
    numbers = pd.read_csv(tmp_path / "south.csv").assign(sick=lambda t: (t["sick"] == "yes").astype(int))
    again = answer("gain", tmp_path / "e.safetensors", written(numbers, tmp_path / "n.csv"), "--name", "south")
    assert again["merged"] == facts["merged"]


def test_what_cannot_be(home, tmp_path):
    city, table = home / "city.safetensors", home / "north.csv"
    plain = tmp_path / "plain.safetensors"
    ok("fit", table, "--target", "y", "--publish", 6, "--things", "-o", plain, "-q")
    ok("merge", plain, "-o", tmp_path / "e.safetensors", "-q")
    short = written(pd.read_csv(table).drop(columns="depth"), tmp_path / "short.csv")
    for arguments, said in (
        ((city, table), "whose rows are these? Pass --name, one of north, south"),
        ((city, table, "--name", "east"), "--name east: nobody here is called so; there are north, south"),
        ((home / "north.safetensors", table), "it holds a module, and gain needs an ensemble"),
        ((tmp_path / "e.safetensors", table), "no rows were held back of any module here; fit yours with --hold-back"),
        ((city, short, "--name", "north"), "depth"),
        ((city, table, "--name", "north", "--target", "why"), "why"),
    ):
        assert said in one_line(call("gain", *arguments))
    wrong = call("fit", table, "--target", "y", "--hold-back", 2, "-o", tmp_path / "x.safetensors")
    assert "--hold-back 2; pass a share of the rows between 0 and 1" in one_line(wrong)
