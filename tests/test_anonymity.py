"""Names, record numbers and dates do not get into a file because they stood in the table."""

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok, written
from recyclegp.anonymity import MOST_LEVELS_UNASKED, OTHER, ROWS_PER_LEVEL, LevelGuard, check_classes
from recyclegp.engines.joblib import fit_partitions
from recyclegp.errors import IdentifierWarning, RecycleGPError
from recyclegp.sklearn import RecyclableGPClassifier, RecyclableGPRegressor

N = 80
RNG = np.random.default_rng(0)
AGE = RNG.uniform(20, 80, N)
Y = pd.Series(np.sin(AGE / 10) + 0.1 * RNG.standard_normal(N), name="pressure")
SEX = ["f", "m"] * (N // 2)
IDS = {  # what the issue tried, and what is said of it
    "a name for each row": ([f"Smith-{i}" for i in range(N)], "80 different texts in 80 rows, as an id would"),
    "two visits each": ([f"Smith-{i % 40}" for i in range(N)], "40 different texts in 80 rows, as an id would"),
    "postcodes": ([f"N1 {i % 50}QZ" for i in range(N)], "50 different texts in 80 rows, as an id would"),
    "record numbers": ([f"mrn{i:05d}" for i in range(N)], "as an id would"),
}
AS_TEXT = {
    "dates": ([f"19{50 + i % 40}-03-{1 + i % 28:02d}" for i in range(N)], "holds dates as text"),
    "dates of others": ([f"3/{1 + i % 28}/{1950 + i % 40}" for i in range(N)], "holds dates as text"),
    "dates in words": ([f"{1 + i % 5}-Mar-1940" for i in range(N)], "holds dates as text"),
    "dates as in letters": ([f"March {1 + i % 5}, 1940" for i in range(N)], "holds dates as text"),
    "decimal commas": ([f"{i % 5},5" for i in range(N)], "holds numbers as text"),
    "numbers": ([str(4_000_017 + 37 * i) for i in range(N)], "holds numbers as text"),
}
RARE = ["Rare-0", "Rare-1", "Rare-1", "Rare-2", "Rare-3", "Rare-4", *(["a", "b"] * (N // 2 - 3))]


def table(cells):
    return pd.DataFrame({"patient": cells, "age": AGE})


def fitted(X, **how):
    return rgp.fit(X, Y, publish=4, name="ward", **how)


def many(X, **how):
    return rgp.fit_many([(X, Y)], names=["ward"], publish=4, progress=False, **how)[0]


def estimated(X, **how):
    return RecyclableGPRegressor(publish=4, **how).fit(X, Y).modules_[0]


def divided(X, **how):
    return fit_partitions([(X, Y)], jobs=1, publish=4, progress=False, **how)


WAYS = pytest.mark.parametrize("way", [fitted, many, estimated, divided])


@WAYS
@pytest.mark.parametrize(("cells", "message"), [*IDS.values(), *AS_TEXT.values()], ids=[*IDS, *AS_TEXT])
def test_ids_are_refused(way, cells, message):
    with pytest.raises(RecycleGPError, match=message) as refused:
        way(table(cells))
    assert "categories=['patient']" in str(refused.value)
    assert not any(cell in str(refused.value) for cell in cells)


@pytest.mark.parametrize(("cells", "message"), IDS.values(), ids=list(IDS))
@pytest.mark.parametrize("more", [(), ("--partitions", 2, "--jobs", 1)], ids=["whole", "partitions"])
def test_ids_are_refused_on_the_command_line(tmp_path, cells, message, more):
    path, out = written(table(cells).assign(y=Y), tmp_path / "a.csv"), tmp_path / "a.safetensors"
    said = one_line(call("fit", path, "-t", "y", "--publish", 10, *more, "-o", out))
    assert all(words in said for words in (message, "--inputs", "--categories patient"))
    assert not out.exists()


@WAYS
def test_rare_levels_are_other(way, tmp_path):
    with pytest.warns(IdentifierWarning, match="5 of 7 levels have fewer than 5 rows, and will be called 'other'"):
        model = way(table(RARE))
    assert model.categories.levels == ((0, ("a", "b", OTHER)),)
    model.save(tmp_path / "a.safetensors")
    assert b"Rare-" not in (tmp_path / "a.safetensors").read_bytes()
    with pytest.warns(rgp.RecycleGPWarning, match="has not seen"):
        model.predict(table(RARE)[:1])


@pytest.mark.parametrize("more", [(), ("--partitions", 2, "--jobs", 1)], ids=["whole", "partitions"])
def test_rare_levels_on_the_command_line(tmp_path, more):
    shuffled = table(RARE).assign(y=Y).sample(frac=1, random_state=0)
    path, out = written(shuffled, tmp_path / "a.csv"), tmp_path / "a.safetensors"
    said = " ".join(ok("fit", path, "-t", "y", "--publish", 10, *more, "-o", out).output.split())
    assert "5 of 7 levels have fewer than 5 rows" in said
    assert set(answer("inspect", out)["words"]["levels of patient"]) == {"a", "b", OTHER}
    assert b"Rare-" not in out.read_bytes()


@WAYS
def test_a_column_that_is_named_is_somebodys_choice(way):
    cells = IDS["two visits each"][0]
    model = way(table(cells), categories=["patient"])
    assert len(model.categories.names(0)) == 40


def test_few_rows_that_are_rare_take_the_next_level_with_them():
    """Every level in a file has k rows, also 'other'."""
    guard = LevelGuard()
    assert guard.pool({"a": 50, "b": 40, "c": 30, "d": 1}, "x", "x") == {"c", "d"}
    assert guard.pool({"a": 50, "b": 40, "c": 4, "d": 1}, "x", "x") == {"c", "d"}
    assert guard.pool({"a": 50, OTHER: 10, "d": 1}, "x", "x") == {"d"}
    assert guard.pool({"a": 50}, "x", "x") == frozenset()
    with pytest.raises(RecycleGPError, match="no two groups of them have 5 rows each"):
        guard.pool({"m": 100, "f": 3}, "x", "x")
    enough = {f"level {i}": 50 for i in range(MOST_LEVELS_UNASKED)}
    assert not guard.pool(enough, "x", "x")
    with pytest.raises(RecycleGPError, match="more than 12"):
        guard.pool(enough | {"one more": 50}, "x", "x")
    assert LevelGuard(rows=10).pool({"a": 50, "b": 9, "c": 4}, "x", "x") == {"b", "c"}


def test_categoricals_and_truths():
    X = pd.DataFrame({"ward": pd.Categorical(RNG.integers(1, 4, N)), "smokes": AGE > 79, "age": AGE})
    assert fitted(X).categories.levels == ((0, ("1", "2", "3")), (1, ("False", "True")))
    with pytest.raises(RecycleGPError, match="as an id would"):
        fitted(table(pd.Categorical(IDS["two visits each"][0])))


def test_columns_of_arrays_are_named_by_position():
    X = np.array(list(zip(IDS["two visits each"][0], AGE, strict=True)), dtype=object)
    with pytest.raises(RecycleGPError, match=r"column 0 holds 40 different texts"):
        fitted(X)
    assert len(fitted(X, categories=[0]).categories.names(0)) == 40
    assert len(fitted(X, categories=["who"], columns=["who", "age"]).categories.names(0)) == 40


WRONG = {
    "no such column": (["ward"], "there is no such column; there are patient, age"),
    "numbers": (["age"], r"it holds numbers; pass it as text, as X\['age'\].astype\(str\)"),
    "a word": ("patient", "pass a list of columns"),
}


@pytest.mark.parametrize(("given", "message"), WRONG.values(), ids=list(WRONG))
def test_wrong_categories(given, message):
    for way in (fitted, many, estimated):
        with pytest.raises(RecycleGPError, match=message):
            way(table(SEX), categories=given)


def test_levels_of_people_need_more_rows():
    cells = ["x"] * 9 + ["y"] * 3 + ["a"] * 34 + ["b"] * 34
    for way in (fitted, many, estimated, divided):
        with pytest.warns(IdentifierWarning, match="2 of 4 levels have fewer than 10 rows"):
            assert way(table(cells), privacy="people").categories.names(0) == ("a", "b", OTHER)


# --- update ---


def test_an_update_adds_no_name(tmp_path):
    city = rgp.merge([fitted(table(SEX))])
    new = table(["Smith", "f", *["x"] * ROWS_PER_LEVEL, *["m"] * (N - 2 - ROWS_PER_LEVEL)])
    with pytest.warns(IdentifierWarning, match="1 of 4 levels has fewer than 5 rows.*new levels need as many"):
        more = city.update(new, Y)
    assert more.categories.names(0) == ("f", "m", OTHER, "x")
    more.save(tmp_path / "a.safetensors")
    assert b"Smith" not in (tmp_path / "a.safetensors").read_bytes()
    city.update(table(["f", *["m"] * (N - 1)]), Y)  # levels that are known need no rows


def test_rows_that_come_later_may_be_few():
    gp = RecyclableGPRegressor(publish=10).fit(table(SEX), Y)
    gp.partial_fit(table(SEX)[:6], Y[:6])
    with pytest.warns(IdentifierWarning, match="new levels need as many"):
        gp.partial_fit(table(["Smith", *["f"] * (N - 1)]), Y)
    assert gp.ensemble_.categories.names(0) == ("f", "m", OTHER)


# --- numbers and classes ---


def test_record_numbers_are_warned_of(tmp_path):
    X = pd.DataFrame({"mrn": RNG.permutation(np.arange(1000, 1000 + N)), "age": AGE})
    for way in (fitted, many, estimated):
        with pytest.warns(IdentifierWarning, match="column 'mrn' looks like a record number"):
            way(X)
    out = tmp_path / "a.safetensors"
    said = ok("fit", written(X.assign(y=Y), tmp_path / "a.csv"), "-t", "y", "--publish", 10, "-o", out).output
    assert "column 'mrn' looks like a record number" in " ".join(said.split())
    fitted(X[["mrn"]])  # the only input is one


def test_classes_are_words():
    check_classes(["1", "2", "3"])
    check_classes(["low"] * 5 + ["top"] * 5)
    with pytest.warns(IdentifierWarning, match="1 of 3 classes with fewer than 5 rows"):
        check_classes(["low"] * 50 + ["top"] * 50 + ["Smith"])
    x = AGE[:, None]
    names = np.array([f"Smith-{i % 40}" for i in range(N)])
    with pytest.raises(RecycleGPError, match="40 of 40 classes with fewer than 5 rows; their labels go into the file"):
        rgp.fit(x, names, likelihood="categorical")
    with pytest.raises(RecycleGPError, match="40 of 40 classes"):
        RecyclableGPClassifier().fit(x, names)
    kinds = np.where(AGE < 50, "low", "top")
    kinds[0] = "Smith"
    with pytest.warns(IdentifierWarning, match="1 of 3 classes"):
        rgp.fit(x, kinds, likelihood="categorical", publish=10)
    with pytest.warns(IdentifierWarning, match="1 of 3 classes"):
        RecyclableGPClassifier(publish=10).fit(x, kinds)
    rgp.fit(x, kinds, likelihood="categorical", publish=10, classes=["low", "top", "Smith"])
    rgp.fit(x, kinds, likelihood="categorical", publish=10, allow_small=True)


# --- what is shown ---


@pytest.mark.parametrize("more", [(), ("--partitions", 2, "--jobs", 1)], ids=["whole", "partitions"])
def test_the_words_are_shown_before_they_are_written(tmp_path, more):
    path, out = written(table(SEX).assign(bp=Y), tmp_path / "a.csv"), tmp_path / "a.safetensors"
    how = () if more else ("--name", "ward-7", "--owner", "north")
    said = ok("fit", path, "-t", "bp", "--unit", "mmHg", "--publish", 10, *how, *more, "-o", out).output
    note, facts = said.index("words that will be in the file:"), said.index("words in this file")
    assert note < said.index("bytes, schema") < facts
    names = "name: part-0, part-1" if more else "name: ward-7; owner: north"
    expected = f"{names}; columns: patient, age; levels of patient: f, m; target: bp; unit: mmHg"
    assert said.count(expected) == 2
    assert expected in ok("inspect", out).output


def test_all_kinds_of_files_show_their_words(tmp_path):
    x, kinds = AGE[:, None], np.where(AGE < 50, "low", "top")
    out = tmp_path / "a.safetensors"
    rgp.fit(x, kinds, likelihood="categorical", publish=10, name="a").save(out)
    assert answer("inspect", out)["words"] == {"name": ["a"], "classes": ["low", "top"]}
    rgp.fit(x, AGE < 50, likelihood="bernoulli", labels=["old", "young"], publish=10, name="a").save(out)
    assert answer("inspect", out)["words"]["labels"] == ["old", "young"]
    rgp.fit_many([(table(SEX), Y)] * 2, names=["a", "b"], publish=10, progress=False).save(out)
    assert answer("inspect", out)["words"] == {
        "name": ["a", "b"],
        "columns": ["patient", "age"],
        "levels of patient": ["f", "m"],
        "target": ["pressure"],
    }
