"""inspect and compare: what files hold, and how modules agree."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import RecycleGPError, printable
from . import models, options
from .inspecting import tell_of
from .lines import Table
from .paths import expand
from .screen import Screen, plain_table, show

if TYPE_CHECKING:
    from ..models import ensemble as library
    from ..models.module import Module

Row = dict[str, Any]

MEASURES = ("surprise", "agreement", "others_add")  # of a member, beside the others
DIFFERENCES = ("difference", "standardised", "nats")  # of a module from the ensemble, at its points
ROUNDING = 1e-12  # of numbers that are about 1 where they are anything
TRUSTED = "trusted"  # the verdict on a module about which nothing needs to be said


def inspect(
    files: options.Files,
    seed: options.NoSeed = 0,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Say in words what files hold: rows, region, kernel, noise, size, and whether a data row is among it.

    Several files make a table. The content id is the file's SHA-256. Of a file
    that cannot be read the reason is said; the others are shown all the same,
    and the command ends with exit code 2.

    Example: recyclegp inspect north.safetensors
    """
    screen = Screen(quiet, as_json)
    paths = expand(files)
    alone = len(files) == 1 and paths == [Path(files[0])]
    with screen.bar("Inspecting", len(paths)) as advance:
        from . import facts

        found, damaged = list[facts.Facts](), list[facts.Facts]()
        for path in paths:
            try:
                found.append(facts.of_file(path))
            except (RecycleGPError, OSError) as error:
                if alone:
                    raise
                damaged.append({"file": str(path), "error": _reason(error, path)})
            advance(by=1)
    if alone:
        screen.result(found[0], lambda: tell_of(found, alone=True))
        return
    screen.result([*found, *damaged], lambda: tell_of(found, alone=False))
    for one in damaged:
        typer.echo(f"recyclegp: {printable(one['file'])}: {printable(one['error'])}", err=True)
    if damaged:
        raise typer.Exit(2)


def _reason(error: RecycleGPError | OSError, path: Path) -> str:
    """Without the name of the file, which is said anyway."""
    said = (error.strerror or str(error)) if isinstance(error, OSError) else error.worded(shell=True)
    return " ".join(said.removeprefix(f"{path}: ").split())


