"""What there is to say of a file: as values for machines, and in words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from ..errors import printable
from . import joint_facts, many_facts
from .many_facts import where
from .screen import Screen, plain_table, say

if TYPE_CHECKING:
    from ..models.ensemble import Ensemble
    from ..models.module import Module

NAMES_SHOWN = 5  # modules of an ensemble that are named in words
FLAGGED = "flagged"  # how the verdict on a module begins that contradicts the others

Facts = dict[str, Any]


def of_file(path: Path) -> Facts:
    """Read the file as anybody who receives it would."""
    from ..models.ensemble import Ensemble
    from ..models.load import load
    from ..models.module import Module
    from ..storage import container

    if many_facts.holds_many(path):
        return many_facts.of_file(path)
    model = load(path)
    document = container.read(path)
    header = document.header
    names = list(model.columns) if model.columns is not None else [f"input {i + 1}" for i in range(model.dimension)]
    found = _of_model(model) if isinstance(model, (Module, Ensemble)) else joint_facts.of_model(model)
    return {
        "file": str(path),
        **found,
        "columns": None if model.columns is None else names,
        "inputs": model.dimension,
        "region": {
            n: [float(low), float(high)]
            for j, (n, (low, high)) in enumerate(zip(names, model.region, strict=True))
            if j not in model.categories.columns
        },
        "categories": {names[c]: list(levels) for c, levels in model.categories.levels},
        # The points of a posterior from another library were chosen there, and may be data rows.
        "contains_data_rows": None if found.get("method") == "moments" else False,
        "bytes": path.stat().st_size,
        "schema": header["schema"],
        "written_by": str(header.get("written_by", "")),
        "content_id": f"sha256:{document.content_id}",
    }


def _of_model(model: Module | Ensemble) -> Facts:
    """What one function says of itself."""
    from ..models.ensemble import Ensemble
    from ..times import written

    facts: Facts = {
        "kind": "ensemble" if isinstance(model, Ensemble) else "module",
        "name": None if isinstance(model, Ensemble) else model.name,
        "rows": model.rows,
        "points": len(model.inducing),
        "points_per_row": len(model.inducing) / model.rows,
        "likelihoods": [p.name for p in model.likelihoods],
        "kernel": model.kernel_spec.describe(),
        "mean": model.mean,
        "noise": model.noise,
        "evidence": _finite(model.evidence),
        "target": str(model.target) or None,
    }
    if isinstance(model, Ensemble):
        facts |= {"modules": len(model.names), "names": model.names, "slack": model.slack, "bound": model.bound}
        facts |= {"form": model.size.form, "size": str(model.size)}
        facts |= {"owners": model.owners, "offset_sd": model.offset_sd, "smooth_sd": model.smooth_sd}
        facts |= {"keeps": "sites" if model._keeps_sites else "names"}
        facts |= {"converged": model.convergence.converged, "convergence": model.convergence.message}
        rows = model.report()
        facts |= {"not_converged": [row["name"] for row in rows if not row["converged"]]}
        facts |= {
            "not_trusted": {row["name"]: row["trust"] for row in rows if (row["trust"] or "").startswith(FLAGGED)}
        }
        facts |= {"traces_of_removed": model.traces_of_removed, "modules_removed": model.unlearned.removed}
        facts |= {"removed": str(model.unlearned)}
        facts |= {"guarantee": model.unlearned.guarantee.value, "traces": [t.value for t in model.unlearned.traces]}
    else:
        end = model.convergence
        facts |= {
            "owner": model.owner,
            "time": None if model.time is None else written(model.time),
            "kept": model.kept,
            "method": model.method,
            "converged": end.converged,
            "evaluations": end.evaluations,
        }
        facts |= {"convergence": end.message}
    return facts


def report(screen: Screen, path: Path, **more: Any) -> None:
    """Say what one file holds, and whatever else the command knows of it."""
    facts = of_file(path) | more
    screen.result(facts, lambda: say(in_words(facts)))


def in_words(facts: Facts) -> dict[str, str]:
    if facts["kind"] == "modules":
        return many_facts.in_words(facts)
    if facts["kind"] in joint_facts.KINDS:
        return joint_facts.in_words(facts)
    rows, points, D = facts["rows"], facts["points"], facts["inputs"]
    lines = {"file": f"{facts['file']}, {facts['bytes']:,} bytes, schema {facts['schema']}, by {facts['written_by']}"}
    if facts["kind"] == "module":
        lines["module"] = f"{facts['name']}, {_many(rows, 'row')} of {_many(D, 'input')}, {facts['method']} method"
        if facts["kept"] is not None:
            lines["kept"] = f"{facts['kept']:.0%} of what the rows say about f, at {_many(points, 'point')}"
        lines["points per row"] = f"{facts['points_per_row']:.2g}"
        if facts["owner"] != facts["name"]:
            lines["owner"] = facts["owner"]
        if facts["time"] is not None:
            lines["time"] = str(facts["time"])
    else:
        names = facts["names"]
        shown = ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
        lines["ensemble"] = f"of {_many(len(names), 'module')} ({shown}), {_many(rows, 'row')} of {_many(D, 'input')}"
    lines |= where(facts)
    if facts["target"] is not None:
        lines["target"] = facts["target"]
    lines["likelihood"] = ", ".join(facts["likelihoods"])
    lines["kernel"] = f"{facts['kernel']}, prior mean {facts['mean']:.4g}"
    if facts["noise"] is not None:
        lines["noise"] = f"variance {facts['noise']:.4g}, standard deviation {math.sqrt(facts['noise']):.4g}"
    if facts["kind"] == "module":
        after = f"after {_many(facts['evaluations'], 'evaluation')}" if facts["evaluations"] else facts["convergence"]
        lines["converged"] = f"{'yes' if facts['converged'] else 'NO: ' + facts['convergence']}, {after}"
    else:
        lines["form"] = facts["size"]
        if facts["offset_sd"] or facts["smooth_sd"]:
            lines["owners"] = _difference(facts)
        if not facts["converged"]:
            lines["converged"] = f"NO: the search for the kernel {facts['convergence']}"
        if facts["not_converged"]:
            lines["modules not converged"] = ", ".join(facts["not_converged"][:NAMES_SHOWN])
        if facts["not_trusted"]:
            said = [
                f"{name} ({why.removeprefix(FLAGGED).removeprefix(': ')})" for name, why in facts["not_trusted"].items()
            ]
            lines["not trusted"] = ", ".join(said[:NAMES_SHOWN]) + (", …" if len(said) > NAMES_SHOWN else "")
        for p in facts.get("proposals", ()):
            lines[f"try for {p['name']}"] = p["command"] or p["python"]
        if facts["modules_removed"]:
            lines["removed"] = facts["removed"]
        lines["keeps"] = {
            "sites": "the modules' sites: they can be removed or reweighted",
            "names": "only the modules' names: none can be removed or reweighted",
        }[facts["keeps"]]
    lines["contains data rows"] = (
        f"no, only {_many(points, 'point')} and what is known of f there (points somebody chose by hand may be rows)"
        if facts["contains_data_rows"] is False
        else f"not known: another program chose its {_many(points, 'point')}, and may have taken rows"
    )
    lines["content id"] = facts["content_id"]
    return lines


def table(found: list[Facts]) -> Table:
    numbers = ("rows", "points", "per row", "likelihood", "bytes", "content id")
    made = plain_table("file", "holds", "inputs", *numbers, folded=3)
    for f in found:
        made.add_row(
            printable(f["file"]),
            _holds(f),
            printable(", ".join(f["columns"] or [str(f["inputs"])])),
            f"{f['rows']:,}",
            str(f["points"]),
            f"{f['points_per_row']:.2g}",
            ", ".join(f["likelihoods"]),
            f"{f['bytes']:,}",
            f["content_id"][7:15],
        )
    return made


def _holds(f: Facts) -> str:
    if f["kind"] in joint_facts.KINDS:
        return joint_facts.holds(f)
    if f["kind"] == "ensemble":
        return f"ensemble of {f['modules']}"
    if f["kind"] == "modules":
        return f"{f['modules']:,} modules"
    return f"{f['name']}" if f["converged"] else f"{f['name']}, NOT CONVERGED"


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _difference(facts: Facts) -> str:
    """How owners differ from the function they share."""
    said = []
    if facts["offset_sd"]:
        said.append(f"by a constant of sd {facts['offset_sd']:.3g}")
    if facts["smooth_sd"]:
        said.append(f"by a smooth function of {facts['smooth_sd']:.3g} times the sd of the shared one")
    return f"differ {' and '.join(said)}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
