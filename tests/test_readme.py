"""Everything in README and documentation that can be run runs, and prints what is shown, but for the digits."""

import ast
import contextlib
import importlib
import importlib.util
import io
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import recyclegp as rgp
from cases_cli import ok, owner, written
from cases_joint import classes, outputs, varying

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"```(python|console|text)\n(.*?)```", flags=re.DOTALL)
NUMBER = re.compile(r"sha256:[0-9a-f]+|\b[0-9a-f]{8}\b|-?\d+(?:,\d{3})*\.?\d*(e[+-]?\d+)?")
ELSEWHERE = {
    "commands.md",
    "howto-flower.md",
    "howto-plan.md",
    *(p.name for p in (ROOT / "docs").glob("interop*.md")),
}  # pages with tests of their own
PAGES = ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")) if p.name not in ELSEWHERE)]


def blind(text):
    """Without numbers, and without the spaces that make room for them."""
    return re.sub(r"\s+", " ", NUMBER.sub("#", text)).strip()


def blocks(page):
    """(kind, source, what is shown to come of it or None)."""
    text = (ROOT / page).read_text()
    found = list(BLOCK.finditer(text))
    for i, block in enumerate(found):
        after = found[i + 1] if i + 1 < len(found) else None
        shown = after is not None and after[1] == "text" and not text[block.end() : after.start()].strip()
        yield block[1], block[2], after[2] if shown else None


def shell(commands):
    """What commands print; those of make are only looked up."""
    printed = ""
    for command in commands.replace("\\\n", " ").splitlines():
        words = shlex.split(command, comments=True)
        if words[:1] == ["recyclegp"]:
            printed += ok(*words[1:]).stdout
        elif words[:1] == ["make"]:
            assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), flags=re.MULTILINE), command
        elif words:
            printed += subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True).stdout
    return printed


def arrays():
    """What pages that do not make their own data call X_a, y_a, X_b, y_b and X."""
    rng = np.random.default_rng(0)
    X_a, X_b, X = rng.uniform(0, 3, (60, 1)), rng.uniform(2, 6, (80, 1)), np.linspace(0, 6, 7)[:, None]
    y_a = np.sin(2 * X_a[:, 0]) + 0.1 * rng.normal(size=60)
    y_b = (rng.uniform(size=80) < 1 / (1 + np.exp(-np.sin(2 * X_b[:, 0])))).astype(int)
    return {"X_a": X_a, "y_a": y_a, "X_b": X_b, "y_b": y_b, "X": X}


def stations():
    """Temperatures over the hours of a day, of which two stations have seen one part each, and hours to predict."""
    rng = np.random.default_rng(1)
    for name, low, high in (("north", 0, 13), ("south", 10, 23)):
        hour = rng.uniform(low, high, 120)
        noisy = 15 - 6 * np.cos(hour / 3.8) + 0.7 * rng.standard_normal(120)
        written(pd.DataFrame({"hour": hour, "temperature": noisy}), f"{name}.csv")
    written(pd.DataFrame({"hour": [3, 12, 21]}), "new.csv")
    return arrays()


def module(seed, low, high, path):
    """A file, whose module is returned as well."""
    path, table = Path(path), owner(seed, low, high)
    m = rgp.fit(table[["day", "depth"]], table.y, publish=8, name=path.stem)
    path.parent.mkdir(exist_ok=True)
    m.save(path)
    return m


def drawn():
    X_a, y_a, *_ = arrays().values()
    a, b = rgp.fit(X_a, y_a, publish=8, name="a"), rgp.fit(X_a + np.pi, y_a, publish=8, name="b")
    a.save("a.safetensors")
    return {"a": a, "b": b, "e": rgp.merge([a, b])}


def hospitals():
    renamed = {"day": "age", "depth": "dose", "y": "pressure"}
    written(owner(1, 0, 3).rename(columns=renamed), "patients.csv")
    for seed, path in enumerate(("inbox/north.safetensors", "inbox/south.safetensors", "late/west.safetensors")):
        module(seed, 0, 4, path)
    written(owner(3, 0, 4), "questions.csv")


def days():
    rgp.merge([module(1, 0, 3, "monday.safetensors")]).save("city.safetensors")
    module(2, 0, 3, "wednesday.safetensors")
    written(owner(3, 0, 3), "tuesday.csv")
    written(owner(4, 0, 3), "thursday.csv")
    written(owner(5, 0, 3), "friday.csv")


