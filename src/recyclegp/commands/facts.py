"""What there is to say of a file, as values for machines; `fact_words` says it to people.

A file of one function has what there is to say of it beside everything else; one of several has an entry for each in
`functions`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..arrays import Columns
from ..categories import Categories
from ..core.convergence import Convergence
from ..errors import RecycleGPError
from ..models.disclosure import Disclosure
from ..models.ensemble import Ensemble
from ..models.load import Model, load, load_many
from ..models.model import squeezed
from ..models.module import Module
from ..record import Privacy, common_privacy, worst
from ..storage import container, digest, signing
from ..storage.making import ANSWER, MODULES, PLAN
from ..times import written
from . import fact_words, plan_facts, words
from .screen import Screen, say

Facts = dict[str, Any]


def report(screen: Screen, path: Path, **more: Any) -> None:
    """Say what one file holds, and whatever else the command knows of it."""
    facts = of_file(path) | more
    screen.result(facts, lambda: say(fact_words.in_words(facts)))


def of_file(path: Path) -> Facts:
    """Read the file as anybody who receives it would."""
    kind = container.header(path).get("kind")
    if kind == MODULES:
        found = _of_many(path)
    elif kind in (PLAN, ANSWER):
        found = plan_facts.of_plan(load(path)) if kind == PLAN else plan_facts.of_answer(load(path))
        found |= _place(found.pop("columns_of"), found.pop("levels"), found.pop("ends"))
    else:
        model = load(path)
        found = _of_ensemble(model) if isinstance(model, Ensemble) else _of_module(model)
        found |= _place(model.columns, model.categories, model.region) | {"words": words.of_model(model)}
    document = container.read(path, identify=True)
    return {
        "file": str(path),
        **found,
        "bytes": path.stat().st_size,
        "schema": document.header["schema"],
        "written_by": str(document.header.get("written_by", "")),
        "content_id": f"sha256:{document.content_id}",
        "digest": digest.HEAD in document.header,  # with which the bytes have been compared
        "signature": _signature(path),
    }


def _signature(path: Path) -> Facts | None:
    """Of the file beside it, where there is one: with which key, and whether it is one of these bytes."""
    if not signing.beside(path).exists():
        return None
    try:
        found = signing.signature_of(path)
    except RecycleGPError as refused:
        return {"key": None, "version": None, "why_not": str(refused).removeprefix(f"{path}: ")}
    return {"key": found.public_key.hex(), "version": found.version, "why_not": None}


# --- one module -------------------------------------------------------------------------------


def _of_module(model: Module) -> Facts:
    functions = [
        _of_function(model, c, latent.rows, latent.convergence) | {"kept": latent.kept}
        for c, latent in enumerate(model.latents)
    ]
    end = model.convergence
    return _in_all("module", model, functions) | {
        "name": model.name,
        "privacy": _privacy([model.about.privacy]),
        "owner": model.owner,
        "time": None if model.time is None else written(model.time),
        "method": model.method,
        "held_back": model.held_back,
        "evaluations": end.evaluations,
        "convergence": end.message,
    }


def _of_function(model: Model, c: int, rows: int, end: Convergence) -> Facts:
    points, several = len(model._points[c]), len(model.functions) > 1
    return {
        "function": model.functions[c],
        "rows": rows,
        "points": points,
        "points_per_row": points / rows,
        "kernel": model._kernels[c].describe(),
        "mean": model.mean[c] if several else model.mean,
        "noise": model.noise[c] if several else model.noise,
        "target": str(model.targets[c]) or None,
        "converged": end.converged,
        "convergence": end.message,
    }


def _in_all(kind: str, model: Model, functions: list[Facts]) -> Facts:
    """What a module and an ensemble have to say; a single function with it."""
    facts: Facts = {
        "kind": kind,
        "rows": model.rows,
        "points": max(f["points"] for f in functions),
        "points_per_row": max(f["points_per_row"] for f in functions),
        "likelihoods": list(dict.fromkeys(part.name for p in model.likelihoods for part in p.parts)),
        "evidence": model.evidence if math.isfinite(model.evidence) else None,
        "holds": model.likelihoods[0].meaning,
        "functions": functions,
        "converged": all(f["converged"] for f in functions),
        **_disclosed(model.disclosure),
    }
    return {**functions[0], **facts} if len(functions) == 1 else facts


def _disclosed(d: Disclosure) -> Facts:
    """What leaves with a file; of members the worst."""
    return {
        "origin": d.origin.value,
        "contains_data_rows": d.origin.rows_among_them,
        "most_points_per_row": d.points_per_row,
        "smallest_member": d.smallest_member,
        "privacy_guarantee": d.guarantee.value if d.guaranteed is None else d.guaranteed.words,
    }


# --- an ensemble ------------------------------------------------------------------------------


def _of_ensemble(model: Ensemble) -> Facts:
    functions = []
    for group in model.groups:
        for c, offset_sd in zip(group.functions, group.offset_sds, strict=True):
            own = _of_function(model, c, group.rows_of(c), group.convergence)
            own |= {"names": [m.name for m in group.members if m.function == c]}
            own |= {"form": group.form.kind, "size": str(group.size), "slack": group.form.slack}
            own |= {"offset_sd": offset_sd, "smooth_sd": group.form.effects.smooth_sd}
            functions.append(own)
    rows, several = model.report(), len(functions) > 1
    called = {i: f"{row['name']} ({row['function']})" if several else row["name"] for i, row in enumerate(rows)}
    left = model.unlearned
    said = ("name", "function", "rows", "points", "points_per_row", "origin", "privacy")
    return _in_all("ensemble", model, functions) | {
        "name": None,
        "privacy": _privacy(m.about.privacy for m in model._members),
        "modules": len(model.names),
        "names": model.names,
        "owners": model.owners,
        "members": [{key: row[key] for key in said} for row in rows],
        "slack": model.slack,
        "bound": model.bound,
        "keeps": "sites" if model._keeps_sites else "names",
        "correlation": _correlation(model.output_covariance),
        "not_converged": list(dict.fromkeys(row["name"] for row in rows if not row["converged"])),
        "not_trusted": {
            called[i]: row["trust"] for i, row in enumerate(rows) if (row["trust"] or "").startswith(fact_words.FLAGGED)
        },
        "skipped": {s.name: s.reason for s in model.skipped},
        "signers": [s._asdict() for s in model.signers],
        "traces_of_removed": model.traces_of_removed,
        "modules_removed": left.removed,
        "removed": str(left),
        "guarantee": left.guarantee.value,
        "traces": [trace.value for trace in left.traces],
    }


def _correlation(covariance: np.ndarray | None) -> list[list[float]] | None:
    """Between outputs; None where each is merged by itself."""
    if covariance is None:
        return None
    sd = covariance.diagonal() ** 0.5
    return [[float(v) for v in row] for row in covariance / sd / sd[:, None]]


# --- many modules -----------------------------------------------------------------------------


def _of_many(path: Path) -> Facts:
    modules = load_many(path)
    first, blocks = modules[0], [piece.block for piece in modules._pieces()]
    packs = [pack for b in blocks for f in b.functions for pack in f.models.sites.packs()]
    corners = torch.stack([torch.stack([p.Z.amin((0, 1)), p.Z.amax((0, 1))]) for p in packs])
    rows = sum(int(b.rows.sum()) for b in blocks)
    points = sum(int(torch.stack([f.models.sites.points for f in b.functions]).amax(0).sum()) for b in blocks)
    each = [f.models.sites.points / f.rows for b in blocks for f in b.functions]
    disclosed = Disclosure(
        worst(origin for b in blocks for origin in b.origins),
        max(float(own.amax()) for own in each),
        min(int(f.rows.amin()) for b in blocks for f in b.functions),
    )
    kinds = [b.common.likelihood for b in blocks]
    functions = list(dict.fromkeys(f for whole in kinds for f in whole.functions))
    known = [(b.common.columns, b.common.categories, b.common.targets) for b in blocks]
    every = [
        words.words(b.names, b.owners, *own, (kinds[0].meaning, functions))
        for b, own in zip(blocks, known, strict=True)
    ]
    return {
        "kind": "modules",
        "name": None,
        "privacy": _privacy(b.common.privacy for b in blocks),
        "modules": len(modules),
        "names": modules.names,
        "rows": rows,
        "points": points,
        "points_per_row": points / rows,
        "likelihoods": sorted({part.name for whole in kinds for part in whole.parts}),
        "holds": kinds[0].meaning,
        "functions": [{"function": name} for name in functions],
        "words": {
            what: list(dict.fromkeys(w for own in every for w in own.get(what, ()))) for own in every for what in own
        },
        "kept": min(float(f.models.kept.amin()) for b in blocks for f in b.functions),
        "not_converged": [name for b in blocks for name in b.not_converged],
        "target": squeezed([str(target) or None for target in first.targets]),
        **_disclosed(disclosed),
        **_place(first.columns, first.categories, torch.stack([corners[:, 0].amin(0), corners[:, 1].amax(0)], 1)),
    }


# --- any file ---------------------------------------------------------------------------------


def _privacy(each: Iterable[Privacy | None]) -> str | None:
    """What was chosen for all modules, if it is the same."""
    chosen = common_privacy(each)
    return None if chosen is None else chosen.value


def _place(columns: Columns, categories: Categories, region: Any) -> Facts:
    """The inputs, and where there are points."""
    D = len(region)
    names = list(columns) if columns is not None else [f"input {i + 1}" for i in range(D)]
    ends = {n: [float(low), float(high)] for n, (low, high) in zip(names, region, strict=True)}
    levels = {names[c]: list(known) for c, known in categories.levels}
    return {
        "columns": None if columns is None else names,
        "inputs": D,
        "region": {n: both for n, both in ends.items() if n not in levels},
        "categories": levels,
    }
