"""Options as values: the same whether they are given one by one or as a group."""

import inspect

import pytest

import recyclegp as rgp
from recyclegp.local.options import DEFAULTS, OPTIONS, FitOptions, Inference, Naming, Publishing

OF_DATA = {"X", "y", "data", "name", "names", "owner", "owners", "time", "times", "weights", "on_failure", "progress"}


@pytest.mark.parametrize("function", [rgp.fit, rgp.fit_many])
def test_every_option_is_an_argument_with_its_default(function):
    """And nothing else is."""
    arguments = inspect.signature(function).parameters
    assert {name: p.default for name, p in arguments.items() if name not in OF_DATA} == DEFAULTS


def test_keywords_go_to_their_groups_and_come_back():
    options = FitOptions.of(publish=64, kernel="matern52", unit="mmHg", allow_small=True)
    assert options == FitOptions(Inference(kernel="matern52"), Publishing(64, allow_small=True), Naming(unit="mmHg"))
    assert FitOptions.of(**options.keywords) == options
    assert options.changed(seed=3).inference == Inference(kernel="matern52", seed=3)
    assert list(options.keywords) == list(OPTIONS)


def test_what_is_no_option_is_named():
    with pytest.raises(TypeError, match="no option is called 'colour'; there are likelihood, kernel"):
        FitOptions.of(colour="red")


def test_a_whole_group_may_be_given():
    whole = Publishing(5, rows_per_point=2)
    assert FitOptions.of(publish=whole, seed=1).publishing is whole
    assert FitOptions.of(method=Inference(method="exact")).inference.method == "exact"
    with pytest.raises(rgp.RecycleGPError, match="rows_per_point: publish= is a whole Publishing already"):
        FitOptions.of(publish=whole, rows_per_point=3)
    x = [[float(i)] for i in range(12)]
    m = rgp.fit(x, range(12), publish=Publishing(3, allow_small=True), target=Naming(target="level", unit="m"))
    assert len(m.inducing) == 3
    assert (m.target.name, m.target.unit) == ("level", "m")


def test_locals_of_a_function_hold_other_names_too():
    assert FitOptions.among({"X": 1, "seed": 4, "owner": "a"}) == FitOptions.of(seed=4)
