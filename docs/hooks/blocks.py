"""Blocks of code on pages and in notebooks: all are run, and what they print is compared with what the page shows.

    python docs/hooks/blocks.py [PAGE …]           runs the pages, and writes anew what they show
    python docs/hooks/blocks.py --check [PAGE …]   writes nothing, and says what differs

A page is README.md, a file of docs or a notebook of examples; without names it is all of them. Blocks of a page run one
after the other in one empty folder: `python` with common names, `console` line by line in a shell. A `text` block
directly below shows what was printed; a console block whose lines begin with `$ ` shows it itself. Comments directly
above a block say what is special about it:

    <!-- given: stations -->     tables or objects that the page takes for granted (tests/support/cases_pages.py)
    <!-- fails -->               it ends with an error, which is shown, too
    <!-- warns -->               it may warn, which other blocks must not
    <!-- within: 10% -->         numbers agree to so much, in place of two percent
    <!-- printed by: tour -->    the text below is what examples/tour.py prints
    <!-- background -->          its commands wait for others: they are started, and go on beside the next blocks
    <!-- others: owners -->      what other people do meanwhile, and where (OTHERS of tests/support/cases_others.py)
    <!-- not run: a server -->   it cannot be run here; the reason is one of UNTRIED

All other blocks must run, or be output: a block that nobody tries is found, and counted. Above a table, the comment
`<!-- from: experiments.md -->` says on which page its decimals stand, too.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import printed as compare
from background import Background

ROOT = Path(__file__).parents[2]
SUPPORT = ROOT / "tests" / "support"
UNTRIED = {  # why a block is not run; tests/pages counts them
    "text": "a drawing, a formula, a file or a message: nothing that could be run",
    "install": "it would change this machine",
    "another machine": "it needs a cluster, a GPU or the network",
    "hours": "a benchmark: its results are kept, and `benchmarks/pages.py --check` compares them with the page",
    "tested elsewhere": "it needs an environment of its own, where a test runs it",
}
FENCE = re.compile(r"((?:^<!-- [^\n]*? -->\n+)*)^```[ {.]*(\w*)[^\n]*\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
MARK = re.compile(r"<!-- ([a-z ]+?)(?:: (.*?))? -->")
PROMPT = "$ "


class Block(NamedTuple):
    """A fence of a page, with what is said above it and shown below it."""

    page: str
    number: int  # of its first line
    kind: str
    source: str
    span: tuple[int, int]  # of the source
    marks: dict[str, str]
    shown: Block | None = None

    @property
    def place(self) -> str:
        return f"{self.page}:{self.number}"

    @property
    def prompted(self) -> bool:
        """Its commands and what they print are one block."""
        return self.kind == "console" and self.source.startswith(PROMPT)

    @property
    def untried(self) -> str | None:
        return self.marks.get("not run")

    @property
    def within(self) -> float:
        return float(self.marks.get("within", f"{100 * compare.WITHIN}%").rstrip("%")) / 100


class Step(NamedTuple):
    """What was run at once, and what it printed."""

    command: str
    said: str


class Problem(NamedTuple):
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


class Ran(NamedTuple):
    """A page that was run: what differs, its text with what was printed, and the names its Python has left."""

    problems: list[Problem]
    text: str
    names: dict[str, Any]


# --- reading a page ---------------------------------------------------------------------------


def blocks(page: str, text: str) -> list[Block]:
    """Those that are to be run or say why not, in order; output belongs to the block that it follows."""
    every = [
        Block(
            page,
            text.count("\n", 0, found.start(3)) + 1,
            found[2],
            found[3],
            found.span(3),
            {key: value or "" for key, value in MARK.findall(found[1])},
        )
        for found in FENCE.finditer(text)
    ]
    kept: list[Block] = []
    for block in every:
        above = kept[-1] if kept else None
        if above and block.kind == "text" and not block.marks and not above.untried and not above.shown:
            between = text[above.span[1] : block.span[0]].removeprefix("```").removesuffix("```text\n")
            if not between.strip():
                kept[-1] = above._replace(shown=block)
                continue
        kept.append(block)
    return kept


def pages() -> list[str]:
    docs = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").glob("*.md"))
    return ["README.md", *docs, *sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "examples").glob("*.ipynb"))]


# --- running ----------------------------------------------------------------------------------


def commands(block: Block) -> list[str]:
    lines = block.source.replace("\\\n", " ").splitlines()
    if block.prompted:
        lines = [line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT)]
    return [line for line in lines if line.strip() and not line.startswith("#")]


class Shell:
    """Commands of one page. Those of recyclegp run in this process, which has torch already; others in bash."""

    def __init__(self) -> None:
        self.setup = ""
        self.said = ""  # by the last block
        self.instead: dict[str, str] = {}  # words of the page that name other machines, and what stands for them here
        self.background = Background()

    def steps(self, block: Block) -> Iterator[Step]:
        if "others" in block.marks:
            others(block.marks["others"])(self)
        found = []
        for command in commands(block):
            here = self.here(command)
            if "background" in block.marks:
                said = self.background.start(shlex.split(here, comments=True)[1:])
            else:
                said = self.run(here, fails="fails" in block.marks)
            found.append(Step(command, said))
        self.said = "".join(step.said for step in found)
        return iter(found)

    def here(self, command: str) -> str:
        for there, words in self.instead.items():
            command = command.replace(there, words)
        return command

    def run(self, command: str, fails: bool = False) -> str:
        if re.match(r"\w+\(\) \{", command):
            self.setup += f"{command}\n"
            return ""
        words = command.split(" ")
        if words[0] == "make":
            checked(command)
            return ""
        if "recyclegp" not in words:
            return self.bash(command)
        before, _, mine = command.rpartition("recyclegp ") if words[0] != "recyclegp" else ("", "", command[10:])
        mine, operator, after = next(
            (tuple(mine.partition(o)) for o in (" | ", " > ") if o in mine),  # type: ignore[misc]
            (mine, "", ""),
        )
        given = self.bash(before.rstrip(" |")) if before else None
        said = self.recyclegp(mine, given, fails)
        if operator == " > ":
            Path(after.strip()).write_text(said, encoding="utf-8")
            return ""
        return self.bash(after, said) if operator else said

    def bash(self, command: str, given: str | None = None) -> str:
        done = subprocess.run(
            ["bash", "-c", self.setup + command], input=given or "", capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"`{command}` ends with {done.returncode}: {done.stderr}")
        return done.stdout

    @staticmethod
    def recyclegp(arguments: str, given: str | None, fails: bool) -> str:
        from typer.testing import CliRunner

        from recyclegp.cli import app

        done = CliRunner().invoke(app, shlex.split(arguments, comments=True), input=given, prog_name="recyclegp")
        if done.exception and not isinstance(done.exception, SystemExit):
            raise done.exception
        if bool(done.exit_code) != fails:
            raise RuntimeError(f"`recyclegp {arguments}` ends with {done.exit_code}: {done.output}")
        return done.stdout + (done.stderr if fails else "")


def checked(command: str) -> None:
    """A command that is not run names a target, a file, or a command and options that exist."""
    words = shlex.split(command, comments=True)
    makefile = (ROOT / "Makefile").read_text()
    if words[:1] == ["make"] and not re.search(rf"^{words[1]}:", makefile, flags=re.MULTILINE):
        raise ValueError(f"no target {words[1]} in the Makefile")
    if words[:1] == ["python"] and words[1].endswith(".py") and not (ROOT / words[1]).exists():
        raise ValueError(f"{words[1]} does not exist")
    if words[:1] == ["recyclegp"]:
        import typer.main

        from recyclegp.cli import app

        known: Any = typer.main.get_command(app)
        for word in words[1:]:
            if word in getattr(known, "commands", {}):
                known = known.commands[word]
        options = {o for p in known.params for o in (*p.opts, *p.secondary_opts)} | {"--help"}
        used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        if unknown := used - options:
            raise ValueError(f"`{command}` has unknown options {', '.join(sorted(unknown))}")


def run_python(source: str, names: dict[str, Any], name: str, block: Block | None = None) -> str:
    """What the code prints; an error, where one is expected, as Python's last line says it."""
    fails, warns = (mark in (block.marks if block else {}) for mark in ("fails", "warns"))
    from recyclegp.errors import RecycleGPWarning

    with contextlib.redirect_stdout(io.StringIO()) as said, warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", RecycleGPWarning)
        try:
            exec(compile(source, name, "exec"), names)
        except Exception as error:
            if not fails:
                raise
            said.write(traceback.format_exception_only(error)[-1])
        else:
            if fails:
                raise RuntimeError("no error, although one is expected")
    ours = [str(w.message) for w in seen if issubclass(w.category, RecycleGPWarning)]
    if ours and not warns:
        raise RuntimeError(f"a reader would be warned: {ours[0]}")
    return said.getvalue()


