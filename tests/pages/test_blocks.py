"""How pages are run: outputs are compared word by word and within a tolerance, and written anew where they differ."""

import base64
import json
import math

import pytest

import blocks
import notebooks
import printed

PAGE = """# A page

```python
x = 6 * 7
print(f"the answer is {x}")
```

```text
the answer is %s
```

Some text.

```console
$ echo one two
one two
$ hello() { echo "hello $1"; }
$ hello world
hello world
```

<!-- not run: a server -->

```console
recyclegp hub city --port 8443
```

<!-- fails -->

```python
raise ValueError("no such luck")
```

```text
ValueError: no such luck
```
"""


WARNS = "import recyclegp as rgp\nrgp.fit([[1.0], [2.0], [4.0]], [1.0, 2.0, 3.0], allow_small=True)"


def test_a_page_is_run_and_written_anew(tmp_path):
    ran = blocks.run_page("p", PAGE % 42, tmp_path)
    assert ran.problems == []
    assert ran.text == PAGE % 42
    assert ran.names["x"] == 42
    ran = blocks.run_page("p", PAGE % 99, tmp_path)
    (problem,) = ran.problems
    assert problem.place == "p:4"
    assert "99" in problem.what
    assert ran.text == PAGE % 42


def test_numbers_agree_within_two_percent_or_a_unit_of_the_last_digit():
    for shown, said in [("100", "101"), ("0.12", "0.13"), ("1,936", "1,950"), ("3e-08", "1e-07"), ("-0.001", "0")]:
        assert printed.same(f"it is {shown} mm", f"it  is {said} mm"), (shown, said)
    for shown, said in [("100", "104"), ("0.12", "0.14"), ("12", "12 13"), ("1.5e-3", "1.7e-3"), ("7", "seven")]:
        assert not printed.same(f"it is {shown} mm", f"it is {said} mm"), (shown, said)
    assert printed.same("100", "104", within=0.05)
    assert not printed.same("about 3 rows", "about 3 columns")
    assert printed.line("a,12.5,40,134.99 and 1,936").numbers == ("12.5", "40", "134.99", "1,936")


def test_digests_times_and_evaluations_are_not_compared():
    a, b = "sha256:" + "0a" * 32, "sha256:" + "1b" * 32
    assert printed.same(f"content id  {a}", f"content id {b}")
    assert printed.same("bytes 2,776 5f73f4d9", "bytes 2,776 0f73f4da")
    assert printed.same("done in 1.2 s at 2026-03-01T10:00:00Z", "done in 17 s at 2026-03-02T11:00:00Z")
    assert printed.same("yes, after 22 evaluations", "yes, after 41 evaluations")
    # a time alone is no reason to write another line; a digest is
    assert printed.aligned("done in 1.2 s", "done in 17 s") == "done in 1.2 s"
    assert printed.aligned(a, b) == b


def test_an_ellipsis_stands_for_any_lines():
    said = "one 1\ntwo 2\nthree 3\nfour 4\n"
    for shown in ("one 1\n…\nfour 4", "…\nthree 3\n…", "one 1\ntwo 2\n…", "…\nfour 4", "one 1\n…\nthree 3\n…"):
        assert printed.aligned(shown, said) == shown
    assert printed.aligned("…\ntwo 9\n…", said) is None
    assert printed.aligned("…\ntwo 9\n…", said, math.inf) == "…\ntwo 2\n…"
    assert printed.aligned("…\nthree 3", said) is None  # it is not the last line
    assert printed.aligned("two 2\n…", said) is None


@pytest.mark.parametrize(
    ("block", "what"),
    [
        ("```python\n1 / 0\n```", "ZeroDivisionError"),
        ("```bash\nls\n```", "nobody runs a block of bash"),
        ("```console\nfalse\n```", "ends with 1"),
        ("```console\nrecyclegp inspect nothing.safetensors\n```", "ends with 2"),
        ("<!-- fails -->\n\n```console\nrecyclegp --version\n```", "ends with 0"),
        ("<!-- fails -->\n\n```python\n1\n```", "no error, although one is expected"),
        ("<!-- not run: hours -->\n\n```console\nrecyclegp hub city --prot 1\n```", "unknown options --prot"),
        ("<!-- not run: hours -->\n\n```console\nmake coffee\n```", "no target coffee"),
        ("<!-- not run: hours -->\n\n```console\npython benchmarks/coffee.py\n```", "does not exist"),
        (f"```python\n{WARNS}\n```", "would be warned"),
    ],
)
def test_what_cannot_be_right_is_named(block, what, tmp_path):
    ((place, said),) = blocks.run_page("p", f"text\n\n{block}\n", tmp_path).problems
    assert place.startswith("p:")
    assert what in said


