"""What is the same in all rows: a model learns nothing of it, and a wrong column often looks so."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ..errors import NothingToLearnWarning, warn_user
from ..likelihoods import Outputs
from ..local.functions import FunctionRequests


def what_is_constant(own: FunctionRequests) -> list[str]:
    """Targets and inputs that are the same in all rows of a data set, in words."""
    first = own.requests[0]
    if first.rows < 2:  # of which a warning says something else
        return []
    said = [_target(own, c) for c in _targets(own) if _is_constant(own.requests[c].y)]
    ends = zip(first.X[0].tolist(), first.X[-1].tolist(), strict=True)
    for column in [j for j, (begin, end) in enumerate(ends) if begin == end]:
        # one level of a category may be the owner's own: its ward, its device
        if column not in first.categories.columns and _is_constant(first.X[:, column]):
            name = column + 1 if first.columns is None else repr(first.columns[column])
            said.append(f"input {name} is {float(first.X[0, column]):.6g}")
    return said


def _targets(own: FunctionRequests) -> range:
    """Functions that see what somebody has measured: not a class against the others."""
    C = len(own.requests)
    if C == 1 or isinstance(own.likelihood, Outputs):
        return range(C)
    return range(0 if own.likelihood.classifies else 1)


def _target(own: FunctionRequests, c: int) -> str:
    request, target, likelihood = own.requests[c], own.targets[c], own.likelihood.parts[c]
    name = target.name or (own.likelihood.functions[c] if isinstance(own.likelihood, Outputs) else "y")
    value = likelihood.shown(request.y[0])
    names = likelihood.classes if likelihood.names_classes and likelihood.classes else target.labels
    label = None if names is None else names[int(value)]
    return f"{name!r} is {value:.6g}" if label is None else f"{name!r} is {label!r}"


def _is_constant(values: Tensor) -> bool:
    return values[0].item() == values[-1].item() and bool((values == values[0]).all())


def warn_about_constants(found: Sequence[tuple[str, list[str]]], modules: int) -> None:
    """Once, of names and what is constant in them, those that have something."""
    some = [(name, said) for name, said in found if said]
    if not some:
        return
    name, said = some[0]
    more = len(some) - 1
    others = f"; likewise in {more} other{'s' * (more > 1)} of {modules} modules" if more else ""
    warn_user(
        f"{name}: {' and '.join(said)} in all rows{others}: nothing is learned of how it varies; is it the right "
        "column?",
        category=NothingToLearnWarning,
    )
