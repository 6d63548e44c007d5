"""Modules come in one at a time, from memory, an iterator, files or a directory: checked, and sorted by function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple, Self, TypeVar

import torch

from ..arrays import Columns
from ..categories import Categories
from ..core.packing import PackedSites
from ..core.sites import Site
from ..devices import memory_factor
from ..errors import Argument, RecycleGPError
from ..garbage import looked_for_afterwards
from ..kernels import Kernel
from ..likelihoods import Likelihood, Outputs
from ..merging.member import Member, Members
from ..merging.site_source import SiteSource
from ..merging.site_store import SiteStore
from ..merging.unfinished import finished_part, has_finished, is_unfinished
from ..record import IMPORTED, About, Latent, Record
from .alignment import aligned, fitted, words_of
from .blocks import Piece
from .how import Frame, Skipped
from .merge_warnings import MergeWarnings
from .module import Module
from .naming import few
from .sources import Item, Source, items, one_by_one
from .usual import Said, Told, strangers
from .weights import Weights

T = TypeVar("T")
ASKED = 100  # modules that come later, who say what most have


class FunctionRead(NamedTuple):
    """All that modules say of one function."""

    members: tuple[Member, ...]
    sites: SiteSource


class ModulesRead(NamedTuple):
    likelihood: Likelihood  # what all functions are together
    functions: tuple[FunctionRead, ...]
    frame: Frame
    skipped: tuple[Skipped, ...] = ()  # what was left out because it failed


class Known(NamedTuple):
    """What is there already, where modules are added."""

    likelihood: Likelihood
    frame: Frame
    members: tuple[Member, ...]


class _Reading:
    """Of one function, while modules come in."""

    def __init__(self, device: torch.device) -> None:
        self.members: list[Member] = []
        self.store = SiteStore(device)
        # by the positions of those whose searches elsewhere had not ended: what counts of them beside others, found out
        # as they come in, so that a file of which it cannot be is named, or skipped
        self._unfinished: dict[int, Latent] = {}

    def append(self, member: Member, keep: bool) -> None:
        position, own = len(self.members), member.latent
        if is_unfinished(member.about, own):  # stored once it is known who else is here
            self._unfinished[position] = finished_part(own, beside=True)
            self.members.append(member._replace(latent=finished_part(own, beside=False)))
        else:
            self.members.append(self._stored(member, position, keep))

    def finish(self, keep: bool, others: Sequence[Member]) -> None:
        """Once nobody else will come; others are there already."""
        beside = bool(self._unfinished) and (has_finished(self.members) or has_finished(others))
        for i, latent in self._unfinished.items():
            m = self.members[i]
            self.members[i] = self._stored(m._replace(latent=latent) if beside else m, i, keep)
        self._unfinished = {}

    def _stored(self, member: Member, position: int, keep: bool) -> Member:
        if member.weight > 0:
            self.store.put(member.latent.known_site, member.weight, position)
        return member if keep else member.with_site(None)

    def extend(self, members: Sequence[Member], sites: Sequence[Site], shapes: set[torch.Size], keep: bool) -> None:
        self.store.put_all(sites, [m.weight for m in members], len(self.members), shapes)
        self.members += members if keep else [m.with_site(None) for m in members]

    def take(self, member: Member, site: Site | None, beside_others: Latent | None) -> None:
        """A member of another reading, whose site is weighted already, or waits there because it is unfinished."""
        if site is not None:
            self.store.put(site, 1.0, len(self.members))
        if beside_others is not None:
            self._unfinished[len(self.members)] = beside_others
        self.members.append(member)

    def give_unfinished(self) -> dict[int, Latent]:
        """Those that wait, for another reading; none waits here any more."""
        given, self._unfinished = self._unfinished, {}
        return given


class _Coming(NamedTuple):
    """Members that come in columns, and their places among those of a function."""

    places: list[int]
    members: list[Member]

    @property
    def in_order(self) -> list[Member]:
        if self.places == sorted(self.places):
            return self.members
        return [member for _, member in sorted(zip(self.places, self.members, strict=True), key=itemgetter(0))]


class ModuleIntake:
    """Where modules come in one after the other, and are compared with those before them. Closes its stores."""

    def __init__(
        self,
        *,
        device: torch.device,
        keep: bool,
        weights: Any = None,
        known: Known | None = None,
        others: Sequence[Member] = (),
    ) -> None:
        self.frame = None if known is None else known.frame
        self.count = 0
        self._device, self._keep = device, keep
        self._known = known
        self._others = others if known is None else known.members
        self._weights = Weights(weights)
        # where each name was seen first
        self._seen = {} if known is None else dict.fromkeys([m.name for m in known.members], "one of the ensemble")
        self._shared = _Shared()
        self._single = _Reading(device)  # of modules of one function
        self._several: dict[str, _Reading] = {}  # by the names of functions
        self._likelihood: Likelihood | None = None  # of modules of several functions, together
        if known is not None and len(known.likelihood.functions) > 1:
            self._likelihood = known.likelihood
        self._warnings = MergeWarnings()
        if known is not None:
            self._warnings = MergeWarnings(known.members, known.likelihood.functions)
            self._warnings.look_at_levels(known.frame.categories, known.frame.columns, "(ensemble)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        with ExitStack() as stack:
            for reading in (self._single, *self._several.values()):
                stack.callback(reading.store.close)

    def read(self, source: Source, check: Callable[[Frame], None] | None = None) -> ModulesRead:
        """Every module of the source; `check` sees the inputs of the first before the others are read."""
        if not (isinstance(source, (list, tuple)) and self._append_alike(source, check)):
            coming = items(source)
            for item, file in coming:
                try:
                    self._take(item, file, check)
                except RecycleGPError as failed:
                    raise self._of_first_stranger(item, file, coming, failed) from None
        return self.finish()

    def read_what_can_be(self, source: Source, check: Callable[[Frame], None]) -> ModulesRead:
        """The same without what fails, which is remembered; to have what most have not is a failure, too.

        Nor can those be who have one name: one of them says falsely that it is somebody, and nobody knows which.
        """
        skipped: list[Skipped] = []

        def refused(label: str, failed: Exception) -> None:
            skipped.append(Skipped(label, str(failed)))

        found = one_by_one(items(source, refused), refused)
        strange = strangers({i: record for i, (record, _) in enumerate(found)})
        alike = _of_one_name({i: one for i, one in enumerate(found) if i not in strange})
        wrong = strange | alike
        for i, (record, file) in enumerate(found):
            try:
                if i in wrong:
                    raise RecycleGPError(wrong[i])
                self._take(record, file, check)
            except RecycleGPError as failed:
                refused(file if file and i in alike else record.about.name, failed)
        if skipped and not self.count:
            why = few([f"{s.name} ({s.reason})" for s in skipped])
            raise RecycleGPError(f"modules is empty; merge needs at least one module, and cannot use {why}")
        return self.finish()._replace(skipped=tuple(dict.fromkeys(skipped)))

    def _take(self, item: Item, file: str, check: Callable[[Frame], None] | None) -> None:
        if isinstance(item, Record):
            self.append(item, _called(item.about.name, file), check)
        else:
            self.append_pieces(item, file or "modules", check)

    def _of_first_stranger(
        self, item: Item, file: str, coming: Iterable[tuple[Item, str]], failed: RecycleGPError
    ) -> RecycleGPError:
        """Why it failed, unless somebody before it is to blame: who has something else than most."""
        members = self._single.members
        if self._known is not None or self._several or not members or not isinstance(item, Record):
            return failed
        told: list[Told] = [Said(self._frame.dimension, m.about, m.likelihoods) for m in members]
        with suppress(RecycleGPError, OSError, TypeError):
            told += [item, *[other for other, _ in islice(coming, ASKED) if isinstance(other, Record)]]
        strange = strangers(dict(enumerate(told)))
        if len(members) in strange or min(strange, default=len(members)) >= len(members):
            return failed
        first = members[min(strange)].name
        return RecycleGPError(f"{self._seen[first]} cannot be merged with the others: {strange[min(strange)]}")

    # --- one module, or many as columns ---

    def append(self, record: Record, label: str, check: Callable[[Frame], None] | None = None) -> None:
        about, likelihoods, latents = record
        label = label or f"module {about.name!r}"
        dimension = latents[0].known_site.Z.shape[1]
        alike = self._is_alike(dimension, about.columns, about.categories)
        if not alike:
            self._check_inputs(Frame(dimension, about.columns, about.categories, about.name), label, check)
        weight = self._admit(about, all([p.convergence.converged for p in latents]), label)
        known = self._known is not None
        for c, reading in enumerate(self._readings(about, likelihoods, label)):
            own, words = latents[c], about
            if not alike or len(latents) > 1:
                own, words = aligned(about, own, self._frame), words_of(about, c, self._frame)
            parts = tuple([p.parts[c] for p in likelihoods])
            if about.targets[c].known:
                self._warnings.look_at_target(about.targets[c], likelihoods[0].functions[c], parts, label)
                words = self._shared.about(words)
            own, parts = self._shared.latent(own), self._shared.one(parts)
            reading.append(Member(words, own, parts, weight, 0, added_after_merge=known), self._keep)

    def _append_alike(self, modules: Sequence[Any], check: Callable[[Frame], None] | None) -> bool:
        """All of them at once, if they are modules in memory that have all in common but names and numbers.

        What `append` does with each, done with lists; False where somebody differs, and nothing has been done.
        """
        if self.count or self._known is not None or not modules or any([type(m) is not Module for m in modules]):
            return False
        abouts, latents = [m.about for m in modules], [m.latents[0] for m in modules]
        names, sites = [a.name for a in abouts], [site for own in latents if (site := own.site) is not None]
        likelihoods, first = [m.likelihoods for m in modules], abouts[0]
        shapes = {site[0].shape for site in sites}  # of their points
        dimensions = {shape[-1] for shape in shapes}
        targets = {id(a.targets[0]): a.targets[0] for a in abouts}.values()  # mostly one object for all
        unsettled = [a for a, own in zip(abouts, latents, strict=True) if not own.convergence.converged]
        if (
            len(dimensions) > 1
            or len(set(names)) < len(names)
            or any([a.columns is not first.columns and a.columns != first.columns for a in abouts])
            or any([a.categories.levels for a in abouts])
            or any([target.known for target in targets])
            or any([len(m.latents) > 1 for m in modules])
            or any([type(own[0]) is Outputs for own in likelihoods])
            or any([a.method in IMPORTED for a in unsettled])
        ):
            return False
        self._check_inputs(Frame(dimensions.pop(), first.columns, first.categories, first.name), names[0], check)
        weights = self._weights.of_all(names)
        self._seen.update(dict.fromkeys(names, ""))
        self.count = len(names)
        self._warnings.look_at_all(abouts, unsettled)
        self._single.extend(list(map(Member, abouts, latents, likelihoods, weights)), sites, shapes, self._keep)
        return True

    def append_pieces(self, pieces: Iterable[Piece], label: str, check: Callable[[Frame], None] | None = None) -> None:
        """Many modules, in the order of their positions; no objects are made of them.

        Of several functions, of which a module may lack some, those of one block come before those of the next.
        """
        with looked_for_afterwards():
            self._append_pieces(pieces, label, check)

    def _append_pieces(self, pieces: Iterable[Piece], label: str, check: Callable[[Frame], None] | None) -> None:
        first = self.count
        found: dict[_Reading, _Coming] = {}
        admitted: dict[int, About] = {}
        unsettled: set[int] = set()
        for block, positions in pieces:
            common = block.common
            frame = Frame(common.dimension, common.columns, common.categories, block.names[0])
            self._check_inputs(frame, f"{label}: module {block.names[0]!r}", None if admitted else check)
            block = block.aligned(self._frame)
            weights = self._weights.of_those(block.names, [first + p for p in positions])
            about = About(block.names[0], targets=common.targets)
            for c, reading in enumerate(self._readings(about, (common.likelihood,), label)):
                new = found.setdefault(reading, _Coming([], []))
                start = len(reading.members)
                places = [start + p for p in positions]
                if reading is not self._single:
                    places = [start + len(new.places) + i for i in range(len(block))]
                packs: Iterable[PackedSites] = block.functions[c].models.sites.packs(memory=memory_factor(self._device))
                if self._keep:
                    packs = list(packs)  # which the members and the store then share
                for packed in block.packs(packs, places, weights):
                    reading.store.put_packed(packed)
                parts = (common.likelihood.parts[c],)
                self._warnings.look_at_target(common.targets[c], common.likelihood.functions[c], parts, label)
                members = block.members(weights, keep=self._keep, function=c, packs=packs)
                if self._known is not None:
                    members = [member._replace(added_after_merge=True) for member in members]
                new.places.extend(places)
                new.members.extend(members)
                if c == 0:
                    admitted.update(zip(positions, [m.about for m in members], strict=True))
                ended = block.functions[c].models.converged.tolist()
                unsettled.update([p for p, settled in zip(positions, ended, strict=True) if not settled])
        self._admit_all({position: admitted[position] for position in sorted(admitted)}, unsettled, label)
        for reading, new in found.items():
            reading.members += new.in_order

    def append_elsewhere(self, likelihood: Likelihood, members: Sequence[Member], frame: Frame, label: str) -> None:
        """One module whose sites lie elsewhere: what it says of each function, in the order of the likelihood's."""
        self._check_inputs(frame, label, None)
        about = members[0].about
        weight = self._admit(about, all(m.converged for m in members), label)
        about = about._replace(targets=tuple(m.target for m in members))
        for c, reading in enumerate(self._readings(about, (likelihood,), label)):
            own = members[c]
            self._warnings.look_at_target(own.target, likelihood.functions[c], own.likelihoods, label)
            likelihoods = self._shared.one(own.likelihoods)
            words, latent = self._shared.about(own.about), self._shared.latent(own.latent)
            reading.members.append(own._replace(about=words, latent=latent, likelihoods=likelihoods, weight=weight))

    @property
    def _frame(self) -> Frame:
        assert self.frame is not None
        return self.frame

    def _is_alike(self, dimension: int, columns: Columns, categories: Categories) -> bool:
        """Has it the inputs of those before it, as nearly always, so that nothing needs to be aligned?"""
        here = self.frame
        if here is None or categories.levels or here.categories.levels:
            return False
        return dimension == here.dimension and columns == here.columns

    def _check_inputs(self, frame: Frame, label: str, check: Callable[[Frame], None] | None) -> None:
        """Has it the inputs of those before it?"""
        if check is not None and not self.count and self._known is None:
            check(frame)
        if not self._is_alike(*frame[:3]):
            self.frame = fitted(self.frame, frame, label)
            self._warnings.look_at_levels(frame.categories, frame.columns, frame.named_by)

    def _admit(self, about: About, converged: bool, label: str) -> float:
        """Its weight, if its name is free."""
        if about.name in self._seen:
            where = f" ({self._seen[about.name]}, and {label})" if label != _called(about.name, "") else ""
            raise RecycleGPError(
                f"two modules are named {about.name!r}{where}; rename one (module.rename), or use weights"
            )
        self._seen[about.name] = label
        self._warnings.look_at(about, converged)
        self.count += 1
        return self._weights.of(about.name, self.count - 1)

    def _admit_all(self, new: Mapping[int, About], unsettled: set[int], label: str) -> None:
        """By positions, those whose weights are known: together, unless one of their names is not free."""
        names = {about.name for about in new.values()}
        if len(names) < len(new) or not names.isdisjoint(self._seen):
            for position, about in new.items():
                self._admit(about, position not in unsettled, label)
            return
        self._seen.update(dict.fromkeys(names, label))
        self._warnings.look_at_all(list(new.values()), [new[position] for position in sorted(unsettled)])
        self.count += len(new)

    # --- which function is which ---

    def _readings(self, about: About, likelihoods: Sequence[Likelihood], label: str) -> list[_Reading]:
        """For each of a module's functions, where it belongs.

        A module of one function beside modules of several outputs is the output that its target names; those that came
        before the first of several have waited for it.
        """
        whole = likelihoods[0]
        if self._known is not None:
            self._check_known(about, whole, label)
        single = type(whole) is not Outputs and len(whole.functions) == 1
        if self._likelihood is None and single:
            return [self._single]
        if single:
            whole = self._as_output(about, whole)
        if self._likelihood is None:
            self._likelihood = whole
            self._sort_singles()
        self._likelihood = self._likelihood.united(whole)
        return [self._several.setdefault(name, _Reading(self._device)) for name in whole.functions]

    def _as_output(self, about: About, likelihood: Likelihood) -> Outputs:
        name = about.targets[0].name
        if name is None or not isinstance(self._likelihood, Outputs):
            beside = "" if self._likelihood is None else f" ({self._likelihood.meaning})"
            raise RecycleGPError(
                f"module {about.name!r} has one function beside modules of several{beside}, and does not say which of "
                "their outputs it is; fit it with ",
                Argument("target"),
            )
        return Outputs((name,), (likelihood,))

    def _sort_singles(self) -> None:
        sites = dict(self._single.store.each()) if self._single.store.sites else {}
        waiting = self._single.give_unfinished()
        for i, member in enumerate(self._single.members):
            assert self._likelihood is not None
            own = self._as_output(member.about, member.likelihoods[0])
            self._likelihood = self._likelihood.united(own)
            reading = self._several.setdefault(own.names[0], _Reading(self._device))
            reading.take(member, sites.get(i), waiting.get(i))
        self._single.members.clear()

    def _check_known(self, about: About, whole: Likelihood, label: str) -> None:
        """Are its functions among those of the ensemble that it is added to?"""
        assert self._known is not None
        here = self._known.likelihood
        one = len(whole.functions) == 1
        names = (about.targets[0].name or "",) if one and len(here.functions) > 1 else whole.functions
        same = one if len(here.functions) == 1 else (one or whole.meaning == here.meaning)
        strange = [name for name in names if name not in here.functions] if len(here.functions) > 1 else []
        if not same or strange:
            raise RecycleGPError(
                f"{label} has {whole.meaning} ({few(list(names))}) where the ensemble has {here.words}; merge all "
                "modules anew"
            )

    def finish(self) -> ModulesRead:
        """All of them, once nobody else will come."""
        if not self.count or self.frame is None:
            raise RecycleGPError("modules is empty; merge needs at least one module")
        self._weights.finish(self.count, set(self._seen))
        for reading in (self._single, *self._several.values()):
            reading.finish(self._keep, self._others)
        if self._likelihood is None:
            own = FunctionRead(Members(self._single.members), self._single.store)
            read = ModulesRead(own.members[0].likelihoods[0], (own,), self.frame)
        else:
            readings = [self._several.get(name) or _Reading(self._device) for name in self._likelihood.functions]
            functions = tuple(
                FunctionRead(Members([m._replace(function=c) for m in own.members]), own.store)
                for c, own in enumerate(readings)
            )
            read = ModulesRead(self._likelihood, functions, self.frame)
        members = [m for own in read.functions for m in own.members]
        for c, own in enumerate(read.functions):
            before = [] if self._known is None else [m for m in self._known.members if m.function == c]
            _check_scales([*before, *own.members])
            _check_levels([*before, *own.members])
        if not any(m.weight > 0 for m in members):
            raise RecycleGPError("weights are all zero; give at least one module a positive weight")
        self._warnings.warn(self.frame.columns)
        return read


