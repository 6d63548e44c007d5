"""JointModules → JointEnsemble: every function is merged from the modules that have it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from os import PathLike
from pathlib import Path
from typing import Any

from ...errors import RecycleGPError
from ...storage import container
from ..ensemble import Ensemble
from ..module import Module
from ..modules import Modules
from ..reading import PATTERN, made_from
from .coupled import MergeCoupled, asked, couple
from .ensemble import JointEnsemble
from .links import Link, Outputs
from .module import JointModule

JOINT_MODULE = "joint module"  # the kind of file

MergeOne = Callable[[list[Module], Any], Ensemble]  # modules of one function and their weights, as one ensemble


def are_joint(source: Any) -> bool:
    """Is there a joint module among these? An iterator is not looked into; of a folder only the first file is."""
    if isinstance(source, JointModule):
        return True
    if isinstance(source, (Module, Modules)) or hasattr(source, "__next__"):
        return False
    if isinstance(source, (str, PathLike)):
        path = Path(source)
        files = sorted(path.glob(PATTERN))[:1] if path.is_dir() else [path]
        return any(_is_joint_file(file) for file in files)
    if not isinstance(source, Iterable):
        return False
    return any(
        isinstance(item, JointModule) or (isinstance(item, (str, PathLike)) and _is_joint_file(Path(item)))
        for item in source
    )


def _is_joint_file(path: Path) -> bool:
    """What cannot be read is complained of by those who read it."""
    try:
        return container.header(path).get("kind") == JOINT_MODULE
    except (OSError, RecycleGPError):
        return False


def joint_modules(source: Any) -> list[JointModule]:
    """All of them, read; a module of one function whose target has a name is one with this output."""
    return [_joint(item) for item in _items(source)]


def _items(source: Any) -> Iterator[Any]:
    several = [source] if isinstance(source, (JointModule, Module, str, PathLike)) else source
    for item in several:
        if isinstance(item, (str, PathLike)):
            path = Path(item)
            for file in sorted(path.glob(PATTERN)) if path.is_dir() else [path]:
                yield loaded(file)
        elif isinstance(item, Modules):
            yield from item
        else:
            yield item


def loaded(path: Path) -> JointModule | Module:
    """A file of a module, of one function or of several."""
    makers: dict[str, Any] = {"module": Module._from_fields, JOINT_MODULE: JointModule._from_fields}
    found: JointModule | Module = made_from(path, container.read(path), makers)
    return found


def _joint(item: Any) -> JointModule:
    if isinstance(item, JointModule):
        return item
    if isinstance(item, Module):
        if item.target.name is None:
            raise RecycleGPError(
                f"module {item.name!r} has one function beside modules of several, and does not say which of their "
                "outputs it is; fit it with target="
            )
        return JointModule.of_outputs([item])
    remedy = "; call its to_module(name) first" if hasattr(item, "to_module") else ""
    raise TypeError(f"modules must hold modules or paths, not {type(item).__name__}{remedy}")


def merge_jointly(modules: Sequence[JointModule], weights: Any, merge_one: MergeOne) -> JointEnsemble:
    """Each function by itself."""
    link = united(modules)
    known = weights_by_name(modules, weights)
    parts = []
    for function in link.names:
        own = [m.part(function) for m in modules if function in m.link.names]
        with _naming(function, link):
            parts.append(merge_one(own, {m.name: known[m.name] for m in own} if known else None))
    return JointEnsemble(link, tuple(parts))


@contextmanager
def _naming(function: str, link: Link) -> Iterator[None]:
    """Warnings say of which function they are."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    for warning in told:
        warnings.warn(f"{function} (one of the {link.kind}): {warning.message}", warning.category, stacklevel=4)


def with_outputs_coupled(apart: JointEnsemble, outputs: Any, learn: bool, merge: MergeCoupled) -> JointEnsemble:
    """Outputs that go together, where that was asked for or clearly explains them better."""
    link = apart.link
    if not isinstance(link, Outputs):
        if outputs != "auto":
            raise RecycleGPError(f"outputs: these modules have {link.kind}; leave it out")
        return apart
    wanted = asked(outputs, len(link.names))
    if wanted is None or len(link.names) == 1 or (wanted.only_if_better and not (learn and apart._keeps_sites)):
        return apart
    return replace(apart, coupled=couple(link, apart.parts, wanted, learn, merge))


def united(modules: Sequence[JointModule]) -> Link:
    """What all of them mean together, after a look at their names."""
    if not modules:
        raise RecycleGPError("modules is empty; merge needs at least one module")
    seen: set[str] = set()
    for module in modules:
        if module.name in seen:
            raise RecycleGPError(f"two modules are named {module.name!r}; rename one (module.rename), or use weights")
        seen.add(module.name)
    links: list[Link] = [m.link for m in modules]
    return reduce(lambda a, b: a.united(b), links)


def weights_by_name(modules: Sequence[JointModule], weights: Any) -> dict[str, float]:
    """name → w for all of them; empty where none are given."""
    names = [m.name for m in modules]
    if weights is None:
        return {}
    if isinstance(weights, Mapping):
        unknown = set(weights) - set(names)
        if unknown:
            raise RecycleGPError(f"weights names modules that are not here: {', '.join(sorted(map(str, unknown)))}")
        return {name: weights.get(name, 1.0) for name in names}
    listed = list(weights)
    if len(listed) != len(names):
        raise RecycleGPError(f"weights has {len(listed)} numbers for {len(names)} modules; give one each")
    return dict(zip(names, listed, strict=True))