def functions():
    """Tables of several outputs, of classes, and of noise that varies."""
    kinds = {"low": "ant", "middle": "bee", "top": "wasp"}
    for seed, name in enumerate(("north", "south")):
        written(outputs(seed, 0, 6), f"{name}.csv")
    for seed, name in enumerate(("forest", "meadow")):
        written(classes(seed, 0, 6).replace({"kind": kinds}), f"{name}.csv")
    for seed, name in enumerate(("early", "late")):
        written(varying(seed, 0, 6), f"{name}.csv")
    for seed, name in enumerate(("test", "new"), start=3):
        every = outputs(seed, 0, 6, 30).assign(kind=classes(seed, 0, 6, 30)["kind"].map(kinds), y=0.5)
        written(every, f"{name}.csv")


FOR_NEWCOMERS = [
    p for p in PAGES if re.search(r"README|index|start-|howto-|messy|categories|several|calibrate|serve", p)
]
GIVEN = {
    "README.md": stations,
    "docs/index.md": stations,
    "docs/plots.md": drawn,
    "docs/schema.md": drawn,
    "docs/howto-email.md": hospitals,
    "docs/howto-streaming.md": days,
    "docs/several-functions.md": functions,
    "docs/howto-big-data.md": lambda: written(owner(1, 0, 3), "large.csv") and {},
}


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("bash") and shutil.which("awk")), reason="the pages use a shell")
@pytest.mark.parametrize("page", PAGES)
def test_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = GIVEN.get(page, dict)() or {}
    for kind, source, shown in blocks(page):
        if kind == "text":
            continue
        if kind == "console":
            printed = shell(source)
        else:
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(source, names)
            printed = stream.getvalue()
        if shown is not None:
            assert blind(printed) == blind(shown), source


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_first_lines_merge(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = arrays()
    exec(next(source for kind, source, _ in blocks(page) if kind == "python"), names)
    assert names["mean"].shape == names["variance"].shape == (7,)
    assert (names["variance"] > 0).all()
    assert set(names["e"].names) == {names["a"].name, names["b"].name}


@pytest.mark.slow
@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_the_way_without_python(page, tmp_path, monkeypatch):
    """Two tables, two modules, one ensemble, predictions that are right where only one owner has looked, a figure."""
    monkeypatch.chdir(tmp_path)
    stations()
    shell(next(source for kind, source, _ in blocks(page) if "recyclegp fit" in source))
    predictions = np.genfromtxt("predictions.csv", delimiter=",", names=True)
    truth = 15 - 6 * np.cos(predictions["hour"] / 3.8)
    assert list(predictions["hour"]) == [3, 12, 21]
    assert (np.abs(predictions["mean"] - truth) < 0.5).all()
    assert (predictions["sd"] < 0.5).all()
    assert Path("figure.png").read_bytes().startswith(b"\x89PNG")


# --- the first pages --------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_what_it_is_for_comes_first_and_formulas_come_after(page):
    """In this order; and the words that a newcomer cannot know are linked where they first stand."""
    text = (ROOT / page).read_text()
    parts = [
        "without revisiting any data",
        "concept-overview.png",
        "Who needs this?",
        "pip install",
        "import recyclegp",
    ]
    parts += ["recyclegp merge", "When not to use it", "ρ" if "index" in page else "$$"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert len(text.splitlines()) <= 250
    if page == "README.md":
        assert re.search(r"^make test\b", text, flags=re.MULTILINE)


def test_words_are_in_the_glossary_in_order_and_linked_where_they_first_stand():
    words = re.findall(r"^### (.+)$", (ROOT / "docs/glossary.md").read_text(), flags=re.MULTILINE)
    assert words == sorted(words, key=str.lower)
    assert {"nats", "NLPD", "slack", "kept", "module", "ensemble", "site", "owner", "trust"} <= set(words)
    for page in FOR_NEWCOMERS:
        text = re.sub(r"```[\s\S]*?```", "", (ROOT / page).read_text())
        text = re.sub(r"`[^`]*`|^#.*$|!\[[^]]*\]", "", text, flags=re.MULTILINE)
        for word in ("nats", "NLPD", "slack"):
            first = re.search(rf"\b{word}\b", text)
            link = re.search(rf"\[[^]]*\b{word}\b[^]]*\]\((docs/)?(glossary|concepts)\.md#{word.lower()}\)", text)
            assert first is None or (link and link.start() <= first.start()), (page, word)


# --- troubleshooting --------------------------------------------------------------------------


def in_python(part):
    """A part of a message as its source says it, with … for what is computed."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    if isinstance(part, ast.JoinedStr):
        return "".join(in_python(value) for value in part.values)
    kind = part.func.id if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) else None
    if kind not in ("Argument", "Name", "Either"):
        return "…"
    first, *value = part.args
    shown = [repr(v.value) if isinstance(v, ast.Constant) else "…" for v in value]
    return in_python(first) if kind != "Argument" else f"{in_python(first)}={''.join(shown)}"


def messages_in_python(folder):
    """Every error and warning that is made of parts."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
                yield "".join(map(in_python, node.args))


def test_every_message_in_troubleshooting_is_one_of_ours():
    """Quoted messages are pieces of text with … between them; every piece is in the source."""
    source = " ".join(p.read_text() for p in (ROOT / "src").rglob("*.py"))
    source = re.sub(r'"\s*\n\s*f?"', "", source)  # text that goes on in the next line
    source += "\n".join(messages_in_python(ROOT / "src"))
    quoted = re.findall(r"^### (`.*`)$", (ROOT / "docs/troubleshooting.md").read_text(), flags=re.MULTILINE)
    messages = [m for heading in quoted for m in re.findall(r"`(.*?)`", heading)]
    system = {"No space left on device", "Permission denied"}  # the operating system's
    assert len(messages) > 50
    for message in messages:
        for piece in message.split("…"):
            piece = piece.strip(" :(),;")
            assert piece in source or piece in system, (piece, message)


# --- names of code ----------------------------------------------------------------------------


NEEDS = {"flower": "flwr"}  # which has an environment of its own


def found(path, names):
    """The object of these names inside a module of the library; what cannot be imported here is tested elsewhere."""
    if any(importlib.util.find_spec(NEEDS[part]) is None for part in path if part in NEEDS):
        source = ROOT.joinpath("src", "recyclegp", *path).with_suffix(".py").read_text()
        assert all(re.search(rf"^(def|class) {name}\b", source, flags=re.MULTILINE) for name in names[:1])
        return importlib.import_module("recyclegp")
    thing = importlib.import_module(".".join(["recyclegp", *path]))
    for name in names:
        thing = getattr(thing, name)
    return thing


def test_every_name_on_the_architecture_page_exists():
    """`room/file.name` is in src/recyclegp/room/file.py, `file.name` at the top; a path is that of a file."""
    text = (ROOT / "docs/architecture.md").read_text()
    quoted = set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))
    paths = {q for q in quoted if re.match(r"(src|tests|docs)/", q) and "yours" not in q}
    rooms = {q.name.removesuffix(".py") for q in (ROOT / "src/recyclegp").iterdir()}
    code = [re.fullmatch(r"(\w+)(?:/(\w+))?(?:\.([\w.]+))?", q) for q in quoted - paths]
    code = [m for m in code if m and m[1] in rooms and (m[2] or m[3])]
    assert len(paths) > 5
    assert len(code) > 100
    for path in paths:
        assert (ROOT / path).exists(), path
    for m in code:
        found([m[1], m[2]] if m[2] else [m[1]], m[3].split(".") if m[3] else [])


