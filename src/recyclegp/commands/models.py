"""Models from files, and the columns that fit them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import RecycleGPError, RecycleGPWarning
from .paths import SUFFIX
from .screen import Advance

if TYPE_CHECKING:
    from ..models.calibration import Calibrated
    from ..models.ensemble import Ensemble
    from ..models.joint.ensemble import JointEnsemble
    from ..models.joint.module import JointModule
    from ..models.load import Model
    from ..models.module import Module
    from ..models.modules import Modules
    from .rows import Rows
    from .tables import Table

FILES_SHOWN = 5  # in an error
JOINT_KINDS = ("joint module", "joint ensemble")  # of files that hold several functions


def load(path: str | Path) -> Model:
    from ..models.load import load as from_file

    return from_file(path)


def load_ensemble(path: str, command: str) -> Ensemble | JointEnsemble:
    from ..models.ensemble import Ensemble
    from ..models.joint.ensemble import JointEnsemble

    model = load(path)
    if not isinstance(model, (Ensemble, JointEnsemble)):
        raise RecycleGPError(f"{path}: it holds a module, and {command} needs an ensemble; make one with merge")
    return model


def calibrated(path: str, model: Model, file: Path, likelihood: str | None, owner: str | None) -> Calibrated:
    """The model with the calibration from a file, which must have been made for it, and for what is asked."""
    from ..models.calibration import Calibrated
    from ..storage.calibration import Calibration
    from ..storage.signing import content_id

    found = Calibration.load(file)
    mine = content_id(Path(path))
    if found.content_id not in (None, mine):
        raise RecycleGPError(
            f"{file}: made for another model (content id {str(found.content_id)[:8]}) than {path} ({mine[:8]}); "
            "calibrate this one"
        )
    if likelihood not in (None, found.likelihood):
        raise RecycleGPError(f"--likelihood {likelihood}: {file} was calibrated for {found.likelihood}")
    if owner not in (None, found.owner):
        raise RecycleGPError(f"--owner {owner}: {file} was calibrated for {found.owner or 'somebody new'}")
    return Calibrated(model, found)


def any_joint(paths: Iterable[Path]) -> bool:
    """Does one of these files hold several functions? Of those that cannot be read, their reader complains."""
    from ..storage import container

    for path in paths:
        try:
            if container.header(path).get("kind") in JOINT_KINDS:
                return True
        except (OSError, RecycleGPError):
            continue
    return False


def modules(
    paths: Iterable[Path],
    advance: Advance,
    *,
    recycle: bool = False,
    file_names: bool = False,
    taken: Iterable[str] = (),
    verified: Mapping[Path, str] | None = None,
    files: dict[str, Path] | None = None,
) -> Iterator[Module | JointModule]:
    """Modules from files, one after the other.

    `taken` are names already used, `verified` the content ids whose signatures have been verified, where they must be.
    `files` is told which file holds which module, where that holds no others.
    """
    from ..models.ensemble import Ensemble
    from ..models.joint.ensemble import JointEnsemble
    from ..models.load import opened
    from ..models.modules import Modules

    seen = dict.fromkeys(taken, "the ensemble")
    contents: dict[str, Path] = {}
    paths = list(paths)
    for place, path in enumerate(paths):
        try:
            model, digest = opened(path)
        except RecycleGPError as refused:
            raise with_a_way_on(refused, paths, place) from None
        if verified is not None and verified.get(path) != digest:
            raise RecycleGPError(f"{path}: the file has changed since its signature was verified; try again")
        if isinstance(model, Modules):
            yield from _of_one_file(path, model, seen)
            advance(by=1)
            continue
        by_file = path.name.removesuffix(SUFFIX)
        if isinstance(model, (Ensemble, JointEnsemble)):
            if not recycle:
                raise RecycleGPError(f"{path}: it holds an ensemble, not a module; --recycle takes it as one module")
            model = model.to_module(by_file)
        if file_names:
            model = model.rename(by_file)
        if model.name in seen:
            raise RecycleGPError(
                f"{path}: its module is called {model.name!r}, as one of {seen[model.name]}; --file-names calls "
                "modules by their files, or fit it with another --name"
            )
        seen[model.name] = str(path)
        if digest in contents:
            warnings.warn(
                f"{path} is a copy of {contents[digest]} (content id {digest[:8]}): what it says will count twice",
                RecycleGPWarning,
                stacklevel=2,
            )
        contents.setdefault(digest, path)
        if files is not None:
            files[model.name] = path
        advance(by=1)
        yield model


def with_a_way_on(refused: RecycleGPError, paths: Sequence[Path], place: int) -> RecycleGPError:
    """The error about a file that cannot be read, with those behind it that cannot either, and what to do."""
    if len(paths) == 1:
        return refused
    others = [str(path) for path in paths[place + 1 :] if not _has_header(path)]
    if not others:
        return RecycleGPError(f"{refused}; move it out of the folder, or name the files")
    shown = ", ".join(others[:FILES_SHOWN]) + (f", … ({len(others)} in all)" if len(others) > FILES_SHOWN else "")
    return RecycleGPError(f"{refused}; nor can be read: {shown}; move them out of the folder, or name the files")


def _has_header(path: Path) -> bool:
    from ..storage import container

    try:
        container.header(path)
    except (OSError, RecycleGPError):
        return False
    return True


def _of_one_file(path: Path, several: Modules, seen: dict[str, str]) -> Iterator[Module]:
    """The modules of a file of many, under their own names."""
    for module in several:
        if module.name in seen:
            raise RecycleGPError(f"{path}: one of its modules is called {module.name!r}, as one of {seen[module.name]}")
        seen[module.name] = str(path)
        yield module


def to_merge(several: Iterator[Module | JointModule], paths: Iterable[Path]) -> Iterator[Any] | list[Any]:
    """Modules as the library takes them: a stream, or all of them at once where some have several functions."""
    return list(several) if any_joint(paths) else several


def with_modules(
    old: Ensemble | JointEnsemble, new: Iterable[Module | JointModule], *, relearn: bool
) -> Ensemble | JointEnsemble:
    """The ensemble with more modules; those of one function join outputs by the name of their target."""
    from ..models.ensemble import Ensemble
    from ..models.joint.merging import joint_modules

    if isinstance(old, Ensemble):
        return old.add(of_one_function(new, "the ensemble"), relearn=relearn)
    return old.add(joint_modules(new), relearn=relearn)


def of_one_function(several: Iterable[Module | JointModule], beside: str) -> Iterator[Module]:
    """Modules that can stand beside a model of one function."""
    from ..models.module import Module

    for module in several:
        if not isinstance(module, Module):
            raise RecycleGPError(
                f"module {module.name!r} has {len(module.functions)} {module.link.kind}, and {beside} has one "
                "function; merge all modules anew"
            )
        yield module


def check_alone(missing: str) -> None:
    """An option of several outputs, where there is one."""
    if missing != "refuse":
        raise RecycleGPError(f"--missing {missing}: it is for models of several outputs; use --drop-missing")


def check_labels(model: Module | Ensemble, rows: Rows) -> None:
    """Is class 1 of the table class 1 of the model?"""
    from ..target import Target, contradiction

    why = contradiction(model.target, Target(labels=rows.class_labels))
    if why is not None:
        raise RecycleGPError(f"{rows.table.path} contradicts the model: {why}")


def inputs_of(model: Model, table: Table, given: str | None, *others: str | None) -> list[str]:
    """The columns the model was fitted on. For a model that does not know their names, those given, in order.

    The others are no inputs: the target, and what it was measured with.
    """
    if model.columns is not None:
        known = ", ".join(model.columns)
        if given is not None and set(table.inputs(given, *others)) != set(model.columns):
            raise RecycleGPError(f"--inputs {given}: the model was fitted on {known}; leave the option out")
        return list(model.columns)
    chosen = table.inputs(given, *others)
    if len(chosen) != model.dimension:
        raise RecycleGPError(
            f"{table.path}: {len(chosen)} columns, and the model, which does not know their names, has "
            f"{model.dimension} inputs; name them in order with --inputs"
        )
    return chosen


def categories_of(model: Model, inputs: list[str]) -> set[str]:
    """Those of the columns, in the order of the model's, in which it has categories."""
    return {inputs[c] for c in model.categories.columns}
