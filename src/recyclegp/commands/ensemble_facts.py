"""What people are told of an ensemble of one function that was only looked at. Nothing here needs torch.

What machines are told beside it, as the evidence, must be computed: `facts`.
"""

from __future__ import annotations

import math
from typing import Any

from ..models.disclosure import of_members
from ..models.ensemble_look import EnsembleWords
from ..record import Origin, known_noises
from ..target import united
from . import module_facts, words
from .module_facts import Facts


def of_ensemble(e: EnsembleWords) -> Facts:
    members, counting = e.members, [m for m in e.members if m.weight > 0]
    rows = max(1, round(sum(m.weighted_rows for m in members)))
    target = united(m.about.targets[0] for m in counting)
    function = module_facts.of_function(
        e.likelihoods[0].functions[0],
        rows=rows,
        points=e.size.points,
        kernel=e.kernel,
        mean=e.mean,
        noise=known_noises(e.likelihoods)[0],
        target=target,
        end=e.convergence,
    )
    function |= {
        "size": str(e.size),
        "offset_sd": math.sqrt(e.effects.offset),
        "smooth_sd": math.sqrt(e.effects.smooth),
    }
    shared = [Origin.UNKNOWN if e.points_given else Origin.PLACED]
    known: Any = members
    disclosure = of_members(known, shared, e.size.points / rows)
    common = module_facts.in_all("ensemble", e.likelihoods, [function], rows, None, disclosure)
    names, owners = (list(dict.fromkeys(own)) for own in ([m.name for m in members], [m.about.owner for m in members]))
    named = words.words(names, owners, e.columns, e.categories, [target], words.words_of_y(e.likelihoods))
    return common | {
        "privacy": module_facts.privacy(m.about.privacy for m in members),
        "noise_for_people": all(m.about.noise_for_people for m in members),
        "modules": len(names),
        "names": names,
        "members": [
            {
                "name": m.name,
                "rows": m.rows,
                "points_per_row": m.points_per_row,
                "origin": m.about.origin.value,
                "noise_for_people": m.about.noise_for_people,
            }
            for m in members
        ],
        "keeps": "sites" if all(m.size is not None for m in members) else "names",
        "correlation": None,
        "not_converged": [m.name for m in members if not m.latent.convergence.converged],
        "not_trusted": {m.name: m.verdict.words for m in members if m.verdict is not None and m.verdict.flagged},
        "skipped": {s["name"]: s["reason"] for s in e.skipped},
        "signers": [s for s in e.signers if s["name"] in names],
        "modules_removed": 0,
        "removed": None,
        **module_facts.place(e.columns, e.categories, e.region),
        "words": named,
    }
