"""The options of `recyclegp fit` are those of `fit`, for models of one function and of several alike."""

from inspect import signature

import pytest

from cases_cli import call, written
from cases_joint import classes, outputs
from recyclegp.commands.fit import fit
from recyclegp.commands.fit_options import OF_TABLE
from recyclegp.local.options import DEFAULTS, OPTIONS
from recyclegp.models import fit as library

ELSEWHERE = {"target", "labels", "columns", "privacy"}  # --target, --positive, the table's header, --people
NOT_OFFERED = {"learn", "device"}
GIVEN = {  # every other option, with another value than the usual one
    "likelihood": ("categorical", "categorical"),
    "kernel": ("matern52", "matern52"),
    "method": ("dual", "dual"),
    "inducing": ("9", 9),
    "publish": ("7", 7),
    "rows_per_point": ("3", 3),
    "noise": ("0.5", 0.5),
    "seed": ("4", 4),
    "unit": ("K", "K"),
    "categories": ("depth", ["depth"]),
    "allow_small": (None, True),
    "missing": ("allow", "allow"),
    "hold_back": ("0.2", 0.2),
    "classes": ("low,top,other", ["low", "top", "other"]),
}


class StopError(Exception):
    """Once the options are known, nothing needs to be fitted."""


def test_the_command_has_the_options_of_the_library_with_their_defaults():
    mine = {name: p.default for name, p in signature(fit).parameters.items()}
    assert set(OPTIONS) - set(mine) == ELSEWHERE | NOT_OFFERED
    assert {*GIVEN, *OF_TABLE} == set(OPTIONS) & set(mine)
    assert all(mine[name] in (None, DEFAULTS[name]) for name in GIVEN)


@pytest.mark.parametrize("option", GIVEN)
@pytest.mark.parametrize("targets", ["heat", "heat,salt"])
def test_options_reach_the_library(tmp_path, monkeypatch, option, targets):
    found = {}

    def reached(X, y, **keywords):
        found.update(keywords)
        raise StopError

    monkeypatch.setattr(library, "fit", reached)
    if option == "missing" and targets == "heat":
        pytest.skip("rows of a single target have it, or are left out")
    text, value = GIVEN[option]
    of_classes = option in ("likelihood", "classes")
    table = classes(0, 0, 6) if of_classes else outputs(0, 0, 6)
    how = ["--target", "kind", "--likelihood", "categorical"] if of_classes else ["--target", targets]
    given = [] if option == "likelihood" else [f"--{option.replace('_', '-')}", *([] if text is None else [text])]
    path = written(table, tmp_path / "t.csv")
    result = call("fit", path, *how, *given, "-o", tmp_path / "a.safetensors")
    assert isinstance(result.exception, StopError), result.output
    usual = DEFAULTS | {"likelihood": found["likelihood"], "target": found["target"]}
    assert {name: found[name] for name in OPTIONS} == usual | {option: value}
