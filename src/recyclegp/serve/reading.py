"""Files → modules that can be shown. Nothing in a file is executed; what cannot be shown is refused by name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from ..errors import RecycleGPError
from ..models.ensemble import Ensemble
from ..models.load import opened
from ..models.module import Module
from ..models.modules import Modules
from ..plot.scene import functions_of

SUFFIX = ".safetensors"
MOST_MODULES = 1000  # on one page
MOST_POINTS = 4096  # of a module: asking one takes some 40·M² bytes


class Naming(NamedTuple):
    """What is taken as a module, and under which name."""

    recycle: bool = False  # ensembles too, each as one module
    file_names: bool = False  # modules are called by their files


BY_NAME = Naming()


class Held(NamedTuple):
    """A module, and the file that it came in."""

    module: Module
    source: str


class UnreadableError(RecycleGPError):
    """The file is damaged, or of another kind."""


def modules_in(path: Path, label: str, naming: Naming) -> Iterator[Held]:
    """The modules of one file, which errors call `label`."""
    try:
        model: Any = opened(path).model
    except RecycleGPError as refused:
        raise UnreadableError(str(refused).replace(str(path), label)) from None
    file = PurePath(label).name
    by_file = file.removesuffix(SUFFIX)
    if isinstance(model, Ensemble):
        if not naming.recycle:
            raise RecycleGPError(f"{label}: it holds an ensemble, not a module; --recycle takes it as one module")
        model = model.to_module(by_file)
    renamed = naming.file_names and isinstance(model, Module)
    found = [model.rename(by_file)] if renamed else list(model) if isinstance(model, Modules) else [model]
    for module in found:
        if len(module.categories.columns) == module.dimension:
            raise RecycleGPError(
                f"{label}: all inputs of module {module.name!r} are categories, and this page draws curves along "
                "numbers; use predict"
            )
        points = max(map(len, module._points))
        if points > MOST_POINTS:
            raise RecycleGPError(
                f"{label}: module {module.name!r} has {points:,} points, and this page shows modules of up to "
                f"{MOST_POINTS:,}; publish it at fewer"
            )
        yield Held(module, file)


def with_modules(held: tuple[Held, ...], more: list[Held]) -> tuple[Held, ...]:
    """All of them, if they can stand on one page: with names of their own, over the same number of inputs."""
    whole = (*held, *more)
    if len(whole) > MOST_MODULES:
        raise RecycleGPError(
            f"{len(whole):,} modules, and this page shows up to {MOST_MODULES:,}; merge some of them first, and show "
            "the ensembles with --recycle"
        )
    known: dict[str, str] = {}
    for module, source in whole:
        if module.name in known:
            raise RecycleGPError(
                f"{source}: its module is called {module.name!r}, as one of {known[module.name]}; --file-names calls "
                "modules by their files, or fit it with another --name"
            )
        known[module.name] = source
        first = whole[0].module
        if module.dimension != first.dimension:
            raise RecycleGPError(
                f"{source}: module {module.name!r} has {module.dimension} input columns and {first.name!r} has "
                f"{first.dimension}; show them on pages of their own"
            )
    try:
        functions_of([module for module, _ in whole])
    except RecycleGPError as refused:
        raise RecycleGPError(f"{whole[-1].source}: ", refused) from None
    return whole
