"""What there is to say of a file of many modules: as values for machines, and in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

NAMES_SHOWN = 5  # modules that are named in words

Facts = dict[str, Any]


def holds_many(path: Path) -> bool:
    from ..models.modules_file import KIND
    from ..storage import container

    return container.header(path).get("kind") == KIND


def of_file(path: Path) -> Facts:
    """Read the file as anybody who receives it would."""
    import torch

    from ..models.load import load_many
    from ..storage import container

    modules, document = load_many(path), container.read(path)
    first = modules[0]
    names = list(first.columns) if first.columns is not None else [f"input {i + 1}" for i in range(first.dimension)]
    blocks = [piece.block for piece in modules._pieces()]
    corners = torch.stack(
        [torch.stack([p.Z.amin((0, 1)), p.Z.amax((0, 1))]) for b in blocks for p in b.models.sites.packs()]
    )
    low, high = corners[:, 0].amin(0).tolist(), corners[:, 1].amax(0).tolist()
    rows, points = sum(int(b.rows.sum()) for b in blocks), sum(int(b.models.sites.points.sum()) for b in blocks)
    return {
        "file": str(path),
        "kind": "modules",
        "name": None,
        "modules": len(modules),
        "names": modules.names,
        "rows": rows,
        "points": points,
        "points_per_row": points / rows,
        "columns": None if first.columns is None else names,
        "inputs": first.dimension,
        "region": {
            n: [a, b]
            for j, (n, a, b) in enumerate(zip(names, low, high, strict=True))
            if j not in first.categories.columns
        },
        "categories": {names[c]: list(levels) for c, levels in first.categories.levels},
        "likelihoods": sorted({b.common.likelihood.name for b in blocks}),
        "kept": min(modules.kept),
        "not_converged": [name for b in blocks for name in b.not_converged],
        "target": str(first.target) or None,
        "contains_data_rows": False,
        "bytes": path.stat().st_size,
        "schema": document.header["schema"],
        "written_by": str(document.header.get("written_by", "")),
        "content_id": f"sha256:{document.content_id}",
    }


def in_words(f: Facts) -> dict[str, str]:
    names, late = f["names"], f["not_converged"]
    lines = {
        "file": f"{f['file']}, {f['bytes']:,} bytes, schema {f['schema']}, by {f['written_by']}",
        "modules": f"{f['modules']:,} ({_shown(names)}), {f['rows']:,} rows of {f['inputs']} inputs",
        "kept": f"at least {f['kept']:.0%} of what the rows of each say about f, at {f['points']:,} points in all",
        "points per row": f"{f['points_per_row']:.2g} in all",
    }
    lines |= where(f)
    if f["target"] is not None:
        lines["target"] = f["target"]
    lines["likelihood"] = ", ".join(f["likelihoods"])
    if late:
        lines["modules not converged"] = _shown(late)
    lines["contains data rows"] = "no, only points and what is known of f there"
    lines["content id"] = f["content_id"]
    return lines


def where(f: Facts) -> dict[str, str]:
    """Where its points are, in words."""
    lines = {}
    if f["region"]:
        region = ", ".join(f"{name} from {low:.4g} to {high:.4g}" for name, (low, high) in f["region"].items())
        lines["region"] = region if f["columns"] is not None else f"{region} (the columns have no names)"
    if f["categories"]:
        said = (f"{name} ({_many(len(levels))}: {_shown(levels)})" for name, levels in f["categories"].items())
        lines["categories"] = ", ".join(said)
    return lines


def _many(levels: int) -> str:
    return f"{levels:,} level{'s' * (levels != 1)}"


def _shown(names: list[str]) -> str:
    return ", ".join(names[:NAMES_SHOWN]) + (", …" if len(names) > NAMES_SHOWN else "")
