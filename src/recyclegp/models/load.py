"""Files → objects."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import torch

from ..errors import LONGEST_MESSAGE, RecycleGPError, printable
from ..storage import container
from ..storage.fields import Fields
from . import modules_file
from .ensemble import Ensemble
from .joint.ensemble import JointEnsemble
from .joint.module import JointModule
from .module import Module
from .modules import Modules, of_pieces
from .reading import made_from

Model = Module | Ensemble | JointModule | JointEnsemble  # what one file may hold

MAKERS: dict[str, Callable[[Fields], Model]] = {
    "module": Module._from_fields,
    "ensemble": Ensemble._from_fields,
    "joint module": JointModule._from_fields,
    "joint ensemble": JointEnsemble._from_fields,
}
ASKED_POINTS = 512  # of a model that is asked while it is loaded, which takes a few MiB
ASKED_WORK = 2**24  # M²D: numbers that go into its kernel matrix


class Opened(NamedTuple):
    """What a file holds."""

    model: Model | Modules
    content_id: str  # of the very bytes it was made from


def load(path: str | PathLike[str]) -> Model:
    """Read what was saved: a module or an ensemble, of one function or of several. Nothing in the file is executed.

    Args:
        path: a file that `save` has written, here or elsewhere.

    Returns:
        What is in it, checked.

    Raises:
        RecycleGPError: The file cannot be what it claims to be; the message says why.
    """
    model = made_from(Path(path), container.read(path), MAKERS)
    try:
        for part in model.parts if isinstance(model, (JointModule, JointEnsemble)) else (model,):
            _check_it_answers(part)
    except RecycleGPError as silent:
        raise RecycleGPError(f"{path}: {printable(str(silent), LONGEST_MESSAGE)}; ask for the file again") from None
    return model


def load_many(path: str | PathLike[str]) -> Modules:
    """Read what `save` of many modules wrote. Nothing in the file is executed.

    Args:
        path: one file of many modules.

    Returns:
        The modules, checked, as columns. `merge` takes the path itself, and then reads a piece at a time.

    Raises:
        RecycleGPError: The file cannot be what it claims to be; the message says why.
    """
    return of_pieces(modules_file.pieces(Path(path)))


def opened(path: str | PathLike[str]) -> Opened:
    """One model or many, with the content id, and not asked anything yet: for those who merge thousands."""
    path = Path(path)
    with container.opened(path) as file:
        if file.header.get("kind") == modules_file.KIND:
            return Opened(of_pieces(modules_file.pieces_in(file)), file.content_id)
        document = file.document()
    return Opened(made_from(path, document, MAKERS), document.content_id)


@torch.no_grad()
def _check_it_answers(model: Module | Ensemble) -> None:
    """Numbers may be finite one by one and overflow together. What is computed for this is kept for the next question.

    A large model is asked when somebody asks it.
    """
    Z = model._points
    if len(Z) <= ASKED_POINTS and Z.numel() * len(Z) <= ASKED_WORK:
        model._latent(Z[:1], model._answers(None, of_y=False))
