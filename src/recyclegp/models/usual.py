"""What most modules have. Where one bad module must not stop all, it must not decide either what others may be."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from ..likelihoods import Likelihood, Outputs
from ..record import About
from ..target import Target, contradiction


class Told(Protocol):
    """What is asked of a module, as of a record."""

    @property
    def dimension(self) -> int: ...
    @property
    def about(self) -> About: ...
    @property
    def likelihoods(self) -> tuple[Likelihood, ...]: ...


class Said(NamedTuple):
    """The same of a module that is read already."""

    dimension: int
    about: About
    likelihoods: tuple[Likelihood, ...]


Records = Mapping[int, Told]  # by their positions
ONE = "one function"


class _Vote(NamedTuple):
    """A question on which modules must agree."""

    asked: Callable[[Records], Mapping[int, Hashable]]  # what those say who say something
    words: str  # where an answer and that of most go
    shown: Callable[[Any], str] = str


def strangers(records: Records) -> dict[int, str]:
    """Position → why, of modules that have something else than most; of two as frequent, what came first decides.

    Questions are asked one after the other, each of those who have agreed so far.
    """
    found: dict[int, str] = {}
    for vote in VOTES:
        said = vote.asked({i: r for i, r in records.items() if i not in found})
        usual = _most(said.values())
        found |= {i: vote.words.format(vote.shown(own), vote.shown(usual)) for i, own in said.items() if own != usual}
    return found | _other_functions({i: r for i, r in records.items() if i not in found})


def _most(said: Iterable[Hashable]) -> Any:
    counted = Counter(said)
    return counted.most_common(1)[0][0] if counted else None


# --- the inputs ---


def _dimensions(records: Records) -> Mapping[int, Hashable]:
    return {i: r.dimension for i, r in records.items()}


def _columns(records: Records) -> Mapping[int, Hashable]:
    return {i: frozenset(r.about.columns) for i, r in records.items() if r.about.columns is not None}


def _categories(records: Records) -> Mapping[int, Hashable]:
    """By name; of those without names, in the order that most have."""
    usual = _most(r.about.columns for r in records.values() if r.about.columns is not None)
    found: dict[int, Hashable] = {}
    for i, r in records.items():
        columns = r.about.columns or usual or range(r.dimension)
        found[i] = frozenset(columns[c] for c in r.about.categories.columns)
    return found


# --- what y is ---


def _kinds(records: Records) -> Mapping[int, Hashable]:
    """One function whose target has a name stands with others of one function, or is one of several outputs."""
    found: dict[int, Hashable] = {i: _kind(r.likelihoods[0]) for i, r in records.items()}
    outputs = sum(kind == Outputs.name for kind in found.values())
    named = {i for i, r in records.items() if found[i] == ONE and r.about.targets[0].name is not None}
    unnamed = sum(kind == ONE for kind in found.values()) - len(named)
    return found | dict.fromkeys(named, Outputs.name if outputs > unnamed else ONE)


def _kind(whole: Likelihood) -> str:
    return ONE if type(whole) is not Outputs and len(whole.functions) == 1 else whole.name


def _other_functions(records: Records) -> dict[int, str]:
    """Whose y is of another unit, of other classes, or whose f is the logarithm of y, unlike that of most."""
    units, labels, scales, levels = (defaultdict[Hashable, dict[int, Any]](dict) for _ in range(4))
    for i, r in records.items():
        whole = r.likelihoods[0]
        for name, own, target in zip(whole.functions, whole.parts, r.about.targets, strict=True):
            if target.unit is not None:
                units[name, own.name][i] = f"y in {target.unit!r}"
            if target.labels is not None:
                labels[name, own.name][i] = target.labels
            if own.ordered:
                levels[name][i] = own.own_labels
            if own.has_units:
                scales[name][i] = "f that is y" if own.of_seen is own else "f that is the logarithm of y"
    found: dict[int, str] = {}
    for said in (*scales.values(), *units.values()):
        usual = _most(said.values())
        found |= {i: f"it has {this}, where most have {usual}" for i, this in said.items() if this != usual}
    for said in labels.values():
        usual = Target(labels=_most(said.values()))
        for i, others in said.items():
            why = contradiction(usual, Target(labels=others))
            if why is not None:
                found[i] = f"it contradicts what most have: {why}"
    for said in levels.values():
        found |= _other_levels(said)
    return found


def _other_levels(said: Mapping[int, tuple[str, ...]]) -> dict[int, str]:
    """Whose ordered levels are not the lowest of those of others, or the other way round."""
    chain: list[tuple[str, ...]] = []
    for levels, _ in Counter(said.values()).most_common():
        if all(one[: len(levels)] == levels[: len(one)] for one in chain):
            chain.append(levels)
    return {
        i: f"it has the levels {' < '.join(own)}, where most have {' < '.join(chain[0])}"
        for i, own in said.items()
        if own not in chain
    }


def _listed(names: Iterable[Hashable]) -> str:
    return ", ".join(sorted(map(str, names))) or "none"


VOTES = (
    _Vote(_dimensions, "it has {} inputs, where most have {}"),
    _Vote(_columns, "it has the columns {}, where most have {}", _listed),
    _Vote(_categories, "it has categories in {}, where most have them in {}", _listed),
    _Vote(_kinds, "it has {}, where most have {}"),
)
