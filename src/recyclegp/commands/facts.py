"""What there is to say of a file, as values for machines; `fact_words` says it to people.

A file of one function has what there is to say of it beside everything else; one of several has an entry for each in
`functions`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..models import module_look, plain_evidence, reporting
from ..models.disclosure import Disclosure
from ..models.ensemble import Ensemble
from ..models.group import Group
from ..models.load import load, load_many
from ..models.model import squeezed
from ..record import Privacy, worst
from ..storage import container
from ..storage.making import ANSWER, MODULES, PLAN
from . import fact_words, module_facts, plan_facts, words
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
        found |= module_facts.place(found.pop("columns_of"), found.pop("levels"), found.pop("ends"))
    else:
        model = load(path)
        found = (
            _of_ensemble(model)
            if isinstance(model, Ensemble)
            else module_facts.of_module(model._record, _evidence(path, model))
        )
        found |= module_facts.place(model.columns, model.categories, model.region) | {"words": words.of_model(model)}
    document = container.read(path, identify=True)
    return {"file": str(path), **found, **module_facts.of_any(path, document.header, document.content_id)}


def _evidence(path: Path, model: Any) -> float:
    """To its last digit as it is printed where torch is not imported."""
    looked = module_look.look(path)
    plain = None if looked is None else plain_evidence.evidence(looked.record)
    return float(model.evidence) if plain is None else plain


# --- an ensemble ------------------------------------------------------------------------------


def _of_ensemble(model: Ensemble) -> Facts:
    functions = []
    for group in model.groups:
        for c, offset_sd in zip(group.functions, group.offset_sds, strict=True):
            own = _of_function(model, c, group)
            own |= {"names": [m.name for m in group.members if m.function == c]}
            own |= {"form": group.form.kind, "size": str(group.size), "slack": group.form.slack}
            own |= {"offset_sd": offset_sd, "smooth_sd": group.form.effects.smooth_sd}
            functions.append(own)
    # what the others say of each member takes long to find out, and nobody is told of it here
    rows = reporting.rows(model._members, model.functions, model.unlearned.guarantee, (), {}, ())
    several = len(functions) > 1
    called = {i: f"{row['name']} ({row['function']})" if several else row["name"] for i, row in enumerate(rows)}
    left = model.unlearned
    said = ("name", "function", "rows", "points", "points_per_row", "origin", "privacy")
    common = module_facts.in_all("ensemble", model.likelihoods, functions, model.rows, model.evidence, model.disclosure)
    return common | {
        "name": None,
        "privacy": module_facts.privacy(m.about.privacy for m in model._members),
        "noise_for_people": all(m.about.noise_for_people for m in model._members),
        "modules": len(model.names),
        "names": model.names,
        "owners": model.owners,
        "members": [
            {key: row[key] for key in said} | {"noise_for_people": m.about.noise_for_people}
            for row, m in zip(rows, model._members, strict=True)
        ],
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


def _of_function(model: Ensemble, c: int, group: Group) -> Facts:
    several = len(model.functions) > 1
    return module_facts.of_function(
        model.functions[c],
        rows=group.rows_of(c),
        points=len(model._points[c]),
        kernel=model._kernels[c],
        mean=model.mean[c] if several else model.mean,
        noise=model.noise[c] if several else model.noise,
        target=model.targets[c],
        end=group.convergence,
    )


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
    region = torch.stack([corners[:, 0].amin(0), corners[:, 1].amax(0)], 1)
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
        words.words(b.names, b.owners, *own, b.common.likelihood.words_of_y)
        for b, own in zip(blocks, known, strict=True)
    ]
    return {
        "kind": "modules",
        "name": None,
        "privacy": module_facts.privacy(b.common.privacy for b in blocks),
        "noise_for_people": all(b.common.privacy is Privacy.PEOPLE for b in blocks),
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
        **module_facts.disclosed(disclosed),
        **module_facts.place(first.columns, first.categories, region),
    }