def test_the_architecture_page_draws_every_room():
    """As it stands on the page, from top to bottom, and as pyproject.toml has it."""
    text = (ROOT / "docs/architecture.md").read_text()
    drawing = re.search(r"```text\n(.*?)```", text, flags=re.DOTALL)[1]
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    inside = [re.split(r"\W+", layer) for layer in layers[layers.index("models") :]]
    lines = [re.findall(r"[a-z]+", line) for line in drawing[drawing.index("inside") :].splitlines() if "|  " in line]
    drawn = [set(row[: len(names)]) for row, names in zip(lines, inside, strict=True)]
    assert drawn == [set(names) for names in inside]
    outside = {name for layer in layers[: layers.index("models")] for name in re.split(r"\W+", layer)}
    assert outside <= set(re.findall(r"[a-z]+", drawing[: drawing.index("inside")]))


def test_every_object_of_the_python_reference_exists():
    objects = re.findall(r"^::: recyclegp\.([\w.]+)$", (ROOT / "docs/api.md").read_text(), flags=re.MULTILINE)
    assert len(objects) > 15
    for name in objects:
        *path, last = name.split(".")
        path, names = (path[:-1], [path[-1], last]) if path[-1][0].isupper() else (path, [last])
        assert found(path, names).__doc__, name
