"""Files of many modules, of schemas 2 and 3: read a piece at a time, and checked as the files of one are."""

import json
import struct
from dataclasses import replace

import numpy as np
import pytest

import recyclegp as rgp
from hostile_files import GOLDEN
from recyclegp.models import modules_file
from recyclegp.models.blocks import Piece
from recyclegp.storage import container

OLD, NEW = GOLDEN / "many" / "modules.safetensors", GOLDEN / "3" / "modules.safetensors"  # of one function, of two
COLUMNS = ("position", *modules_file.FACTS, *modules_file.NOISE)


def rewritten(source, path, change):
    """The file with another header and other tensors, made without our own checks."""
    document = container.read(source)
    header, tensors = document.header, {k: t.clone() for k, t in document.tensors.items()}
    change(header, tensors)
    outer, start, content = {"__metadata__": {"recyclegp": json.dumps(header)}}, 0, b""
    for name, t in tensors.items():
        raw = t.numpy().tobytes()
        outer[name] = {"dtype": "F64", "shape": list(t.shape), "data_offsets": [start, start + len(raw)]}
        start, content = start + len(raw), content + raw
    text = json.dumps(outer).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)
    return path


def set_number(column, value, function=0):
    """Of the third module."""

    def change(header, tensors):
        table = next(t for name, t in tensors.items() if name.endswith("numbers"))
        width = (table.shape[1] - 1) // len(header["blocks"][0].get("kernels", [0]))
        table[2, COLUMNS.index(column) + function * width] = value

    return change


def in_block(**fields):
    return lambda header, tensors: header["blocks"][0].update(fields)


def of_sites(change):
    return lambda header, tensors: change(tensors, next(name for name in tensors if name.endswith("sites")))


NUMBERS = {
    "half a row": ("rows", 0.5, "rows is not a whole number"),
    "no points": ("points", 0, "points"),
    "a huge site": ("points", 30_000, "sites of"),
    "too many points": ("points", 40_000, "points is not a whole number from 1 to 32768"),
    "too many rows": ("site_rows", 4000, "more rows than points"),
    "kept too much": ("kept", 1.5, "kept"),
    "a negative jitter": ("jitter", -1.0, "negative"),
    "no such message": ("message", 7, "message"),
    "not a number": ("mean", np.nan, "NaN"),
}
HOSTILE = {
    "two at one place": (set_number("position", 0), "one position"),
    "a place too far": (set_number("position", 9), "position"),
    "an infinite site": (of_sites(lambda t, name: t[name].__setitem__(5, np.inf)), "sites hold NaN"),
    "another count": (lambda h, t: h.update(modules=10), "missing"),
    "no names": (in_block(names=[], owners=None, times=None), "a table of"),
    "a name that is none": (lambda h, t: h["blocks"][0]["names"].__setitem__(1, "a\nb"), "printable"),
    "an unknown likelihood": (in_block(likelihood={"name": "magic"}), "magic|not text"),
    "a missing tensor": (of_sites(lambda t, name: t.pop(name)), "not those of its blocks"),
    "no blocks": (lambda h, t: h.pop("blocks"), "malformed"),
    "an owner who is new": (lambda h, t: h["blocks"][0]["owners"].__setitem__(0, "new"), "owner"),
    "owners of some": (in_block(owners=["o"]), "owners of 1 of"),
    "a table of columns": (in_block(columns=["a"]), "does not name the 2 inputs"),
    "no dimension": (in_block(dimension=0), "dimension"),
    "too many dimensions": (in_block(dimension=100_000), "input columns"),
    "strange messages": (in_block(messages=[7]), "a message is not text"),
}
OF_NEW = {
    "a strange kernel": (in_block(kernels=[{"tree": 3}] * 2), "kernel"),
    "one kernel": (lambda h, t: h["blocks"][0]["kernels"].pop(), "1 kernels for 2 functions"),
    "another likelihood": (in_block(likelihood={"name": "heteroscedastic"}), "a table of"),
    "no times": (in_block(times=["yesterday"] * 3), "time"),
    "times of some": (in_block(times=[1.0]), "times of 1 of 3"),
    "targets of some": (in_block(targets=[{"name": "heat"}]), "1 targets for 2 functions"),
    "noise of counts": (lambda h, t: _with_counts(h, t), "no Gaussian noise"),
}
OF_OLD = {
    "a strange kernel": (in_block(kernel={"tree": 3}), "kernel"),
    "an unknown likelihood": (in_block(likelihood="magic"), "magic"),
    "noise without one": (in_block(likelihood="bernoulli"), "table of"),
    "no columns": (lambda h, t: h["blocks"][0].pop("columns"), "malformed"),
}


