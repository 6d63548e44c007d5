"""transform: a model in other units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from ..errors import RecycleGPError
from . import models, options
from .options import option
from .parsing import pairs
from .paths import check_model_output
from .screen import Screen


def transform(
    model: Annotated[str, typer.Argument(metavar="FILE", help="Of a module, of many modules, or of an ensemble.")],
    output: options.Output,
    input_scale: Annotated[
        list[str] | None,
        option(
            "Multiply an input; several, separated by commas or repeated. Without names: 0, 1, … in their order.",
            "COLUMN=FACTOR",
        ),
    ] = None,
    input_shift: Annotated[
        list[str] | None, option("Add to an input, after it is multiplied; likewise.", "COLUMN=NUMBER")
    ] = None,
    output_scale: Annotated[
        list[str] | None, option("Multiply the target; of several outputs all, or those named.", "[OUTPUT=]FACTOR")
    ] = None,
    output_shift: Annotated[
        list[str] | None, option("Add to the target, after it is multiplied; likewise.", "[OUTPUT=]NUMBER")
    ] = None,
    unit: Annotated[
        list[str] | None, option("What the target is measured in afterwards; likewise.", "[OUTPUT=]UNIT")
    ] = None,
    seed: options.NoSeed = 0,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Transform a model to other units: as if its rows had been measured in these. No rows are needed.

    An input x becomes FACTOR·x + NUMBER, the target likewise: a dose in g
    becomes one in mg with --input-scale dose=1000, °C become °F with
    --input-scale temp=1.8 --input-shift temp=32. Predictions at the changed
    inputs are the same, in the changed unit of the target. Several outputs
    change together, or by name: --output-scale heat=1.8 --output-shift heat=32.

    Example: recyclegp transform north.safetensors --input-scale dose=1000 -o north-mg.safetensors
    """
    screen = Screen(quiet, as_json)
    check_model_output(output, [model])
    scales, shifts = pairs(input_scale or [], "--input-scale"), pairs(input_shift or [], "--input-shift")
    scale, shift = _of_targets(output_scale, "--output-scale"), _of_targets(output_shift, "--output-shift")
    if not scales and not shifts and not unit and scale in (None, 1.0) and shift in (None, 0.0):
        raise RecycleGPError(
            "nothing would change; say what with --input-scale, --input-shift, --output-scale, --output-shift or --unit"
        )
    how: dict[str, Any] = {"output_scale": 1.0 if scale is None else scale}
    how["output_shift"] = 0.0 if shift is None else shift
    with screen.working("Transforming"):
        from ..models.load import opened
        from .targets import outputs_of

        found = opened(model).model
        try:
            first = models.first_of(found)
            how["unit"] = _unit(unit, outputs_of(first.likelihoods[0]))
            how["input_scale"], how["input_shift"] = (_by_column(c, first.columns) or None for c in (scales, shifts))
            changed = found.transform(**how)
        except RecycleGPError as refused:
            raise RecycleGPError(f"{model}: ", refused) from None
        changed.save(output)
    models.report(screen, output)


def _of_targets(given: list[str] | None, option: str) -> float | dict[str, float] | None:
    """One number, or some by the name of an output."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        try:
            return float(given[0])
        except ValueError:
            raise RecycleGPError(f"{option} {given[0]}: write a number, or OUTPUT=NUMBER") from None
    return pairs(given, option)


def _unit(given: list[str] | None, outputs: Sequence[str]) -> str | dict[str, str] | None:
    """One unit, or some by the name of an output."""
    if not given:
        return None
    named = [text.partition("=") for text in given]
    if all(name in outputs and between for name, between, _ in named):
        return {name: unit for name, _, unit in named}
    if len(given) > 1:
        raise RecycleGPError(
            f"--unit {given[1]}: give one, or OUTPUT=UNIT for outputs ({', '.join(outputs) or 'none'})"
        )
    return given[0]


def _by_column(given: Mapping[str, float], columns: Sequence[str] | None) -> dict[Any, float]:
    """Columns by their names; by their positions, from 0, where the model has no names."""
    return {int(c) if columns is None and c.isdecimal() else c: number for c, number in given.items()}
