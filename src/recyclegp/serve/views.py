"""What the page is told, as values for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..errors import RecycleGPError
from ..kernels.kernel import text
from ..merging.verdicts import Standing, Units, Verdict
from ..models.ensemble import Ensemble
from ..models.module import Module
from ..plot.scene import scenes
from ..target import with_unit
from . import drawings
from .agreement import judged, remarks
from .choices import Choice, outputs_of
from .functions import function_names, name_of, of, position, position_in
from .looking import Looking
from .owner_map import MOST_MODULES, MOST_OWNERS, NO_LEEWAY, Leeway, owner_map
from .state import Merged, ServeState, Snapshot
from .tables import Table

LOOKING = Looking()

Json = dict[str, Any]


def about(snapshot: Snapshot) -> Json:
    """What does not depend on any choice."""
    names = function_names(snapshot)
    looks, test, table = drawings.looks(snapshot), snapshot.scored, snapshot.table
    return {
        "functions": list(names),
        "modules": [_module(snapshot, i, names, looks) for i in range(len(snapshot.held))],
        "columns": scenes(snapshot.modules[:1])[0].columns,
        "levels": [found._asdict() for found in drawings.category_levels(snapshot.modules)],
        "test": None if test is None else {"label": test.label, "rows": len(test.y)},
        "tables": snapshot.reader is not None,
        "table": None if table is None else _table(table),
        "most_owners": MOST_OWNERS,
        "most_modules": MOST_MODULES,
        "home": snapshot.home,
    }


def _table(table: Table) -> Json:
    return {
        "label": table.label,
        "rows": table.rows,
        "left_out": table.left_out,
        "scored": table.test is not None,
        "target": table.target,
        "targets": list(table.targets),
        "unscored": table.unscored,
    }


def view(serve_state: ServeState, choice: Choice, looking: Looking = LOOKING) -> Json:
    """What merging a choice gives: verdicts, scores and curves of one function."""
    snapshot = serve_state.snapshot
    name = name_of(snapshot, looking.function)
    merged = serve_state.merged(choice)
    return {
        "rows": _verdicts(snapshot, merged, name),
        "flagged": [_flagged(merged.ensemble, other) for other in function_names(snapshot)],
        "notes": [*snapshot.missing, *merged.notes],
        "facts": _facts(merged.ensemble, name),
        "scores": _scores(serve_state, choice, name),
        "curves": _curves(serve_state, choice, looking, merged.ensemble),
    }


def picture(serve_state: ServeState, choice: Choice, looking: Looking, kind: str) -> bytes:
    """What is drawn, as a file."""
    snapshot, e = serve_state.snapshot, serve_state.merged(choice).ensemble
    k = position_in(e, name_of(snapshot, looking.function))
    counted, count = sum(m.weight > 0 for m in e._members if m.function == k), len(snapshot.held)
    title = f"{counted} of {count} module{'s' * (count > 1)} count{'s' * (counted == 1)}"
    return drawings.picture(drawings.draw(serve_state, choice, looking), looking, kind, title)


def owners(serve_state: ServeState, choice: Choice, function: int = 0) -> Json:
    """The map of all owners who have a function, also of those who are switched off."""
    snapshot = serve_state.snapshot
    name = name_of(snapshot, function)
    said = serve_state.said(choice, name)
    if said is None:
        return {"places": [], "pairs": [], "shown": 1.0, "remarks": []}
    leeway, verdicts = _found_by_merging(serve_state, choice, name)
    found = owner_map(said, leeway)
    out = {i: Verdict(Standing.FLAGGED, h.left_out) for i, h in enumerate(snapshot.held) if h.left_out}
    shown = [judged(out | verdicts, p.modules) for p in found.places]
    looks = drawings.looks(snapshot)
    return {
        "places": [
            {
                **p._asdict(),
                "rows": sum(snapshot.held[i].module.rows for i in p.modules),
                "colour": looks[p.owner][0],
                "again": looks[p.owner][1] != drawings.LINES[0],
                "standing": None if j.standing is None else j.standing.value,
                "reason": j.reason,
            }
            for p, j in zip(found.places, shown, strict=True)
        ],
        "pairs": [{**p._asdict(), "distance": _finite(p.distance)} for p in found.pairs],
        "shown": found.shown,
        "remarks": remarks(found, [judged(verdicts, p.modules) for p in found.places]),
        "differ": leeway.owners_differ,
    }


def _found_by_merging(
    serve_state: ServeState, choice: Choice, function: str
) -> tuple[Leeway, dict[int, Verdict | None]]:
    """Within what owners differ, and the verdicts by position; nothing where a choice cannot be merged."""
    snapshot = serve_state.snapshot
    try:
        merged = serve_state.merged(choice)
        k = position_in(merged.ensemble, function)
    except RecycleGPError:
        return NO_LEEWAY, {}
    e, positions = merged.ensemble, {m.name: i for i, m in enumerate(snapshot.modules)}
    said = [(row, m) for row, m in zip(merged.rows, e._members, strict=True) if m.function == k]
    now = {positions[m.name]: row["noise"] for row, m in said if m.name in positions}
    noise, everybody = [], snapshot.chosen(choice.of_all(len(snapshot.held)))
    for i, module in enumerate(everybody):
        its = position(module, function)
        own = None if its is None else of(module.noise, its, module)
        others = of(e.noise, k, e)  # of who is switched off we only know that more noise would make it less sure
        found = now[i] if i in now else max(own, others) if own and others else own
        noise.append(found / own if own and found else 1.0)
    offset, smooth = (_finite(of(sd, k, e)) or 0.0 for sd in (e.offset_sd, e.smooth_sd))
    verdicts = {positions[m.name]: m.verdict for _, m in said if m.name in positions}
    return Leeway(offset, smooth, tuple(noise)), verdicts


def _sd(variance: float | None) -> float | None:
    return None if variance is None else _finite(math.sqrt(variance))


# --- one module after the other ---


def _module(snapshot: Snapshot, at: int, functions: Sequence[str], looks: dict[str, tuple[str, str]]) -> Json:
    m, source, signed, left_out = snapshot.held[at]
    return {
        "name": m.name,
        "owner": m.owner,
        "source": source,
        "signed": signed,
        "left_out": left_out,
        "converged": m.convergence.converged,
        "columns": list(m.columns) if m.columns is not None else [f"x{j + 1}" for j in range(m.dimension)],
        "categories": list(m.categories.columns),
        "outputs": list(outputs_of(m)),
        "parts": [_part(m, position(m, name)) for name in functions],
        "colour": looks[m.owner][0],
        "again": looks[m.owner][1] != drawings.LINES[0],  # has somebody else the colour?
    }


def _part(m: Module, k: int | None) -> Json | None:
    """One of its functions, where it has it."""
    if k is None:
        return None
    latent, own, target = m.latents[k], [p.parts[k] for p in m.likelihoods], m.targets[k]
    return {
        "rows": latent.rows,
        "points": len(m._points[k]),
        "origin": m.about.origin.value,
        "kernel": text(latent.kernel.structure),
        "kernel_in_full": latent.kernel.describe(None),
        "likelihood": "+".join(p.name for p in own),
        "kept": latent.kept,
        "noise_sd": _sd(of(m.noise, k, m)),
        "target": target.name,
        "unit": target.unit,
        "has_units": all(p.has_units for p in own),
        "output": k if len(outputs_of(m)) > 1 else 0,  # whose units are its own
    }


def _flagged(e: Ensemble, function: str) -> int:
    k = position(e, function)
    return sum(m.verdict is not None and m.verdict.flagged for m in e._members if m.function == k)


def _verdicts(snapshot: Snapshot, merged: Merged, function: str) -> list[Json]:
    """Of those that are switched on and have the function, by position."""
    e, positions = merged.ensemble, {m.name: i for i, m in enumerate(snapshot.modules)}
    k = position_in(e, function)
    found = []
    for row, member in zip(merged.rows, e._members, strict=True):
        if member.function != k or member.name not in positions:  # it may be one that cannot be shown
            continue
        verdict, position = member.verdict, positions[member.name]
        remedy = None if verdict is None else verdict.remedy
        found.append(
            {
                "position": position,
                "counts": row["weight"] > 0,
                "noise_sd": _sd(row["noise"]),
                "surprise": _finite(row["surprise"]),
                "agreement": _finite(row["agreement"]),
                "others_add": _finite(row["others_add"]),
                "offset": _finite(row["offset"]),
                "offset_sd": _finite(row["offset_sd"]),
                "standing": None if verdict is None else verdict.standing.value,
                "reason": "" if verdict is None else verdict.reason,
                "remedy": None if remedy is None else _remedy(remedy, snapshot.held[position].module, function),
            }
        )
    return found


# --- the ensemble ---


def _facts(e: Ensemble, function: str) -> Json:
    k = position_in(e, function)
    group = next(g for g in e.groups if k in g.functions)
    return {
        "rows": group.rows_of(k),
        "modules": sum(m.weight > 0 for m in e._members if m.function == k),
        "points": len(e._points[k]),
        "form": group.form.kind,
        "kernel": e._kernels[k].describe(),
        "noise_sd": _sd(of(e.noise, k, e)),
        "evidence": _finite(e.evidence),
        "slack": _finite(e.slack),
        "offset_sd": _finite(of(e.offset_sd, k, e)),
        "smooth_sd": _finite(of(e.smooth_sd, k, e)),
        "converged": group.convergence.converged,
    }


def _scores(serve_state: ServeState, choice: Choice, function: str) -> Json:
    """Evidence is of all functions together; a score of one."""
    both: dict[str, Choice | None] = {"now": choice, "all": serve_state.snapshot.usual}
    if serve_state.usual() is None:
        both["all"] = None
    of_test = serve_state.snapshot.scored is not None
    told = {key: None if c is None else _told(serve_state, c, function, of_test) for key, c in both.items()}
    return {"kind": "test" if of_test else "evidence", **told}


def _told(serve_state: ServeState, choice: Choice, function: str, of_test: bool) -> Json:
    e = serve_state.merged(choice).ensemble
    if not of_test:
        return _facts(e, function)
    scores = serve_state.scores(choice)
    if not isinstance(scores, dict):
        return {"error": scores}
    score = scores.get(e.functions[position_in(e, function)])
    if score is None:
        return {"error": f"no test row has {function}"}
    return {name: _finite(value) for name, value in score._asdict().items() if not isinstance(value, str)}


def _curves(serve_state: ServeState, choice: Choice, looking: Looking, e: Ensemble) -> Json:
    """The ensemble of now, those that are switched on, and everybody as they were sent."""
    found = drawings.draw(serve_state, choice, looking)
    made = drawings.drawn(found, looking)
    target = e.targets[position_in(e, name_of(serve_state.snapshot, looking.function))]
    if made["label"] == "f" and target.name is not None:
        made["label"] = with_unit(target.name, target.unit)
    return made | {"fixed": found.scene.fixed, "left_out": found.left_out}


def _remedy(units: Units, module: Module, function: str) -> Json:
    """A change of units as the page sends it back, for a person who may want to change it."""
    outputs = outputs_of(module)
    mine = [len(outputs) == 1 or name == function for name in outputs]
    scales, shifts = [1.0] * module.dimension, [0.0] * module.dimension
    for column, scale, shift in units.inputs:
        j = column if isinstance(column, int) or module.columns is None else module.columns.index(column)
        scales[int(j)], shifts[int(j)] = _short(scale), _short(shift)
    return {
        "output_scale": [_short(units.scale) if own else 1.0 for own in mine],
        "output_shift": [_short(units.shift) if own else 0.0 for own in mine],
        "input_scale": scales,
        "input_shift": shifts,
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
