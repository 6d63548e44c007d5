"""Notebooks of examples: run like pages, written anew like pages, and shown on the site as pages.

A notebook is a JSON file of the standard format (nbformat 4.5) with its outputs: what cells print, and a figure where
the last line of a cell is one. Jupyter and everybody who opens the file sees the same as the site.
"""

from __future__ import annotations

import ast
import base64
import io
import json
import warnings
from pathlib import Path
from typing import Any

import blocks
import printed as compare

DOTS = 72  # per inch of a figure: a notebook should stay small


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def lines(text: str) -> list[str]:
    """As notebooks keep text: every line with its end, but for the last."""
    return text.splitlines(keepends=True)


def said(cell: dict[str, Any]) -> str:
    return "".join(line for o in cell["outputs"] if o["output_type"] == "stream" for line in o["text"])


def drawn(cell: dict[str, Any]) -> str | None:
    """A figure as it is kept, in base64."""
    found = [o["data"]["image/png"] for o in cell["outputs"] if "image/png" in o.get("data", {})]
    return found[0] if found else None


def run(page: str, text: str, folder: Path) -> blocks.Ran:
    """Every cell, in this process and folder. Figures are kept as they are unless something differs."""
    book = json.loads(text)
    names: dict[str, Any] = {"__name__": "__main__"}
    problems, figures = [], {}
    with blocks.somewhere(folder):
        for number, cell in enumerate(book["cells"], start=1):
            if cell["cell_type"] != "code":
                continue
            place = f"{page}, cell {number}"
            try:
                printed, figure = execute(source(cell), names, place)
            except Exception as error:
                problems.append(blocks.Problem(place, f"{type(error).__name__}: {error}\n{source(cell)}"))
                break
            shown = said(cell)
            if compare.aligned(shown, printed) is None or (figure is None) != (drawn(cell) is None):
                what = f"the notebook shows\n{shown}\nwhere this is printed\n{printed}"
                problems.append(blocks.Problem(place, what))
            figures[number] = figure
            cell["execution_count"] = len(figures)
            cell["outputs"] = [*_stream(printed), *(o for o in cell["outputs"] if "data" in o and figure is not None)]
    if problems:
        for number, figure in figures.items():
            cell = book["cells"][number - 1]
            cell["outputs"] = [*_stream(said(cell)), *_display(figure)]
    return blocks.Ran(problems, json.dumps(book, indent=1, ensure_ascii=False) + "\n", names)


def _stream(text: str) -> list[dict[str, Any]]:
    return [{"name": "stdout", "output_type": "stream", "text": lines(text)}] if text else []


def _display(figure: Any) -> list[dict[str, Any]]:
    if figure is None:
        return []
    data = {"image/png": base64.b64encode(picture(figure)).decode() + "\n", "text/plain": ["<Figure>"]}
    return [{"data": data, "metadata": {}, "output_type": "display_data"}]


def execute(code: str, names: dict[str, Any], place: str) -> tuple[str, Any]:
    """What it prints, and the figure that its last line is, as Jupyter would show it."""
    tree = ast.parse(code)
    *_, last = tree.body
    printed = blocks.run_python(code, names, place)
    if not isinstance(last, ast.Expr):
        return printed, None
    # its value: the line names what the cell has made, so that nothing is done twice
    value = eval(compile(ast.Expression(last.value), place, "eval"), names) if _only_names(last.value) else None
    return printed, value if hasattr(value, "savefig") else None


def _only_names(node: ast.expr) -> bool:
    return all(isinstance(part, (ast.Name, ast.Attribute, ast.Load)) for part in ast.walk(node))


def picture(figure: Any) -> bytes:
    """A small PNG of few colours."""
    from PIL import Image

    raw, small = io.BytesIO(), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figure.savefig(raw, dpi=DOTS, format="png")
    Image.open(raw).convert("RGB").quantize(colors=64).save(small, format="png", optimize=True)
    return small.getvalue()


# --- on the site ------------------------------------------------------------------------------


def title(path: Path) -> str:
    return source(json.loads(path.read_text(encoding="utf-8"))["cells"][0]).splitlines()[0].removeprefix("# ")


def as_page(path: Path) -> dict[str, str | bytes]:
    """Files of the site by their names: the page, its figures, and the notebook itself."""
    files: dict[str, str | bytes] = {path.name: path.read_text(encoding="utf-8")}
    parts = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"], start=1):
        if cell["cell_type"] == "markdown":
            parts.append(source(cell))
            continue
        parts.append(f"```python\n{source(cell)}\n```")
        if text := said(cell).rstrip():
            parts.append(f"``` {{ .text .output }}\n{text}\n```")
        if (figure := drawn(cell)) is not None:
            name = f"{path.stem}-{number}.png"
            files[name] = base64.b64decode(figure)
            parts.append(f"![What cell {number} draws]({name})")
    parts.append(f"[{path.name}]({path.name}) is this page as a notebook.")
    return files | {f"{path.stem}.md": "\n\n".join(parts) + "\n"}
