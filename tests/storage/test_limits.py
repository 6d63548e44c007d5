"""What a file announces is compared with limits before memory is taken for it, and what is odd in it is refused."""

import contextlib
import json
import os
import struct
import threading
import tracemalloc

import numpy as np
import pytest

import recyclegp as rgp
from cases_cli import call
from hostile_files import GOLDEN, rebuilt, taken_apart
from recyclegp.storage import limits, strict_json

MODULE = (GOLDEN / "gaussian.safetensors").read_bytes()
ENSEMBLE = (GOLDEN / "ensemble.safetensors").read_bytes()
EXACT = (GOLDEN / "2" / "exact.safetensors").read_bytes()
NEW_MODULE = (GOLDEN / "3" / "module.safetensors").read_bytes()
NEW_ENSEMBLE = (GOLDEN / "3" / "learned.safetensors").read_bytes()
COUPLED = (GOLDEN / "3" / "coupled.safetensors").read_bytes()


@pytest.fixture
def target(tmp_path):
    return tmp_path / "m.safetensors"


def check_refused(target, content, message):
    target.write_bytes(content)
    with pytest.raises(rgp.RecycleGPError, match=message) as caught:
        rgp.load(target)
    assert str(target) in str(caught.value)
    assert str(caught.value).isprintable()


def changed(content, change, body=None):
    """The file with something changed in (outer, header)."""
    parts = taken_apart(content)
    change(parts.outer, parts.header)
    return rebuilt(parts.outer, parts.header, parts.body if body is None else body)


# --- sizes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, 2**20, 2**40, 2**62, 2**64 - 1])
def test_the_length_of_the_header_is_compared_with_the_file(target, length):
    check_refused(target, struct.pack("<Q", length) + MODULE[8:], "not a complete recyclegp file")


def test_a_huge_file_is_not_opened(target):
    with open(target, "wb") as stream:
        stream.truncate(limits.LARGEST_FILE + 1)  # takes no room on the disk
    with pytest.raises(rgp.RecycleGPError, match="larger than a module can be"):
        rgp.load(target)


def test_tensors_larger_than_the_file_take_no_memory(target):
    def huge(outer, header):
        outer["Z"] |= {"shape": [30_000, 60_000], "data_offsets": [0, 8 * 30_000 * 60_000]}

    tracemalloc.start()
    try:
        check_refused(target, changed(MODULE, huge), "not a complete")
        assert tracemalloc.get_traced_memory()[1] < 2**21
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ([10**9, 0], "0 input columns"),  # no bytes at all, and a kernel matrix of 10¹⁸ numbers
        ([0, 10**9], "input columns"),
        ([2**40, 2], "larger than a file"),
        ([-7, -2], "not a complete"),
        ([7.0, 2], "not a complete"),
        ([True, 14], "not a complete"),
        ([7, 2, 1], "of shape"),
        ([1] * 9, "larger than a file"),
        ([2**62] * 4, "larger than a file"),
        ([14], "of shape"),
        ("7", "not a complete"),
        (None, "not a complete"),
    ],
    ids=str,
)
def test_shapes(target, shape, message):
    check_refused(target, changed(MODULE, lambda outer, header: outer["Z"].update(shape=shape)), message)


def test_points_columns_and_tensors_are_limited(target):
    many = limits.MOST_POINTS + 1
    empty = {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]}

    def points(outer, header):
        for name in [n for n in outer if n != "__metadata__"]:
            del outer[name]
        outer["Z"] = {"dtype": "F64", "shape": [many, 1], "data_offsets": [0, 8 * many]}

    check_refused(target, changed(MODULE, points, bytes(8 * many)), "32,769 points; files may have 32,768")
    tensors = changed(MODULE, lambda outer, header: outer.update({f"t{i}": empty for i in range(limits.MOST_TENSORS)}))
    check_refused(target, tensors, "tensors; a file may have 4096")
    wide = changed(MODULE, lambda outer, header: outer["Z"].update(shape=[1, limits.MOST_COLUMNS + 1]))
    check_refused(target, wide, "65,537 input columns")


