"""An ensemble for somebody who only looks at what its file says, as `module_look` looks at a module: without torch.

Ordinary ensembles of one function are taken. What is rarer is left to torch: several functions, traces of modules that
were removed, sites without names, kernels given for relearning, numbers of which it is not certain without trying that
there is an answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

from .. import trees
from ..categories import Categories
from ..core.convergence import Convergence
from ..errors import RecycleGPError
from ..merging.size import Size
from ..merging.verdicts import Verdict
from ..record import About, Latent
from ..storage import container, facts, limits
from ..storage.container import SCHEMA, Header
from ..storage.facts import At, Fact
from ..storage.fields import Fields, fields, flag, listed, number
from ..storage.making import ENSEMBLE
from ..storage.member_state import STATE, site_sizes
from ..storage.numbers import Numbers, Range
from ..storage.record_json import (
    INPUTS,
    NOWHERE,
    all_of_them,
    convergence_from_json,
    numbers_from_json,
    words_from_json,
)
from . import ensemble_tables as tables
from . import likelihood_words
from .module_look import LARGEST_NUMBER, LARGEST_RATIO, MOST_POINTS, KernelWords, document, is_ordinary
from .naming import NEW, check_name, check_owner

MOST_BYTES = 2**20  # of numbers: plain Python looks at so many in about the time that it takes to start
ONE = likelihood_words.LikelihoodWords("").meaning
FORMS = (EXACT, POINTS) = ("exact", "points")
OWNERS = ("none", "offset", "smooth", "auto")  # what merging.owners.Owners may be,
TRUST = ("learn", "report", "none")  # merging.trust.Trust,
CHOICES = ("auto", "all", None)  # and merging.points.Choice, beside a number
RARE = ("unlearned", "coupling", "anonymous", "likelihoods")  # of a group


class MemberWords(NamedTuple):
    """What a `merging.member.Member` is, of a file."""

    about: About
    likelihoods: tuple[Any, ...]
    latent: Latent  # without its site,
    size: tuple[int, int] | None  # which has so many points and rows; None where it was not kept
    weight: float
    verdict: Verdict | None

    @property
    def name(self) -> str:
        return self.about.name

    @property
    def rows(self) -> int:
        return self.latent.rows

    @property
    def points_per_row(self) -> float | None:
        return None if self.size is None else self.size[0] / self.rows

    @property
    def weighted_rows(self) -> float:
        return self.rows * self.weight


class Effects(NamedTuple):
    """What `core.effects.Effects` is, of a file."""

    offset: float = 0.0
    smooth: float = 0.0
    stretch: tuple[float, ...] | None = None
    owners: int | None = None


class EnsembleWords(NamedTuple):
    """An ensemble of one function."""

    likelihoods: tuple[Any, ...]
    columns: tuple[str, ...] | None
    categories: Categories
    members: tuple[MemberWords, ...]
    kernel: KernelWords
    mean: float
    effects: Effects
    size: Size
    region: list[Range]
    convergence: Convergence
    points_given: bool
    skipped: list[Header]
    signers: list[Header]


class Looked(NamedTuple):
    """An ensemble, and what its file is."""

    ensemble: EnsembleWords
    header: Header
    content_id: str  # of the very bytes that were read


def look(path: str | PathLike[str]) -> Looked | None:
    """The ensemble in a file; None where that is left to torch."""
    try:
        with container.opened(path, identify=True) as file:
            if file.header.get("kind") != ENSEMBLE or file.header["schema"] != SCHEMA or file.left > MOST_BYTES:
                return None
            f = Fields(document(file))
        found = _Reader(f).ensemble()
    except (RecycleGPError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError):
        return None  # whatever is wrong is worded where ensembles are loaded
    return None if found is None else Looked(found, file.header, file.content_id)


class _Reader:
    """One file. Where something is not ordinary it says so as None, or by an error."""

    def __init__(self, f: Fields) -> None:
        self.f = f
        self.sites = self._table("0/sites.Z", None)
        self.D: int = self.sites.shape[1]
        (group,) = listed(f.header["groups"], "groups", most=1)
        self.group = fields(group, "a group")

    def ensemble(self) -> EnsembleWords | None:
        g, how = self.group, fields(self.f.header["how"], "how")
        likelihoods = all_of_them(self.f.header["likelihoods"], likelihood_words.read)
        if any(g.get(key) is not None for key in RARE) or g["functions"] != [0] or g["form"] not in FORMS:
            return None
        if any(p.meaning != ONE for p in likelihoods):
            return None
        inputs = facts.from_json(self.f.header, INPUTS, At(self.D))
        members = self._members(inputs["columns"], inputs["categories"])
        counting = [m for m in members if m.weight > 0]
        kernel, effects = self._kernel(g["kernel"]), self._effects(g.get("effects"))
        known = _how_is_ordinary(how, inputs["categories"]) and self._rest_is_ordinary()
        owned = effects.offset > 0 or effects.smooth > 0
        if not known or not counting or (owned and any(m.about.owner == NEW for m in members)):
            return None
        kept = self._kept(members)
        Z = self._table("0/Z", self.D) if g["form"] == POINTS else kept
        for points in (self.sites, Z):
            inputs["categories"].check_columns(points.column)
        size = self._size(members, Z)
        numbers: list[Any] = list(self.f.tensors.values())
        region = self._region(kept, Z)
        everywhere = [Range(min(a.low, b.low), max(a.high, b.high)) for a, b in zip(region, Z.ranges(), strict=True)]
        kernels: list[Any] = [kernel, *(m.latent.kernel for m in members)]
        certain = all(t.within(LARGEST_NUMBER) for t in numbers) and all(is_ordinary(k, everywhere) for k in kernels)
        if size is None or not certain or len(Z) > MOST_POINTS:
            return None
        number(g["jitter"], "jitter", 0.0, LARGEST_NUMBER)
        return EnsembleWords(
            likelihoods=likelihoods,
            **inputs,
            members=members,
            kernel=kernel,
            mean=number(g["mean"], "mean", -LARGEST_NUMBER, LARGEST_NUMBER),
            effects=effects,
            size=size,
            region=region,
            convergence=convergence_from_json(g.get("convergence")),
            points_given=how.get("choice") is None,
            skipped=_entries(how.get("skipped"), "skipped", tables.SKIPPED),
            signers=_entries(how.get("signers"), "signers", tables.SIGNER),
        )

    # --- numbers ---

    def _table(self, key: str, columns: int | None) -> Numbers:
        found: Any = self.f.tensor(key, None, columns)
        return found

    def _kept(self, members: Sequence[MemberWords]) -> Numbers:
        """Points of those that count, as far as they were kept."""
        sizes = [m.size for m in members if m.size is not None]
        points, rows = sum(M for M, _ in sizes), sum(r for _, r in sizes)
        shapes: dict[str, tuple[int, ...]] = {
            "Z": (points, self.D),
            "Rt": (sum(M * r for M, r in sizes),),
            "rho": (rows,),
            "e": (len(sizes),),
        }
        for name, shape in shapes.items():
            self.f.tensor(f"0/sites.{name}", *shape)
        if all(m.weight > 0 for m in members):
            return self.sites
        values, begin = self.sites.values[:0], 0
        for m in members:
            end = begin + (0 if m.size is None else m.size[0] * self.D)
            values += self.sites.values[begin:end] if m.weight > 0 else self.sites.values[:0]
            begin = end
        return Numbers((len(values) // self.D, self.D), values)

    def _size(self, members: Sequence[MemberWords], Z: Numbers) -> Size | None:
        counting = [m.size for m in members if m.weight > 0]
        all_kept = all(m.size is not None for m in members)
        sizes = [size for size in counting if size is not None]
        rows = sum(r for _, r in sizes)
        if self.group["form"] == EXACT:
            # sites of as many points are held together, and filled up to as many rows
            if not all_kept or len(set(sizes)) > len({M for M, _ in sizes}):
                return None
            limits.check_points(len(Z))
            return Size(EXACT, len(Z), rows, 0.0)
        if len(Z) == 0:
            return None
        for part in ("bound", "evidence"):
            H = self._table(f"0/{part}.H", len(Z))
            for key, shape in (("rho", (len(H),)), ("e", ()), ("slack", ())):
                self.f.tensor(f"0/{part}.{key}", *shape)
        slack: Any = self.f.tensor("0/bound.slack")
        return Size(POINTS, len(Z), rows if all_kept else None, slack.values[0])

    def _region(self, kept: Numbers, Z: Numbers) -> list[Range]:
        found = [kept.ranges()] if len(kept) else []
        if "0/extent" in self.f.tensors:
            extent: Any = self.f.tensor("0/extent", 2, self.D)
            found.append(extent.ranges())
        each = zip(*(found or [Z.ranges()]), strict=True)
        return [Range(min(r.low for r in own), max(r.high for r in own)) for own in each]

    # --- words ---

    def _members(self, columns: tuple[str, ...] | None, categories: Categories) -> tuple[MemberWords, ...]:
        entries = listed(self.group["members"], "members", most=limits.MOST_MEMBERS)
        members = []
        for entry, size in zip(entries, site_sizes(entries), strict=True):
            likelihoods = all_of_them(entry["likelihoods"], likelihood_words.read)
            kernel: Any = self._kernel(entry["kernel"])
            latent = Latent(None, kernel, **numbers_from_json(entry, self.D, likelihoods))
            state = facts.from_json(entry, STATE, At(self.D))
            about = words_from_json(entry, columns, categories)
            check_name(about.name)
            check_owner(about.owner_override)
            if state["function"] != 0 or any(p.meaning != ONE for p in likelihoods) or state["points_appended"]:
                raise ValueError("not ordinary")
            if max(abs(latent.mean), latent.jitter) > LARGEST_NUMBER:
                raise ValueError("not ordinary")
            members.append(MemberWords(about, likelihoods, latent, size, state["weight"], state["verdict"]))
        if len({m.name for m in members}) < len(members):
            raise ValueError("two of one name")
        return tuple(members)

    def _kernel(self, found: Any) -> KernelWords:
        return KernelWords(trees.read(found, self.D))

    def _effects(self, found: Any) -> Effects:
        effects = (
            Effects() if found is None else Effects(**facts.from_json(fields(found, ""), tables.EFFECTS, At(self.D)))
        )
        ratios = effects.stretch or ()
        if max(effects.offset, effects.smooth) > LARGEST_NUMBER or any(
            abs(v) > math.log(LARGEST_RATIO) for v in ratios
        ):
            raise ValueError("not ordinary")
        return effects

    def _rest_is_ordinary(self) -> bool:
        """What nobody is told of a group, but must be what it should be."""
        g = self.group
        number(g.get("own_share", 0.0), "own_share", 0.0, 1.0)
        for noise in listed(g.get("noises") or [None], "noises", most=1):
            if noise is not None:
                facts.from_json(fields(noise, "noise"), tables.NOISE, NOWHERE)
                if noise.get("kernel") is not None:
                    self._kernel(noise["kernel"])
        if g.get("spread") is not None:
            spread = fields(g["spread"], "a spread")
            self._effects(spread["effects"])
            tables.scales(spread["scales"])
            if spread.get("level") is not None:
                facts.from_json(fields(spread["level"], "a level"), tables.LEVEL, NOWHERE)
        return True


def _entries(found: Any, what: str, table: Sequence[Fact]) -> list[Header]:
    each = listed(found or [], what, most=limits.MOST_MEMBERS)
    return [facts.from_json(fields(entry, what), table, NOWHERE) for entry in each]


def _how_is_ordinary(how: Header, categories: Categories) -> bool:
    """How it would be learned again."""
    choice = how.get("choice")
    counted = type(choice) is int and 0 < choice <= limits.MOST_POINTS
    if how.get("outputs") is not None or how.get("owners", OWNERS[0]) not in OWNERS:
        return False
    if not (choice is None or choice in CHOICES or counted):
        return False
    configs = how.get("configs")
    for config in [] if configs is None else listed(configs, "configs", most=1):
        said = fields(config, "a config")
        for key in ("learn", "pool_noise"):
            flag(said.get(key, True), key)
        named = said.get("kernel") in (None, "auto") or (said["kernel"] in trees.NU and not categories.levels)
        if not named or said.get("noise") is not None or said.get("trust", TRUST[0]) not in TRUST:
            return False
    return configs is None or len(configs) == 1