def test_commands_are_joined_with_others(tmp_path):
    shell = blocks.Shell()
    with blocks.somewhere(tmp_path):
        assert shell.run("recyclegp --version | cut -c 1-9") == "recyclegp\n"
        shell.run("recyclegp --version > version.txt")
        assert (tmp_path / "version.txt").read_text().startswith("recyclegp")
        table = r"printf 'x,y\n1,2\n3,5\n' | recyclegp fit - --target z -o a.safetensors"
        assert "z" in shell.run(table, fails=True)


@pytest.mark.slow
def test_commands_in_the_background_end_well_or_are_named(tmp_path):
    """Whoever waits in vain is found when the page ends; a server is ended with it."""
    pytest.importorskip("uvicorn")
    owner = "join-sum plan.safetensors north.csv --target y --folder sum"
    plan = "import recyclegp as rgp\nrgp.Plan([[0.0]], kernel='rbf', noise=1.0).save('plan.safetensors')"
    begun = f"```python\n{plan}\n```\n\n<!-- background -->\n\n```console\nrecyclegp {owner}\n```\n"
    (tmp_path / "north.csv").write_text("x,y\n" + "1,2\n3,5\n" * 6)
    (problem,) = blocks.run_page("p", begun.replace("--folder sum", "--folder sum --timeout 1"), tmp_path).problems
    assert "no message has come within 1 seconds" in problem.what
    page = (
        "<!-- background -->\n\n```console\nrecyclegp hub city --port 0\n```\n\n```console\nrecyclegp --version\n```\n"
    )
    assert blocks.run_page("p", page, tmp_path).problems == []
    (problem,) = blocks.run_page("p", page.replace("--port 0", "--admission nobody"), tmp_path).problems
    assert "choose one of" in problem.what


def test_words_that_name_other_machines_are_replaced():
    shell = blocks.Shell()
    shell.instead = {"https://hub.example:8443": "http://127.0.0.1:5"}
    assert shell.here("join https://hub.example:8443 a.csv") == "join http://127.0.0.1:5 a.csv"
    assert printed.same("http://127.0.0.1:40913/Zq1-mF_Q/", "http://127.0.0.1:1/abc/")
    assert not printed.same("http://127.0.0.1:40913/Zq1mFQ/", "http://other:1/abc/")


# --- notebooks --------------------------------------------------------------------------------

NOTEBOOKS = sorted((blocks.ROOT / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_has_the_standard_format_and_is_small(path):
    book = json.loads(path.read_text(encoding="utf-8"))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    assert book["cells"][0]["source"][0].startswith("# ")
    counts = [cell["execution_count"] for cell in book["cells"] if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1))
    assert path.stat().st_size < 50_000
    files = notebooks.as_page(path)
    assert f"{path.stem}.md" in files
    for name, content in files.items():
        assert not name.endswith(".png") or content.startswith(b"\x89PNG")
        assert not name.endswith(".png") or f"]({name})" in files[f"{path.stem}.md"]


def test_a_notebook_is_run_and_written_anew(tmp_path):
    code = [["x = 6 * 7\n", "print(x)"], ["from matplotlib.figure import Figure\n", "f = Figure((2, 1))\n", "f"]]
    cells = [{"cell_type": "code", "execution_count": None, "outputs": [], "source": lines} for lines in code]
    made = json.dumps({"cells": cells})
    ran = notebooks.run("n", made, tmp_path)
    assert [p.place for p in ran.problems] == ["n, cell 1", "n, cell 2"]
    first, second = json.loads(ran.text)["cells"]
    assert notebooks.said(first) == "42\n"
    assert base64.b64decode(notebooks.drawn(second)).startswith(b"\x89PNG")
    assert notebooks.run("n", ran.text, tmp_path).problems == []
    assert notebooks.run("n", ran.text, tmp_path).text == ran.text
    (problem,) = notebooks.run("n", ran.text.replace("6 * 7", "6 / 0"), tmp_path).problems
    assert "ZeroDivisionError" in problem.what
