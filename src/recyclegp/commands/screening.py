"""screen: which modules contradict the others, before anything is merged."""

from __future__ import annotations

from typing import Any

import typer

from . import models
from .options import OWNERS, AsJson, FileNames, Modules, NoSeed, Owners, Quiet, Recycle, Threads, none_or
from .paths import expand
from .screen import Screen, plain_table, show


def screen(
    files: Modules,
    owners: Owners = "auto",
    recycle: Recycle = False,
    file_names: FileNames = False,
    threads: Threads = 1,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Screen modules: who contradicts the others, and why. Nothing is merged.

    A flagged module is better explained by other units, the opposite sign,
    another function, or far too little doubt than by being honest. Where a
    change of units explains it, the change that would undo it is proposed; ask
    the owner. A module of which the others know too little cannot be checked.
    merge does the same by itself.

    Example: recyclegp screen north.safetensors south.safetensors east.safetensors
    """
    terminal = Screen(quiet, as_json)
    paths = expand(files)
    differing = none_or(owners, "--owners", OWNERS)
    with terminal.working("Screening", threads, total=len(paths)) as advance:
        from ..models import screening as library

        modules = models.modules(paths, advance, recycle=recycle, file_names=file_names)
        found = library.screen(models.to_merge(modules, paths), owners=differing)
    facts = {"flagged": found.flagged, "unchecked": found.unchecked, "modules": found.table}
    terminal.result(facts, lambda: _in_words(found.table, len(found.flagged)))


def _in_words(rows: list[dict[str, Any]], flagged: int) -> None:
    table = plain_table("module", "rows", "standing", "reason", "proposal", folded=1)
    for row in sorted(rows, key=lambda r: ("flagged", "cannot be checked", "trusted").index(r["standing"])):
        table.add_row(row["name"], f"{row['rows']:,}", row["standing"], row["reason"], row["proposal"])
    show(table)
    typer.echo(f"{flagged} of {len(rows)} modules contradict the others")
