"""Every public function has an example that runs, and says what it raises.

Examples of methods go on where that of their class ends: what it has made is theirs, too.
"""

from __future__ import annotations

import ast
import doctest
import importlib.util
import inspect
import textwrap
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

import recyclegp as rgp

ROOMS = ("metrics", "plot", "engines.joblib")  # beside what is in recyclegp itself
if importlib.util.find_spec("dask") is not None:
    ROOMS += ("engines.dask",)
OTHER_LIBRARIES = {"from_gpflow": "gpflow", "from_gpjax": "gpjax", "to_botorch": "botorch"}
NEVER_RAISE = {  # whatever they are asked
    "Ensemble.drop_sites",
    "MergedModel.report",
    "Evaluated.only",
    "RecycleGPError.worded",
    "RecycleGPWarning.worded",
    "metrics.concatenate",
    "metrics.coverage",
    "metrics.nlpd",
    "metrics.pit_histogram",
    "metrics.summary",
}
NOT_FOR_USERS: set[str] = set()


class Public(NamedTuple):
    name: str
    function: Callable[..., Any]
    home: type | None  # the class that users have


def named_in(room: Any) -> list[str]:
    """Its own names, of modules that do not list them."""
    listed = getattr(room, "__all__", None)
    own = [name for name, v in vars(room).items() if getattr(v, "__module__", "") == room.__name__]
    return listed or [name for name in own if name == "fit_partitions"]


def methods_of(kind: type) -> Iterator[Public]:
    """Of a class and of those of ours that it inherits from."""
    for home in kind.__mro__:
        if home.__module__.startswith("recyclegp.") and not getattr(home, "_is_protocol", False):
            for name, value in vars(home).items():
                function = getattr(value, "__func__", value)
                if inspect.isfunction(function) and not name.startswith("_"):
                    yield Public(f"{home.__name__}.{name}", function, kind)


def public() -> dict[str, Public]:
    found: dict[str, Public] = {}
    for room in (rgp, *(importlib.import_module(f"recyclegp.{name}") for name in ROOMS)):
        where = "" if room is rgp else room.__name__.removeprefix("recyclegp.") + "."
        for name in named_in(room):
            value = getattr(room, name)
            if inspect.isfunction(value):
                found[where + name] = Public(where + name, value, None)
            elif inspect.isclass(value):
                found |= {one.name: one for one in methods_of(value)}
    older = [name for name, one in found.items() if (one.function.__doc__ or "").startswith("The older name of")]
    return {name: one for name, one in found.items() if name not in {*older, *NOT_FOR_USERS}}


PUBLIC = public()


def raises(function: Callable[..., Any]) -> bool:
    """By itself, not by what it calls."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    return any(isinstance(node, ast.Raise) for node in ast.walk(tree))


def test_all_that_is_public_is_found():
    assert {"fit", "merge", "Module.publish", "Ensemble.remove", "Predictive.predict", "Modules.save"} <= set(PUBLIC)
    assert {"metrics.score", "plot.save", "engines.joblib.fit_partitions", "Calibration.load"} <= set(PUBLIC)
    assert len(PUBLIC) > 60


@pytest.mark.parametrize("name", PUBLIC)
def test_it_has_an_example_and_says_what_it_raises(name):
    text = inspect.getdoc(PUBLIC[name].function) or ""
    assert "Examples:" in text
    assert ">>> " in text
    assert name not in NEVER_RAISE or not raises(PUBLIC[name].function)
    assert ("Raises:" in text) == (name not in NEVER_RAISE)


def run(text: str, names: dict[str, Any], where: str) -> None:
    found = doctest.DocTestParser().get_doctest(text, names, where, None, None)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found, out=said.append, clear_globs=False)
    assert result.failed == 0, "".join(said)
    names.update(found.globs)


@cache
def begun(home: type) -> dict[str, Any]:
    """What the example of a class leaves behind."""
    names = dict(vars(importlib.import_module(home.__module__)))
    run(inspect.getdoc(home) or "", names, home.__name__)
    return names


@pytest.mark.parametrize("name", PUBLIC)
def test_its_example_runs(name, tmp_path, monkeypatch):
    one = PUBLIC[name]
    library = OTHER_LIBRARIES.get(one.function.__name__)
    if library is not None:
        pytest.importorskip(library)
    monkeypatch.chdir(tmp_path)
    names = vars(importlib.import_module(one.function.__module__)) if one.home is None else begun(one.home)
    run(inspect.getdoc(one.function) or "", dict(names), name)
