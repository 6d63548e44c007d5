"""BoTorch's input and outcome transforms as changes of units; those that are not affine are refused by name."""

from __future__ import annotations

from typing import Any

import torch
from botorch.models.transforms.input import AffineInputTransform, ChainedInputTransform, InputStandardize, Normalize
from botorch.models.transforms.outcome import ChainedOutcomeTransform, Standardize

from ..errors import RecycleGPError
from ..kernels.units import InputUnits


def of_inputs(transform: Any, dimension: int) -> InputUnits:
    """x' = a∘x + b."""
    a, b = InputUnits.same(dimension)
    if transform is None:
        return InputUnits(a, b)
    if type(transform) is ChainedInputTransform:
        for step in transform.values():
            c, d = of_inputs(step, dimension)
            a, b = c * a, c * b + d
        return InputUnits(a, b)
    if type(transform) not in (AffineInputTransform, Normalize, InputStandardize):
        raise RecycleGPError(
            f"input transform {type(transform).__name__} cannot be represented in a module, whose inputs are the "
            "user's up to an affine map; apply it to X yourself before the model is made"
        )
    if not (transform.transform_on_train and transform.transform_on_eval):
        raise RecycleGPError(
            f"input transform {type(transform).__name__} is switched off in training or evaluation; a module has one "
            "set of units"
        )
    coefficient, offset = (t.detach().double().cpu() for t in (transform.coefficient, transform.offset))
    if max(coefficient.numel(), offset.numel()) > dimension:
        raise RecycleGPError(
            f"input transform {type(transform).__name__} has batch shape {tuple(transform.batch_shape)}; convert one "
            "model for each of the batch"
        )
    indices = getattr(transform, "indices", None)
    columns = torch.arange(dimension) if indices is None else indices.cpu()
    coefficient, offset = (t.reshape(-1).expand(len(columns)) for t in (coefficient, offset))
    if transform.reverse:  # x' = coefficient·x + offset
        a[columns], b[columns] = coefficient, offset
    else:  # x' = (x − offset)/coefficient
        a[columns], b[columns] = 1 / coefficient, -offset / coefficient
    return InputUnits(a, b)


def of_outputs(transform: Any) -> tuple[float, float]:
    """(s, m) with y = s·y' + m."""
    if transform is None:
        return 1.0, 0.0
    if type(transform) is ChainedOutcomeTransform:
        scale, shift = 1.0, 0.0
        for step in reversed(list(transform.values())):  # the last one applied is the first undone
            s, m = of_outputs(step)
            scale, shift = s * scale, s * shift + m
        return scale, shift
    if type(transform) is not Standardize or transform._outputs is not None:
        raise RecycleGPError(
            f"outcome transform {type(transform).__name__} cannot be represented in a module, whose y is the user's "
            "up to an affine map; apply it to y yourself before the model is made"
        )
    if not bool(transform._is_trained):
        raise RecycleGPError("outcome transform Standardize has seen no y yet; pass train_Y where the model is made")
    if transform.means.numel() != 1:
        raise RecycleGPError(
            f"outcome transform Standardize has shape {tuple(transform.means.shape)}; convert one model for each output"
        )
    return float(transform.stdvs), float(transform.means)
