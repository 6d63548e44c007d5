"""What there is to say of a file of several functions: as values for machines, and in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from .many_facts import where

if TYPE_CHECKING:
    import numpy as np

    from ..models.ensemble import Ensemble
    from ..models.joint.ensemble import JointEnsemble
    from ..models.joint.module import JointModule
    from ..models.module import Module

NAMES_SHOWN = 5  # modules that are named in words
KINDS = ("joint module", "joint ensemble")

Facts = dict[str, Any]


def of_model(model: JointModule | JointEnsemble) -> Facts:
    """What the file says beyond its size and origin."""
    from ..models.joint.module import JointModule

    functions = [_of_function(name, model.part(name)) for name in model.functions]
    facts: Facts = {
        "rows": model.rows,
        "points": max(f["points"] for f in functions),
        "points_per_row": max(f["points_per_row"] for f in functions),
        "likelihoods": list(dict.fromkeys(p.name for p in model.likelihoods)),
        "evidence": model.evidence if math.isfinite(model.evidence) else None,
        "holds": model.link.kind,
        "functions": functions,
        "converged": all(f["converged"] for f in functions),
    }
    if isinstance(model, JointModule):
        return {"kind": "joint module", "name": model.name, "owner": model.owner, **facts}
    rows = model.report()
    flagged = [row for row in rows if (row["trust"] or "").startswith("flagged")]
    return {
        "kind": "joint ensemble",
        "name": None,
        "modules": len(model.names),
        "names": model.names,
        "owners": model.owners,
        "slack": model.slack,
        "correlation": _correlation(model.output_covariance),
        "not_trusted": {f"{row['name']} ({row['function']})": row["trust"] for row in flagged},
        **facts,
    }


def _correlation(covariance: np.ndarray | None) -> list[list[float]] | None:
    """Between outputs; None where each is merged by itself."""
    if covariance is None:
        return None
    sd = covariance.diagonal() ** 0.5
    return [[float(v) for v in row] for row in covariance / sd / sd[:, None]]


def _of_function(name: str, part: Module | Ensemble) -> Facts:
    from ..models.module import Module

    facts: Facts = {
        "function": name,
        "rows": part.rows,
        "points": len(part.inducing),
        "points_per_row": len(part.inducing) / part.rows,
        "kernel": part.kernel_spec.describe(),
        "mean": part.mean,
        "noise": part.noise,
        "target": str(part.target) or None,
        "converged": part.convergence.converged,
        "convergence": part.convergence.message,
    }
    if isinstance(part, Module):
        return facts | {"kept": part.kept}
    return facts | {"names": part.names, "form": part.size.form, "slack": part.slack}


def in_words(f: Facts) -> dict[str, str]:
    functions = f["functions"]
    D, count = f["inputs"], len(functions)
    lines = {"file": f"{f['file']}, {f['bytes']:,} bytes, schema {f['schema']}, by {f['written_by']}"}
    size = f"{f['rows']:,} row{'s' * (f['rows'] != 1)} of {D} input{'s' * (D != 1)}"
    if f["kind"] == "joint module":
        lines["module"] = f"{f['name']}, {size}"
        if f["owner"] != f["name"]:
            lines["owner"] = f["owner"]
    else:
        lines["ensemble"] = f"of {f['modules']:,} module{'s' * (f['modules'] != 1)} ({_shown(f['names'])}), {size}"
    lines["holds"] = what(f)
    if f.get("correlation") is not None:
        lines["correlated"] = _correlated([function["function"] for function in functions], f["correlation"])
    lines |= where(f)
    lines["likelihood"] = ", ".join(f["likelihoods"])
    for function in functions:
        lines[f"function {function['function']}"] = _said(function)
    if f["kind"] == "joint ensemble" and f["not_trusted"]:
        lines["not trusted"] = _shown(list(f["not_trusted"]))
    points = max(function["points"] for function in functions)
    lines["contains data rows"] = (
        f"no, only {points:,} point{'s' * (points != 1)} and what is known of {'each function' if count > 1 else 'it'} "
        "there (points somebody chose by hand may be rows)"
    )
    lines["content id"] = f["content_id"]
    return lines


def _correlated(names: list[str], correlation: list[list[float]]) -> str:
    """The pairs of outputs that go together most."""
    pairs = [(correlation[i][j], names[i], names[j]) for i in range(len(names)) for j in range(i)]
    most = sorted(pairs, key=lambda pair: -abs(pair[0]))[:NAMES_SHOWN]
    return ", ".join(f"{b} and {a} {r:.2f}" for r, a, b in most) + (", …" if len(pairs) > len(most) else "")


def what(f: Facts) -> str:
    """As "3 classes: ant, bee, wasp"."""
    names = [function["function"] for function in f["functions"]]
    kind = {"outputs": "output", "classes": "class"}.get(f["holds"], "") if len(names) == 1 else f["holds"]
    if f["holds"] == "varying noise":
        return f"a function and its noise, which varies: {', '.join(names)}"
    return f"{len(names)} {kind}: {_shown(names)}"


def holds(f: Facts) -> str:
    """For a table of files."""
    whose = f["name"] if f["kind"] == "joint module" else f"ensemble of {f['modules']}"
    state = "" if f["converged"] else ", NOT CONVERGED"
    kind = f["holds"] if f["holds"] == "varying noise" else f"{len(f['functions'])} {f['holds']}"
    return f"{whose}, {kind}{state}"


def _said(function: Facts) -> str:
    rows, points = function["rows"], function["points"]
    said = [
        f"{rows:,} row{'s' * (rows != 1)}",
        f"{points:,} point{'s' * (points != 1)} ({function['points_per_row']:.2g} per row)",
    ]
    if "names" in function:
        count = len(function["names"])
        said.insert(0, f"{count:,} module{'s' * (count != 1)}")
    if function["target"] not in (None, function["function"]):
        said.insert(0, function["target"])
    if function.get("kept") is not None:
        said.append(f"{function['kept']:.0%} kept")
    said.append(f"{function['kernel']}, prior mean {function['mean']:.4g}")
    if function["noise"] is not None:
        said.append(f"noise variance {function['noise']:.4g}")
    said.append("converged" if function["converged"] else f"NOT CONVERGED: {function['convergence']}")
    return ", ".join(said)


def _shown(names: list[str]) -> str:
    return ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
