"""transform: a model in other units."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from ..errors import RecycleGPError
from . import facts
from .options import AsJson, NoSeed, Output, Quiet, pairs
from .paths import check_model_output
from .screen import Screen


def transform(
    model: Annotated[str, typer.Argument(metavar="FILE", help="Of a module, of many modules, or of an ensemble.")],
    output: Output,
    input_scale: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=FACTOR", help="Multiply an input; several, separated by commas or repeated."),
    ] = None,
    input_shift: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=NUMBER", help="Add to an input, after it is multiplied; likewise."),
    ] = None,
    output_scale: Annotated[float, typer.Option(metavar="FACTOR", help="Multiply the target.")] = 1.0,
    output_shift: Annotated[
        float, typer.Option(metavar="NUMBER", help="Add to the target, after it is multiplied.")
    ] = 0.0,
    unit: Annotated[str | None, typer.Option(help="What the target is measured in afterwards.")] = None,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Transform a model to other units: as if its rows had been measured in these. No rows are needed.

    An input x becomes FACTOR·x + NUMBER, the target likewise: a dose in g
    becomes one in mg with --input-scale dose=1000, °C become °F with
    --input-scale temp=1.8 --input-shift temp=32. Predictions at the changed
    inputs are the same, in the changed unit of the target.

    Example: recyclegp transform north.safetensors --input-scale dose=1000 -o north-mg.safetensors
    """
    screen = Screen(quiet, as_json)
    check_model_output(output, [model])
    scales, shifts = pairs(input_scale or [], "--input-scale"), pairs(input_shift or [], "--input-shift")
    if not scales and not shifts and unit is None and (output_scale, output_shift) == (1.0, 0.0):
        raise RecycleGPError(
            "nothing would change; say what with --input-scale, --input-shift, --output-scale, --output-shift or --unit"
        )
    how: dict[str, Any] = {"output_scale": output_scale, "output_shift": output_shift, "unit": unit}
    with screen.working("Transforming"):
        from ..models.ensemble import Ensemble
        from ..models.load import opened
        from ..models.module import Module
        from ..models.modules import Modules

        found = opened(model).model
        if not isinstance(found, (Module, Modules, Ensemble)):
            raise RecycleGPError(f"{model}: it holds several functions at once; change its units in Python: transform")
        try:
            changed = found.transform(input_scale=scales or None, input_shift=shifts or None, **how)
        except RecycleGPError as refused:
            raise RecycleGPError(f"{model}: {_with_options(str(refused))}") from None
        changed.save(output)
    facts.report(screen, output)


def _with_options(text: str) -> str:
    """Messages of the library name its arguments, which are options here."""
    return re.sub(r"\b(in|out)put_(scale|shift)\b", lambda found: f"--{found[1]}put-{found[2]}", text)
