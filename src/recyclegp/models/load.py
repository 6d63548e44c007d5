"""Files → objects."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path

from ..storage import container
from ..storage.fields import Fields
from .ensemble import Ensemble
from .module import Module
from .reading import made_from

MAKERS: dict[str, Callable[[Fields], Module | Ensemble]] = {
    "module": Module._from_fields,
    "ensemble": Ensemble._from_fields,
}


def load(path: str | PathLike[str]) -> Module | Ensemble:
    """Read what was saved: a Module or an Ensemble. Nothing in the file is executed.

    Args:
        path: a file that `save` has written, here or elsewhere.

    Returns:
        What is in it, checked.

    Raises:
        RecycleGPError: The file cannot be what it claims to be; the message says why.
    """
    path = Path(path)
    return made_from(path, container.read(path), MAKERS)
