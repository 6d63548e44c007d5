"""A module as the bytes of its file, and back."""

from __future__ import annotations

from ..storage import container
from . import module_file
from .module import Module


def to_bytes(module: Module) -> bytes:
    """What `save` writes."""
    return container.encoded(f"module {module.name!r}", module_file.to_document(module._record))


def from_bytes(content: bytes, label: str) -> Module:
    """Not asked anything yet; `label` is what to call it in an error."""
    return Module(*module_file.record_in(label, container.decoded(label, content)))
