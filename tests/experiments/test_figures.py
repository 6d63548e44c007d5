"""The drawing of experiments, on tiny models: words, contrast, and nothing on anything else."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import recyclegp as rgp
from cases_pictures import collisions, marked_texts, symbols, texts
from recyclegp.experiments import banana, eight, figures, mnist, owners
from recyclegp.experiments.core import Row, Settings
from recyclegp.experiments.data import quadrants
from recyclegp.plot import style


@pytest.fixture(scope="module")
def made():
    """Two classes in four quadrants, with a merge and one model of all rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (160, 2))
    y = (np.sin(7 * X[:, 0]) + np.sin(5 * X[:, 1]) > 0).astype(float)
    parts = quadrants(X, y)
    how = {"likelihood": "bernoulli", "learn": False, "privacy": "things"}
    modules = [rgp.fit(*part, publish=5, name=f"owner {k}", **how) for k, part in enumerate(parts)]
    merged, central = rgp.merge(modules, learn=False, owners=None), rgp.fit(X, y, publish=20, name="central", **how)
    case = SimpleNamespace(parts=parts, modules=modules, case="zero, four corners, M_k=5")
    return SimpleNamespace(owners=case, merges=[merged, merged], central=central)


def legend(figure):
    return [t.get_text() for t in figure.legends[0].get_texts()]


def test_banana_explains_its_marks(made):
    figure = banana.draw(made)
    assert collisions(figure) == []
    assert symbols(figure) == []
    wanted = ["class 0", "class 1", "points that each owner publishes", style.CHOSEN, "merged", "central"]
    assert legend(figure) == [*wanted, "P(class 1) = 0.2", "P(class 1) = 0.5", "P(class 1) = 0.8"]


def brightness(colour):
    parts = np.array(to_rgb(colour))
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one, other):
    high, low = sorted([brightness(one), brightness(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_classes_differ_from_paper_and_from_each_other():
    """As WCAG measures it: 3 for what must be told apart; the fainter class only from paper, a little less."""
    assert contrast(*banana.CLASSES) > 3
    assert contrast(banana.CLASSES[1], "white") > 7
    assert contrast(banana.CLASSES[0], "white") > 2


def test_images_explain_their_marks(made):
    image = np.zeros((28, 28))
    image[8:20, 10:18] = 1
    for figure in (mnist.draw([image], [made]), eight.draw(image, made.merges[0], made)):
        assert collisions(figure) == []
        assert symbols(figure) == []
        assert legend(figure)[:2] == ["points that each owner publishes", style.CHOSEN]


def row(case, model, nlpd):
    return Row(case, model, nlpd, 1.0, 1.0, 0.95, 0.0, "y", 1.0, 1.0, 100.0, 5)


def test_names_of_models_are_words():
    said = {
        "merged, M=35": "merged, 35 points",
        "PoE, exact experts, shared θ": "PoE, exact experts, shared kernel",
        "K=3, random, offsets of 0 sd": "3 owners, random, constants of 0 sd",
        "zero, four corners, M_k=16": "zero, four corners, 16 points each",
        "KM=3": "KM=3",
    }
    assert {name: figures.in_words(name) for name in said} == said


def test_the_distance_from_the_best_is_in_words():
    models = ["oracle", "merged, M=35", "merged, auto", "PoE, exact experts, shared θ", "SGPR by map-reduce, M=35"]
    rows = [row("K=5", model, 1.0 + 0.01 * k) for k, model in enumerate(models)]
    figure = figures.new(8, 4)
    figures.excess(figure.subplots(), rows, "oracle", "Held-out y")
    assert collisions(figure) == []
    assert symbols(figure) == []
    assert {"merged, 35 points", "0.0100", "SGPR by map-reduce, 35 points"} <= {text for text, _ in texts(figure)}


@pytest.mark.slow
def test_five_owners_about_one_function():
    shown = owners.cases(Settings(full=False, seeds=1, data_dir=None))
    models = (owners.AUTO, owners.ALONE, owners.PLAIN)
    rows = [row(c.name, model, 1.0 + 0.1 * k) for c in shown for k, model in enumerate(models)]
    figure = owners.draw(rows, shown)
    assert collisions(figure) == []
    assert marked_texts(figure) == []
    assert symbols(figure) == []
    assert legend(figure) == ["over each alone", "over owners=None"]


@pytest.mark.parametrize(
    ("value", "said"),
    [(10.0**-5, "0.00001"), (10.0**-3, "0.001"), (0.25, "0.25"), (1.0, "1"), (100.0, "100"), (0, "0")],
)
def test_axes_have_digits(value, said):
    assert figures.in_digits()(value) == said