def _called(name: str, file: str) -> str:
    """A module, in an error."""
    return f"module {name!r} ({file})" if file else f"module {name!r}"


def _of_one_name(found: Mapping[int, tuple[Record, str]]) -> dict[int, str]:
    """Position → why, of those who share a name."""
    alike: dict[str, list[int]] = {}
    for i, (record, _) in found.items():
        alike.setdefault(record.about.name, []).append(i)
    wrong: dict[int, str] = {}
    for name, some in alike.items():
        if len(some) > 1:
            where = few([found[i][1] or "in memory" for i in some])
            why = f"{len(some)} modules are named {name!r} ({where}), and nobody can say whose name it is"
            wrong |= dict.fromkeys(some, why)
    return wrong


def _check_scales(members: Sequence[Member]) -> None:
    """Is f either y, or its logarithm, for all whose y has units?"""
    first: dict[bool, Member] = {}  # of those whose f is y, and of the others
    for kind, member in {type(m.likelihoods[0]): m for m in members}.items():
        if kind.has_units:
            first[member.likelihoods[0].of_seen is member.likelihoods[0]] = member
    if len(first) > 1:
        plain, logarithm = first[True], first[False]
        raise RecycleGPError(
            f"f is y for module {plain.name!r} ({plain.likelihoods[0].name}) and the logarithm of y for "
            f"{logarithm.name!r} ({logarithm.likelihoods[0].name}); fit one of them again with the same ",
            Argument("likelihood"),
        )