def compare(
    ensemble: options.Ensemble,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILES…]", help="Module files, to compare predictions with theirs.")
    ] = None,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Compare each module with the ensemble, the least agreeing first.

    Surprise is how far what a module says lies from what all the others
    predict of it: about 1 where they agree. Agreement is the probability of a
    larger one. With module files, predictions of f at each module's own points
    are set against the ensemble's: their mean difference, the same in standard
    deviations, and the information between them in nats per point. Where owners
    differ, offset is the constant of a module's owner, plus or minus its
    standard deviation, and predictions are those for that owner if the ensemble
    can tell owners apart, else of the shared f. Where somebody is not trusted,
    a column says why. Of several outputs or classes each has rows of its own.

    Example: recyclegp compare city.safetensors north.safetensors south.safetensors
    """
    screen = Screen(quiet, as_json, verbose)
    paths = expand(files or [])
    with screen.working("Comparing", total=len(paths) or None) as advance:
        merged = models.load_ensemble(ensemble, "compare")
        rows = _rows(merged, list(models.modules(paths, advance, recycle=True)))
    screen.result(rows, lambda: show(_comparison(rows)))


def _rows(merged: library.Ensemble, modules: list[Module]) -> list[Row]:
    """The least agreeing first; of several functions one after the other."""
    found: dict[tuple[str, str], Row] = {(r["function"], r["name"]): {"member": True, **r} for r in merged.report()}
    for module in modules:
        for c, function in enumerate(_called(module, merged)):
            if function not in merged.functions:
                continue
            absent: Row = {"member": False, "function": function, "name": module.name, "owner": module.owner}
            absent |= {"rows": module.latents[c].rows, "points": len(module._points[c]), "weight": 0.0}
            absent |= {"likelihood": module.likelihood, **dict.fromkeys(MEASURES, math.nan)}
            absent |= {"offset": None, "offset_sd": None}
            key = (function, module.name)
            found[key] = found.get(key, absent) | _difference(merged, merged.functions.index(function), module, c)
    # where every agreement is 0 the surprise still tells who is furthest off
    order = merged.functions.index
    rows = sorted(
        found.values(), key=lambda r: (order(r["function"]), math.isnan(r["surprise"]), r["agreement"], -r["surprise"])
    )
    for row in rows:
        row |= {key: None for key in MEASURES if math.isnan(row[key])}
    return rows


def _called(module: Module, merged: library.Ensemble) -> tuple[str, ...]:
    """Its functions, as the ensemble calls them: a single one beside outputs is the one that its target names."""
    names = module.functions
    if len(names) == 1 and len(merged.functions) > 1:
        names = (module.target.name or names[0],)
    if not set(names) & set(merged.functions):
        raise RecycleGPError(
            f"module {module.name!r} has {module.likelihoods[0].meaning} ({', '.join(names)}), and the ensemble has "
            f"{merged.likelihoods[0].meaning} ({', '.join(merged.functions)}); compare it with modules like its own"
        )
    return names


def _difference(merged: library.Ensemble, k: int, module: Module, c: int) -> dict[str, float | None]:
    """Of the two predictions of one function at the module's own points: function k of the one, c of the other.

    None where the points are so close together that nobody can ask about them.
    """
    import numpy as np
    import pandas as pd

    from ..arrays import CodedInputs

    Z = np.asarray(module._points[c])
    where = pd.DataFrame(module.categories.named(Z), columns=module.columns)
    try:
        own = module._moments(CodedInputs(Z), None, of_y=False)
    except RecycleGPError:
        return dict.fromkeys(DIFFERENCES)
    try:
        whole = merged._moments(where, module.owner, of_y=False)
    except RecycleGPError:  # the ensemble does not know this owner, or cannot tell it from others
        whole = merged._moments(where, None, of_y=False)
    (mine, mine_var), (all_, all_var) = ([t[:, i].cpu().numpy() for t in m] for m, i in ((own, c), (whole, k)))
    if not (np.all(mine_var > 0) and np.all(all_var > 0)):  # one of them takes its values for certain
        return dict.fromkeys(DIFFERENCES)
    # KL[N(mine) ‖ N(all)] of each point's value
    kl = 0.5 * (mine_var / all_var - 1 + (mine - all_) ** 2 / all_var - np.log(mine_var / all_var))
    apart = np.abs(mine - all_)
    each = apart, apart / np.sqrt(mine_var + all_var), kl
    return {name: float(np.mean(values)) for name, values in zip(DIFFERENCES, each, strict=True)}


def _short(value: float) -> str:
    """Three digits; what is nothing but rounding is 0."""
    return "0" if abs(value) < ROUNDING else f"{value:.3g}"


def _comparison(rows: list[Row]) -> Table:
    measures = [*MEASURES]
    if any("nats" in row for row in rows):
        measures += DIFFERENCES
    offsets = ["offset"] if any(row["offset"] is not None for row in rows) else []
    trust = ["trust"] if any(row.get("trust") not in (None, TRUSTED) for row in rows) else []
    functions = ["function"] if len({row["function"] for row in rows}) > 1 else []
    table = plain_table(
        "module",
        *functions,
        "rows",
        "weight",
        *offsets,
        *(measure.replace("_", " ") for measure in measures),
        *trust,
        folded=1 + len(functions),
    )
    for row in rows:
        name = row["name"] if row["member"] else f"{row['name']} (not in it)"
        numbers = ["" if row.get(key) is None else _short(row[key]) for key in measures]
        said = ["" if row["offset"] is None else f"{row['offset']:.3g} ± {row['offset_sd']:.2g}" for _ in offsets]
        verdict = [row.get("trust") or "" for _ in trust]
        function = [row["function"] for _ in functions]
        table.add_row(name, *function, f"{row['rows']:,}", f"{row['weight']:g}", *said, *numbers, *verdict)
    return table
