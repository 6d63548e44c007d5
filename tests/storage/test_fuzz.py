"""Whatever is done to a file: it is refused with one clear error, or what is in it works. Five thousand cases.

`make fuzz` tries a million more, and measures their memory (tests/support/fuzz_files.py).
"""

import copy
import json
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fuzz_texts
from fuzz_cases import FEW, Cases, Kind, forget_peak, kind_of, memory
from fuzz_files import MOST_MEMORY, MOST_SECONDS
from fuzz_material import material
from hostile_files import answers, golden_files, mutated, rebuilt, taken_apart

FILES = golden_files()
SECONDS = 5.0  # for one case, on a busy machine
BLOCK = 1000


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "m.safetensors"


def check(target, content):
    target.write_bytes(content)
    start = time.perf_counter()
    found = answers(target)
    assert time.perf_counter() - start < SECONDS
    return found


def test_golden_files_work(target):
    assert all(check(target, content) for content in FILES)


# --- bytes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [0, *(pytest.param(i, marks=pytest.mark.slow) for i in range(1, 4))])
def test_changed_bytes(target, block):
    cases = range(block * BLOCK, (block + 1) * BLOCK)
    working = sum(check(target, mutated(FILES, "tests", case)) for case in cases)
    assert 20 < working < BLOCK / 2  # some changes say something else, most of them nothing


# --- the header -------------------------------------------------------------------------------

ODD = [None, True, False, 0, -1, 1, 2, 2.0, 0.5, -0.0, 2**31, 2**63, 10**30, 1e100, 1e308, 1e-320, float("nan")]
ODD += [
    float("inf"),
    "",
    "auto",
    "new",
    "..",
    "../../etc/passwd",
    "a/b",
    "C:\\b",
    "\0",
    "\x1b[2J",
    "\ud800",
    "\u202e",
    "n" * 300,
]
ODD += [[], {}, [[]], [None], [0, 0], [1, 1], [1e9, 1e9], {"kind": "rbf"}, "rbf", "module", "ensemble", "exact", "F64"]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
VALUES = st.sampled_from(ODD) | st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)
EDITS = st.lists(
    st.tuples(
        st.sampled_from(["replace", "replace", "replace", "delete", "rename", "nest", "swap", "append"]),
        st.integers(0, 10**6),  # where
        st.integers(0, 10**6),  # and, for two places, where else
        VALUES,
    ),
    min_size=1,
    max_size=3,
)


def places(value):
    """(container, key) of everything within a value."""
    if isinstance(value, (dict, list)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def edit(parts, what, first, second, value):
    """One change somewhere in what describes a file; `parts` is changed in place."""
    found = list(places(parts))
    if not found:
        return
    holder, key = found[first % len(found)]
    other, there = found[second % len(found)]
    if what == "replace":
        holder[key] = value
    elif what == "delete":
        del holder[key]
    elif what == "rename" and isinstance(holder, dict):
        holder[str(value)[:10]] = holder.pop(key)
    elif what == "nest":
        for _ in range(1 + second % 300):
            holder[key] = [holder[key]]
    elif what == "swap":
        holder[key] = copy.deepcopy(other[there])
    elif what == "append" and isinstance(holder[key], list):
        holder[key].append(copy.deepcopy(value))


@pytest.mark.slow
@settings(max_examples=BLOCK, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(which=st.integers(0, len(FILES) - 1), edits=EDITS)
def test_changed_headers(target, which, edits):
    outer, header, body = taken_apart(FILES[which])
    parts = {"header": header, "outer": outer}
    for change in edits:
        edit(parts, *copy.deepcopy(change))
    check(target, rebuilt(parts.get("outer"), parts.get("header"), body))


@pytest.mark.slow
@pytest.mark.parametrize("content", FILES, ids=range(len(FILES)))
def test_every_field_of_another_type(target, content):
    """Of every field there is a type or a size that cannot be meant; most values are refused, none goes wrong."""
    parts = taken_apart(content)
    refused = 0
    numbers = range(sum(1 for _ in places(parts.header)))
    for number in numbers:
        header = copy.deepcopy(parts.header)
        holder, key = list(places(header))[number]
        holder[key] = ODD[number % len(ODD)]
        refused += not check(target, rebuilt(parts.outer, header, parts.body))
    assert refused > len(numbers) / 2


def test_fields_given_twice_are_refused(target):
    parts = taken_apart(FILES[0])
    text = json.dumps(parts.header)
    assert not check(target, rebuilt(parts.outer, '{"mean": 0.0, ' + text[1:], parts.body))
    assert not check(target, rebuilt(parts.outer, text.replace('"rows": ', '"rows": 1, "rows": ', 1), parts.body))
    assert check(target, rebuilt(parts.outer, '{"not known": 0.0, ' + text[1:], parts.body))


# --- other kinds ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [fuzz_texts.Sums, fuzz_texts.Signatures, fuzz_texts.Dictionaries])
def test_changed_messages_signatures_rings_and_dictionaries(tmp_path, kind):
    pytest.importorskip("cryptography")
    made, cases = kind(tmp_path), 60 if kind is fuzz_texts.Dictionaries else 600
    assert 0 < sum(made.run("tests", case) for case in range(cases)) < cases


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_kind_of_file_is_asked_everything_and_merged(tmp_path):
    """Good ones first: what fuzzing begins with tells all, and can be merged; then 120 changed ones of these kinds."""
    cases = Cases(tmp_path, material(), thorough=True)
    assert len({group.honest for group in cases.merged}) > 12
    for kind, how_many in ((Kind.QUESTIONS, 60), (Kind.MERGES, 120)):
        some = [case for case in range(6000) if kind_of(case) is kind]
        assert len(some) == how_many
        assert 0 < sum(cases.run("tests", case) for case in some) < how_many


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_merges_alone_and_with_one_or_two_keep_to_the_bounds(tmp_path):
    """Also of kernels of very many parameters."""
    cases = Cases(tmp_path, material())
    forget_peak()
    idle = memory()
    for case in range(FEW, 20_000, 100):
        start = time.process_time()
        cases.run("few", case)
        assert time.process_time() - start < MOST_SECONDS[Kind.MERGES], case
    assert memory() - idle < MOST_MEMORY
