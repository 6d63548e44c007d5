"""An ensemble in its file: its groups, each with a form, members, and all their sites behind one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from ..core.effects import NO_EFFECTS
from ..errors import RecycleGPError
from ..kernels import parse
from ..kernels.file_form import from_json, to_json
from ..kernels.nodes import Index
from ..likelihoods import MOST_FUNCTIONS, Likelihood
from ..local.kernel_choice import AUTO as KERNEL_AUTO
from ..merging import build
from ..merging.form import Form, SavedForm
from ..merging.member import Member, stored
from ..merging.noise import PooledNoise
from ..merging.owners import owner_numbers
from ..merging.pooling import discrete_columns
from ..merging.site_store import SiteStore
from ..storage import facts, limits, site_tensors
from ..storage.container import SCHEMA, Document, Header
from ..storage.facts import At
from ..storage.fields import UNITS, Fields, count, fields, listed, number, text
from ..storage.making import ENSEMBLE
from ..storage.member_json import member_from_json, member_to_json
from ..storage.member_state import site_size, site_sizes
from ..storage.record_json import (
    INPUTS,
    NOWHERE,
    convergence_from_json,
    convergence_to_json,
    likelihoods_from_json,
    likelihoods_to_json,
)
from . import legacy_files
from .coupling import over_index
from .ensemble_json import COUPLING, EFFECTS, HOW, NOISE, SPREAD, UNLEARNED
from .group import Group
from .how import Coupling, Frame, How
from .naming import check_name, check_owner
from .unlearning import NOTHING_REMOVED


class EnsembleFacts(NamedTuple):
    """All that an ensemble is, in the order of its fields; forms have the rows that their evidence needs."""

    likelihoods: tuple[Likelihood, ...]
    frame: Frame
    groups: tuple[Group, ...]
    how: How


# --- writing ----------------------------------------------------------------------------------


def to_document(e: EnsembleFacts) -> Document:
    """Tensors of group i are called i/name."""
    D, C = e.frame.dimension, len(e.likelihoods[0].functions)
    limits.check_members(sum(len(group.members) for group in e.groups))
    header = {
        "kind": ENSEMBLE,
        "likelihoods": likelihoods_to_json(e.likelihoods),
        **facts.to_json(e.frame, INPUTS, At(D)),
        "units": UNITS,
        "how": HOW.write(e.how, At(D, C)),
        "groups": [_group_to_json(group, e.likelihoods, D) for group in e.groups],
    }
    tensors = {f"{i}/{name}": t for i, group in enumerate(e.groups) for name, t in _tensors(group, D).items()}
    return Document(header, tensors)


def _group_to_json(g: Group, whole: Sequence[Likelihood], D: int) -> Header:
    form = g.form
    limits.check_points(len(form.Z))
    found: Header = {
        "functions": list(g.functions),
        "form": form.kind,
        "kernel": to_json(form.kernel, form.Z.shape[1]),
        "mean": form.mean,
        "jitter": form.jitter,
        "members": [member_to_json(m, D) for m in g.members],
    }
    sites, usual = _anonymous(g), g.likelihoods == _usual(whole, g.functions)
    more = {
        "effects": EFFECTS.write(form.effects, At(form.Z.shape[1])) if form.effects.present else None,
        "likelihoods": None if usual else [likelihoods_to_json(own) for own in g.likelihoods],
        "noises": [NOISE.write(noise, At(D)) for noise in g.noises] if any(g.noises) else None,
        "convergence": convergence_to_json(g.convergence),
        "own_share": g.own_share or None,
        "spread": SPREAD.write(g.spread, At(form.Z.shape[1])),
        "unlearned": UNLEARNED.write(g.unlearned, NOWHERE) if g.unlearned.removed else None,
        "coupling": COUPLING.write(g.coupling, NOWHERE),
        "anonymous": [[*reversed(o.site.Rt.shape), o.owner] for o in sites] or None,
    }
    return found | {key: said for key, said in more.items() if said is not None}


def _usual(whole: Sequence[Likelihood], functions: Sequence[int]) -> tuple[tuple[Likelihood, ...], ...]:
    """Likelihoods of each function, where nothing else is said than what all functions together have."""
    return tuple(tuple(p.parts[c] for p in whole) for c in functions)


def _anonymous(g: Group) -> list[Any]:
    """Without names an exact form still needs what the modules said."""
    return g.form.anonymous_sites() if any(m.site is None for m in g.members) else []


def _tensors(g: Group, D: int) -> dict[str, Tensor]:
    tensors = site_tensors.to_tensors([m.site for m in g.members if m.site is not None], D, "sites")
    tensors |= g.form.own_tensors()
    sites = [owned.site for owned in _anonymous(g)]
    if sites:
        tensors |= site_tensors.to_tensors(sites, g.form.Z.shape[1], "anonymous")
    return tensors if g.extent is None else tensors | {"extent": g.extent}


# --- reading ----------------------------------------------------------------------------------


def read_facts(f: Fields, schema: int) -> EnsembleFacts:
    """Of a file of any schema that can be read."""
    return from_fields(f if schema == SCHEMA else legacy_files.ensemble(f))


def from_fields(f: Fields) -> EnsembleFacts:
    likelihoods = likelihoods_from_json(f.header["likelihoods"])
    C, D = len(likelihoods[0].functions), f.tensor("0/sites.Z", None, None).shape[1]
    frame = Frame(D, **facts.from_json(f.header, INPUTS, At(D)))
    entries = listed(f.header["groups"], "groups", most=MOST_FUNCTIONS)
    groups = tuple(_GroupReader(f, i, entry, likelihoods, frame).group() for i, entry in enumerate(entries))
    if sorted(c for group in groups for c in group.functions) != list(range(C)):
        raise RecycleGPError(f"its groups do not have each of {C} functions once")
    how = HOW.read(f.header["how"], At(D, C))
    for group in groups:
        discrete = discrete_columns(group.members)
        for c in group.functions:
            if isinstance(how.configs[c].kernel, str) and how.configs[c].kernel != KERNEL_AUTO:
                parse(text(how.configs[c].kernel, "a kernel"), D, discrete)
    return EnsembleFacts(likelihoods, frame, groups, how)


class _GroupReader:
    """One group: what its header says, and its tensors."""

    def __init__(self, f: Fields, i: int, entry: Any, whole: Sequence[Likelihood], frame: Frame) -> None:
        self.header = fields(entry, "a group")
        prefix = f"{i}/"
        own = {name.removeprefix(prefix): t for name, t in f.tensors.items() if name.startswith(prefix)}
        self.f = Fields(Document(self.header, own))
        self.frame = frame
        C = len(whole[0].functions)
        self.functions = [count(c, "a function") for c in listed(self.header["functions"], "functions", most=C)]
        if not self.functions or max(self.functions) >= C:
            raise RecycleGPError(f"a group has none of {C} functions")
        self.whole = whole
        self.coupling = self._coupling(C)
        self.dimension = frame.dimension + (self.coupling is not None)  # of the form's points
        self.kernel = from_json(self.header["kernel"], self.dimension)
        self._check_coupling(C)

    def group(self) -> Group:
        h, n = self.header, len(self.functions)
        members = self._members()
        form = self._form(members)
        for Z in (form.Z, *(m.site.Z for m in members if m.site is not None)):
            self.frame.categories.check_codes(Z)
        unlearned = h.get("unlearned")
        return Group(
            functions=tuple(self.functions),
            form=form,
            members=members,
            likelihoods=self._likelihoods(h.get("likelihoods"), n),
            noises=_noises(h.get("noises"), n, At(self.frame.dimension)),
            convergence=convergence_from_json(h.get("convergence")),
            unlearned=NOTHING_REMOVED if unlearned is None else UNLEARNED.read(unlearned, NOWHERE),
            extent=self.f.tensor("extent", 2, self.frame.dimension) if "extent" in self.f.tensors else None,
            coupling=self.coupling,
            own_share=number(h.get("own_share", 0.0), "own_share", 0.0, 1.0),
            spread=SPREAD.read_if_any(h.get("spread"), At(self.dimension)),
        )

    def _coupling(self, C: int) -> Coupling | None:
        found: Coupling | None = COUPLING.read_if_any(self.header.get("coupling"), At(self.frame.dimension, C))
        if found is None and len(self.functions) > 1:
            raise RecycleGPError("a group of several functions does not say in which units they go together")
        return found

    def _check_coupling(self, C: int) -> None:
        """Only all outputs go together, by an index kernel behind that of the inputs."""
        if self.coupling is None:
            return
        index = self.kernel.structure.parts[1] if len(self.kernel.structure.parts) == 2 else None
        fits = isinstance(index, Index) and (index.column, index.levels) == (self.frame.dimension, C)
        scale, shift = self.coupling
        if not fits or (len(scale), len(shift)) != (C, C) or 0 in scale or self.functions != list(range(C)):
            raise RecycleGPError("coupling is not about the outputs of this file")

    def _likelihoods(self, found: Any, n: int) -> tuple[tuple[Likelihood, ...], ...]:
        if found is None:
            return _usual(self.whole, self.functions)
        entries = listed(found, "likelihoods", most=n)
        if len(entries) != n:
            raise RecycleGPError(f"likelihoods of {len(entries)} of {n} functions")
        return tuple(likelihoods_from_json(entry) for entry in entries)

    def _members(self) -> tuple[Member, ...]:
        entries = listed(self.header["members"], "members", most=limits.MOST_MEMBERS)
        sizes, D = site_sizes(entries), self.frame.dimension
        kept = iter(site_tensors.from_tensors(self.f, [size for size in sizes if size is not None], D, "sites"))
        sites = [None if size is None else next(kept) for size in sizes]
        inputs = (D, self.frame.columns, self.frame.categories)
        members = tuple(member_from_json(e, site, *inputs) for e, site in zip(entries, sites, strict=True))
        for m in members:
            check_name(m.name)
            check_owner(m.about.owner_override)
            if m.function not in self.functions:
                raise RecycleGPError("a module is of a function that its group does not have")
        if not members or len({(m.name, m.function) for m in members}) < len(members):
            raise RecycleGPError("the ensemble's modules are none, or two have the same name")
        return members

    def _form(self, members: tuple[Member, ...]) -> Form:
        h = self.header
        forms = {form.kind: form for form in build.FORMS}
        if h["form"] not in forms:
            raise RecycleGPError(f"the form is {str(h['form'])[:50]}, neither {' nor '.join(map(repr, forms))}")
        saved = SavedForm(
            dimension=self.dimension,
            kernel=self.kernel,
            mean=number(h["mean"], "mean"),
            effects=NO_EFFECTS if h.get("effects") is None else EFFECTS.read(h["effects"], At(self.dimension)),
            jitter=number(h["jitter"], "jitter", 0.0),
            tensor=self.f.tensor,
            sites=lambda: self._sites(members),
        )
        form = forms[h["form"]].read(saved)
        chosen = len(form.chosen_points)
        if chosen and sum(m.points_appended for m in members) >= chosen:
            raise RecycleGPError("more points were appended than there are")
        return form

    def _sites(self, members: tuple[Member, ...]) -> tuple[SiteStore, list[int]]:
        """As its form takes them, and the numbers of their owners."""
        numbers, coupling = owner_numbers(members), self.coupling
        if self.header.get("anonymous") is not None or any(m.site is None for m in members):
            store, numbers = self._anonymous(set(numbers))
        else:
            store = stored(members if coupling is None else over_index(members, coupling, self.kernel))
        limits.check_points(store.points)
        return store, numbers

    def _anonymous(self, owners: set[int]) -> tuple[SiteStore, list[int]]:
        found = listed(self.header.get("anonymous"), "anonymous", most=limits.MOST_MEMBERS)
        entries = [listed(entry, "a site", most=3) for entry in found]
        numbers = [count(owner, "an owner") for _, _, owner in entries]
        if not set(numbers) <= owners:
            raise RecycleGPError("a site is of an owner who is not here")
        sizes, store = [site_size([M, r]) for M, r, _ in entries], SiteStore()
        for i, site in enumerate(site_tensors.from_tensors(self.f, sizes, self.dimension, "anonymous")):
            store.put(site, 1.0, i)
        return store, numbers


def _noises(found: Any, n: int, at: At) -> tuple[PooledNoise | None, ...]:
    if found is None:
        return (None,) * n
    entries = listed(found, "noises", most=n)
    if len(entries) != n:
        raise RecycleGPError(f"noises of {len(entries)} of {n} functions")
    return tuple(NOISE.read_if_any(entry, at) for entry in entries)
