"""What newcomers do wrong most often, on the command line and in Python: one line says what, and what to do instead."""

import re
import shlex

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from blocks import ROOT
from cases_bad import one_line
from cases_cli import call

RNG = np.random.default_rng(5)
INPUTS = ["hour", "height"]


def table(rows=40):
    made = pd.DataFrame({"hour": RNG.uniform(0, 6, rows), "height": RNG.uniform(0, 1, rows)})
    return made.assign(temperature=np.sin(made["hour"]) + 0.1 * RNG.standard_normal(rows))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Two tables, their modules and what is merged of them, questions, and tables with something wrong."""
    folder = tmp_path_factory.mktemp("mistakes")
    for name, unit in (("north", "°C"), ("south", "K")):
        rows = table()
        rows.to_csv(folder / f"{name}.csv", index=False)
        m = rgp.fit(rows[INPUTS], rows["temperature"], name=name, unit=unit, privacy="things")
        m.save(folder / f"{name}.safetensors")
    rgp.merge([folder / "north.safetensors"]).save(folder / "both.safetensors")
    table(5)[INPUTS].to_csv(folder / "new.csv", index=False)
    table(5)[["hour"]].to_csv(folder / "lacks.csv", index=False)
    table().assign(temperature="warm").to_csv(folder / "words.csv", index=False)
    table().assign(day="2026-03-01").to_csv(folder / "dates.csv", index=False)
    table().mask(lambda t: t["hour"] < 1).to_csv(folder / "gaps.csv", index=False)
    table().assign(name=[f"patient {i}" for i in range(40)]).to_csv(folder / "names.csv", index=False)
    table().to_csv(folder / "commas.csv", index=False, sep=";", decimal=",")
    (folder / "empty.csv").write_text("")
    (folder / "inbox").mkdir()
    return folder


FIT = "--target temperature --things -o out.safetensors"
ON_THE_COMMAND_LINE = {  # a command: what its line names, and the remedy
    "fit nort.csv --target temperature -o out.safetensors": ("nort.csv", "No such file"),
    "fit north.csv --target Temperature -o out.safetensors": ("'Temperature'", "there are hour, height, temperature"),
    "fit north.csv -o out.safetensors": ("--target", "fit --help says more"),
    "fit north.csv --taget temperature -o out.safetensors": ("--taget", "Possible options: --name, --target"),
    "fitt north.csv": ("'fitt'", "Did you mean 'fit'?"),
    "fit north.csv --target temperature -o out.csv": ("out.csv", "write to out.safetensors"),
    f"fit north.csv --inputs hour,heigth {FIT}": ("'heigth'", "there are hour, height"),
    f"fit words.csv {FIT}": ("'temperature' holds text ('warm'", "--likelihood categorical"),
    f"fit dates.csv {FIT}": ("'day' holds dates", "--dates days"),
    f"fit gaps.csv {FIT}": ("missing", "--drop-missing"),
    f"fit names.csv {FIT}": ("name", "--inputs"),
    f"fit commas.csv {FIT}": ("hour", "--decimal ,"),
    f"fit empty.csv {FIT}": ("empty.csv", "it needs a header line"),
    f"fit north.csv --likelihood normal {FIT}": ("--likelihood normal", "use one of gaussian"),
    "merge north.csv south.csv -o out.safetensors": ("north.csv: a table", "recyclegp fit"),
    "merge inbox -o out.safetensors": ("inbox", "name the files of modules"),
    "merge north.safetensors south.safetensors -o out.safetensors": ("'°C' for one and in 'K'", "recyclegp transform"),
    "merge both.safetensors north.safetensors -o out.safetensors": ("both.safetensors", "--recycle"),
    "predict new.csv both.safetensors": ("both.safetensors: not a table", ".csv"),
    "predict both.safetensors lacks.csv": ("'height'", "there are hour"),
    "predict both.safetensors new.csv --owner west": ("--owner west", "there are north"),
    "score both.safetensors new.csv --target temperature": ("'temperature'", "there are hour, height"),
    "remove both.safetensors nort -o out.safetensors": ("nort", "there are north"),
    "remove north.safetensors north -o out.safetensors": (
        "north.safetensors: it holds a module",
        "make one with merge",
    ),
    "plot both.safetensors -o both.jpeg": ("both.jpeg", ".png"),
}


@pytest.mark.parametrize("command", ON_THE_COMMAND_LINE)
def test_on_the_command_line(files, monkeypatch, command):
    monkeypatch.chdir(files)
    before = sorted(p.name for p in files.iterdir())
    said = one_line(call(*shlex.split(command)))
    assert said.startswith("recyclegp: ")
    assert all(part in said for part in ON_THE_COMMAND_LINE[command]), said
    assert sorted(p.name for p in files.iterdir()) == before  # nothing was written


ROWS = table()
X, Y = ROWS[INPUTS], ROWS["temperature"]


def fitted(**options):
    return rgp.fit(X, Y, name="a", privacy="things", **options)


IN_PYTHON = {  # what was meant: the call, what its line names, and the remedy
    "the name of y for y": (lambda: rgp.fit(ROWS, "temperature"), "y='temperature'", r"pass .* X\['temperature'\]"),
    "y of other rows": (lambda: rgp.fit(X, Y[:30]), "y has shape (30,) but X has 40 rows", "one target per row"),
    "words for numbers": (lambda: rgp.fit(X, np.where(Y > 0, "yes", "no")), "y holds words", "likelihood='bernoulli'"),
    "gaps": (lambda: rgp.fit(X.mask(X < 0.1), Y), "X holds", "missing=|drop"),
    "another library's word": (lambda: fitted(likelihood="binomial"), "likelihood='binomial'", "use one of gaussian"),
    "a class for a name": (lambda: fitted(kernel="RBF"), "kernel='RBF'", "use rbf"),
    "measurements for counts": (lambda: fitted(likelihood="poisson"), "counts", "likelihood='gaussian'"),
    "patients": (lambda: rgp.fit(X, Y, privacy="patients"), "privacy is 'patients'", "use 'people' or 'things'"),
    "too few points": (lambda: fitted(publish=0), "publish=0", "positive number"),
    "rows for modules": (lambda: rgp.merge([fitted()]).add(ROWS), "DataFrame", "fit its rows first"),
    "classes of numbers": (lambda: fitted().predict_class(X), "predict_class need classes", "use predict_y"),
    "two for a list": (lambda: rgp.merge(fitted(), fitted()), "merge takes one list", r"merge\(\[a, b\]\)"),
    "a dict for a list": (lambda: rgp.merge({"a": fitted()}), "not a mapping", r"list\(modules.values\(\)\)"),
    "nothing": (lambda: rgp.merge([]), "modules is empty", "at least one"),
    "an ensemble for a module": (lambda: rgp.merge([rgp.merge([fitted()])]), "not Ensemble", "to_module"),
    "twice the same": (lambda: rgp.merge([fitted(), fitted()]), "named 'a'", "rename"),
    "other columns": (
        lambda: rgp.merge([fitted(), rgp.fit(X[["hour"]], Y, name="b", privacy="things")]),
        "'b' has 1 input column (hour)",
        "merge modules over the same inputs",
    ),
    "too few columns": (lambda: rgp.merge([fitted()]).predict(X[["hour"]]), "lacks the columns height", "fitted on"),
    "probabilities of numbers": (
        lambda: fitted().predict_proba(X),
        "predict_proba and predict_class need classes",
        "use predict_y",
    ),
    "nobody's name": (lambda: rgp.merge([fitted()]).remove("b"), "no module is named b", "there are a"),
    "a figure of another kind": (lambda: rgp.plot.save([fitted()], "a.jpg"), "a.jpg", "choose one"),
    "units of nothing": (lambda: fitted().transform(input_scale={"hours": 60}), "hours", "there are hour, height"),
}


@pytest.mark.filterwarnings("ignore::recyclegp.errors.PrivacyWarning")
@pytest.mark.parametrize("mistake", IN_PYTHON)
def test_in_python(mistake):
    call_it, names, remedy = IN_PYTHON[mistake]
    with pytest.raises((rgp.RecycleGPError, TypeError)) as caught:
        call_it()
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 300
    assert names in said
    assert re.search(remedy, said), said


def test_the_page_of_messages_has_them():
    """Words of most of these lines stand in a heading of docs/troubleshooting.md, below which there is more."""
    page = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    headings = "\n".join(re.findall(r"^### .*$", page, flags=re.MULTILINE))
    for words in ("a table, not a model", "no column", "missing or infinite values", "holds dates", "is one word"):
        assert words in headings, words
    for words in ("nobody here is called so", "no module is named", "fit its rows first", "there are …"):
        assert words in headings, words
