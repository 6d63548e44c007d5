"""Models from files, and the columns that fit them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import RecycleGPError, RecycleGPWarning
from ..storage.key_ring import Claim
from .parsing import in_days
from .paths import SUFFIX
from .screen import Advance, Screen

if TYPE_CHECKING:
    import numpy as np

    from ..likelihoods import Likelihood
    from ..models.calibration import Calibrated
    from ..models.ensemble import Ensemble
    from ..models.load import Model
    from ..models.module import Module
    from ..models.modules import Modules
    from ..models.plan import Plan
    from ..models.sources import FromFile
    from .rows import NoiseColumn, Part, Rows
    from .signatures import Vouched
    from .tables import Table
    from .targets import Targets

FILES_SHOWN = 5  # in an error
BY_FILE = "; --file-names calls modules by their files, or fit it with another --name"

T = TypeVar("T")


def load(path: str | Path) -> Model:
    from ..models.answer import Answer
    from ..models.load import load as from_file
    from ..models.plan import Plan

    found = from_file(path)
    if isinstance(found, Plan):
        raise RecycleGPError(f"{path}: it holds a plan, which predicts nothing; owners contribute to it")
    return found.module if isinstance(found, Answer) else found


def by_kind(model: Model, of_module: Callable[[Module], T], of_ensemble: Callable[[Ensemble], T]) -> T:
    """A file holds a module or an ensemble; what follows from that is asked here alone."""
    from ..models.ensemble import Ensemble

    return of_ensemble(model) if isinstance(model, Ensemble) else of_module(model)


def first_of(found: Model | Modules) -> Model:
    """The model in a file, or the first of many."""
    from ..models.modules import Modules

    return found[0] if isinstance(found, Modules) else found


def report(screen: Screen, path: Path, **more: Any) -> None:
    """Say what a file holds that was written, and whatever else the command knows of it."""
    from .facts import report as of_file

    of_file(screen, path, **more)


def name_of(model: Model, path: Path) -> str:
    """Its own; an ensemble has none but that of its file."""
    return by_kind(model, lambda module: module.name, lambda merged: path.name.removesuffix(SUFFIX))


def load_ensemble(path: str, command: str) -> Ensemble:
    def refuse(module: Module) -> Ensemble:
        raise RecycleGPError(f"{path}: it holds a module, and {command} needs an ensemble; make one with merge")

    return by_kind(load(path), refuse, lambda ensemble: ensemble)


def chosen_likelihood(path: str, model: Model, name: str | None) -> Likelihood:
    """The likelihood of y, by name where a model has several."""
    from .. import likelihoods

    try:
        return likelihoods.choose(model.likelihoods, name)
    except RecycleGPError as refused:
        raise RecycleGPError(f"{path}: ", refused) from None


def check_likelihood(model: Model, name: str | None) -> None:
    """There is nothing to choose where a model has several functions."""
    whole = model.likelihoods[0]
    if name is not None and (len(whole.functions) > 1 or whole.predicts_all):
        raise RecycleGPError(f"--likelihood {name}: a model of {whole.meaning} has its own; leave it out")


def check_owner(model: Model, owner: str | None) -> None:
    """An owner who is not there is said before any row is read."""
    if owner is not None:
        model._processes(owner, of_y=True)


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


def calibrated_for(tuned: Calibrated) -> tuple[str | None, str | None]:
    """The likelihood and the owner that a calibration is of; one of several outputs leaves the model's likelihood."""
    found = tuned.calibration
    return found.likelihood if found.output is None else None, found.owner


def modules(paths: Iterable[Path], advance: Advance, **how: Any) -> Iterator[Module]:
    """Modules from files, one after the other; `how` is told as `read_each` has it."""
    for one in read_each(paths, advance, **how):
        if isinstance(one.found, Exception):
            raise one.found
        yield one.found


def read_each(
    paths: Iterable[Path],
    advance: Advance,
    *,
    recycle: bool = False,
    file_names: bool = False,
    taken: Iterable[str] = (),
    verified: Vouched | None = None,
    files: dict[str, Path] | None = None,
    skip: bool = False,
) -> Iterator[FromFile]:
    """Modules with their files, one after the other.

    With `skip` files that cannot be read come with why, for the library to say so and go on. A signature that is wrong
    is an error even so: who has sent it must be asked.

    `taken` are names already used, `verified` the files whose signatures have been verified, where they must be.
    `files` is told which file holds which module, where that holds no others.
    """
    from ..models.load import opened
    from ..models.modules import Modules
    from ..models.sources import FromFile

    seen = dict.fromkeys(taken, "the ensemble")
    contents: dict[str, Path] = {}
    paths = list(paths)
    for place, path in enumerate(paths):
        try:
            model, digest = opened(path)
        except (RecycleGPError, OSError) as refused:
            if not skip:
                raise with_a_way_on(refused, paths, place) if isinstance(refused, RecycleGPError) else refused from None
            yield FromFile(path, refused)
            advance(by=1)
            continue
        several = isinstance(model, Modules)
        if verified is not None:
            verified.check(path, digest, _claims(model, path))
        try:
            each = model if isinstance(model, Modules) else [_alone(model, path, recycle, file_names)]
        except RecycleGPError as refused:
            if not skip:
                raise
            yield FromFile(path, refused)
            advance(by=1)
            continue
        for module in each:
            if module.name in seen and not skip:
                whose, remedy = ("one of its modules", "") if several else ("its module", BY_FILE)
                raise RecycleGPError(
                    f"{path}: {whose} is called {module.name!r}, as one of {seen[module.name]}{remedy}"
                )
            seen[module.name] = str(path)
            if not several and files is not None:
                files[module.name] = path
            if not several and contents.setdefault(digest, path) != path:
                twice = f"is a copy of {contents[digest]} (content id {digest[:8]}): what it says will count twice"
                warnings.warn(f"{path} {twice}", RecycleGPWarning, stacklevel=2)
            yield FromFile(path, module)
        advance(by=1)


