"""Errors and warnings are values, worded for Python or for the command line; and remedies can be followed."""

import ast
import inspect
import pickle
import re
import shlex
import warnings
from pathlib import Path

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
import typer.main
from hypothesis import HealthCheck, given, settings

import recyclegp as rgp
from cases_cli import call
from recyclegp.cli import app
from recyclegp.errors import Argument, Either, Message, Name, OfStranger, Remedy, in_words, warn_user
from recyclegp.merging.verdicts import InputFactor, Standing, Units, Verdict, proposed
from recyclegp.target import Target, contradiction

SOURCE = Path(rgp.__file__).parent
CALLS = (rgp.fit, rgp.merge, rgp.calibrate, rgp.Module.transform, rgp.Ensemble.update, rgp.Ensemble.remove)
ARGUMENTS = {name for function in CALLS for name in inspect.signature(function).parameters}
OPTIONS = {
    option
    for command in typer.main.get_command(app).commands.values()
    for parameter in command.params
    for option in (*parameter.opts, *parameter.secondary_opts)
}


def both(part):
    return in_words([part], shell=False), in_words([part], shell=True)


# --- parts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "python", "shell"),
    [
        (Argument("keep", "sites"), "keep='sites'", "--keep sites"),
        (Argument("kernel", "rbf + linear"), "kernel='rbf + linear'", "--kernel 'rbf + linear'"),
        (Argument("rows_per_point", 10), "rows_per_point=10", "--rows-per-point 10"),
        (Argument("half_life", 2.5), "half_life=2.5", "--half-life 2.5"),
        (Argument("trust", None), "trust=None", "--trust none"),
        (Argument("relearn", True), "relearn=True", "--relearn"),
        (Argument("learn", False), "learn=False", "--no-learn"),
        (Argument("decay", 5.0), "decay=5", "--forget 5"),
        (Argument("levels", [0.5, 0.9]), "levels=[0.5, 0.9]", "--levels 0.5,0.9"),
        (Argument("inducing"), "inducing=", "--inducing"),
        (Argument("unit", ""), "unit=''", "--unit ''"),
        (Name("output_scale"), "output_scale", "--output-scale"),
        (Either("here", "there"), "here", "there"),
        (Message("pass ", Argument("noise"), "!"), "pass noise=!", "pass --noise!"),
        (Message.joined(["a", Name("owner"), "b"], " | "), "a | owner | b", "a | --owner | b"),
        (Message.joined([]), "", ""),
        (rgp.RecycleGPError("x: ", rgp.RecycleGPError(Name("owner"))), "x: owner", "x: --owner"),
        (OfStranger(rgp.RecycleGPError("\x1b[2J", Name("owner"))), r"\x1b[2Jowner", r"\x1b[2J--owner"),
        (OfStranger("x" * 600), "x" * 500 + "…", "x" * 500 + "…"),
        (
            Remedy("transform", (Argument("input_scale", {"a b": 1000.0, 1: 0.1}), Argument("output_shift", -3.0))),
            "transform(input_scale={'a b': 1000, 1: 0.1}, output_shift=-3)",
            "recyclegp transform FILE --input-scale 'a b=1000' --input-scale 1=0.1 --output-shift -3 "
            "-o FILE-new.safetensors",
        ),
        (Remedy("report", command="compare", writes=False), "report()", "recyclegp compare FILE"),
    ],
)
def test_parts_are_worded_for_python_and_for_the_command_line(part, python, shell):
    assert both(part) == (python, shell)
    assert str(part) == python


def test_files_that_a_shell_would_misunderstand():
    remedy = Remedy("transform", (Argument("output_scale", 2.0),))
    assert shlex.split(remedy.shell("-a b.safetensors")) == [
        *("recyclegp", "transform", "./-a b.safetensors"),
        *("--output-scale", "2", "-o", "./-a b-new.safetensors"),
    ]


@pytest.mark.parametrize("kind", [rgp.RecycleGPError, rgp.RecycleGPWarning])
def test_errors_and_warnings_travel_between_processes(kind):
    parts = ("use ", Argument("inducing"), " or ", Remedy("transform", (Argument("unit", "g"),)))
    back = pickle.loads(pickle.dumps(kind(*parts)))
    assert type(back) is kind
    assert back.args == parts
    assert both(back) == both(kind(*parts))


def test_a_message_may_be_text_alone():
    assert both(rgp.RecycleGPError("X is empty")) == ("X is empty", "X is empty")
    assert rgp.RecycleGPError("X is empty").args == ("X is empty",)


def test_a_warning_keeps_its_parts():
    with pytest.warns(rgp.RecycleGPWarning, match=r"^pass noise=$") as told:
        warn_user("pass ", Argument("noise"))
    assert told[0].message.worded(shell=True) == "pass --noise"


# --- what the library says --------------------------------------------------------------------


def x(n=24):
    return np.linspace(0, 6, n)[:, None]


