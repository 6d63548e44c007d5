"""recyclegp plot: every kind of file, and what it says where it cannot."""

import os

import pytest

import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok, owner

BEGINS = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF", "html": b"<!doctype html>"}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plot")
    for i, name in enumerate(("north", "south")):
        table = owner(i, 3 * i, 3 * i + 4)
        rgp.fit(table[["day"]], table["y"], publish=6, name=name).save(folder / f"{name}.safetensors")
    rgp.merge([rgp.load(p) for p in sorted(folder.glob("*"))]).save(folder / "zone.safetensors")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("suffix", BEGINS)
def test_every_kind_of_figure(models, tmp_path, suffix):
    out = tmp_path / f"figure.{suffix}"
    facts = answer("plot", models, "-o", out)
    assert facts["models"] == ["north", "south", "zone"]
    assert out.read_bytes()[: len(BEGINS[suffix])].lower() == BEGINS[suffix].lower()
    assert facts["bytes"] == out.stat().st_size


def test_options_reach_the_figure(models, tmp_path):
    out = tmp_path / "figure.svg"
    ok("plot", models / "zone.safetensors", "-o", out, "--region", "day=-3:9", "--title", "All days", "-q")
    first = out.read_bytes()
    ok("plot", models / "zone.safetensors", "-o", out, "-q")
    assert first != out.read_bytes()


def test_owners_can_be_left_out(tmp_path):
    names = ("low", "high", "middle")
    parts = []
    for name, table in zip(names, (owner(i, 0, 4) for i in range(3)), strict=True):
        y = table["y"] + {"low": -2, "high": 2, "middle": 0}[name]
        parts.append(rgp.fit(table[["day"]], y, publish=6, name=name))
    rgp.merge(parts, owners="offset").save(tmp_path / "zone.safetensors")
    shown = []
    for option in ("--owners", "--no-owners"):
        ok("plot", tmp_path / "zone.safetensors", "-o", tmp_path / "figure.html", option, "-q")
        text = (tmp_path / "figure.html").read_text()
        shown.append([text.count(f'"name":"{name}","colour"') for name in names])
        assert ('"kind":"owner"' in text) == (option == "--owners")
    assert shown == [[1, 1, 1], [1, 1, 1]]  # without their functions there are still the points


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "figure.gif"], "figures are written as .png, .svg, .pdf, .html"),
        (["-o", "absent/figure.png"], "absent/figure.png: No such file or directory"),
        (["-o", "figure.png", "--region", "day=3"], "write COLUMN=LOW:HIGH"),
        (["-o", "figure.png", "--at", "day"], "write COLUMN=NUMBER or COLUMN=LEVEL"),
        (["-o", "figure.png", "--region", "night=0:3"], "night"),
        (["-o", "figure.png", "--likelihood", "normal"], "--likelihood normal is not known"),
    ],
)
def test_what_is_wrong_is_one_line(models, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in one_line(call("plot", models / "zone.safetensors", *arguments))
    assert os.listdir() == []


def test_a_full_disk_leaves_the_old_figure(models, tmp_path, monkeypatch):
    out = tmp_path / "figure.png"
    out.write_bytes(b"what was there before")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert one_line(call("plot", models, "-o", out)) == f"recyclegp: {out}: No space left on device"
    assert out.read_bytes() == b"what was there before"
    assert os.listdir(tmp_path) == ["figure.png"]


def test_a_figure_never_replaces_a_model(models):
    path = models / "north.safetensors"
    assert "among those that are read" in one_line(call("plot", models, "-o", path))
    assert rgp.load(path).name == "north"