def _check_levels(members: Sequence[Member]) -> None:
    """Have all whose y is one of ordered levels the same ones, or the lowest of the same?

    f is measured from the first cut, and cuts are counted from there: who lacks levels at the top has said nothing of
    their cuts, but who lacks another one has cuts of other meanings.
    """
    most: tuple[Member, tuple[str, ...]] | None = None
    for member, levels in {
        p.own_labels: (m, p.own_labels) for m in members for p in m.likelihoods if p.ordered
    }.values():
        if most is None:
            most = member, levels
            continue
        (few, less), (many, more) = sorted([(member, levels), most], key=lambda one: len(one[1]))
        if more[: len(less)] != less:
            raise RecycleGPError(
                f"y has the levels {' < '.join(less)} for module {few.name!r} and {' < '.join(more)} for {many.name!r}"
                "; fit them again with the same ",
                Argument("classes"),
                ", all levels from the lowest to the highest",
            )
        most = many, more


class _Shared:
    """Equal kernels and likelihoods of many modules become one object: a hundred thousand members are small."""

    def __init__(self) -> None:
        self.known: dict[Any, Any] = {}
        self.firsts: set[int] = set()  # the identities of those: comparing by value is dear, and often not needed

    def one(self, value: T) -> T:
        """The first of all values equal to this one."""
        if id(value) in self.firsts:
            return value
        first: T = self.known.setdefault(value, value)
        self.firsts.add(id(first))
        return first

    def latent(self, latent: Latent) -> Latent:
        """The same, with the structure that its kernel has in common with others as one object."""
        own = latent.kernel
        structure = self.one(own.structure)
        if structure is own.structure:
            return latent
        return Latent(latent.site, Kernel(structure, own.theta), *latent[2:])

    def about(self, about: About) -> About:
        """The same, with what it says of y as one object."""
        targets = self.one(about.targets)
        return about if targets is about.targets else about._replace(targets=targets)
