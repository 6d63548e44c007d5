"""What there is to say of a module, and of any file, as values for machines. Nothing here needs torch."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import RecycleGPError
from ..models.disclosure import Disclosure, of_record
from ..record import Privacy, Record, common_privacy
from ..storage import digest
from ..storage.layout import SIGNATURE

if TYPE_CHECKING:
    from pathlib import Path

    from ..categories import Categories
    from ..core.convergence import Convergence
    from ..likelihoods import Likelihood
    from ..storage.container import Header

Facts = dict[str, Any]


def of_module(record: Record, evidence: float | None) -> Facts:
    functions = [
        of_function(
            name,
            rows=latent.rows,
            points=len(latent.known_site.Z),
            kernel=latent.kernel,
            mean=latent.mean,
            noise=noise,
            target=target,
            end=latent.convergence,
        )
        | {"kept": latent.kept}
        for name, latent, noise, target in zip(
            record.likelihoods[0].functions, record.latents, record.noises, record.about.targets, strict=True
        )
    ]
    about, end = record.about, record.convergence
    return in_all("module", record.likelihoods, functions, record.rows, evidence, of_record(record)) | {
        "name": about.name,
        "privacy": privacy([about.privacy]),
        "noise_for_people": about.noise_for_people,
        "owner": about.owner,
        "time": None if about.time is None else _written(about.time),
        "method": about.method,
        "held_back": about.held_back,
        "evaluations": end.evaluations,
        "convergence": end.message,
    }


def of_function(
    name: str,
    *,
    rows: int,
    points: int,
    kernel: Any,
    mean: float,
    noise: float | None,
    target: Any,
    end: Convergence,
) -> Facts:
    return {
        "function": name,
        "rows": rows,
        "points": points,
        "points_per_row": points / rows,
        "kernel": kernel.describe(None),
        "kernel_in_short": kernel.describe(),
        "mean": mean,
        "noise": noise,
        "target": str(target) or None,
        "converged": end.converged,
        "convergence": end.message,
    }


def in_all(
    kind: str,
    likelihoods: Sequence[Likelihood],
    functions: list[Facts],
    rows: int,
    evidence: float | None,
    disclosed_: Disclosure,
) -> Facts:
    """What a module and an ensemble have to say; a single function with it."""
    facts: Facts = {
        "kind": kind,
        "rows": rows,
        "points": max(f["points"] for f in functions),
        "points_per_row": max(f["points_per_row"] for f in functions),
        "likelihoods": list(dict.fromkeys(part.name for p in likelihoods for part in p.parts)),
        "evidence": evidence if evidence is not None and math.isfinite(evidence) else None,
        "holds": likelihoods[0].meaning,
        "functions": functions,
        "levels": levels(likelihoods),
        "converged": all(f["converged"] for f in functions),
        **disclosed(disclosed_),
    }
    return {**functions[0], **facts} if len(functions) == 1 else facts


def levels(likelihoods: Sequence[Likelihood]) -> Facts | None:
    """Of y, where they are in an order: from the lowest to the highest, and the f at which each next one begins."""
    ordered = next((p for p in likelihoods if p.ordered), None)
    return None if ordered is None else {"names": list(ordered.own_labels), "cuts": list(ordered.cuts)}


def disclosed(d: Disclosure) -> Facts:
    """What leaves with a file; of members the worst."""
    return {
        "origin": d.origin.value,
        "contains_data_rows": d.origin.rows_among_them,
        "most_points_per_row": d.points_per_row,
        "smallest_member": d.smallest_member,
        "privacy_guarantee": d.guarantee.value if d.guaranteed is None else d.guaranteed.words,
    }


def privacy(each: Iterable[Privacy | None]) -> str | None:
    """What was chosen for all modules, if it is the same."""
    chosen = common_privacy(each)
    return None if chosen is None else chosen.value


def place(columns: Sequence[str] | None, categories: Categories, region: Any) -> Facts:
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


def of_any(path: str | Path, header: Header, content_id: str) -> Facts:
    """What is said of every file, whatever it holds."""
    return {
        "bytes": os.path.getsize(path),
        "schema": header["schema"],
        "written_by": str(header.get("written_by", "")),
        "content_id": f"sha256:{content_id}",
        "digest": digest.HEAD in header,  # with which the bytes have been compared
        "signature": _signature(path),
    }


def _signature(path: str | Path) -> Facts | None:
    """Of the file beside it, where there is one: with which key, and whether it is one of these bytes."""
    if not os.path.exists(f"{path}{SIGNATURE}"):
        return None
    from ..storage import signing

    try:
        found = signing.signature_of(path)
    except RecycleGPError as refused:
        return {"key": None, "version": None, "why_not": str(refused).removeprefix(f"{path}: ")}
    return {"key": found.public_key.hex(), "version": found.version, "why_not": None}


def _written(time: Any) -> Any:
    from ..times import written

    return written(time)
