"""What is said of a file is true: whether rows are among its points, how many there are for a row, and of whom."""

import gpytorch
import numpy as np
import pandas as pd
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import recyclegp as rgp
from recyclegp.commands.fact_words import in_words
from recyclegp.commands.facts import of_file
from recyclegp.models.answer import Answer
from recyclegp.models.disclosure import PrivacyGuarantee
from recyclegp.record import Origin, Privacy

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (40, 2))
y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
HOW = {"learn": False, "noise": 0.01, "privacy": "things"}
GRID = np.stack(np.meshgrid([-1.0, 0.0, 1.0], [-1.0, 1.0]), -1).reshape(-1, 2)


def fitted(name="a", **how):
    return rgp.fit(X, y, name=name, **{**HOW, **how})


PLACED = fitted(publish=6)
GIVEN = fitted("given", publish=GRID)
ROWS = fitted("rows", publish=X[:5])


@pytest.mark.parametrize(
    ("module", "origin"),
    [
        (PLACED, Origin.PLACED),
        (GIVEN, Origin.UNKNOWN),
        (ROWS, Origin.ROWS),
        (fitted(publish=np.concatenate([GRID, X[3:4]])), Origin.ROWS),
        (fitted(inducing=X[:6], method="collapsed", publish=None), Origin.ROWS),
        (fitted(inducing=X[:6], method="collapsed", publish=4), Origin.PLACED),
        (fitted(inducing=GRID, method="collapsed"), Origin.UNKNOWN),
        (fitted(inducing=6, method="collapsed"), Origin.PLACED),
    ],
)
def test_a_fit_knows_whose_points_it_publishes(module, origin, tmp_path):
    assert module.disclosure.origin is origin
    module.save(tmp_path / "m")
    assert rgp.load(tmp_path / "m").disclosure == module.disclosure


def test_points_of_levels_alone_are_rows():
    """There are no other combinations than those that occur."""
    levels = pd.DataFrame({"device": ["x", "y", "z"] * 20})
    both = levels.assign(dose=np.linspace(0, 1, 60))
    target = np.tile([0.0, 1.0, 2.0], 20) + 0.1 * rng.standard_normal(60)
    assert rgp.fit(levels, target, **HOW).disclosure.origin is Origin.ROWS
    assert rgp.fit(both, target, **HOW).disclosure.origin is Origin.PLACED


@pytest.mark.parametrize("module", [PLACED, GIVEN, ROWS], ids=["placed", "given", "rows"])
def test_it_is_not_forgotten(module, tmp_path):
    origin = module.disclosure.origin
    for same in (
        module.rename("b"),
        module.transform(input_shift=[1.0, 2.0], output_scale=3.0),
        module.publish(4),
        module.owned_by("somebody"),
        rgp.merge([module], learn=False).to_module("again"),
        rgp.merge([module, PLACED.rename("other")], learn=False).to_module("again"),
    ):
        assert same.disclosure.origin is origin
    for merged in (rgp.merge([module], learn=False), rgp.merge([module], learn=False, inducing=5, keep="names")):
        merged.save(tmp_path / "e")
        assert rgp.load(tmp_path / "e").disclosure.origin is origin


def test_other_points_are_another_statement():
    assert PLACED.publish(GRID).disclosure.origin is Origin.UNKNOWN
    assert ROWS.publish(GRID).disclosure.origin is Origin.UNKNOWN
    assert ROWS.publish(X[2:4]).disclosure.origin is Origin.ROWS
    assert PLACED.rounded(3).disclosure.origin is Origin.UNKNOWN  # where inputs are whole numbers, it may be on one
    assert ROWS.rounded(3).disclosure.origin is Origin.ROWS
    merged = rgp.merge([PLACED], learn=False)
    assert merged.to_module("m", inducing=GRID).disclosure.origin is Origin.UNKNOWN
    assert rgp.merge([PLACED], inducing=GRID, learn=False).disclosure.origin is Origin.UNKNOWN


def test_columns_know_it_of_each(tmp_path):
    many = rgp.fit_many([(X, y), (X + 10, y)], names=["a", "b"], publish=X[:5], **HOW)
    automatic = rgp.fit_many([(X, y), (X + 10, y)], names=["a", "b"], publish=5, **HOW)
    for modules, origins in ((many, [Origin.ROWS, Origin.UNKNOWN]), (automatic, [Origin.PLACED] * 2)):
        assert [m.disclosure.origin for m in modules] == origins
        modules.save(tmp_path / "m")
        again = rgp.load_many(tmp_path / "m")
        assert [m.disclosure.origin for m in again] == origins
        assert [m.disclosure.origin for m in again[::-1].transform(output_scale=2.0)] == origins[::-1]
        assert of_file(tmp_path / "m")["origin"] == max(origins, key=list(Origin).index).value
        merged = rgp.merge(tmp_path / "m", learn=False)
        assert [row["origin"] for row in merged.report()] == [o.value for o in origins]