def wave(n=24, **options):
    return rgp.fit(x(n), np.sin(x(n)[:, 0]), **({"publish": 6} | options))


def names_only():
    return rgp.merge([wave(name="a"), wave(name="b")], keep="names", inducing=6, trust=None)


def raised(ask):
    with pytest.raises(rgp.RecycleGPError) as caught:
        ask()
    return caught.value


def told(ask):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        ask()
    return Message.joined([w.message for w in found], "\n")


def in_grams(i):
    """Three owners whose columns have no names, of which the last may be in g instead of mg."""
    rng = np.random.default_rng(i)
    X = np.c_[rng.uniform(120, 900, 60) * (0.001 if i == 2 else 1), rng.uniform(20, 80, 60)]
    return rgp.fit(X, 10 * np.log(X[:, 0]) + rng.standard_normal(60), name=f"m{i}")


@pytest.mark.parametrize(
    ("found", "python", "shell"),
    [
        (
            lambda: raised(lambda: wave(likelihood="gauss")),
            "likelihood='gauss' is not known",
            "--likelihood gauss is not known",
        ),
        (lambda: raised(lambda: wave(kernel="sines")), "kernel='sines' cannot", "--kernel sines cannot"),
        (lambda: raised(lambda: wave(method="best")), "method='best' is not", "--method best is not"),
        (lambda: raised(lambda: wave(publish=0)), "publish=0; pass", "--publish 0; pass"),
        (lambda: raised(lambda: wave(rows_per_point=99)), "rows_per_point=99: 24", "--rows-per-point 99: 24"),
        (lambda: raised(lambda: wave(noise=-1)), "noise=-1; pass", "--noise -1; pass"),
        (lambda: raised(lambda: wave(name="")), "name=''; use", "--name ''; use"),
        (lambda: raised(lambda: wave(owner="new")), "owner='new'; use", "--owner new; use"),
        (lambda: raised(lambda: wave(time="soon")), "time='soon': write", "--time soon: write"),
        (lambda: raised(lambda: wave(unit="")), "unit=''; use", "--unit ''; use"),
        (lambda: raised(lambda: rgp.merge([wave()], keep="all")), "keep='all'; use", "--keep all; use"),
        (lambda: raised(lambda: rgp.merge([wave()], trust="no")), "trust='no'; use", "--trust no; use"),
        (lambda: raised(lambda: rgp.merge([wave()], owners="x")), "owners='x'; use", "--owners x; use"),
        (lambda: raised(lambda: rgp.merge([wave()], half_life=0)), "half_life=0; pass", "--half-life 0; pass"),
        (
            lambda: raised(lambda: rgp.merge([wave(name="a")], half_life=2)),
            "half_life= needs ages, and a do not say when they were observed; fit them with time=, or use module.at_",
            "--half-life needs ages, and a do not say when they were observed; fit them with --time",
        ),
        (
            lambda: raised(lambda: rgp.merge([wave()], now=2)),
            "now= is the time from which ages are counted for half_life=",
            "--now is the time from which ages are counted for --half-life",
        ),
        (
            lambda: raised(lambda: names_only().remove("a")),
            "or merge with keep='sites'",
            "or merge with --keep sites",
        ),
        (
            lambda: raised(lambda: names_only().update(x(), x()[:, 0], relearn=True)),
            "relearn=True needs the modules' sites",
            "--relearn needs the modules' sites",
        ),
        (lambda: raised(lambda: names_only().update(x(), x()[:, 0], decay=5)), "decay=5; pass", "--forget 5; pass"),
        (
            lambda: raised(lambda: wave().transform(input_scale={"dose": 2})),
            "input_scale: the 1 input columns have no names; use their positions 0 to 0, or name them first with "
            "module.with_columns",
            "--input-scale: the 1 input columns have no names; use their positions 0 to 0",
        ),
        (
            lambda: raised(lambda: wave().transform(output_scale=0)),
            "output_scale=0; pass",
            "--output-scale 0; pass",
        ),
        (
            lambda: raised(lambda: rgp.calibrate(wave(), x(9), x(9)[:, 0], levels=[0.99])),
            "levels=[0.99]: there are 9",
            "--levels 0.99: there are 9",
        ),
        (
            lambda: contradiction(Target(unit="g"), Target(unit="kg")),
            "change one with transform(output_scale=…, output_shift=…, unit=…)",
            "change one with recyclegp transform FILE --output-scale … --output-shift … --unit … -o FILE-new.",
        ),
        (lambda: told(lambda: wave(5)), "or pass allow_small=True", "or pass --allow-small"),
        (lambda: told(lambda: wave(publish=2)), "(publish=4)", "(--publish 4)"),
        (
            lambda: told(lambda: wave(publish="auto", rows_per_point=8)),
            "(a smaller rows_per_point than 8)",
            "(a smaller --rows-per-point than 8)",
        ),
        (
            lambda: told(lambda: rgp.merge(list(map(in_grams, range(3))))),
            "1000·input 1 would agree; transform(input_scale={0: 1000})",
            "1000·input 1 would agree; recyclegp transform FILE --input-scale 0=1000 -o FILE-new.safetensors",
        ),
    ],
)
def test_messages_in_both_wordings(found, python, shell):
    message = found()
    in_python, in_shell = both(message)
    assert python in in_python
    assert shell in in_shell
    assert "--" not in in_python
    assert not re.search(rf"\b({'|'.join(ARGUMENTS)})=", in_shell)


