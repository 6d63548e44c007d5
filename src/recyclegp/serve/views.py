"""What the page is told, as values for JSON."""

from __future__ import annotations

import math
from typing import Any

from .. import likelihoods
from ..errors import RecycleGPError
from ..kernels.kernel import text
from ..merging.verdicts import Units
from ..metrics import Score
from ..models.ensemble import Ensemble
from ..models.module import Module
from ..plot import numbers, page, ranges
from ..plot.numbers import Curve, Panel
from ..plot.ranges import Range
from ..plot.scale import Model
from ..plot.scene import COLOURS, DASHES, Scene, scene
from ..plot.style import FAINT
from .choices import Choice
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
    first = scene(snapshot.modules[:1])
    looks = _looks(snapshot)
    return {
        "modules": [_module(snapshot, i, looks) for i in range(len(snapshot.held))],
        "columns": first.columns,
        "test": None if snapshot.test is None else {"label": snapshot.test.label, "rows": len(snapshot.test.y)},
        "settings": snapshot.settings._asdict(),
        "most_owners": MOST_OWNERS,
        "most_modules": MOST_MODULES,
    }


def view(serve_state: ServeState, choice: Choice, column: int) -> Json:
    """What merging a choice gives: verdicts, scores and curves."""
    merged, everybody = serve_state.merged(choice), serve_state.everybody()
    e = merged.ensemble
    return {
        "rows": _verdicts(serve_state.snapshot, merged, choice),
        "notes": merged.notes,
        "facts": _facts(e),
        "scores": _scores(serve_state.snapshot, merged, everybody),
        "curves": _curves(serve_state.snapshot, choice, merged, everybody, column),
    }


def owners(serve_state: ServeState, choice: Choice) -> Json:
    """The map of all owners, also of those who are switched off."""
    snapshot = serve_state.snapshot
    found = owner_map(snapshot.chosen(choice.of_all(len(snapshot.held))))
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


# --- one module after the other ---


