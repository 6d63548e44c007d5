"""Models of several functions in one figure: checked, with one look for each module wherever it is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ..errors import RecycleGPError
from ..models.joint.ensemble import JointEnsemble
from ..models.joint.links import Classes, Link, Outputs, VaryingNoise
from ..models.joint.merging import joint_modules
from ..models.joint.module import JointModule
from ..models.module import Module
from .scene import COLOURS, Look, Marks, Scene, Subject, Whole, called, looks_of, scene

JointModel = JointModule | JointEnsemble


class Drawn(NamedTuple):
    """A model, and what it is called in the figure."""

    model: JointModel
    label: str

    @property
    def merged(self) -> bool:
        return isinstance(self.model, JointEnsemble)


class JointScene(NamedTuple):
    link: Link  # of all models together
    drawn: list[Drawn]
    functions: dict[str, Scene]  # each function with the models that have it; of varying noise over lines only f

    @property
    def columns(self) -> list[str]:
        return self.first.columns

    @property
    def first(self) -> Scene:
        return next(iter(self.functions.values()))

    def marks(self, drawn: Drawn) -> list[Marks]:
        """Points of modules that belong to a model, of all its functions together."""
        found: dict[str, Marks] = {}
        for name, part in self.functions.items():
            if name not in drawn.model.functions:
                continue
            for m in part.marks(self.subject(drawn, name)):
                if not m.chosen:
                    before = found[m.label].Z if m.label in found else m.Z[:0]
                    found[m.label] = m._replace(Z=np.unique(np.concatenate([before, m.Z]), axis=0))
        return list(found.values())

    def subject(self, drawn: Drawn, function: str | None = None) -> Subject:
        """A model as it is drawn for one of its functions, by default the first."""
        name = drawn.model.functions[0] if function is None else function
        return next(s for s in self.functions[name].subjects if s.model is drawn.model.part(name))


def are_joint(models: Sequence[Any]) -> bool:
    return any(isinstance(m, (JointModule, JointEnsemble)) for m in models)


def joint_scene(
    models: Sequence[Any],
    *,
    region: Any = None,
    likelihood: str | None = None,
    names: Sequence[str] | None = None,
    owners: bool = True,
    levels: Mapping[str, Any] = MappingProxyType({}),
) -> JointScene:
    """Check everything that a caller has passed, and arrange it."""
    made = [_joint(m) for m in models]
    drawn = [Drawn(m, label) for m, label in zip(made, _labels(made, names), strict=True)]
    links: list[Link] = [m.link for m in made]
    link = reduce(lambda a, b: a.united(b), links)
    if likelihood is not None and isinstance(link, (Classes, VaryingNoise)):
        raise RecycleGPError(f"likelihood={likelihood!r}: models of {link.kind} have their own; leave it out")

    how: dict[str, Any] = {"region": region, "likelihood": likelihood, "owners": owners, "levels": levels}

    def of(function: str) -> Scene:
        own = [d for d in drawn if function in d.model.functions]
        parts = [d.model.part(function) for d in own]
        made = scene(parts, names=[d.label for d in own], looks=_looks([d.model for d in drawn]), **how)
        name = called(function, [p.target.unit for p in parts])
        made = made._replace(scale=made.scale._replace(name=name))
        return _asked(made, own, function) if isinstance(link, Outputs) else made

    found = {name: of(name) for name in link.names}
    first = link.names[0]
    if isinstance(link, VaryingNoise) and len(found[first].columns) != 2:
        whole = _asked(found[first], drawn, None)
        found = {first: whole._replace(scale=whole.scale._replace(name=None))}
    # all panels reach as far as the one that reaches furthest
    ends = np.stack([s.region for s in found.values()])
    common = np.stack([ends[..., 0].min(0), ends[..., 1].max(0)], -1)
    return JointScene(link, drawn, {name: s._replace(region=common) for name, s in found.items()})


def _asked(scene: Scene, drawn: Sequence[Drawn], function: str | None) -> Scene:
    """Whose models are asked as a whole: outputs may know of each other, and f has a noise."""
    subjects = []
    for s in scene.subjects:
        d = next(d for d in drawn if s.model in d.model.parts)
        position = None if function is None else d.model.functions.index(function)
        subjects.append(s._replace(whole=Whole(d.model, position)))
    return scene._replace(subjects=subjects)


def _joint(model: Any) -> JointModel:
    if isinstance(model, (JointModule, JointEnsemble)):
        return model
    if isinstance(model, Module):
        return joint_modules([model])[0]
    raise RecycleGPError(f"{type(model).__name__} beside models of several functions; draw it in a figure of its own")


def _labels(models: Sequence[JointModel], names: Sequence[str] | None) -> list[str]:
    if names is not None:
        if isinstance(names, str) or len(names) != len(models):
            raise RecycleGPError(f"names={names!r}: pass one name for each of the {len(models)} models")
        return [str(n) for n in names]
    merged = sum(isinstance(m, JointEnsemble) for m in models)
    count = iter(range(1, merged + 1))
    return [
        m.name if isinstance(m, JointModule) else f"merged {next(count)}" if merged > 1 else "merged" for m in models
    ]


def _looks(models: Sequence[JointModel]) -> dict[str, Look]:
    """One for each module, those that are drawn themselves first."""
    names = [m.name for m in models if isinstance(m, JointModule)]
    names += [name for m in models if isinstance(m, JointEnsemble) for name in m.names]
    return dict(zip(dict.fromkeys(names), looks_of(COLOURS), strict=False))
