"""merge: modules become one ensemble."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from ..errors import RecycleGPError
from . import models, options
from .options import option, switch
from .parsing import OWNERS, TRUST, none_or, pairs, time_of
from .paths import check_model_output, expand
from .screen import Screen
from .screening import proposals_of
from .signatures import verified


def merge(
    files: options.Modules,
    output: options.Output,
    inducing: Annotated[
        str, option("Points of the ensemble; with all of the modules' it is exact.", "N|all|auto")
    ] = "auto",
    kernel: Annotated[str | None, option("The ensemble's kernel.", "NAME", "the one with most rows behind it")] = None,
    learn: options.Learn = True,
    weights: Annotated[
        list[str] | None, option("What a module counts; may be repeated.", "NAME=W,…", "1", "--weights")
    ] = None,
    keep: Annotated[
        str, option("With names only the file is small, but none can be removed.", "sites|names")
    ] = "sites",
    owners: options.Owners = "auto",
    noise: Annotated[
        str,
        option(
            "The modules' noises: learned together, kept, or a variance that is known.",
            "pool|keep|VARIANCE|OUTPUT=VARIANCE,…",
        ),
    ] = "pool",
    half_life: Annotated[
        float | None,
        option("At this age a module counts half: in days, or in the unit of fit --time.", "AGE", "all count alike"),
    ] = None,
    now: Annotated[str | None, option("From when ages are counted.", "NUMBER|DATE", "the newest module's")] = None,
    trust: options.Trust = "learn",
    outputs: Annotated[
        str,
        option(
            "Of several outputs: is each merged by itself, or may they tell of each other? auto asks the modules.",
            "auto|independent|correlated|RANK",
        ),
    ] = "auto",
    recycle: options.Recycle = False,
    file_names: options.FileNames = False,
    trusted: options.OnlyTrusted = None,
    signed_by: options.SignedBy = None,
    skip_bad: Annotated[
        bool, switch("--skip-bad", "Go on without files that cannot be read or merged, and say which.")
    ] = False,
    threads: options.Threads = 1,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Merge modules into one ensemble, without their data.

    Thousands of files stream through. Patterns may be quoted, where the shell
    cannot pass so many names.

    Example: recyclegp merge north.safetensors south.safetensors -o city.safetensors
    """
    screen = Screen(quiet, as_json, verbose)
    paths = expand(files)
    check_model_output(output, paths)
    points = _points(inducing)
    differing = none_or(owners, "--owners", OWNERS)
    as_of = None if now is None else time_of(now, "now")
    believed = none_or(trust, "--trust", TRUST)
    weighed = pairs(weights or [], "--weights")
    known = _noise(noise)
    signed = verified(paths, trusted, signed_by)
    with screen.working("Merging", threads, total=len(paths)) as advance:
        from ..models import merge as library

        holding: dict[str, Path] = {}
        how: dict[str, Any] = {"recycle": recycle, "file_names": file_names, "verified": signed, "files": holding}
        each = models.read_each(paths, advance, **how, skip=True) if skip_bad else models.modules(paths, advance, **how)
        merged = library.merge(
            each,
            inducing=points,
            kernel=kernel,
            learn=learn,
            weights=weighed or None,
            keep=keep,
            owners=differing,
            noise=known,
            trust=believed,
            half_life=half_life,
            now=as_of,
            outputs=int(outputs) if outputs.isdecimal() else outputs,
            on_failure="skip" if skip_bad else "name",
        )
        if signed is not None:
            merged = merged._signed(signed.signers)
            signed.remember()
        merged.save(output)
    models.report(screen, output, proposals=[p._asdict() for p in proposals_of(merged, holding)])


def _noise(text: str) -> str | float | dict[str, float]:
    if text in ("pool", "keep"):
        return text
    try:
        return float(text)
    except ValueError:
        pass
    if "=" not in text:
        raise RecycleGPError(f"--noise {text}: use pool, keep, a variance, or one for each output as heat=0.1,salt=0.4")
    return pairs([text], "--noise")


def _points(inducing: str) -> int | str:
    if inducing in ("auto", "all"):
        return inducing
    if not inducing.isdecimal() or int(inducing) < 1:
        raise RecycleGPError(f"--inducing {inducing}: give a positive number of points, all, or auto")
    return int(inducing)
