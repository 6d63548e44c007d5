"""The first pages say what a newcomer must know; names, words and messages on all pages are those of the source."""

import ast
import importlib
import importlib.util
import re
import tomllib

import pytest

import blocks
from blocks import ROOT

PAGES = [page for page in blocks.pages() if page.endswith(".md")]
NEWCOMERS = "README|index|start-|howto-|messy|categories|several|calibrate|serve|cookbook|coordinators|data-protection"
FOR_NEWCOMERS = [page for page in PAGES if re.search(NEWCOMERS, page)]


# --- the first pages --------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["README.md", "docs/index.md"])
def test_what_it_is_for_comes_first(page):
    """In this order; and the words that a newcomer cannot know are linked where they first stand."""
    text = (ROOT / page).read_text()
    parts = [
        "without revisiting any data",
        "concept-overview.png",
        "Who needs this?",
        "pip install",
        "import recyclegp",
    ]
    parts += ["recyclegp merge", "When not to use it"]
    if page == "README.md":  # which shows at once what it is worth
        parts.remove("import recyclegp")
        parts.insert(1, "import recyclegp")
        assert len(text.split()) <= 1000
        assert "`make test`" in text
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert len(text.splitlines()) <= 250
    assert not re.search(r"\$\$|‖|ρ", text)  # no formulas


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


QUOTED = re.compile(r"^<!-- from: (\S+) -->\n\n((?:.+\n)+)", flags=re.MULTILINE)


@pytest.mark.parametrize("page", [page for page in PAGES if "<!-- from: " in (ROOT / page).read_text()])
def test_tables_that_quote_another_page_have_its_numbers(page):
    """Rounded, perhaps. The other page is made from a run."""
    quotes = QUOTED.findall((ROOT / page).read_text())
    assert quotes
    for source, table in quotes:
        there = {float(n) for n in re.findall(r"\d+\.\d+", (ROOT / "docs" / source).read_text())}
        for number in re.findall(r"\d+\.\d+", table):
            half = 0.5 * 10.0 ** -len(number.partition(".")[2])
            assert any(abs(float(number) - n) <= 1.001 * half for n in there), (number, table)


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