def test_an_exact_ensemble_of_too_many_points(target):
    """Each site is small, and the matrix between all of them is not."""
    sites = 1 + limits.MOST_POINTS // 7

    def grow(outer, header):
        first = header["members"][0]
        header["members"] = [first | {"name": f"m{i}", "site": [7, 0]} for i in range(sites)]
        sizes = {"sites.Z": [7 * sites, 2], "sites.Rt": [0], "sites.rho": [0], "sites.e": [sites]}
        start = 0
        for name, shape in sizes.items():
            stop = start + 8 * int(np.prod(shape))
            outer[name] = {"dtype": "F64", "shape": shape, "data_offsets": [start, stop]}
            start = stop

    check_refused(target, changed(EXACT, grow, bytes(8 * (14 * sites + sites))), "points; files may have 32,768")


def test_what_cannot_be_read_is_not_written(target, monkeypatch):
    module = rgp.load(GOLDEN / "gaussian.safetensors")
    exact = rgp.load(GOLDEN / "2" / "exact.safetensors")
    with monkeypatch.context() as m:
        m.setattr(limits, "LARGEST_HEADER", 100)
        with pytest.raises(rgp.RecycleGPError, match="so much does not fit into one file"):
            exact.save(target)
    monkeypatch.setattr(limits, "MOST_POINTS", 6)
    with pytest.raises(rgp.RecycleGPError, match="21 points; files may have 6"):
        exact.save(target)
    with pytest.raises(rgp.RecycleGPError, match="7 points; files may have 6: publish, or merge, at fewer"):
        module.save(target)
    assert not target.exists()


# --- where tensors lie ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda outer: outer["Z"].update(data_offsets=[0, 0]),
        lambda outer: outer["Z"].update(data_offsets=[-8, 104]),
        lambda outer: outer["Z"].update(data_offsets=outer["Rt"]["data_offsets"]),
        lambda outer: outer["Z"].update(data_offsets=[0.0, 112.0]),
        lambda outer: outer["Z"].update(data_offsets=[0]),
        lambda outer: outer["Z"].update(more=1),
        lambda outer: outer["Z"].pop("dtype"),
        lambda outer: outer.update(Z=[1, 2]),
        lambda outer: outer.update({"__metadata__": 7}),
        lambda outer: outer["__metadata__"].update(other=7),
    ],
    ids=range(10),
)
def test_places_of_tensors(target, change):
    check_refused(target, changed(MODULE, lambda outer, header: change(outer)), "not a complete")


def test_a_file_that_shrinks_while_it_is_read(target, monkeypatch):
    """Mapped into memory it would end the process."""
    parts = taken_apart(MODULE)
    size, numbers = len(parts.body), 2**18  # far beyond what is read ahead
    more = {"dtype": "F64", "shape": [numbers], "data_offsets": [size, size + 8 * numbers]}
    target.write_bytes(rebuilt(parts.outer | {"more": more}, parts.header, parts.body + bytes(8 * numbers)))
    assert rgp.load(target)
    parsed = strict_json.parsed

    def shrink(text):
        os.truncate(target, 10_000)
        return parsed(text)

    monkeypatch.setattr(strict_json, "parsed", shrink)
    with pytest.raises(rgp.RecycleGPError, match="not a complete"):
        rgp.load(target)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX's")
def test_a_pipe_is_not_waited_for(target):
    os.mkfifo(target)
    outcome = []

    def load():
        try:
            rgp.load(target)
        except rgp.RecycleGPError as refused:
            outcome.append(str(refused))

    thread = threading.Thread(target=load, daemon=True)
    thread.start()
    thread.join(20)
    assert outcome
    assert "neither a file nor a folder" in outcome[0]


# --- the header -------------------------------------------------------------------------------


def test_depth_does_not_depend_on_the_stack():
    deep = "[" * limits.DEEPEST + "]" * limits.DEEPEST
    assert strict_json.parsed(deep)
    with pytest.raises(ValueError, match="nested too deeply"):
        strict_json.parsed(f"[{deep}]")
    with pytest.raises(ValueError, match="nested too deeply"):
        strict_json.parsed('{"a":' * 10**6)
    brackets = json.dumps("[{" * 1000 + '"' + "\\")
    assert strict_json.parsed(f"[{brackets}]") == ["[{" * 1000 + '"\\']


@pytest.mark.parametrize("text", ['"' + '\\"' * 200_000, '\\"' * 200_000, '"a' * 100_001, "\\" * 400_000, '"\\'])
def test_depth_takes_one_pass(text):
    """Quotation marks that are never closed once made it take minutes."""
    with pytest.raises(ValueError, match=r"."):
        strict_json.parsed(text)