@contextlib.contextmanager
def somewhere(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def support(module: str) -> Any:
    if str(SUPPORT) not in sys.path:
        sys.path.append(str(SUPPORT))
    return importlib.import_module(module)


def given(name: str) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return support("cases_pages").GIVEN[name]() or {}


def others(name: str) -> Any:
    """A function of the shell."""
    return support("cases_others").OTHERS[name]


def run_page(page: str, text: str, folder: Path) -> Ran:
    """Every block, in this process and folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shell, problems, edits = Shell(), [], []
    with somewhere(folder), contextlib.ExitStack() as ended:
        ended.callback(shell.background.end)
        for block in blocks(page, text):
            try:
                if "given" in block.marks:
                    names |= given(block.marks["given"])
                said = run_block(block, shell, names)
            except Exception as error:
                lines = traceback.format_exception_only(error)[-1].strip()
                problems.append(Problem(block.place, f"{lines}\n{block.source}"))
                break
            if said is None:
                continue
            target = block.shown or block
            new = compare.aligned(target.source, said, block.within)
            if new is None:  # the same words with other numbers can be written, also between ellipses
                what = f"the page shows\n{target.source}\nwhere this is printed\n{said}"
                problems.append(Problem(block.place, what))
                new = compare.aligned(target.source, said, float("inf"))
            if new is None:
                new = "\n".join(line.rstrip() for line in said.strip("\n").splitlines())
                if any(line.strip() == compare.ELLIPSIS for line in target.source.splitlines()):
                    continue  # nobody knows which lines to show
            edits.append((target.span, f"{new}\n"))
        if not problems:
            try:
                shell.background.wait()
            except RuntimeError as error:
                problems.append(Problem(page, str(error)))
    for (start, end), new in reversed(edits):
        text = text[:start] + new + text[end:]
    return Ran(problems, text, names)


def run_block(block: Block, shell: Shell, names: dict[str, Any]) -> str | None:
    """What is to be compared with the page; None where it shows nothing."""
    if block.untried is not None:
        if block.kind == "console":
            for command in commands(block):
                checked(command)
        return None
    if script := block.marks.get("printed by"):
        import examples

        kept = examples.remembered(ROOT / "examples" / f"{script}.py")
        return "".join(output.text for output in examples.outputs_of(kept))
    if block.kind == "python":
        # as many lines further down as the block is on its page, for the sake of tracebacks
        said = run_python("\n" * (block.number - 1) + block.source, names, block.page, block)
    elif block.kind == "console":
        steps = list(shell.steps(block))
        said = "".join(f"{PROMPT}{s.command}\n{s.said}" if block.prompted else s.said for s in steps)
    else:
        raise ValueError(f"nobody runs a block of {block.kind or 'no kind'}; say `not run: …` above it, and why")
    return said if block.shown or block.prompted else None


def run(page: str, folder: Path) -> Ran:
    """From the page's file; in this folder, which is empty."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if page.endswith(".ipynb"):
        import notebooks

        return notebooks.run(page, text, folder)
    return run_page(page, text, folder)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="*", help="as README.md or docs/commands.md; all of them unless some are named")
    parser.add_argument("--check", action="store_true", help="write nothing: say what differs")
    options = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("RECYCLEGP_SECRET", "none")  # pages show the same, whoever writes them
    failed = False
    for page in options.page or pages():
        with tempfile.TemporaryDirectory() as folder:
            ran = run(page, Path(folder))
        print(f"{page}: {len(ran.problems) or 'no'} problem{'' if len(ran.problems) == 1 else 's'}", flush=True)
        for problem in ran.problems:
            print(f"  {problem}")
        failed |= bool(ran.problems)
        if not options.check:
            (ROOT / page).write_text(ran.text, encoding="utf-8")
    if failed and options.check:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