def _looks(snapshot: Snapshot) -> dict[str, tuple[str, str]]:
    """Colour and dashes of each owner, the same whoever is switched on."""
    names = dict.fromkeys(m.owner for m in snapshot.modules)
    return {name: (COLOURS[k % len(COLOURS)], LINES[k // len(COLOURS) % len(LINES)]) for k, name in enumerate(names)}


def _module(snapshot: Snapshot, position: int, looks: dict[str, tuple[str, str]]) -> Json:
    m, source = snapshot.held[position]
    return {
        "name": m.name,
        "owner": m.owner,
        "source": source,
        "rows": m.rows,
        "points": len(m.inducing),
        "kernel": text(m.kernel_spec.structure),
        "kernel_in_full": m.kernel_spec.describe(),
        "likelihood": m.likelihood,
        "kept": m.kept,
        "noise_sd": None if m.noise is None else _finite(math.sqrt(m.noise)),
        "converged": m.convergence.converged,
        "target": m.target.name,
        "unit": m.target.unit,
        "columns": list(m.columns) if m.columns is not None else [f"x{j + 1}" for j in range(m.dimension)],
        "categories": list(m.categories.columns),
        "has_units": all(p.has_units for p in m.likelihoods),
        "colour": looks[m.owner][0],
        "again": looks[m.owner][1] != LINES[0],  # has somebody else the colour?
    }


def _verdicts(snapshot: Snapshot, merged: Merged, choice: Choice) -> list[Json]:
    """Of those that are switched on, by position."""
    found = []
    for position, row, member in zip(choice.on, merged.rows, merged.ensemble._members, strict=True):
        verdict = member.verdict
        remedy = None if verdict is None else verdict.remedy
        found.append(
            {
                "position": position,
                "counts": row["weight"] > 0,
                "noise_sd": None if row["noise"] is None else _finite(math.sqrt(row["noise"])),
                "surprise": _finite(row["surprise"]),
                "agreement": _finite(row["agreement"]),
                "offset": _finite(row["offset"]),
                "offset_sd": _finite(row["offset_sd"]),
                "standing": None if verdict is None else verdict.standing.value,
                "reason": "" if verdict is None else verdict.reason,
                "remedy": None if remedy is None else _remedy(remedy, snapshot.held[position].module),
            }
        )
    return found


# --- the ensemble ---


def _facts(e: Ensemble) -> Json:
    return {
        "rows": e.rows,
        "modules": sum(row.weight > 0 for row in e._members),
        "points": len(e.inducing),
        "form": e.size.form,
        "kernel": e.kernel_spec.describe(),
        "noise_sd": None if e.noise is None else _finite(math.sqrt(e.noise)),
        "evidence": _finite(e.evidence),
        "slack": _finite(e.slack),
        "offset_sd": _finite(e.offset_sd),
        "smooth_sd": _finite(e.smooth_sd),
        "converged": e.convergence.converged,
    }


def _scores(snapshot: Snapshot, merged: Merged, everybody: Merged | None) -> Json:
    both = {"now": merged, "all": everybody}
    if snapshot.test is not None:
        return {"kind": "test", **{k: None if m is None else _score(m.score) for k, m in both.items()}}
    return {"kind": "evidence", **{k: None if m is None else _facts(m.ensemble) for k, m in both.items()}}


def _score(score: Score | str | None) -> Json:
    if not isinstance(score, Score):
        return {"error": score}
    return {name: _finite(value) for name, value in score._asdict().items() if not isinstance(value, str)}


def _curves(snapshot: Snapshot, choice: Choice, merged: Merged, everybody: Merged | None, column: int) -> Json:
    """The ensemble along one input, those that are switched on, and everybody as they were sent."""
    e = merged.ensemble
    some = list(zip(choice.on, snapshot.chosen(choice), strict=True))[:MOST_DRAWN]
    others = [] if everybody is None or everybody is merged else [everybody.ensemble]
    models: list[Model] = [*(m for _, m in some), e, *others]
    names = [*(m.name for _, m in some), "merged", *(ALL for _ in others)]
    counted = {row["name"] for row in merged.rows if row["weight"] > 0}
    drawn = _with_looks(scene(models, names=names, owners=False, likelihood=_family(models)), snapshot, counted)
    if not 0 <= column < len(drawn.columns):
        raise RecycleGPError(f"column {column}: there are {len(drawn.columns)} inputs")
    panel = _plainer(numbers.panel(drawn, column, numbers.middle(drawn)))
    found = page.curves(drawn, [panel]) | {"span": _height(drawn, panel)._asdict()}
    target = e.target
    if found["label"] == "f" and target.name is not None:
        found["label"] = target.name if target.unit is None else f"{target.name} ({target.unit})"
    return found | {"fixed": drawn.fixed, "left_out": len(choice.on) - len(some)}


def _family(models: list[Model]) -> str | None:
    """Where all are of classes, or all of counts, by whatever link, these are drawn."""
    names = list(dict.fromkeys(p.name for m in models for p in m.likelihoods))
    alike = len(names) > 1 and all(likelihoods.named(name).classifies for name in names)
    return names[0] if alike else None


def _with_looks(drawn: Scene, snapshot: Snapshot, counted: set[str]) -> Scene:
    looks = _looks(snapshot)
    subjects = []
    for s in drawn.subjects:
        if isinstance(s.model, Module):
            colour, dashes = looks[s.model.owner]
            s = s._replace(colour=colour, dashes=dashes if s.model.name in counted else NOT_COUNTED)
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


def _remedy(units: Units, module: Module) -> Json:
    """A change of units as the page sends it back, for a person who may want to change it."""
    scales, shifts = [1.0] * module.dimension, [0.0] * module.dimension
    for column, scale, shift in units.inputs:
        j = column if isinstance(column, int) or module.columns is None else module.columns.index(column)
        scales[int(j)], shifts[int(j)] = _short(scale), _short(shift)
    return {
        "output_scale": _short(units.scale),
        "output_shift": _short(units.shift),
        "input_scale": scales,
        "input_shift": shifts,
    }


def _short(value: float) -> float:
    return float(f"{value:.6g}")


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
