"""screen: which modules contradict the others, before anything is merged."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from ..errors import Remedy, printable
from . import models
from .options import AsJson, FileNames, Modules, NoSeed, Owners, Quiet, Recycle, Threads, Verbose
from .parsing import OWNERS, none_or
from .paths import expand
from .screen import Screen, plain_table, show

if TYPE_CHECKING:
    from ..merging.verdicts import Verdict
    from ..models.ensemble import Ensemble


def screen(
    files: Modules,
    owners: Owners = "auto",
    recycle: Recycle = False,
    file_names: FileNames = False,
    threads: Threads = 1,
    seed: NoSeed = 0,
    verbose: Verbose = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Screen modules: who contradicts the others, and why. Nothing is merged.

    A flagged module is better explained by other units, the opposite sign,
    another function, or far too little doubt than by being honest. Where a
    change of units (of the target, or of inputs) explains it, the change that
    would undo it is proposed, with the transform command for it; ask the owner.
    A module of which the others know too little cannot be checked. merge does
    the same by itself.

    Example: recyclegp screen north.safetensors south.safetensors east.safetensors
    """
    terminal = Screen(quiet, as_json, verbose)
    paths = expand(files)
    differing = none_or(owners, "--owners", OWNERS)
    with terminal.working("Screening", threads, total=len(paths)) as advance:
        from ..models import screening as library

        holding: dict[str, Path] = {}
        modules = models.modules(paths, advance, recycle=recycle, file_names=file_names, files=holding)
        found = library.screen(modules, owners=differing)
    proposed = {p.name: p.command for p in _proposals(found.remedies, holding)}
    rows = [row | {"command": proposed.get(row["name"], "")} for row in found.table]
    facts = {"flagged": found.flagged, "unchecked": found.unchecked, "modules": rows}
    terminal.result(facts, lambda: _in_words(rows, found.summary_line))


class Proposal(NamedTuple):
    """What would make a module agree with the others."""

    name: str
    python: str
    command: str  # for its file; nothing where that holds others too


def proposals_of(merged: Ensemble, files: Mapping[str, Path]) -> list[Proposal]:
    """For the modules of an ensemble, by their names in these files, where there is something to propose."""
    from ..models.screening import proposals

    verdicts: dict[str, dict[str, Verdict]] = {}
    for m in merged._members:
        if m.verdict is not None:
            verdicts.setdefault(m.name, {})[merged.functions[m.function]] = m.verdict
    return _proposals(proposals(verdicts), files)


def _proposals(remedies: Mapping[str, Remedy], files: Mapping[str, Path]) -> list[Proposal]:
    return [
        Proposal(name, str(remedy), remedy.shell(str(files[name])) if name in files else "")
        for name, remedy in remedies.items()
    ]


def _in_words(rows: list[dict[str, Any]], summary_line: str) -> None:
    table = plain_table("module", "rows", "standing", "reason", "proposal", folded=1)
    for row in sorted(rows, key=lambda r: ("flagged", "cannot be checked", "trusted").index(r["standing"])):
        table.add_row(row["name"], f"{row['rows']:,}", row["standing"], row["reason"], row["proposal"])
    show(table)
    for row in rows:
        if row["command"]:
            typer.echo(printable(f"if the owner of {row['name']} agrees: {row['command']}"))
    typer.echo(summary_line)