def _claims(model: Model | Modules, path: Path) -> list[Claim]:
    """Owners and names in a file; an ensemble is called by its file."""
    from ..models.ensemble import Ensemble
    from ..models.modules import Modules

    if isinstance(model, Ensemble):
        name = path.name.removesuffix(SUFFIX)
        return [Claim(name, name)]
    return [Claim(own.owner, own.name) for own in (model if isinstance(model, Modules) else [model])]


def _alone(model: Model, path: Path, recycle: bool, file_names: bool) -> Module:
    """The module in a file, or what its ensemble says as one module."""
    name = path.name.removesuffix(SUFFIX)

    def recycled(merged: Ensemble) -> Module:
        if not recycle:
            raise RecycleGPError(f"{path}: it holds an ensemble, not a module; --recycle takes it as one module")
        return merged.to_module(name)

    module = by_kind(model, lambda own: own, recycled)
    return module.rename(name) if file_names else module


def with_a_way_on(refused: RecycleGPError, paths: Sequence[Path], place: int) -> RecycleGPError:
    """The error about a file that cannot be read, with those behind it that cannot either, and what to do."""
    if len(paths) == 1:
        return refused
    others = [str(path) for path in paths[place + 1 :] if not _has_header(path)]
    if not others:
        return RecycleGPError(refused, "; move it out of the folder, or name the files")
    shown = ", ".join(others[:FILES_SHOWN]) + (f", … ({len(others)} in all)" if len(others) > FILES_SHOWN else "")
    return RecycleGPError(refused, f"; nor can be read: {shown}; move them out of the folder, or name the files")


def _has_header(path: Path) -> bool:
    from ..storage import container

    try:
        container.header(path)
    except (OSError, RecycleGPError):
        return False
    return True


def rows_for(
    model: Model | Plan,
    table: Table,
    targets: Targets | None = None,
    *,
    inputs: str | None,
    dates: str | None,
    noise: NoiseColumn | None = None,
    person: str | None = None,
    **how: Any,
) -> Rows:
    """The rows of a table as the model takes them: `inputs` and `dates` as options say them, `how` as `Rows` has it.

    `person` is a column that is carried along and is nothing else.
    """
    from .rows import Rows

    others = [*(targets.names if targets is not None else ()), *([noise.name] if noise is not None else ())]
    if targets is not None and targets.censored is not None:
        others.append(targets.censored)
    if person is not None:
        table.require([person])
        if person in others:
            raise RecycleGPError(f"--person {person}: it is the target, or its noise; name another column")
        others, how = [*others, person], how | {"keep": [person]}
    columns = _inputs(model, table, inputs, others)
    if person in columns:
        raise RecycleGPError(f"--person {person}: it is among the inputs, which the answer is about; name another")
    held = {columns[c] for c in model.categories.columns}
    return Rows(table, columns, targets, categories=held, dates=in_days(dates), noise=noise, **how)


def read(model: Model | Plan, rows: Rows, screen: Screen) -> Part:
    """All rows, whose class 1 must be class 1 of the model."""
    from ..target import Target, contradiction

    found = rows.whole(screen)
    why = contradiction(model.target, Target(labels=rows.class_labels))
    if why is not None:
        raise RecycleGPError(f"{rows.table.path} contradicts the model: ", why)
    return found


def persons(rows: Part, column: str | None) -> np.ndarray | None:
    """Whose each row is, as it is written there; a row of nobody would be protected with others of nobody's."""
    if column is None:
        return None
    from .tables import MISSING

    found = rows.kept[column]
    whose = found.astype(str).str.strip()
    nobody = int((found.isna() | whose.isin(MISSING)).sum())
    if nobody:
        raise RecycleGPError(f"--person {column}: {nobody} of {len(found)} rows do not say whose they are; fill them")
    return whose.to_numpy(dtype=object)


def _inputs(model: Model | Plan, table: Table, given: str | None, others: Sequence[str]) -> list[str]:
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