@pytest.mark.parametrize("ard", [2.0, True, "2", [2], {}, -2, 10**30], ids=str)
def test_ard_is_a_count(target, ard):
    def change(outer, header):
        header["kernel"]["tree"]["base"]["ard"] = ard

    check_refused(target, changed(MODULE, change), "ard_num_dims")


def put(*keys_and_value):
    *keys, last, value = keys_and_value

    def change(outer, header):
        for key in keys:
            header = header[key]
        header[last] = value

    return change


PARTS = ("kernel", "mean", "jitter", "rows", "convergence", "kept", "noise_evidence", "effective_rows")  # of a function
EVIDENCE = {"chi2": 1.0, "residual_variance": 0.0, "residual": 0.0, "dof": 0.0}
OLD_EVIDENCE = {"misfit": -1.0, "blur": 0.0, "residual": 0.0, "freedom": 0.0}


def put_new(*keys_and_value):
    """The same place in a module of schema 3."""
    return put("parts", 0, *keys_and_value) if keys_and_value[0] in PARTS else put(*keys_and_value)


ODD_IN_MODULES = [
    ("written_by", ["a"]),
    ("written_by", "w" * 100_000),
    ("units", 5),
    ("method", "\ud800"),
    ("columns", ["a", "\udfff"]),
    ("likelihoods", 0, "parameters", {}),
    ("likelihoods", 0, "parameters", ""),
    ("likelihoods", 0, "parameters", [0.0]),
    ("likelihoods", ["gaussian"]),
    ("convergence", ["converged"]),
    ("kept", 1.5),
    ("kept", 0),
    ("kept", True),
    ("noise_evidence", [1, 2, 3, 4]),
    ("rows", True),
    ("rows", 3.0),
    ("rows", 10**30),
    ("kernel", "log_parameters", [True, 0.0, 0.0]),
]


@pytest.mark.parametrize("keys", ODD_IN_MODULES, ids=str)
def test_strict_types_of_modules(target, keys):
    check_refused(target, changed(MODULE, put(*keys)), "ask for the file again")
    check_refused(target, changed(NEW_MODULE, put_new(*keys)), "ask for the file again")


@pytest.mark.parametrize("keys", [("convergence", "converged", 1), ("noise_evidence", OLD_EVIDENCE)], ids=str)
def test_strict_types_of_old_modules(target, keys):
    check_refused(target, changed(MODULE, put(*keys)), "ask for the file again")


@pytest.mark.parametrize(
    "keys",
    [
        ("convergence", {"converged": 1, "evaluations": 3, "message": ""}),
        ("convergence", {"converged": True, "evaluations": 3.0, "message": ""}),
        ("convergence", {"converged": True, "evaluations": 3}),
        ("noise_evidence", EVIDENCE | {"chi2": -1.0}),
        ("noise_evidence", {"misfit": 1.0, "blur": 0.0, "residual": 0.0, "freedom": 0.0}),  # the words of schema 2
        ("effective_rows", -1),
        ("parts", []),
        ("parts", [{}, {}]),
        ("parts", 0, "north"),
        ("targets", [{"name": "heat"}, {"name": "salt"}]),
        ("targets", {"name": "heat"}),
        ("targets", [{"labels": ["a"]}]),
        ("targets", [{"name": 7}]),
        ("time", "yesterday"),
        ("time", True),
        ("owner", "new"),
        ("owner", 7),
        ("owner", "\x1b"),
        ("likelihoods", [{"name": "gaussian", "parameters": [0.1], "labels": ["a"]}]),
        ("likelihoods", [{"name": "categorical", "labels": ["a", "b"]}]),
        ("likelihoods", [{"name": "heteroscedastic"}]),
        ("likelihoods", [{"name": "heteroscedastic", "function": "g"}]),
        ("likelihoods", [{"name": "heteroscedastic", "function": ["f"]}]),
        ("likelihoods", [{"name": "gaussian", "parameters": [0.1], "function": "f"}]),
        ("likelihoods", [{"name": "outputs"}]),
        ("likelihoods", [{"name": "outputs", "functions": []}]),
        ("likelihoods", [{"name": "outputs", "functions": [{"name": "a"}]}]),
        ("likelihoods", [{"name": "outputs", "functions": [{"name": "\x1b", "likelihood": {"name": "poisson"}}]}]),
        ("likelihoods", [{"name": "outputs", "functions": [{"name": "a", "likelihood": {"name": "heteroscedastic"}}]}]),
        ("likelihoods", [{"name": "outputs", "functions": [{"name": "a", "likelihood": {"name": "outputs"}}]}]),
        ("likelihoods", [{"name": "gaussian", "parameters": [0.1]}, {"name": "categorical", "labels": ["a", "b"]}]),
    ],
    ids=str,
)
def test_strict_types_of_new_modules(target, keys):
    check_refused(target, changed(NEW_MODULE, put_new(*keys)), "ask for the file again")