def _with_counts(header, tensors):
    """The second output is a count, and yet says something about its noise."""
    header["blocks"][0]["likelihood"]["functions"][1]["likelihood"]["name"] = "poisson"
    width = (tensors["0000.numbers"].shape[1] - 1) // 2
    tensors["0000.numbers"] = tensors["0000.numbers"][:, :-1].contiguous()
    tensors["0000.numbers"][2, width + COLUMNS.index("noise_known")] = 1.0


def check_refused(path, message):
    for read in (rgp.load_many, rgp.merge):
        with pytest.raises(rgp.RecycleGPError, match=message) as refused:
            read(path)
        assert str(path) in str(refused.value)
        assert str(refused.value).isprintable()


@pytest.mark.parametrize("source", [OLD, NEW], ids=["2", "3"])
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_files_are_refused(tmp_path, source, case):
    change, message = HOSTILE[case]
    check_refused(rewritten(source, tmp_path / "m", change), message)


@pytest.mark.parametrize(("source", "function"), [(OLD, 0), (NEW, 0), (NEW, 1)], ids=["2", "3, first", "3, second"])
@pytest.mark.parametrize("case", NUMBERS)
def test_hostile_tables_are_refused(tmp_path, source, function, case):
    column, value, message = NUMBERS[case]
    check_refused(rewritten(source, tmp_path / "m", set_number(column, value, function)), message)


@pytest.mark.parametrize("case", OF_NEW)
def test_hostile_files_of_schema_3(tmp_path, case):
    change, message = OF_NEW[case]
    check_refused(rewritten(NEW, tmp_path / "m", change), message)


@pytest.mark.parametrize("case", OF_OLD)
def test_hostile_files_of_schema_2(tmp_path, case):
    change, message = OF_OLD[case]
    check_refused(rewritten(OLD, tmp_path / "m", change), message)


@pytest.mark.parametrize("source", [OLD, NEW], ids=["2", "3"])
def test_truncated_files_are_refused(tmp_path, source):
    content, path = source.read_bytes(), tmp_path / "m"
    for size in (0, 7, 100, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(rgp.RecycleGPError):
            rgp.load_many(path)


@pytest.mark.parametrize("source", [OLD, NEW], ids=["2", "3"])
def test_a_file_is_read_a_piece_at_a_time(source, monkeypatch):
    """No more sites at once than a piece holds, unless one alone is larger; functions of a module come together."""
    whole = rgp.load_many(source)
    monkeypatch.setattr(modules_file, "PIECE", 60)
    assert len(list(modules_file.pieces(source))) == len(whole)
    X = np.array([[-1.0, 0.3], [0.2, 1.1]])
    for a, b in zip(whole, rgp.load_many(source), strict=True):
        assert a.about == b.about
        np.testing.assert_array_equal(a.predict(X), b.predict(X))


def test_the_old_file_in_the_new_schema(tmp_path):
    known = json.loads((OLD.parent / "expected.json").read_text())
    modules = rgp.load_many(OLD)
    modules.save(tmp_path / "new")
    again = rgp.load_many(tmp_path / "new")
    then, now = container.read(OLD), container.read(tmp_path / "new")
    assert (then.header["schema"], now.header["schema"]) == (2, 3)
    for what in ("numbers", "sites"):  # the same numbers, bit for bit
        assert now.tensors[f"0000.{what}"].equal(then.tensors[f"00.{what}"])
    for m in again:
        np.testing.assert_allclose(m.predict(np.array(known["at"])), known[m.name], rtol=1e-9)


def test_more_than_a_hundred_kinds(tmp_path):
    """Tensors lie in a file in the order of their names: that of blocks, however many there are."""
    (block,) = (piece.block for piece in rgp.load_many(NEW)[:1]._pieces())
    names = [f"m{i}" for i in range(102)]
    pieces = [Piece(replace(block, names=(name,)), [i]) for i, name in enumerate(names)]
    container.write(tmp_path / "m", modules_file.document(pieces))
    assert rgp.load_many(tmp_path / "m").names == names
