"""Many data sets as a few batched problems: read in windows, solved side by side, those that fail once more alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import arrays, threads
from ..categories import union_of
from ..devices import memory_factor, retry_on_oom
from ..errors import Either, FewRowsError, RecycleGPError
from . import batch_fit
from .batch_fit import step_cost
from .constants import COMPARISON
from .fitted import Fitted
from .functions import FitValidator, FunctionRequests
from .kernel_choice import best_alternatives, chosen
from .options import FitOptions

MODELS, MOST_MEMORY = 1024, 64  # solved as one batched problem, and so many times as many on a GPU
WINDOW = 2**23  # numbers in the inputs of models that are read before any is fitted

DataSet = tuple[Any, ...]  # X, y and, where it is known, their noise
Named = tuple[DataSet, str]  # and the name of the module


class Solved(NamedTuple):
    """Data sets of one kind, whose models have been found."""

    positions: list[int]  # of the data sets among all
    requests: list[FunctionRequests]
    functions: tuple[Fitted, ...]  # for each function, the models of all of them


class Failed(NamedTuple):
    """A data set whose model could not be found, also alone."""

    name: str
    why: str


# --- reading ----------------------------------------------------------------------------------


def checked(named: Iterable[Named], options: FitOptions, first: int = 0) -> Iterator[FunctionRequests | Failed]:
    """Data sets as requests, some at a time, where they are alike at once; errors count them from `first`.

    A data set of too few rows is one whose model fails: among thousands there may be one.
    """
    validator, done = FitValidator(options), first
    for some in _read_ahead(named):
        pairs, names = zip(*some, strict=True)
        found = validator.check_all(pairs, names) if len(some) > 1 else None
        if found is None:
            yield from (_or_failed(done + i, pair, name, validator) for i, (pair, name) in enumerate(some))
        else:
            yield from found
        done += len(some)


def _read_ahead(named: Iterable[Named]) -> Iterator[list[Named]]:
    """Arrays, no more than fill a window; what does not say how large it is comes alone."""
    some: list[Named] = []
    numbers = 0
    for pair, name in named:
        some.append((pair, name))
        numbers += pair[0].size if isinstance(pair[0], np.ndarray) else WINDOW
        if len(some) >= MODELS or numbers >= WINDOW:
            yield some
            some, numbers = [], 0
    if some:
        yield some


def _numbered(position: int, data: DataSet, name: str, validator: FitValidator) -> FunctionRequests:
    try:
        X, y, *noise = data
        return validator.check(X, y, name, *noise)
    except FewRowsError:
        raise
    except RecycleGPError as error:
        raise RecycleGPError(f"data set {position} ({name}): ", error) from None


def _or_failed(position: int, data: DataSet, name: str, validator: FitValidator) -> FunctionRequests | Failed:
    try:
        return _numbered(position, data, name, validator)
    except FewRowsError as few:
        return Failed(name, str(few.args[0]))  # what helps is said where it can be worded


def choose(data: Sequence[DataSet], options: FitOptions) -> FitOptions:
    """kernel="auto", likelihood="counts": one for all data sets, by the sum of some of their evidences."""
    some = [pair for pair in data[:: max(1, len(data) // COMPARISON.sets)] if isinstance(pair, (tuple, list))]

    def requests(of: FitOptions) -> list[FunctionRequests]:
        validator = FitValidator(of)
        found = (_or_failed(i, pair, f"data set {i}", validator) for i, pair in enumerate(some))
        return [own for own in found if not isinstance(own, Failed)]

    return chosen(options, requests)


# --- solving ----------------------------------------------------------------------------------


class Placed(NamedTuple):
    """Requests, and which of all data sets they are of."""

    position: int
    requests: FunctionRequests


def solve_all(
    requests: Iterable[FunctionRequests | Failed], advance: Callable[[int], None]
) -> Iterator[Solved | Failed]:
    """The models of all data sets, those of one kind side by side; `advance` is called with how many more are done."""
    failed: list[Failed] = []
    for window in _windows(_placed(requests, failed)):
        for alike in _groups(window):
            for found in _solve_together([own.requests for own in alike]):
                if isinstance(found, Solved):
                    found = found._replace(positions=[alike[i].position for i in found.positions])
                yield found
            advance(len(alike))
    yield from failed
    advance(len(failed))


def _placed(requests: Iterable[FunctionRequests | Failed], failed: list[Failed]) -> Iterator[Placed]:
    """Those that can be solved; the others are put aside."""
    for position, own in enumerate(requests):
        if isinstance(own, Failed):
            failed.append(own)
        else:
            yield Placed(position, own)


def solve_one(requests: FunctionRequests) -> Solved:
    """The model of one data set.

    Raises:
        RecycleGPError: It could not be found.
    """
    (requests,) = best_alternatives([requests])
    return _solve_alone(0, requests)


def _windows(requests: Iterable[Placed]) -> Iterator[list[Placed]]:
    """As many requests as are worked on together: memory stays bounded however many come."""
    window: list[Placed] = []
    numbers, most = 0, 0.0
    for own in requests:
        if not window:
            most = WINDOW * min(MOST_MEMORY, memory_factor(own.requests.requests[0].device))
        window.append(own)
        numbers += own.requests.numbers
        if numbers >= most:
            yield _decided(window)
            window, numbers = [], 0
    if window:
        yield _decided(window)


def _decided(window: list[Placed]) -> list[Placed]:
    """Where the data decide how functions see y, they have."""
    decided = best_alternatives([own.requests for own in window])
    return [own._replace(requests=found) for own, found in zip(window, decided, strict=True)]


def _groups(window: Sequence[Placed]) -> Iterator[list[Placed]]:
    """Requests of one kind, no more than are worked on together."""
    kinds: dict[Any, list[Placed]] = {}
    for own in window:
        kinds.setdefault(own.requests.kind, []).append(own)
    for alike in kinds.values():
        first = alike[0].requests
        models = int(MODELS * min(MOST_MEMORY, memory_factor(first.requests[0].device)))
        size = max(1, models // first.group.functions)
        yield from (alike[i : i + size] for i in range(0, len(alike), size))


def _solve_together(members: list[FunctionRequests]) -> Iterator[Solved | Failed]:
    """Data sets of one kind; what fails here is tried once more alone."""
    members = _in_one_coding(members)
    try:
        found = _solve(members)
    except RecycleGPError:
        found = None
    if found is not None:
        yield found
    for i in sorted(set(range(len(members))) - set(found.positions if found is not None else ())):
        try:
            yield _solve_alone(i, members[i])
        except RecycleGPError as error:
            yield Failed(members[i].name, str(error))


def _solve_alone(position: int, own: FunctionRequests) -> Solved:
    found = _solve([own])
    if found is None:
        raise RecycleGPError(
            f"module {own.name!r}: no hyperparameters were found at which its posterior is finite; check y for "
            "extreme values",
            Either(", or pass a kernel with learn=False", ""),
        )
    return found._replace(positions=[position])


def _solve(members: Sequence[FunctionRequests]) -> Solved | None:
    """Those of which every function has been found, in the order of `members`; None where there are none."""
    group = members[0].group
    C, requests = group.functions, [r for own in members for r in own.requests]
    with threads.limit_threads(step_cost(requests[0]) * len(requests)):
        positions, models = retry_on_oom(partial(batch_fit.solve, requests, group))
    if models is None:
        return None
    fine = models.sites.within(arrays.LARGEST).tolist()
    place = {function: i for i, function in enumerate(positions) if fine[i]}
    whole = [i for i in range(len(members)) if all(i * C + c in place for c in range(C))]
    if not whole:
        return None
    columns = [[place[i * C + c] for i in whole] for c in range(C)]
    every = list(range(len(positions)))
    functions = tuple(models if chosen == every else models.take(torch.tensor(chosen)) for chosen in columns)
    return Solved(whole, [members[i] for i in whole], functions)


def _in_one_coding(members: list[FunctionRequests]) -> list[FunctionRequests]:
    """Levels that have different codes in different data sets have one in all of them."""
    each = [own.requests[0].categories for own in members]
    if all(categories == each[0] for categories in each):
        return members
    whole = union_of(each)

    def recoded(own: FunctionRequests) -> FunctionRequests:
        inputs: dict[int, Tensor] = {}  # functions of the same rows have the same tensor, and keep having it

        def changed(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            if id(value) not in inputs:
                inputs[id(value)] = own.requests[0].categories.recoded(value, whole)
            return inputs[id(value)]

        return own._replace(
            requests=tuple(
                r._replace(X=changed(r.X), inducing=changed(r.inducing), publish=changed(r.publish), categories=whole)
                for r in own.requests
            )
        )

    return [recoded(own) for own in members]
