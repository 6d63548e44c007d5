"""Files of schemas 1 and 2 in the words of schema 3. Nothing else knows how they were written.

Schema 2 had the kinds "joint module" and "joint ensemble" for several functions: the files of single functions side by
side, and a link that said what these mean together. What comes out of here is read, and checked, as a new file is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor

from .. import arrays
from ..categories import Categories, union_of
from ..core.sites import weighted
from ..errors import RecycleGPError
from ..kernels.file_form import from_json, to_json
from ..kernels.units import permuted
from ..likelihoods import MOST_FUNCTIONS, Heteroscedastic, Outputs, check_names
from ..storage import limits, site_tensors
from ..storage.container import Document, Header
from ..storage.fields import Fields, count, fields, flag, listed, text
from ..storage.making import JOINT_ENSEMBLE, JOINT_MODULE
from ..storage.member_state import site_sizes, weight_from_json
from ..storage.record_json import (
    MOST_LIKELIHOODS,
    categories_from_json,
    categories_to_json,
    columns_from_json,
    likelihood_to_json,
    likelihoods_from_json,
)

BETWEEN = " · "  # a module's name and an output's, in the name of what it said about it
NEW_WORDS = {"densities": "effective_rows", "appended": "points_appended", "came_later": "added_after_merge"}
NEW_WORDS_OF_NOISE = {"misfit": "chi2", "blur": "residual_variance", "freedom": "dof"}
OF_COUPLED = ("weight", "surprise", "agreement", "offset", "appended", "came_later")  # what its own merge had found out
POINTS = ("Z", "sites.Z", "anonymous.Z")  # tensors that have the inputs as columns
EVERYTHING = [
    "kernel",
    "mean",
    "noise",
    "points",
]  # where removed modules were only counted
NOT_CONVERGED = {"converged": False, "evaluations": 0, "message": ""}


# --- modules ----------------------------------------------------------------------------------


def module(f: Fields) -> Fields:
    """Of either kind."""
    joint = f.header.get("kind") == JOINT_MODULE
    link = _link(f.header["link"]) if joint else None
    parts = [_Part.of(own, own.tensor("Z", None, None)) for own in (_files(f, "module", link) if joint else [f])]
    first = parts[0]
    for part in parts[1:]:
        if _identity(part) != _identity(first):
            raise RecycleGPError("functions of one module must have its name, its owner and its columns")
    whole = union_of([part.categories for part in parts])
    parts = [part.in_coding(whole) for part in parts]
    header = _renamed(first.header) | {
        "method": text(first.header["method"], "method"),
        "columns": first.header["columns"],
        "categories": categories_to_json(whole),
        "targets": [part.header.get("target") for part in parts],
        "likelihoods": _of_one(first.header["likelihoods"], 0) if link is None else [link.likelihood(parts)],
        "parts": [_function(part.header) for part in parts],
    }
    return _as_file(header, parts)


def _identity(part: _Part) -> tuple[Any, ...]:
    name, owner = part.header["name"], part.header.get("owner")
    return name, name if owner is None else owner, part.columns, part.dimension


def _function(header: Header) -> Header:
    return _renamed(header) | {"convergence": fields(header["convergence"], "convergence")}


def _renamed(header: Header) -> Header:
    """In the words of today."""
    found = {NEW_WORDS.get(key, key): value for key, value in header.items()}
    if found.get("noise_evidence") is not None:
        found["noise_evidence"] = _words_of_noise(found["noise_evidence"], "noise_evidence")
    return found


def _of_one(likelihoods: Any, c: int) -> list[Header]:
    """Where noise varies, f and its noise had the same name."""
    entries = [fields(p, "a likelihood") for p in listed(likelihoods, "likelihoods", most=MOST_LIKELIHOODS)]
    whole = Heteroscedastic()
    return [p | {"function": whole.functions[c]} if p.get("name") == whole.name else p for p in entries]


def _words_of_noise(found: Any, what: str) -> Header:
    return {NEW_WORDS_OF_NOISE.get(key, key): value for key, value in fields(found, what).items()}


# --- ensembles --------------------------------------------------------------------------------


def ensemble(f: Fields) -> Fields:
    """Of either kind; every part becomes a group, and parts that were coupled become one together."""
    joint = f.header.get("kind") == JOINT_ENSEMBLE
    coupled = f.header.get("coupled") if joint else None
    link = _link(f.header["link"]) if joint else None
    files = _files(f, "ensemble", link, more=0 if coupled is None else 1) if joint else [f]
    last = None if coupled is None else _Part.of(files[-1], _inputs_of(files[-1]), more=1)
    parts = [_Part.of(own, _inputs_of(own)) for own in (files if last is None else files[:-1])]
    every = parts if last is None else [last, *parts]
    if len({part.dimension for part in every}) > 1:
        raise RecycleGPError("its parts have different numbers of inputs")
    columns = next((part.columns for part in every if part.columns is not None), None)
    every = [part.in_order(columns) for part in every]
    whole = union_of([part.categories for part in every])
    every = [part.in_coding(whole) for part in every]
    parts, first = every[-len(parts) :], every[0]
    header: Header = {
        "likelihoods": _of_one(first.header["likelihoods"], 0) if link is None else [link.likelihood(parts)],
        "columns": None if columns is None else list(columns),
        "categories": categories_to_json(whole),
        "how": {
            "choice": first.header["choice"],
            "owners": first.header.get("owners"),
            "configs": [_config(part) for part in parts],
        },
    }
    if last is None:
        groups = [_group(part) | _of_function(part, c) for c, part in enumerate(parts)]
        return _as_file(header | {"groups": groups}, parts)
    if link is None or link.kind != Outputs.name:
        raise RecycleGPError("coupled is not about the outputs of this file")
    group, tensors = _coupled(first, parts, link.names, fields(coupled, "coupled"))
    rank = first.header["kernel"]["tree"]["parts"][1]["rank"]
    how = header["how"] | {"outputs": {"rank": rank}}
    return _as_file(header | {"how": how, "groups": [group]}, [first._replace(tensors=tensors)])


def _inputs_of(f: Fields) -> Tensor:
    """Points that have as many columns as it has inputs."""
    return f.tensor("Z" if f.header.get("form", "points") == "points" else "sites.Z", None, None)


def _group(part: _Part) -> Header:
    """All that is of the form."""
    h = part.header
    known = {key: h.get(key) for key in ("effects", "convergence", "anonymous")}
    prior = {key: h[key] for key in ("kernel", "mean", "jitter")}
    return {"form": h.get("form", "points"), **prior, **known, "unlearned": _unlearned(h)}


def _of_function(part: _Part, c: int) -> Header:
    """All that is of the observations of one function."""
    return {
        "functions": [c],
        "likelihoods": [_of_one(part.header["likelihoods"], c)],
        "noises": [_noise(part.header.get("noise"))],
        "members": [_member(entry, c) for entry in part.members],
    }


def _member(entry: Header, c: int) -> Header:
    for key in ("site", "surprise", "agreement"):  # which were there also where they said nothing
        entry[key]
    return _renamed(entry) | {
        "jitter": 0.0,
        "function": c,
        "likelihoods": _of_one(entry["likelihoods"], c),
        "targets": [entry.get("target")],
        "convergence": None if flag(entry.get("converged", True), "converged") else NOT_CONVERGED,
    }


def _noise(found: Any) -> Header | None:
    if found is None:
        return None
    fields(found, "noise")["freedom"]  # null where it is one noise for all
    return _words_of_noise(found, "noise")


def _config(part: _Part) -> Header:
    """A file that did not say how it was made is relearned as merge does unless told, with its own structure."""
    found = part.header.get("recipe")
    if found is not None:
        return {key: fields(found, "recipe")[key] for key in ("kernel", "learn", "pool_noise")} | found
    own = part.kernel(part.header["kernel"]).structure
    known = any(part.kernel(entry["kernel"]).structure == own for entry in part.members)
    return {} if known else {"kernel": part.header["kernel"]}


def _unlearned(header: Header) -> Header | None:
    counted = count(header.get("traces_of_removed", 0), "traces_of_removed")
    if header.get("unlearned") is not None:
        return fields(header["unlearned"], "unlearned")
    return {"removed": counted, "traces": EVERYTHING} if counted else None


def _coupled(
    last: _Part, parts: Sequence[_Part], outputs: Sequence[str], units: Header
) -> tuple[Header, dict[str, Tensor]]:
    """One group: the form of the last part, over (x, c), and the members of the others, as they were published."""
    D = last.dimension
    known = {
        entry["name"] + BETWEEN + output: (c, entry, site)
        for c, (part, output) in enumerate(zip(parts, outputs, strict=True))
        for entry, site in zip(part.members, part.sites(D), strict=True)
    }
    members, sites = [], []
    for own in last.members:
        if own["name"] not in known:
            raise RecycleGPError("coupled holds a module that is not of one of the outputs")
        c, entry, site = known.pop(own["name"])
        of_merge = {key: own.get(key) for key in OF_COUPLED}
        members.append(_member(entry | of_merge, c))
        sites.append(site)
    for c, entry, site in known.values():
        if weight_from_json(entry["weight"]) > 0:
            raise RecycleGPError("coupled lacks a module of one of the outputs")
        members.append(_member(entry, c))
        sites.append(site)
    observed = [_of_function(part, c) for c, part in enumerate(parts)]
    together = {key: [own[key][0] for own in observed] for key in ("functions", "likelihoods", "noises")}
    coupling = {"scale": units["scale"], "shift": units["shift"]}
    group = _group(last) | together | {"members": members, "coupling": coupling}
    tensors = dict(last.tensors)
    if group["form"] == "exact" and group["anonymous"] is None:  # as it was made, not made again
        owners: dict[Any, int] = {}
        numbers = [owners.setdefault(own.get("owner", own["name"]), len(owners)) for own in last.members]
        weights = [weight_from_json(own["weight"]) for own in last.members]
        made_of = [
            (weighted(site, site.e.new_tensor(weight)), number)
            for site, weight, number in zip(last.sites(D + 1), weights, numbers, strict=True)
            if site is not None and weight > 0
        ]
        group["anonymous"] = [[len(site.Z), len(site.rho), number] for site, number in made_of]
        tensors |= site_tensors.to_tensors([site for site, _ in made_of], D + 1, "anonymous")
    tensors |= site_tensors.to_tensors([site for site in sites if site is not None], D, "sites")
    if "extent" in tensors:
        tensors["extent"] = last.file.tensor("extent", 2, D + 1)[:, :D]
    return group, tensors


# --- several functions ------------------------------------------------------------------------


class _Link(NamedTuple):
    """What functions meant together."""

    kind: str
    names: tuple[str, ...]
    family: str  # of classes

    def likelihood(self, parts: Sequence[_Part]) -> Header:
        """The same as a likelihood of all functions."""
        if self.kind == "varying noise":
            return {"name": Heteroscedastic.name}
        if self.kind == "classes":
            return {"name": self.family, "labels": list(self.names)}
        each = [likelihoods_from_json(part.header["likelihoods"])[0] for part in parts]
        named = zip(self.names, each, strict=True)
        return {
            "name": Outputs.name,
            "functions": [{"name": name, "likelihood": likelihood_to_json(p)} for name, p in named],
        }


def _link(found: Any) -> _Link:
    if not isinstance(found, dict) or found.get("kind") not in ("outputs", "classes", "varying noise"):
        raise RecycleGPError("link is not one that this version knows; upgrade")
    kind = found["kind"]
    names = tuple(text(name, "a function") for name in listed(found["names"], "names", most=MOST_FUNCTIONS))
    check_names(names, "a function")
    if kind == "varying noise" and names != Heteroscedastic().functions:
        raise RecycleGPError(f"functions of varying noise are {', '.join(Heteroscedastic().functions)}")
    return _Link(kind, names, text(found["likelihood"], "likelihood") if kind == "classes" else "")


def _files(f: Fields, kind: str, link: _Link | None, more: int = 0) -> list[Fields]:
    """Each part as if it were a file of its own; there may be more than functions."""
    assert link is not None
    headers = listed(f.header["parts"], "parts", most=MOST_FUNCTIONS + more)
    if len(headers) != len(link.names) + more:
        raise RecycleGPError(f"{len(headers)} parts for {len(link.names)} functions")
    found = []
    for i, header in enumerate(headers):
        if not isinstance(header, dict) or header.get("kind") != kind:
            raise RecycleGPError(f"part {i} is not a {kind}")
        own = {name: tensor for name, tensor in f.tensors.items() if "/" not in name}
        own |= {name.removeprefix(f"{i}/"): t for name, t in f.tensors.items() if name.startswith(f"{i}/")}
        found.append(Fields(Document(header, own)))
    return found


def _as_file(header: Header, parts: Sequence[_Part]) -> Fields:
    tensors = {f"{i}/{name}": tensor for i, part in enumerate(parts) for name, tensor in part.tensors.items()}
    return Fields(Document(header, tensors))


class _Part(NamedTuple):
    """A module or an ensemble of one function, whose inputs are those of its points, but for the last `more`."""

    header: Header
    tensors: dict[str, Tensor]
    dimension: int
    more: int
    columns: arrays.Columns
    categories: Categories

    @staticmethod
    def of(f: Fields, Z: Tensor, more: int = 0) -> _Part:
        every = Z.shape[1]
        columns = columns_from_json(f.header["columns"], every)
        categories = categories_from_json(f.header.get("categories"), every)
        D = every - more
        return _Part(f.header, f.tensors, D, more, None if columns is None else columns[:D], categories)

    @property
    def file(self) -> Fields:
        return Fields(Document(self.header, self.tensors))

    @property
    def members(self) -> list[Header]:
        """Their names are text, and no two the same."""
        entries = listed(self.header["members"], "members", most=limits.MOST_MEMBERS)
        names = {text(fields(entry, "a module")["name"], "a name") for entry in entries}
        if not entries or len(names) < len(entries):
            raise RecycleGPError("the ensemble's modules are none, or two have the same name")
        return entries

    def kernel(self, found: Any) -> Any:
        return from_json(found, self.dimension + self.more)

    def sites(self, columns: int) -> list[Any]:
        """Of its members, None where they are not kept."""
        sizes = site_sizes(self.members)
        kept = iter(site_tensors.from_tensors(self.file, [s for s in sizes if s is not None], columns, "sites"))
        return [None if size is None else next(kept) for size in sizes]

    def in_coding(self, levels: Categories) -> _Part:
        """With codes of these levels, among which its own are."""
        if levels == self.categories:
            return self
        tensors, file = dict(self.tensors), self.file
        for name in POINTS:
            if name in tensors:
                Z = file.tensor(name, None, self.dimension + self.more)
                self.categories.check_codes(Z)
                tensors[name] = self.categories.recoded(Z, levels)
        if "extent" in tensors:  # the box has all levels, whatever their codes
            tensors["extent"] = file.tensor("extent", 2, self.dimension + self.more).clone()
            for column, names in levels.levels:
                tensors["extent"][:, column] = tensors["extent"].new_tensor([0.0, len(names) - 1.0])
        return self._replace(tensors=tensors, categories=levels)

    def in_order(self, columns: arrays.Columns) -> _Part:
        """With its inputs in this order, by their names."""
        if columns is None or self.columns is None or self.columns == columns:
            return self
        if set(columns) != set(self.columns):
            raise RecycleGPError("its parts have different columns")
        order = [self.columns.index(c) for c in columns]
        file, D = self.file, self.dimension
        moved = {name: file.tensor(name, None, D)[:, order] for name in (*POINTS, "extent") if name in self.tensors}
        header = {**self.header, "kernel": self._turned(self.header["kernel"], order)}
        header["members"] = [{**m, "kernel": self._turned(m["kernel"], order)} for m in self.members]
        recipe = self.header.get("recipe")
        if isinstance(recipe, dict) and isinstance(recipe.get("kernel"), dict):
            header["recipe"] = {**recipe, "kernel": self._turned(recipe["kernel"], order)}
        return self._replace(
            header=header,
            tensors=self.tensors | moved,
            columns=columns,
            categories=self.categories.permuted(order),
        )

    def _turned(self, kernel: Any, order: list[int]) -> Header:
        return to_json(permuted(self.kernel(kernel), order), self.dimension)


# --- many modules -----------------------------------------------------------------------------


def name_of_block(b: int, what: str) -> str:
    return f"{b:02d}.{what}"


def block(header: Header) -> Header:
    """Tables have the same columns, in the same order."""
    family = {"name": text(header["likelihood"], "likelihood")}
    alone = {"kernels": [header["kernel"]], "targets": [header.get("target")], "columns": header["columns"]}
    return header | alone | {"likelihood": family}