def test_functions_have_the_worst_of_them():
    parts = [m.rename("m") for m in (PLACED, ROWS)]
    named = [
        rgp.Module(m.about._replace(targets=(rgp.fit(X, y, target=t, **HOW).target,)), m.likelihoods, m.latents)
        for m, t in zip(parts, ("heat", "salt"), strict=True)
    ]
    assert rgp.Module.of_outputs(named).disclosure.origin is Origin.ROWS


def test_an_ensemble_says_it_of_every_member(tmp_path):
    small = rgp.fit(X[:20], y[:20], name="small", publish=10, **HOW)
    e = rgp.merge([PLACED, small, ROWS], learn=False)
    d = e.disclosure
    assert (d.origin, d.smallest_member, d.guarantee) == (Origin.ROWS, 20, PrivacyGuarantee.NONE)
    assert d.points_per_row == 0.5
    assert {row["name"]: row["origin"] for row in e.report()} == {"a": "placed", "small": "placed", "rows": "rows"}
    e.save(tmp_path / "e")
    facts = of_file(tmp_path / "e")
    assert facts["contains_data_rows"] is True
    assert (facts["origin"], facts["smallest_member"], facts["privacy_guarantee"]) == ("rows", 20, "none")
    assert [m["points_per_row"] for m in facts["members"]] == [6 / 40, 0.5, 5 / 40]
    words = in_words(facts)
    assert words["is any point a row"] == "YES: rows of the data are among them (rows)"
    assert words["smallest member"] == "20 rows (small); at most 0.5 points per row"
    assert words["guarantee"] == "none: no noise is added for privacy"
    assert words["points per row"] == "a 0.15, small 0.5, rows 0.12"


def test_who_has_noise_and_of_whom_it_is_not_known(tmp_path):
    """A file of people has noise, and says so; in an ensemble it is said of whom."""
    people = rgp.fit(X, y, name="people", privacy="people")
    people.save(tmp_path / "m")
    noise = "none: noise is added for people{}, and what it hides is measured, not proven"
    assert in_words(of_file(tmp_path / "m"))["guarantee"] == noise.format("")
    e = rgp.merge([people, ROWS, GIVEN], learn=False)
    assert [row["privacy"] for row in e.report()] == ["people", "things", "things"]
    e.save(tmp_path / "e")
    words = in_words(of_file(tmp_path / "e"))
    assert words["guarantee"] == noise.format(" (people)")
    assert (
        words["is any point a row"]
        == f"YES: rows of the data are among them (rows); not known of others ({GIVEN.name})"
    )


def test_a_label_is_no_noise(tmp_path):
    """Answers of earlier versions may say "people"; they are exact sums, and so is what is made of them."""
    plan = rgp.Plan(points=rgp.Plan.grid(X.min(0) - 1, X.max(0) + 1, 3), kernel="rbf", noise=0.1)
    answers = [plan.contribute(X[i::2], y[i::2], name=f"a{i}", privacy="things") for i in range(2)]
    early = [Answer(a.facts._replace(about=a.facts.about._replace(privacy=Privacy.PEOPLE))) for a in answers]
    e, _ = plan.combine(early)
    e.save(tmp_path / "e")
    e.to_module("m").save(tmp_path / "m")
    rgp.merge([rgp.load(tmp_path / "m"), rgp.fit(X, y, name="p", privacy="people")], learn=False).save(tmp_path / "f")
    for name, said in (("e", "no noise is added for privacy"), ("m", "no noise is added for privacy")):
        facts = of_file(tmp_path / name)
        assert facts["privacy"] == "people"
        assert in_words(facts)["guarantee"] == f"none: {said}"
    assert "noise is added for people (p)," in in_words(of_file(tmp_path / "f"))["guarantee"]


@pytest.mark.parametrize(("module", "known"), [(PLACED, False), (GIVEN, None), (ROWS, True)])
def test_the_older_field_is_true(module, known, tmp_path):
    module.save(tmp_path / "m")
    facts = of_file(tmp_path / "m")
    assert facts["contains_data_rows"] is known
    assert "contains data rows" not in in_words(facts)


def test_new_rows():
    e = rgp.merge([PLACED], learn=False)
    assert e.update(X[:20] + 0.01, y[:20], name="new").disclosure.origin is Origin.PLACED
    at_rows = rgp.merge([PLACED], inducing=X[:6], learn=False)
    assert at_rows.update(X[:20], y[:20], name="new").report()[-1]["origin"] == "rows"


def test_imports():
    gp = GaussianProcessRegressor(RBF() + WhiteKernel(0.1), optimizer=None).fit(X, y)
    assert rgp.from_sklearn(gp).disclosure.origin is Origin.PLACED
    assert rgp.from_sklearn(gp, publish=X[:4]).disclosure.origin is Origin.ROWS
    assert rgp.from_sklearn(gp, publish=GRID).disclosure.origin is Origin.UNKNOWN
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())
    known = rgp.Module.from_moments(X[:2], [0.2, 0.4], 0.1 * np.eye(2), kernel=kernel, noise=0.1)
    assert known.disclosure.origin is Origin.UNKNOWN