# --- what stands in the source ----------------------------------------------------------------


def made(kinds):
    """Calls of these names in the source, with the file."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", None) in kinds:
                yield path.relative_to(SOURCE), node


def test_every_argument_of_a_message_is_an_option():
    found = 0
    for path, node in made({"Argument", "Name"}):
        if node.args and isinstance(node.args[0], ast.Constant):
            value = node.args[1] if len(node.args) > 1 else None
            no = isinstance(value, ast.Constant) and value.value is False
            option = both(Argument(node.args[0].value, False) if no else Name(node.args[0].value))[1]
            assert option in OPTIONS, (str(path), node.lineno, option)
            found += 1
    assert found > 40


# rooms whose messages never reach the command line, or were written for it
ELSEWHERE = {"baselines", "commands", "experiments", "interop", "serve", "sklearn"}


def texts(node):
    """Text of a call, without what is worded for each of the two."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Either":
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from texts(child)


OF_BOTH = [name for name in ARGUMENTS if both(Name(name))[1] in OPTIONS]


def test_no_message_is_worded_for_one_of_them_alone():
    for path, node in made({"RecycleGPError", "warn_user", "Message", "FitManyError"}):
        if path.parts[0] in ELSEWHERE:
            continue
        text = " ".join(text for part in node.args for text in texts(part))
        where = (str(path), node.lineno, text)
        assert not re.search(rf"\b({'|'.join(OF_BOTH)})=", text), where
        assert not re.search(r"recyclegp (transform|fit|merge|screen|compare|calibrate)\b|\s--[a-z]", text), where


# --- remedies that can be followed ------------------------------------------------------------

NUMBERS = st.one_of(st.floats(0.001, 1000), st.sampled_from([1.0, 1.8, 1 / 1.8, 1000.0]))
SHIFTS = st.one_of(st.just(0.0), st.floats(-300, 300))
COLUMNS = ("dose in g", "a=b, 'c'")


def table(named):
    X = np.random.default_rng(0).uniform(1, 2, (30, 2))
    return pd.DataFrame(X, columns=list(COLUMNS)) if named else X


def several(named):
    X = table(named)
    first = np.asarray(X)[:, 0]
    return rgp.fit(X, np.c_[first, first**2], target=["heat", "salt, dry"], name="m", publish=5)


MODULES = {
    "named": rgp.fit(table(True), np.asarray(table(True))[:, 0], name="m", publish=5),
    "unnamed": rgp.fit(table(False), table(False)[:, 0], name="m", publish=5),
    "outputs": several(True),
    "unnamed outputs": several(False),
}


def same(a, b):
    assert a.targets == b.targets
    for own, other in zip(a.latents, b.latents, strict=True):
        assert own.mean == other.mean
        np.testing.assert_array_equal(own.known_site.Z, other.known_site.Z)


@pytest.mark.parametrize("kind", MODULES)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_remedy_can_be_followed(kind, data, tmp_path):
    """In Python as it is printed, and on the command line for the file: both give the module it speaks of."""
    module = MODULES[kind]
    names = range(2) if module.columns is None else module.columns
    verdicts = {}
    for function in module.functions:
        sign = data.draw(st.sampled_from([1.0, -1.0]))
        inputs = [InputFactor(name, data.draw(NUMBERS), data.draw(SHIFTS)) for name in names]
        of_y = Units(sign * data.draw(NUMBERS), data.draw(SHIFTS)).back
        of_x = Units(inputs=tuple(inputs[: data.draw(st.integers(1, 2))]))
        verdicts[function] = Verdict(Standing.FLAGGED, remedy=data.draw(st.sampled_from([of_y, of_x, None])))
    remedy = proposed(verdicts)
    if remedy is None:
        return
    changed = eval(f"module.{remedy}", {"module": module})
    module.save(tmp_path / "m.safetensors")
    words = shlex.split(remedy.shell(str(tmp_path / "m.safetensors")))
    result = call(*words[1:])
    assert result.exit_code == 0, result.output
    same(rgp.load(tmp_path / "m-new.safetensors"), changed)


def test_a_module_without_names_among_others_is_told_positions():
    """The others say what its columns are called, but it does not know these names."""
    modules = [in_grams(i) for i in range(3)]
    modules[:2] = [m.with_columns(["dose", "age"]) for m in modules[:2]]
    said = str(told(lambda: rgp.merge(modules)))
    assert "columns of m2 have no names and were taken to be dose, age" in said
    assert "transform(input_scale={0: 1000})" in said
    modules[2].transform(input_scale={0: 1000})
