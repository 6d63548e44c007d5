"""transform: a model in other units."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    output_scale: Annotated[
        list[str] | None,
        typer.Option(metavar="[OUTPUT=]FACTOR", help="Multiply the target; of several outputs all, or those named."),
    ] = None,
    output_shift: Annotated[
        list[str] | None,
        typer.Option(metavar="[OUTPUT=]NUMBER", help="Add to the target, after it is multiplied; likewise."),
    ] = None,
    unit: Annotated[
        list[str] | None,
        typer.Option(metavar="[OUTPUT=]UNIT", help="What the target is measured in afterwards; likewise."),
    ] = None,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
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
        from ..models.joint.links import Outputs
        from ..models.load import opened

        found = opened(model).model
        link = getattr(found, "link", None)
        try:
            how["unit"] = _unit(unit, link.names if isinstance(link, Outputs) else ())
            changed = found.transform(input_scale=scales or None, input_shift=shifts or None, **how)
        except RecycleGPError as refused:
            raise RecycleGPError(f"{model}: {_with_options(str(refused))}") from None
        changed.save(output)
    facts.report(screen, output)


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


def _with_options(text: str) -> str:
    """Messages of the library name its arguments, which are options here."""
    return re.sub(r"\b(in|out)put_(scale|shift)\b", lambda found: f"--{found[1]}put-{found[2]}", text)
