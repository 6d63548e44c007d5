"""Never a silent NaN: whatever went wrong before, it stops where an object is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .. import arrays
from ..errors import Part, RecycleGPError
from ..kernels import Kernel, entries
from ..trees import LARGEST_LOG

if TYPE_CHECKING:
    from .model import Model

ASKED_POINTS = 512  # of a model that is asked while it is merged, saved or loaded, which takes a few MiB
ASKED_WORK = 2**24  # M²D: numbers that go into its kernel matrix
MODERATE = 1e6  # precisions, levels and places of ordinary tables are far smaller; by hand


def check_finite(what: str, *tensors: Tensor) -> None:
    if not _are_within(arrays.LARGEST, tensors):
        raise RecycleGPError(
            f"{what} would hold NaN or numbers beyond {arrays.LARGEST:g}: its data or kernel overflow; rescale "
            "X and y to ordinary sizes, use a larger noise, or smaller weights"
        )


def check_kernel(what: str, kernel: Kernel, *otherwise: Part) -> None:
    """Could a file hold its parameters? All but centres are logarithms. What else may be done is said in the error."""
    if _are_within(LARGEST_LOG, [kernel.theta]):  # no need to ask which are centres
        return
    logarithms = torch.tensor([p.name != "centre" for p in entries(kernel.structure)], device=kernel.theta.device)
    if bool((kernel.theta[..., logarithms].abs() > LARGEST_LOG).any()):
        raise RecycleGPError(
            f"{what} would have a kernel with parameters beyond {arrays.LARGEST:g}; rescale X and y to ordinary sizes",
            *otherwise,
        )


@torch.no_grad()
def check_it_answers(model: Model) -> None:
    """Numbers may be finite one by one and overflow together. What is computed for this is kept for the next question.

    A large model is asked when somebody asks it.
    """
    points = model._points
    if all(len(Z) <= ASKED_POINTS and Z.numel() * len(Z) <= ASKED_WORK for Z in points):
        for process in model._processes(None, of_y=False):
            process.moments(points[0][:1])


def are_moderate(tensors: Iterable[Tensor]) -> bool:
    """Are numbers so small that nothing overflows that is computed from several of them?"""
    return _are_within(MODERATE, tensors)


def _are_within(most: float, tensors: Iterable[Tensor]) -> bool:
    return all([float(t.abs().amax()) <= most for t in tensors if t.numel()])  # NaN is not