@pytest.mark.parametrize("keys", [("kept", None), ("owner", None), ("convergence", None), ("columns", None)], ids=str)
def test_null_is_nothing_said(target, keys):
    target.write_bytes(changed(NEW_MODULE, put_new(*keys)))
    assert rgp.load(target)


def test_only_gaussian_data_have_noise(target):
    counts = [{"name": "poisson", "parameters": []}]

    def counts_with_noise(outer, header):
        header.update(likelihoods=counts, noise_evidence={"misfit": 1.0, "blur": 0.0, "residual": 1.0, "freedom": 1.0})

    def new_counts_with_noise(outer, header):
        header.update(likelihoods=counts)
        header["parts"][0].update(noise_evidence=EVIDENCE)

    check_refused(target, changed(MODULE, counts_with_noise), "no Gaussian noise")
    check_refused(target, changed(NEW_MODULE, new_counts_with_noise), "no Gaussian noise")


@pytest.mark.parametrize(
    "change",
    [
        put("members", {"a": 1}),
        put("members", 0, "gaussian"),
        put("members", 0, "converged", "no"),
        put("members", 0, "converged", 0),
        put("members", 0, "weight", 1e7),
        put("members", 0, "weight", True),
        put("members", 0, "agreement", 1.5),
        put("members", 0, "offset", [0.0, -1.0]),
        put("members", 0, "offset", [0.0]),
        put("members", 0, "offset", {"mean": 0, "sd": 1}),
        put("members", 0, "site", "77"),
        put("members", 0, "site", [7.0, 7]),
        put("members", 0, "noise", 0),
        put("members", 0, "appended", 1.0),
        put("effects", [0.0, 0.0]),
        put("noise", 0.1),
        put("noise", {"level": 0.0, "freedom": None}),
        put("choice", True),
        put("choice", 10**12),
        put("traces_of_removed", None),
        put("unlearned", {"removed": 0, "traces": [], "updates": []}),
        put("unlearned", {"removed": 1, "traces": ["everything"], "updates": []}),
        put("unlearned", {"removed": 1, "traces": ["kernel"] * 9, "updates": []}),
        put("unlearned", {"removed": 1, "traces": [], "updates": [7]}),
        put("unlearned", [1]),
        put("recipe", {"kernel": "rbff", "learn": True, "pool_noise": True}),
        put("recipe", {"kernel": 3, "learn": True, "pool_noise": True}),
        put("recipe", {"kernel": None, "learn": 1, "pool_noise": True}),
        put("recipe", {"kernel": None, "learn": True}),
        put("members", 0, "time", "yesterday"),
        put("members", 0, "time", "2026-03-01" + "0" * 1000),
        put("members", 0, "time", True),
        put("members", 0, "time", [1.0]),
        put("members", 0, "came_later", 1),
        put("members", 0, "update", "yes"),
        put("owners", 1),
    ],
)
def test_strict_types_of_ensembles(target, change):
    check_refused(target, changed(ENSEMBLE, change), "ask for the file again")


