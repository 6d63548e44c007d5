"""Likelihoods as files say them, for somebody who does not compute with them: names, parameters, functions.

What is said here of a family its class says, too, and a test compares them.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

from ..errors import RecycleGPError
from ..storage.container import Header
from ..storage.fields import fields, listed, positive, text
from ..storage.record_json import MOST_PARAMETERS
from ..target import MOST_FUNCTIONS, check_names


class Family(NamedTuple):
    """Of likelihoods of one function."""

    parameter_names: tuple[str, ...] = ()
    has_units: bool = False
    conjugate: bool = False


ORDINAL = "ordinal"
FAMILIES = {
    "gaussian": Family(("noise",), True, True),
    "lognormal": Family(("noise",), True, True),
    "bernoulli": Family(),
    "bernoulli-probit": Family(),
    "poisson": Family(),
    "negative-binomial": Family(("dispersion",)),
    "student-t": Family(("noise", "df"), True),
    "survival": Family(("noise",), True),
    ORDINAL: Family(("gap",)),
}
CATEGORICAL = ("categorical", "categorical-softmax")
HETEROSCEDASTIC, OF_VARYING_NOISE = "heteroscedastic", ("f", "log noise")
OUTPUTS = "outputs"


class LikelihoodWords:
    """One of them; that of several functions has one for each in `parts`."""

    has_units = conjugate = False
    known, ordered = True, False
    own_labels: tuple[str, ...] = ()

    def __init__(
        self,
        name: str,
        meaning: str = "one function",
        functions: tuple[str, ...] = ("f",),
        parts: tuple[LikelihoodWords, ...] = (),
    ) -> None:
        self.name, self.meaning, self.functions = name, meaning, functions
        self.parts = parts or (self,) * len(functions)
        self.parameters: tuple[float, ...] = ()

    @property
    def cuts(self) -> tuple[float, ...]:
        """Of levels: where each next one begins."""
        return tuple(accumulate(self.parameters, initial=0.0)) if self.ordered and self.known else ()

    @property
    def words_of_y(self) -> tuple[str, tuple[str, ...]]:
        return ("levels", self.own_labels) if self.ordered else (self.meaning, self.functions)


def read(found: Any) -> LikelihoodWords:
    entry = fields(found, "a likelihood")
    if entry["name"] == OUTPUTS:
        return _outputs(listed(entry["functions"], "functions", most=MOST_FUNCTIONS))
    name = text(entry["name"], "a likelihood").replace("_", "-")
    given = listed(entry.get("parameters", []), "parameters", most=MOST_PARAMETERS)
    if name == ORDINAL:
        return _ordinal(entry, tuple(positive(v, "a parameter") for v in given))
    if name in FAMILIES:
        _check_absent(entry, "labels", "function")
        return _of_one(name, tuple(positive(v, "a parameter") for v in given))
    if given:
        raise RecycleGPError("parameters of a likelihood that has none")
    return _categorical(name, entry) if name in CATEGORICAL else _heteroscedastic(name, entry)


def _of_one(name: str, parameters: tuple[float, ...]) -> LikelihoodWords:
    family, found = FAMILIES[name], LikelihoodWords(name)
    if len(parameters) not in (0, len(family.parameter_names)):
        raise RecycleGPError("other parameters than the likelihood has")
    found.has_units, found.conjugate, found.parameters = family.has_units, family.conjugate, parameters
    found.known = len(parameters) == len(family.parameter_names)
    return found


def _ordinal(entry: Header, gaps: tuple[float, ...]) -> LikelihoodWords:
    _check_absent(entry, "function")
    found = LikelihoodWords(ORDINAL)
    found.ordered, found.own_labels, found.parameters = True, _labels(entry, "a level"), gaps
    wanted = max(0, len(found.own_labels) - 2)
    if len(found.own_labels) == 1 or len(found.own_labels) > MOST_PARAMETERS or len(gaps) not in (0, wanted):
        raise RecycleGPError("other levels, or other parameters, than the likelihood has")
    found.known = bool(found.own_labels) and len(gaps) == wanted
    return found


def _labels(entry: Header, what: str) -> tuple[str, ...]:
    labels = tuple(text(label, "a label") for label in listed(entry.get("labels") or [], "labels", most=MOST_FUNCTIONS))
    if labels:
        check_names(labels, what)
    return labels


def _categorical(name: str, entry: Header) -> LikelihoodWords:
    _check_absent(entry, "function")
    if entry.get("labels") is None:
        return LikelihoodWords(name, "classes")
    labels = _labels(entry, "a class")
    found = LikelihoodWords(name, "classes", labels or ("f",))
    found.own_labels = labels
    return found


def _heteroscedastic(name: str, entry: Header) -> LikelihoodWords:
    _check_absent(entry, "labels")
    alone = entry.get("function")
    if name != HETEROSCEDASTIC or alone not in (None, *OF_VARYING_NOISE):
        raise RecycleGPError("a likelihood, or a function of it, that is not known")
    return LikelihoodWords(name, "varying noise", OF_VARYING_NOISE if alone is None else (alone,))


def _outputs(entries: list[Any]) -> LikelihoodWords:
    named = [fields(entry, "an output") for entry in entries]
    each = tuple(read(entry["likelihood"]) for entry in named)
    names = tuple(text(entry["name"], "an output") for entry in named)
    check_names(names, "an output")
    if any(p.name not in FAMILIES for p in each):
        raise RecycleGPError("an output has a likelihood of several functions")
    whole = LikelihoodWords(OUTPUTS, "outputs", names, each)
    whole.known = all(p.known for p in each)
    return whole


def _check_absent(entry: Header, *keys: str) -> None:
    if any(entry.get(key) is not None for key in keys):
        raise RecycleGPError(f"{keys[0]} of a likelihood that has none")
