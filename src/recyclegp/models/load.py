"""Files → objects."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import OfStranger, RecycleGPError
from ..storage import container
from ..storage.container import SCHEMA
from ..storage.fields import Fields
from ..storage.making import ANSWER, ENSEMBLE, JOINT_ENSEMBLE, JOINT_MODULE, MODULE, MODULES, PLAN, made_from
from . import ensemble_file, module_bytes, module_file, modules_file, plan_file
from .answer import Answer
from .checks import check_it_answers
from .ensemble import Ensemble
from .module import Module
from .modules import Modules, of_pieces
from .plan import Plan

Model = Module | Ensemble  # what one file may hold


def _module(f: Fields) -> Model:
    return Module(*module_file.read_record(f, f.header["schema"]))


def _ensemble(f: Fields) -> Model:
    return Ensemble(*ensemble_file.read_facts(f, f.header["schema"]))


MAKERS: dict[tuple[int, str], Callable[[Fields], Model]] = {  # by schema and kind
    (1, MODULE): _module,
    (2, MODULE): _module,
    (2, JOINT_MODULE): _module,
    (SCHEMA, MODULE): _module,
    (1, ENSEMBLE): _ensemble,
    (2, ENSEMBLE): _ensemble,
    (2, JOINT_ENSEMBLE): _ensemble,
    (SCHEMA, ENSEMBLE): _ensemble,
}
EXCHANGES: dict[tuple[int, str], Callable[[Fields], Plan | Answer]] = {
    (SCHEMA, PLAN): lambda f: Plan._of(plan_file.plan_from_fields(f)),
    (SCHEMA, ANSWER): lambda f: Answer(plan_file.answer_from_fields(f)),
}


class Opened(NamedTuple):
    """What a file holds."""

    model: Model | Modules
    content_id: str  # of the very bytes it was made from


def load(path: str | PathLike[str]) -> Any:
    """Read what was saved: a module, an ensemble, a plan or an answer. Nothing in the file is executed.

    Args:
        path: a file that `save` has written, here or elsewhere.

    Returns:
        What is in it, checked.

    Raises:
        RecycleGPError: The file cannot be what it claims to be; the message says why.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> rgp.fit(np.arange(30.0), np.arange(30.0), name="a").save("a.safetensors")
        >>> rgp.load("a.safetensors").name
        'a'
    """
    document = container.read(path)
    if document.header.get("kind") in (PLAN, ANSWER):
        return made_from(Path(path), document, EXCHANGES)
    return _answering(path, made_from(Path(path), document, MAKERS))


def module_of_bytes(content: bytes, label: str) -> Module:
    """The module that a file with these bytes holds, checked as `load` checks it."""
    model = module_bytes.from_bytes(content, label)
    _answering(label, model)
    return model


def _answering(path: str | PathLike[str], model: Model) -> Model:
    """It, if it has an answer to a question."""
    try:
        check_it_answers(model)
    except RecycleGPError as silent:
        raise RecycleGPError(f"{path}: ", OfStranger(silent), "; ask for the file again") from None
    return model


def load_many(path: str | PathLike[str]) -> Modules:
    """Read what `save` of many modules wrote. Nothing in the file is executed.

    Args:
        path: one file of many modules.

    Returns:
        The modules, checked, as columns. `merge` takes the path itself, and then reads a piece at a time.

    Raises:
        RecycleGPError: The file cannot be what it claims to be; the message says why.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> rgp.fit_many([(np.arange(30.0), np.arange(30.0))], names=["a"]).save("many.safetensors")
        >>> rgp.load_many("many.safetensors").names
        ['a']
    """
    return of_pieces(modules_file.pieces(Path(path)))


def opened(path: str | PathLike[str]) -> Opened:
    """One model or many, with the content id, and not asked anything yet: for those who merge thousands."""
    path = Path(path)
    with container.opened(path, identify=True) as file:
        if file.header.get("kind") == MODULES:
            return Opened(of_pieces(modules_file.pieces_in(file)), file.content_id)
        document = file.document()
    return Opened(made_from(path, document, MAKERS), document.content_id)