@pytest.mark.parametrize(
    "change",
    [
        put("groups", []),
        put("groups", {}),
        put("groups", 0, "functions", []),
        put("groups", 0, "functions", [1]),
        put("groups", 0, "functions", [0, 0]),
        put("groups", 0, "functions", [-1]),
        put("groups", 0, "functions", [0.0]),
        put("groups", 0, "form", "other"),
        put("groups", 0, "form", None),
        put("groups", 0, "mean", "0"),
        put("groups", 0, "jitter", -1.0),
        put("groups", 0, "effects", [0.0, 0.0]),
        put("groups", 0, "effects", {"offset": -1.0, "smooth": 0.0}),
        put("groups", 0, "likelihoods", [[]]),
        put("groups", 0, "likelihoods", []),
        put("groups", 0, "noises", [0.1]),
        put("groups", 0, "noises", []),
        put("groups", 0, "noises", [{"level": 0.0}]),
        put("groups", 0, "noises", [{"level": 1.0, "dof": 0}]),
        put("groups", 0, "own_share", 1.5),
        put("groups", 0, "own_share", -0.1),
        put("groups", 0, "spread", {"effects": {"offset": 1.0}}),
        put("groups", 0, "spread", {"effects": {"offset": -1.0}, "scales": [[1.0, 1.0]]}),
        put("groups", 0, "spread", {"effects": {"offset": 1.0}, "scales": [[1.0, 0.5]]}),
        put("groups", 0, "spread", {"effects": {"offset": 1.0}, "scales": [[0.0, 1.0]]}),
        put("groups", 0, "spread", {"effects": {"offset": 1.0}, "scales": [[1.0, 0.5, 0.5]]}),
        put("groups", 0, "spread", {"effects": {}, "scales": [[1.0, 1.0]], "level": {"slope": 99.0}}),
        put("groups", 0, "convergence", 1),
        put("groups", 0, "coupling", {"scale": [1.0], "shift": [0.0]}),
        put("groups", 0, "anonymous", [[7, 7, 99]]),
        put("groups", 0, "unlearned", {"removed": 0}),
        put("groups", 0, "unlearned", {"removed": 1, "traces": ["everything"]}),
        put("groups", 0, "unlearned", {"removed": 1, "updates": [7]}),
        put("groups", 0, "members", []),
        put("groups", 0, "members", {"a": 1}),
        put("groups", 0, "members", 0, "north"),
        put("groups", 0, "members", 0, "name", "m12"),
        put("groups", 0, "members", 0, "name", "\x1b"),
        put("groups", 0, "members", 0, "function", 1),
        put("groups", 0, "members", 0, "owner", "new"),
        put("groups", 0, "members", 0, "weight", None),
        put("groups", 0, "members", 0, "weight", 1e7),
        put("groups", 0, "members", 0, "agreement", 1.5),
        put("groups", 0, "members", 0, "offset", [0.0]),
        put("groups", 0, "members", 0, "offset", [0.0, -1.0]),
        put("groups", 0, "members", 0, "site", "77"),
        put("groups", 0, "members", 0, "site", [7.0, 7]),
        put("groups", 0, "members", 0, "site", [10**9, 10**9]),
        put("groups", 0, "members", 0, "site", None),
        put("groups", 0, "members", 0, "noise", 0),
        put("groups", 0, "members", 0, "points_appended", 1.0),
        put("groups", 0, "members", 0, "added_after_merge", 1),
        put("groups", 0, "members", 0, "update", "yes"),
        put("groups", 0, "members", 0, "time", "2026-03-01" + "0" * 1000),
        put("groups", 0, "members", 0, "verdict", {"standing": "fine"}),
        put("groups", 0, "members", 0, "verdict", {"standing": "flagged", "reason": "\x1b[2J"}),
        put("groups", 0, "members", 0, "verdict", {"standing": "flagged", "remedy": {"scale": "1", "shift": 0}}),
        put("groups", 0, "members", 0, "verdict", {"standing": "flagged", "weight": -1}),
        put("how", None),
        put("how", "choice", True),
        put("how", "choice", 10**12),
        put("how", "owners", "sometimes"),
        put("how", "configs", []),
        put("how", "configs", [{"kernel": "rbff"}]),
        put("how", "configs", [{"kernel": 3}]),
        put("how", "configs", [{"learn": 1}]),
        put("how", "configs", [{"trust": "everybody"}]),
        put("how", "outputs", {"rank": 0}),
        put("how", "outputs", {"matrix": [[1.0, 0.0]]}),
        put("how", "outputs", {"only_if_better": 1}),
        put("likelihoods", []),
        put("likelihoods", [{"name": "heteroscedastic"}]),
    ],
    ids=range(72),
)
def test_strict_types_of_new_ensembles(target, change):
    check_refused(target, changed(NEW_ENSEMBLE, change), "ask for the file again")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put("groups", 0, "coupling", None), "does not say in which units"),
        (put("groups", 0, "coupling", "scale", [1.0]), "not about the outputs"),
        (put("groups", 0, "coupling", "scale", [1.0, 0.0]), "not about the outputs"),
        (put("groups", 0, "coupling", "shift", [1.0, "x"]), "a shift is x"),
        (put("groups", 0, "functions", [1, 0]), "not about the outputs"),
        (put("groups", 0, "functions", [0]), "not about the outputs"),
        (put("groups", 0, "kernel", "tree", "parts", 1, "dims", [0]), "not about the outputs"),
        (put("groups", 0, "kernel", "tree", "parts", 1, {"kind": "constant"}), "parameters for a structure"),
        (put("groups", 0, "members", 0, "function", 1), "two have the same name"),
        (put("groups", 0, "members", 0, "function", 2), "of a function that its group does not have"),
    ],
    ids=range(10),
)
def test_coupled_outputs_that_are_none(target, change, said):
    check_refused(target, changed(COUPLED, change), said)


