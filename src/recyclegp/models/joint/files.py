"""Joint models in their files: the documents of their parts side by side, and what these mean together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ...errors import RecycleGPError
from ...storage.container import Document
from ...storage.fields import Fields, listed, text
from ..naming import few
from .links import KINDS, MOST_FUNCTIONS, Classes, Link

Header = dict[str, Any]


def document(kind: str, link: Link, parts: Sequence[Document], shared: Sequence[str] = ()) -> Document:
    """One file; tensors of a part are called 0/name, 1/name, …, and those that all parts share only name."""
    tensors = {}
    for i, part in enumerate(parts):
        for name, tensor in part.tensors.items():
            first = parts[0].tensors.get(name)
            if name in shared and all(first is not None and _same(first, p.tensors.get(name)) for p in parts):
                tensors[name] = tensor
            else:
                tensors[f"{i}/{name}"] = tensor
    header: Header = {"kind": kind, "link": link_to_json(link), "parts": [part.header for part in parts]}
    return Document(header, tensors)


def _same(a: torch.Tensor, b: torch.Tensor | None) -> bool:
    return b is not None and torch.equal(a, b)


def parts(fields: Fields, kind: str, more: int = 0) -> tuple[Link, list[Fields]]:
    """What a file says: its link, and each part as if it were a file of its own; there may be more than functions."""
    headers = listed(fields.header["parts"], "parts", most=MOST_FUNCTIONS + more)
    link = link_from_json(fields.header["link"])
    found = []
    for i, header in enumerate(headers):
        if not isinstance(header, dict) or header.get("kind") != kind:
            raise RecycleGPError(f"part {i} is not a {kind}")
        own = {name: tensor for name, tensor in fields.tensors.items() if "/" not in name}
        prefix = f"{i}/"
        own |= {name[len(prefix) :]: t for name, t in fields.tensors.items() if name.startswith(prefix)}
        found.append(Fields(Document(header, own)))
    if len(found) != len(link.names) + more:
        raise RecycleGPError(f"{len(found)} parts for {len(link.names)} functions")
    return link, found


def link_to_json(link: Link) -> Header:
    said: Header = {"kind": link.kind, "names": list(link.names)}
    if isinstance(link, Classes):
        said["likelihood"] = link.likelihood
    return said


def link_from_json(found: Any) -> Link:
    if not isinstance(found, dict) or found.get("kind") not in KINDS:
        raise RecycleGPError("link is not one that this version knows; upgrade")
    names = tuple(text(name, "a function") for name in listed(found["names"], "names", most=MOST_FUNCTIONS))
    family = KINDS[found["kind"]]
    return Classes(names, text(found["likelihood"], "likelihood")) if family is Classes else family(names)  # type: ignore[call-arg]


def few_functions(link: Link) -> str:
    """Some of the names."""
    return few(list(link.names))
