"""The record of a module in files: a new fact about a module is one line in one of these tables (docs/schema.md).

Words and numbers are read without torch; kernels and likelihoods, which compute, are imported where they are made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..categories import MOST_LEVELS, NO_CATEGORIES, Categories, Levels
from ..core.convergence import NOTHING_TO_LEARN, Convergence
from ..core.noise_evidence import NoiseEvidence
from ..errors import RecycleGPError
from ..record import PERSON, ROW, About, Guaranteed, Latent, Origin, Privacy
from ..target import NO_TARGET, Target
from . import facts
from .container import Header
from .facts import At, Entry, Fact
from .fields import count, fields, flag, listed, number, positive, text

if TYPE_CHECKING:
    from ..arrays import Columns
    from ..core.site import Site
    from ..likelihoods import Likelihood, Outputs
    from ..times import When

MOST_LIKELIHOODS = 16
MOST_PARAMETERS = 32  # of a likelihood
LONGEST_DATE = 40  # characters


# --- small values -----------------------------------------------------------------------------


def _labels(found: Any) -> Any:
    if found is not None and len(listed(found, "labels", most=2)) != 2:
        raise RecycleGPError("labels is not a list of two")
    return None if found is None else (found[0], found[1])


TARGET = Entry(  # which checks its words itself
    Target,
    (
        Fact("name", lambda v, at: v),
        Fact("unit", lambda v, at: v),
        Fact("labels", lambda v, at: _labels(v), lambda v, at: None if v is None else list(v)),
    ),
    "target",
)
CONVERGENCE = Entry(
    Convergence,
    (
        Fact("converged", lambda v, at: flag(v, "converged")),
        Fact("evaluations", lambda v, at: count(v, "evaluations")),
        Fact("message", lambda v, at: text(v, "a message")),
    ),
    "convergence",
)
NOISE_EVIDENCE = Entry(
    NoiseEvidence,
    (
        Fact("chi2", lambda v, at: number(v, "chi2", 0.0)),
        Fact("residual_variance", lambda v, at: number(v, "residual_variance", 0.0)),
        Fact("residual", lambda v, at: number(v, "residual", 0.0)),
        Fact("dof", lambda v, at: number(v, "dof", 0.0)),
    ),
    "noise_evidence",
)


def _noise_evidence(found: Any, at: At) -> NoiseEvidence | None:
    """What a module says about the noise of its data, which must be Gaussian."""
    known = len(at.likelihoods) == 1 and at.likelihoods[0].conjugate and at.likelihoods[0].known
    if found is not None and not known:
        raise RecycleGPError("noise_evidence is given for data that have no Gaussian noise")
    evidence: NoiseEvidence | None = NOISE_EVIDENCE.read_if_any(found, at)
    return evidence


def convergence_to_json(ended: Convergence) -> Header | None:
    return None if ended == NOTHING_TO_LEARN else CONVERGENCE.write(ended, NOWHERE)


def convergence_from_json(found: Any) -> Convergence:
    ended: Convergence = NOTHING_TO_LEARN if found is None else CONVERGENCE.read(found, NOWHERE)
    return ended


NOWHERE = At(0)  # for what is checked against nothing


def time_from_json(found: Any) -> When | None:
    """A number or a date, as `times.written` writes it."""
    if found is None:
        return None
    if not isinstance(found, str):
        return number(found, "time")
    if len(found) > LONGEST_DATE:
        raise RecycleGPError("time is longer than a date")
    from ..times import when

    return when(found)


def time_to_json(time: When | None) -> float | str | None:
    if time is None:
        return None
    from ..times import written

    return written(time)


def targets_to_json(targets: Sequence[Target]) -> list[Header | None] | None:
    if not any(target.known for target in targets):
        return None
    return [TARGET.write(target, NOWHERE) if target.known else None for target in targets]


def targets_from_json(found: Any, functions: int) -> tuple[Target, ...]:
    if found is None:
        return (NO_TARGET,) * functions
    entries = listed(found, "targets", most=functions)
    if len(entries) != functions:
        raise RecycleGPError(f"{len(entries)} targets for {functions} functions")
    return tuple(NO_TARGET if entry is None else TARGET.read(entry, NOWHERE) for entry in entries)


def privacy_to_json(privacy: Privacy | None) -> str | None:
    return None if privacy is None else privacy.value


def privacy_from_json(found: Any) -> Privacy | None:
    if found not in (None, *(p.value for p in Privacy)):
        raise RecycleGPError(f"privacy is {str(found)[:50]!r}, which is not known")
    return None if found is None else Privacy(found)


def held_back_from_json(found: Any) -> float | None:
    if found is not None and not 0 < number(found, "held_back") < 1:
        raise RecycleGPError("held_back is not a share of the rows")
    return None if found is None else float(found)


def columns_from_json(names: Any, dimension: int) -> Columns:
    if names is None:
        return None
    found = [text(name, "a column") for name in listed(names, "columns", most=dimension)]
    if len(found) != dimension or len(set(found)) != dimension:
        raise RecycleGPError(f"columns does not name the {dimension} inputs, each by its own name")
    return tuple(found)


def categories_to_json(categories: Categories) -> list[Header] | None:
    return [{"column": c, "levels": list(names)} for c, names in categories.levels] or None


def categories_from_json(found: Any, dimension: int) -> Categories:
    """Columns that exist, and levels that have names."""
    if found is None:
        return NO_CATEGORIES
    levels = []
    for entry in listed(found, "categories", most=dimension):
        column = count(fields(entry, "a category")["column"], "a column of categories")
        names = listed(entry["levels"], "levels", most=MOST_LEVELS)
        if column >= dimension:
            raise RecycleGPError(f"categories in column {column} of {dimension}")
        levels.append(Levels(column, tuple(text(name, "a level") for name in names)))
    return Categories(tuple(levels))


def origin_from_json(found: Any) -> Origin:
    """Not known where a file does not say it, or says what a later version may know of."""
    known = {origin.value: origin for origin in Origin}
    return known.get("" if found is None else text(found, "origin"), Origin.UNKNOWN)


def origin_to_json(origin: Origin) -> str | None:
    return None if origin is Origin.UNKNOWN else origin.value


def _unit(found: Any) -> str:
    if found not in (ROW, PERSON):
        raise RecycleGPError(f"unit is {str(found)[:50]!r}, and not {ROW!r} or {PERSON!r}")
    return str(found)


GUARANTEED = Entry(
    Guaranteed,
    (
        Fact("epsilon", lambda v, at: positive(v, "epsilon")),
        Fact("delta", lambda v, at: positive(v, "delta", most=1.0)),
        Fact("bound", lambda v, at: positive(v, "bound")),
        Fact("unit", lambda v, at: _unit(v)),
        Fact("rows_each", lambda v, at: count(v, "rows_each", least=1)),
        Fact("owners", lambda v, at: 1 if v is None else count(v, "owners", least=1)),
        Fact("honest", lambda v, at: 1 if v is None else count(v, "honest", least=1)),
    ),
    "guaranteed",
)

# --- a record: words, the inputs that these are about, and numbers -----------------------------------------------

WORDS = (
    Fact("name", lambda v, at: text(v, "name")),
    Fact("owner_override", lambda v, at: None if v is None else text(v, "owner"), key="owner"),
    Fact("time", lambda v, at: time_from_json(v), lambda v, at: time_to_json(v)),
    Fact(
        "method",
        lambda v, at: "unknown" if v is None else text(v, "method"),
        lambda v, at: None if v == "unknown" else v,
    ),
    Fact("targets", lambda v, at: targets_from_json(v, at.functions), lambda v, at: targets_to_json(v)),
    Fact("privacy", lambda v, at: privacy_from_json(v), lambda v, at: privacy_to_json(v)),
    Fact("origin", lambda v, at: origin_from_json(v), lambda v, at: origin_to_json(v)),
    Fact("held_back", lambda v, at: held_back_from_json(v)),
    Fact("guaranteed", GUARANTEED.read_if_any, GUARANTEED.write),
)
INPUTS = (
    Fact("columns", lambda v, at: columns_from_json(v, at.dimension), lambda v, at: None if v is None else list(v)),
    Fact("categories", lambda v, at: categories_from_json(v, at.dimension), lambda v, at: categories_to_json(v)),
)
NUMBERS = (  # beside the kernel
    Fact("mean", lambda v, at: number(v, "mean")),
    Fact("rows", lambda v, at: count(v, "rows", least=1)),
    Fact("jitter", lambda v, at: number(v, "jitter", 0.0)),
    Fact("effective_rows", lambda v, at: None if v is None else number(v, "effective_rows", 0.0)),
    Fact("kept", lambda v, at: None if v is None else positive(v, "kept", most=1.0)),
    Fact("noise_evidence", _noise_evidence, NOISE_EVIDENCE.write),
    Fact("convergence", lambda v, at: convergence_from_json(v), lambda v, at: convergence_to_json(v)),
)


def about_to_json(about: About) -> Header:
    return facts.to_json(about, (*WORDS, *INPUTS), NOWHERE)


def about_from_json(header: Header, dimension: int, functions: int) -> About:
    return About(**facts.from_json(header, (*WORDS, *INPUTS), At(dimension, functions)))


def words_to_json(about: About) -> Header:
    """Of a member, whose inputs are those of its ensemble."""
    return facts.to_json(about, WORDS, NOWHERE)


def words_from_json(header: Header, columns: Columns, categories: Categories) -> About:
    """The same, of one function."""
    return About(**facts.from_json(header, WORDS, NOWHERE), columns=columns, categories=categories)


def latent_to_json(latent: Latent, dimension: int) -> Header:
    """All but its site, whose numbers are tensors."""
    from ..kernels.file_form import to_json

    return {"kernel": to_json(latent.kernel, dimension), **facts.to_json(latent, NUMBERS, At(dimension))}


def latent_from_json(entry: Any, site: Site | None, dimension: int, about: tuple[Likelihood, ...]) -> Latent:
    """`about` are the likelihoods of its observations."""
    from ..kernels.file_form import from_json

    kernel = from_json(fields(entry, "a function").get("kernel"), dimension)
    return Latent(site=site, kernel=kernel, **numbers_from_json(entry, dimension, about))


def numbers_from_json(entry: Header, dimension: int, about: tuple[Any, ...]) -> Header:
    """All of it but kernel and site."""
    return facts.from_json(entry, NUMBERS, At(dimension, likelihoods=about))


# --- likelihoods ------------------------------------------------------------------------------


def likelihood_to_json(p: Likelihood, *, numbers: bool = True) -> Header:
    """Its parameters only where they are known, and wanted."""
    from ..likelihoods import Heteroscedastic, Outputs

    said: Header = {"name": p.name}
    if isinstance(p, Outputs):
        parts = zip(p.names, p.each, strict=True)
        said["functions"] = [{"name": n, "likelihood": likelihood_to_json(q, numbers=numbers)} for n, q in parts]
    if p.own_labels:
        said["labels"] = list(p.own_labels)
    if isinstance(p, Heteroscedastic) and p.alone is not None:
        said["function"] = p.alone
    if p.parameters and numbers:
        said["parameters"] = list(p.parameters)
    return said


def likelihood_from_json(found: Any) -> Likelihood:
    from .. import likelihoods
    from ..likelihoods import MOST_FUNCTIONS, Outputs

    entry = fields(found, "a likelihood")
    if entry["name"] == Outputs.name:
        return _outputs(listed(entry["functions"], "functions", most=MOST_FUNCTIONS))
    p = likelihoods.named(text(entry["name"], "a likelihood"))
    if entry.get("labels") is not None:
        labels = listed(entry["labels"], "labels", most=MOST_FUNCTIONS)
        p = p.with_labels([text(label, "a label") for label in labels])
    parameters = listed(entry.get("parameters", []), "parameters", most=MOST_PARAMETERS)
    p = p.with_parameters([positive(v, "a parameter") for v in parameters])
    if entry.get("function") is not None:
        return _alone(p, entry["function"])
    return p


def _alone(p: Likelihood, function: Any) -> Likelihood:
    from ..likelihoods import Heteroscedastic

    if not isinstance(p, Heteroscedastic) or function not in p.functions:
        raise RecycleGPError(f"likelihood {p.name!r} has no function {str(function)[:50]}")
    return Heteroscedastic(function)


def _outputs(entries: list[Any]) -> Outputs:
    from ..likelihoods import Outputs, SeveralFunctions

    named = [fields(entry, "an output") for entry in entries]
    if any(fields(entry["likelihood"], "a likelihood")["name"] == Outputs.name for entry in named):
        raise RecycleGPError("an output has outputs")
    each = tuple(likelihood_from_json(entry["likelihood"]) for entry in named)
    if any(isinstance(p, SeveralFunctions) for p in each):
        raise RecycleGPError("an output has a likelihood of several functions")
    return Outputs(tuple(text(entry["name"], "an output") for entry in named), each)


def likelihoods_to_json(found: Sequence[Likelihood]) -> list[Header]:
    return [likelihood_to_json(p) for p in found]


def likelihoods_from_json(entries: Any) -> tuple[Likelihood, ...]:
    """Those that y may have."""
    return all_of_them(entries, likelihood_from_json)


class Named(Protocol):
    """What is known of a likelihood, also by those who do not compute with it."""

    @property
    def name(self) -> str: ...

    @property
    def functions(self) -> tuple[str, ...]: ...


L = TypeVar("L", bound=Named)


def all_of_them(entries: Any, one: Callable[[Any], L]) -> tuple[L, ...]:
    """At least one, no two of one name, all of the same functions."""
    found = tuple(one(entry) for entry in listed(entries, "likelihoods", most=MOST_LIKELIHOODS))
    if not found or len({p.name for p in found}) < len(found):
        raise RecycleGPError("the likelihoods are none, or one is named twice")
    if len({len(p.functions) for p in found}) > 1:
        raise RecycleGPError("the likelihoods are of different numbers of functions")
    return found