@pytest.mark.parametrize(
    "kernel",
    [
        {"tree": {"kind": "product", "parts": [{"kind": "constant"}] * 4}, "log_parameters": [230.0] * 4},
        {"tree": {"kind": "scale", "base": {"kind": "matern", "nu": 1.5}}, "log_parameters": [0.0, -230.0]},
    ],
    ids=["variance", "distances"],
)
def test_a_model_that_cannot_answer_is_refused_when_it_is_loaded(target, kernel):
    """Every number of it is sane, and together they are not."""
    far = np.full((7, 2), 1e90)
    far[:, 0] *= np.arange(7)
    parts = taken_apart(MODULE)
    start, stop = parts.outer["Z"]["data_offsets"]
    body = parts.body[:start] + far.tobytes() + parts.body[stop:]
    check_refused(target, rebuilt(parts.outer, parts.header | {"kernel": kernel}, body), "covariance matrix|not finite")


def test_predictions_are_never_nan():
    module = rgp.load(GOLDEN / "poisson.safetensors")  # with a linear part
    for X in (np.full((1, 2), 1e100), np.array([[-1e100, 1e100], [0.0, 0.0]])):
        try:
            found = module.predict(X)
        except rgp.RecycleGPError as refused:
            assert "not finite numbers" in str(refused)  # noqa: PT017
        else:
            assert np.isfinite(found).all()


# --- messages ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change", [put("mean", "\x1b[2J\n"), put("schema", "\x1b]0;x\a"), put("kind", "\r" * 9999), put("form", "\x9b31m")]
)
def test_messages_hold_no_control_characters(target, change):
    for content in (MODULE, ENSEMBLE):
        target.write_bytes(changed(content, change))
        try:
            rgp.load(target)
        except rgp.RecycleGPError as refused:
            assert str(refused).isprintable()  # noqa: PT017


# --- small files that mean much ---------------------------------------------------------------


def test_many_linear_kernels_of_many_columns_are_refused_before_they_are_built(target):
    """Each has a centre for every column, of which the file says nothing."""
    parts = taken_apart((GOLDEN / "3" / "modules.safetensors").read_bytes())
    tree = {"kind": "sum", "parts": [{"kind": "linear", "ard": None, "dims": None}] * 62}
    block = parts.header["blocks"][0] | {"dimension": 65_536}
    block |= {"kernels": [{"tree": tree, "log_parameters": [0.0] * 62}] * len(block.get("kernels", [0]))}
    header = parts.header | {"blocks": [block, *parts.header["blocks"][1:]]}
    target.write_bytes(rebuilt(parts.outer, header, parts.body))
    with pytest.raises(rgp.RecycleGPError, match="linear kernels of 65,536 input columns"):
        rgp.load_many(target)


