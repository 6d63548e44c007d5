"""Damage: whichever bit of a file is another one than was written, the file is refused, and says so."""

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import recyclegp as rgp
from hostile_files import GOLDEN, answers, rebuilt, sealed, taken_apart
from recyclegp.commands.fact_words import in_words
from recyclegp.commands.facts import of_file
from recyclegp.storage import container, digest

FLIPS = 1000
rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (40, 2))
Y = np.stack([np.sin(X[:, 0]), np.cos(X[:, 1])], 1)


def one(name, shift=0.0):
    return rgp.fit(X + shift, Y[:, 0], name=name, publish=6, learn=False)


def plan(points=5):
    """Agreed on in public, and answered."""
    return rgp.Plan(points=rgp.Plan.spread([-2, -2], [2, 2], points), kernel="rbf", noise=0.1)


MAKE = {
    "module": lambda: one("a"),
    "exact": lambda: rgp.merge([one("a"), one("b", 1.0)], inducing="all", learn=False),
    "points": lambda: rgp.merge([one("a"), one("b", 1.0)], inducing=8, learn=False),
    "names": lambda: rgp.merge([one("a"), one("b", 1.0)], learn=False, keep="names"),
    "outputs": lambda: rgp.fit(X, Y, target=["heat", "salt"], name="a", publish=6, learn=False),
    "modules": lambda: rgp.fit_many([(X, Y[:, 0]), (X + 1, Y[:, 1])], names=["a", "b"], publish=6, learn=False),
    "plan": plan,
    "next plan": lambda: plan().combine([plan().contribute(X, Y[:, 0], name="a", privacy="things")])[1],
    "answer": lambda: plan().contribute(X, Y[:, 0], name="a", privacy="things"),
    "calibration": lambda: rgp.calibrate(one("a"), X + 0.01, Y[:, 0]),
}
READ = {"modules": rgp.load_many, "calibration": rgp.Calibration.load}


def saved(kind, folder):
    path = folder / ("c.json" if kind == "calibration" else "m.safetensors")
    MAKE[kind]().save(path)
    return path


def flipped(content, number):
    """One bit, wherever it is."""
    r = random.Random(number)
    broken = bytearray(content)
    broken[r.randrange(len(content))] ^= 1 << r.randrange(8)
    return bytes(broken)


def refusal(read, path):
    with pytest.raises(rgp.RecycleGPError) as caught:
        read(path)
    said = str(caught.value)
    assert str(path) in said
    assert "again" in said or "upgrade" in said or "of recyclegp's" in said, said
    assert said.isprintable()
    return said


@pytest.mark.parametrize("kind", MAKE)
def test_any_single_bit_is_noticed(kind, tmp_path):
    path = saved(kind, tmp_path)
    read, content = READ.get(kind, rgp.load), path.read_bytes()
    read(path)
    said = []
    for number in range(FLIPS):
        path.write_bytes(flipped(content, number))
        said.append(refusal(read, path))
    assert sum("damaged: its bytes are not those" in text for text in said) > 0.8 * FLIPS


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["module", "calibration"])
def test_every_bit_around_the_digests_is_noticed(kind, tmp_path):
    path = saved(kind, tmp_path)
    read, content = READ.get(kind, rgp.load), path.read_bytes()
    start = content.index(b"digest")
    for place in range(max(0, start - 30), min(len(content), start + 250)):
        for bit in range(8):
            path.write_bytes(content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :])
            refusal(read, path)


def test_every_way_of_reading_notices(tmp_path):
    path = saved("module", tmp_path)
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")  # of the last number
    for read in (rgp.load, rgp.merge, of_file, container.read):
        assert "damaged" in refusal(read, path)
    many = saved("modules", tmp_path)
    many.write_bytes(many.read_bytes()[:-1] + b"\x00")
    for read in (rgp.load_many, rgp.merge, of_file):
        assert "damaged" in refusal(read, many)


def test_a_header_that_is_read_alone_is_checked(tmp_path):
    path = saved("module", tmp_path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"exact", b"eXact"))
    assert "damaged" in refusal(container.header, path)


def test_long_files_are_checked_piece_by_piece(tmp_path, monkeypatch):
    """What comes before the damage is given out, what is damaged is not."""
    monkeypatch.setattr(digest, "PIECE", 64)
    path = saved("module", tmp_path)
    content = path.read_bytes()
    parts = taken_apart(content)
    assert len(parts.header["data_digests"]) == -(-len(parts.body) // 64) > 5
    assert rgp.load(path).name == "a"
    path.write_bytes(content[:-1] + b"\x00")
    with container.opened(path) as file:
        assert file.tensor((8,)).shape == (8,)
    with pytest.raises(rgp.RecycleGPError, match="damaged"), container.opened(path) as file:
        file.document()


def test_one_of_the_two_digests_is_not_enough(tmp_path):
    path = saved("module", tmp_path)
    outer, header, body = taken_apart(path.read_bytes())
    without = {k: v for k, v in header.items() if k != "head_digest"}
    text = json.dumps(without)
    path.write_bytes(rebuilt(outer, text, body))
    assert "damaged" in refusal(rgp.load, path)
    path.write_bytes(rebuilt(outer, json.dumps({k: v for k, v in header.items() if k != "data_digests"}), body))
    assert "damaged" in refusal(rgp.load, path)


def test_a_changed_file_with_fitting_digests_is_read(tmp_path):
    """Digests are against damage; against people there are signatures."""
    path = saved("module", tmp_path)
    outer, header, body = taken_apart(path.read_bytes())
    path.write_bytes(rebuilt(outer, header | {"name": "other"}, body))
    assert rgp.load(path).name == "other"
    assert sealed(path.read_bytes()) == path.read_bytes()


def test_names_that_look_like_digests(tmp_path):
    name = '"head_digest": "' + "0" * 64 + '"'
    one(name).save(tmp_path / "m.safetensors")
    assert rgp.load(tmp_path / "m.safetensors").name == name
    text = '"data_digests": ["' + "0" * 64 + '"]'
    one(text).save(tmp_path / "m.safetensors")
    assert rgp.load(tmp_path / "m.safetensors").name == text


def test_the_same_model_is_the_same_file(tmp_path):
    one("a").save(tmp_path / "1")
    one("a").save(tmp_path / "2")
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_earlier_files_are_read_and_said_to_have_none(tmp_path):
    for old in ("gaussian.safetensors", "3/module.safetensors", "3/exact.safetensors", "3/modules.safetensors"):
        facts = of_file(GOLDEN / old)
        assert facts["digest"] is False
        assert in_words(facts)["digest"].startswith("none")
    facts = of_file(saved("module", tmp_path))
    assert facts["digest"] is True
    assert "digest" not in in_words(facts)


def test_earlier_calibrations_are_read(tmp_path):
    path = saved("calibration", tmp_path)
    said = json.loads(path.read_text())
    del said["digest"]
    path.write_text(json.dumps(said | {"recyclegp_calibration": 1}))
    assert rgp.Calibration.load(path).rows == 40


@pytest.mark.parametrize("name", sorted(str(p.relative_to(GOLDEN)) for p in GOLDEN.rglob("*.safetensors")))
def test_flips_of_earlier_files_do_no_harm(name, tmp_path):
    path = Path(shutil.copy(GOLDEN / name, tmp_path / "m.safetensors"))
    content = path.read_bytes()
    for number in range(20):
        path.write_bytes(flipped(content, number))
        answers(path)
