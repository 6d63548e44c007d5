"""What the page is told, as values for JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import likelihoods
from ..errors import RecycleGPError
from ..kernels.kernel import text
from ..merging.verdicts import Units
from ..models.ensemble import Ensemble
from ..models.module import Module
from ..plot import numbers, page, ranges
from ..plot.numbers import Curve, Panel
from ..plot.ranges import Range
from ..plot.scale import Model
from ..plot.scene import COLOURS, DASHES, Scene, functions_of, scenes
from ..plot.style import FAINT
from .choices import Choice, outputs_of
from .owner_map import MOST_MODULES, MOST_OWNERS, owner_map
from .state import Merged, ServeState, Snapshot

MOST_DRAWN = 60  # modules whose own curves are drawn
ALL = "all, as sent"  # the label of what is compared with
NOT_COUNTED = ":"  # the line of a module that does not count
LINES = tuple(d for d in DASHES if d != NOT_COUNTED)  # of owners, when all colours are used
MOST_STRETCHED = 2.5  # times the height of those that count: curves beyond it are cut off

Json = dict[str, Any]


def about(snapshot: Snapshot) -> Json:
    """What does not depend on any choice."""
    whole = functions_of(snapshot.modules)
    looks = _looks(snapshot)
    return {
        "functions": list(whole.functions),
        "modules": [_module(snapshot, i, whole.functions, looks) for i in range(len(snapshot.held))],
        "columns": scenes(snapshot.modules[:1])[0].columns,
        "test": None if snapshot.test is None else {"label": snapshot.test.label, "rows": len(snapshot.test.y)},
        "most_owners": MOST_OWNERS,
        "most_modules": MOST_MODULES,
    }


def view(serve_state: ServeState, choice: Choice, column: int, function: int = 0) -> Json:
    """What merging a choice gives: verdicts, scores and curves of one function."""
    snapshot = serve_state.snapshot
    functions = _functions(snapshot, function)
    name = functions[function]
    merged, everybody = serve_state.merged(choice), serve_state.everybody()
    return {
        "rows": _verdicts(snapshot, merged, name),
        "flagged": [_flagged(merged.ensemble, other) for other in functions],
        "notes": merged.notes,
        "facts": _facts(merged.ensemble, name),
        "scores": _scores(snapshot, merged, everybody, name),
        "curves": _curves(snapshot, choice, merged, everybody, column, name),
    }


def owners(serve_state: ServeState, choice: Choice, function: int = 0) -> Json:
    """The map of all owners who have a function, also of those who are switched off."""
    snapshot = serve_state.snapshot
    name = _functions(snapshot, function)[function]
    found = owner_map(snapshot.chosen(choice.of_all(len(snapshot.held))), name)
    if found is None:
        return {"places": [], "pairs": [], "shown": 1.0}
    looks = _looks(snapshot)
    return {
        "places": [
            {
                **p._asdict(),
                "rows": sum(snapshot.held[i].module.rows for i in p.modules),
                "colour": looks[p.owner][0],
                "again": looks[p.owner][1] != LINES[0],
            }
            for p in found.places
        ],
        "pairs": [{**p._asdict(), "distance": _finite(p.distance)} for p in found.pairs],
        "shown": found.shown,
    }


# --- one function of several ---


def _functions(snapshot: Snapshot, function: int) -> tuple[str, ...]:
    found = functions_of(snapshot.modules).functions
    if not 0 <= function < len(found):
        raise RecycleGPError(f"function {function}: there are {len(found)}")
    return found


def _position(model: Model, function: str) -> int | None:
    """Of a function among those of a model, where it has it; a single one may be called like its y."""
    names = model.functions
    if len(names) == 1 and function not in names:
        names = model.outputs
    return names.index(function) if function in names else None


def _at(e: Ensemble, function: str) -> int:
    """The same of an ensemble that must have it."""
    k = _position(e, function)
    if k is None:
        raise RecycleGPError(f"nobody who is switched on has {function}; switch somebody on, or look at another one")
    return k


def _of(value: Any, k: int, model: Model) -> Any:
    """What models say once for one function, and for several as a tuple."""
    return value[k] if len(model.functions) > 1 else value


def _sd(variance: float | None) -> float | None:
    return None if variance is None else _finite(math.sqrt(variance))


# --- one module after the other ---


def _looks(snapshot: Snapshot) -> dict[str, tuple[str, str]]:
    """Colour and dashes of each owner, the same whoever is switched on."""
    names = dict.fromkeys(m.owner for m in snapshot.modules)
    return {name: (COLOURS[k % len(COLOURS)], LINES[k // len(COLOURS) % len(LINES)]) for k, name in enumerate(names)}


def _module(snapshot: Snapshot, position: int, functions: Sequence[str], looks: dict[str, tuple[str, str]]) -> Json:
    m, source, signed = snapshot.held[position]
    return {
        "name": m.name,
        "owner": m.owner,
        "source": source,
        "signed": signed,
        "converged": m.convergence.converged,
        "columns": list(m.columns) if m.columns is not None else [f"x{j + 1}" for j in range(m.dimension)],
        "categories": list(m.categories.columns),
        "outputs": list(outputs_of(m)),
        "parts": [_part(m, _position(m, name)) for name in functions],
        "colour": looks[m.owner][0],
        "again": looks[m.owner][1] != LINES[0],  # has somebody else the colour?
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
        "kernel_in_full": latent.kernel.describe(),
        "likelihood": "+".join(p.name for p in own),
        "kept": latent.kept,
        "noise_sd": _sd(_of(m.noise, k, m)),
        "target": target.name,
        "unit": target.unit,
        "has_units": all(p.has_units for p in own),
        "output": k if len(outputs_of(m)) > 1 else 0,  # whose units are its own
    }


def _flagged(e: Ensemble, function: str) -> int:
    k = _position(e, function)
    return sum(m.verdict is not None and m.verdict.flagged for m in e._members if m.function == k)


def _verdicts(snapshot: Snapshot, merged: Merged, function: str) -> list[Json]:
    """Of those that are switched on and have the function, by position."""
    e, positions = merged.ensemble, {m.name: i for i, m in enumerate(snapshot.modules)}
    k = _at(e, function)
    found = []
    for row, member in ((r, m) for r, m in zip(merged.rows, e._members, strict=True) if m.function == k):
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
    k = _at(e, function)
    group = next(g for g in e.groups if k in g.functions)
    return {
        "rows": group.rows_of(k),
        "modules": sum(m.weight > 0 for m in e._members if m.function == k),
        "points": len(e._points[k]),
        "form": group.form.kind,
        "kernel": e._kernels[k].describe(),
        "noise_sd": _sd(_of(e.noise, k, e)),
        "evidence": _finite(e.evidence),
        "slack": _finite(e.slack),
        "offset_sd": _finite(_of(e.offset_sd, k, e)),
        "smooth_sd": _finite(_of(e.smooth_sd, k, e)),
        "converged": group.convergence.converged,
    }


def _scores(snapshot: Snapshot, merged: Merged, everybody: Merged | None, function: str) -> Json:
    """Evidence is of all functions together; a score of one."""
    both = {"now": merged, "all": everybody}
    if snapshot.test is not None:
        return {"kind": "test", **{k: None if m is None else _score(m, function) for k, m in both.items()}}
    return {"kind": "evidence", **{k: None if m is None else _facts(m.ensemble, function) for k, m in both.items()}}


def _score(merged: Merged, function: str) -> Json:
    if not isinstance(merged.scores, dict):
        return {"error": merged.scores}
    e = merged.ensemble
    score = merged.scores.get(e.functions[_at(e, function)])
    if score is None:
        return {"error": f"no test row has {function}"}
    return {name: _finite(value) for name, value in score._asdict().items() if not isinstance(value, str)}


def _curves(
    snapshot: Snapshot, choice: Choice, merged: Merged, everybody: Merged | None, column: int, function: str
) -> Json:
    """The ensemble along one input, those that are switched on, and everybody as they were sent."""
    e = merged.ensemble
    able = [m for m in snapshot.chosen(choice) if _position(m, function) is not None]
    some = able[:MOST_DRAWN]
    others = [] if everybody is None or everybody is merged else [everybody.ensemble]
    models: list[Model] = [*some, e, *others]
    names = [*(m.name for m in some), "merged", *(ALL for _ in others)]
    k = _at(e, function)
    counted = {m.name for m in e._members if m.function == k and m.weight > 0}
    (drawn,) = scenes(models, names=names, owners=False, likelihood=_family(models, function), function=function)
    drawn = _with_looks(drawn, snapshot, counted)
    if not 0 <= column < len(drawn.columns):
        raise RecycleGPError(f"column {column}: there are {len(drawn.columns)} inputs")
    panel = _plainer(numbers.panel(drawn, column, drawn.middle))
    found = page.curves(drawn, [panel]) | {"span": _height(drawn, panel)._asdict()}
    target = e.targets[k]
    if found["label"] == "f" and target.name is not None:
        found["label"] = target.name if target.unit is None else f"{target.name} ({target.unit})"
    return found | {"fixed": drawn.fixed, "left_out": len(able) - len(some)}


def _family(models: list[Model], function: str) -> str | None:
    """Where all are of classes, or all of counts, by whatever link, these are drawn."""
    own = [(m, _position(m, function)) for m in models]
    names = list(dict.fromkeys(p.parts[k].name for m, k in own if k is not None for p in m.likelihoods))
    alike = len(names) > 1 and all(likelihoods.named(name).classifies for name in names)
    return names[0] if alike else None


def _with_looks(drawn: Scene, snapshot: Snapshot, counted: set[str]) -> Scene:
    looks = _looks(snapshot)
    subjects = []
    for s in drawn.subjects:
        if s.origin.owner is not None:
            colour, dashes = looks[s.origin.owner]
            s = s._replace(colour=colour, dashes=dashes if s.origin.name in counted else NOT_COUNTED)
        elif s.label == ALL:
            s = s._replace(colour=FAINT, dashes="--")
        subjects.append(s._replace(members=[]))  # points of those who are switched off
    return drawn._replace(subjects=subjects)


def _height(drawn: Scene, panel: Panel) -> Range:
    """The range of all that counts, and of whatever else does not squeeze it."""

    def of(curves: list[Curve]) -> Range:
        return ranges.height([panel._replace(curves=curves)], drawn.scale)

    inside = [c for c in panel.curves if c.subject.merged or c.subject.dashes != NOT_COUNTED]
    least = of(inside)
    for curve in panel.curves:
        wider = of([*inside, curve])
        if wider.high - wider.low <= MOST_STRETCHED * (least.high - least.low):
            inside.append(curve)
    return of(inside)


def _plainer(panel: Panel) -> Panel:
    """Bands and points of the ensemble of now alone: others would hide each other."""
    curves = [
        c if c.subject.merged and c.subject.label != ALL else c._replace(banded=False, noisy=None) for c in panel.curves
    ]
    return panel._replace(curves=curves, lanes=[m for m in panel.lanes if not (m.chosen and m.label == ALL)])


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