@pytest.mark.parametrize("kind", ["rbf", "rq", "periodic"])
def test_kernels_larger_than_their_parameters_are_not_built(target, kind):
    """Of many columns, each with a length of its own, of which the file gives none."""
    parts = taken_apart((GOLDEN / "3" / "modules.safetensors").read_bytes())
    tree = {"kind": "sum", "parts": [{"kind": kind, "ard": 65_536, "dims": None}] * 62}
    block = {k: v for k, v in parts.header["blocks"][0].items() if k != "columns"} | {"dimension": 65_536}
    block |= {"kernels": [{"tree": tree, "log_parameters": [0.0] * 9}] * 2}
    target.write_bytes(rebuilt(parts.outer, parts.header | {"blocks": [block]}, parts.body))
    tracemalloc.start()
    try:
        with pytest.raises(rgp.RecycleGPError, match="fewer parameters than its structure has"):
            rgp.load_many(target)
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("members", [1, 20])
def test_small_ensembles_of_many_linear_kernels_are_not_built(target, members):
    """35 kB were enough for 88 s and 683 MiB."""
    parts = taken_apart((GOLDEN / "3" / "exact.safetensors").read_bytes())
    tree = {"kind": "sum", "parts": [{"kind": "linear", "ard": None, "dims": None}] * 62}
    kernel = {"tree": tree, "log_parameters": [0.0] * 62}
    group = parts.header["groups"][0]
    each = [group["members"][0] | {"name": f"m{i}", "kernel": kernel, "site": [0, 0]} for i in range(members)]
    header = {k: v for k, v in parts.header.items() if k != "columns"}
    header |= {"groups": [group | {"kernel": kernel, "members": each}]}
    shapes = {"0/sites.Z": [0, 65_536], "0/sites.Rt": [0], "0/sites.rho": [0]}
    outer = {name: {"dtype": "F64", "shape": shape, "data_offsets": [0, 0]} for name, shape in shapes.items()}
    outer["0/sites.e"] = {"dtype": "F64", "shape": [members], "data_offsets": [0, 8 * members]}
    outer["__metadata__"] = parts.outer["__metadata__"]
    tracemalloc.start()
    try:
        check_refused(target, rebuilt(outer, header, bytes(8 * members)), "linear kernels of 65,536 input columns")
        assert tracemalloc.get_traced_memory()[1] < 2**23
    finally:
        tracemalloc.stop()


def test_one_kernel_of_many_parts_does_not_become_that_of_all(target):
    """However many rows it claims: a merge took 104 s instead of 3."""
    parts = taken_apart(NEW_MODULE)
    tree = {"kind": "sum", "parts": [{"kind": "periodic", "ard": None, "dims": None}] * 62}
    own = parts.header["parts"][0] | {"rows": 10**15, "kernel": {"tree": tree, "log_parameters": [0.0] * 124}}
    header = parts.header | {"name": "bad", "parts": [own]}
    target.write_bytes(rebuilt(parts.outer, header, parts.body))
    rgp_module = rgp.load(GOLDEN / "3" / "module.safetensors")
    honest = [rgp_module.rename(f"h{k}") for k in range(6)]
    alike = {"owners": None, "trust": None}  # which would take copies for one
    merged = rgp.merge([target, *honest], **alike)
    assert merged.kernel_spec.structure == rgp.merge(honest, **alike).kernel_spec.structure


def called(*arguments):
    """No traceback: what a command cannot do, it says."""
    result = call(*arguments)
    assert result.exit_code in (0, 1, 2)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception


@pytest.mark.filterwarnings("ignore::recyclegp.errors.RecycleGPWarning")
def test_a_gaussian_that_does_not_say_its_noise(target):
    """It is allowed, as an import may not know it: then nothing that needs it fails otherwise than in words."""
    parts = taken_apart(MODULE)
    key = "likelihoods" if "likelihoods" in parts.header else "likelihood"
    said = parts.header[key]
    unknown = [{**said[0], "parameters": []}] if key == "likelihoods" else {**said, "parameters": []}
    header = {k: v for k, v in parts.header.items() if k != "noise_evidence"} | {key: unknown}
    target.write_bytes(rebuilt(parts.outer, header, parts.body))
    module = rgp.load(target)
    other = rgp.load(target).rename("b")
    for use in (
        lambda: rgp.merge([module, other]).report(),
        lambda: rgp.merge([module, other]).save(target),
        lambda: module.predict_y(module.inducing),
        lambda: rgp.screen([module, other]),
        lambda: module.publish(3),
        lambda: called("inspect", str(target)),
        lambda: called("compare", str(target)),
    ):
        with contextlib.suppress(rgp.RecycleGPError):
            use()
