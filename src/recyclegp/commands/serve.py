"""serve: modules on a local page, to look at and to try out."""

from __future__ import annotations

import sys
import threading
import webbrowser
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import RecycleGPError, printable
from .models import with_a_way_on
from .options import (
    OWNERS,
    AsJson,
    Dates,
    FileNames,
    Inputs,
    Likelihood,
    Modules,
    NoSeed,
    Owners,
    Positive,
    Quiet,
    Recycle,
    Threads,
    in_days,
    none_or,
)
from .paths import expand
from .screen import Screen

if TYPE_CHECKING:
    from ..models.module import Module
    from ..serve.state import Test


def serve(
    files: Modules,
    port: Annotated[int, typer.Option(min=0, max=65535, help="On this machine; 0 is any that is free.")] = 0,
    test: Annotated[
        str | None, typer.Option(metavar="TABLE", help="Rows whose target is known, to score what is chosen.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("-t", "--target", metavar="COLUMN", help="The column y of TABLE.", show_default="as modules say"),
    ] = None,
    inputs: Inputs = None,
    likelihood: Likelihood = None,
    positive: Positive = None,
    dates: Dates = None,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave out incomplete rows of TABLE.")] = False,
    owners: Owners = "auto",
    trust: Annotated[
        str, typer.Option(metavar="learn|report|none", help="Modules that contradict the others, as for merge.")
    ] = "learn",
    learn: Annotated[
        bool, typer.Option("--learn/--no-learn", help="Learn the kernel of each choice, or keep the modules' median.")
    ] = True,
    recycle: Recycle = False,
    file_names: FileNames = False,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in your browser.")] = True,
    threads: Threads = 1,
    seed: NoSeed = 0,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Show modules on a local web page, until Ctrl-C.

    See who agrees with whom, switch owners on and off, change units, watch
    curves and scores, download the merged file. Only this machine can open the
    page, and only with the whole address that is printed. No network is needed.

    Example: recyclegp serve north.safetensors south.safetensors --test test.csv
    """
    screen = Screen(quiet, as_json)
    paths = expand(files)
    differing = none_or(owners, "--owners", OWNERS)
    believed = none_or(trust, "--trust", ("learn", "report"))
    with screen.working("Reading", threads, total=len(paths)) as advance:
        server = _server()
        from ..serve import reading
        from ..serve.state import ServeState, Settings, Snapshot

        naming = reading.Naming(recycle, file_names)
        held: list[reading.Held] = []
        for place, path in enumerate(paths):
            try:
                held.extend(reading.modules_in(path, str(path), naming))
            except reading.UnreadableError as refused:
                raise with_a_way_on(refused, paths, place) from None
            advance(by=1)
        whole = reading.with_modules((), held)
    rows = None
    if test is not None:
        how = {"positive": positive, "drop_missing": drop_missing, "dates": in_days(dates)}
        rows = _test(screen, test, whole[0].module, target, inputs, likelihood, **how)
    serve_state = ServeState(Snapshot(whole, rows, Settings(differing, believed, learn), naming))
    with server.page(serve_state, port, threads) as page:
        facts = {"address": page.address, "modules": len(whole)}
        screen.result(facts, lambda: typer.echo(page.address))
        sys.stdout.flush()  # whoever reads it from a pipe can open the page
        screen.note(f"{len(whole)} module{'s' * (len(whole) > 1)} on the page above; Ctrl-C ends it")
        if browser:  # which may not come back before it is closed
            threading.Thread(target=webbrowser.open, args=(page.address,), daemon=True).start()
        page.run()


def _server() -> Any:
    """The part that needs the extra, which may not be there."""
    try:
        from ..serve import server
    except ModuleNotFoundError as absent:
        if absent.name not in ("starlette", "uvicorn", "anyio"):
            raise
        raise RecycleGPError(f"serve needs {absent.name}; pip install 'recyclegp[serve]'") from None
    return server


def _test(
    screen: Screen,
    path: str,
    first: Module,
    target: str | None,
    inputs: str | None,
    likelihood: str | None,
    **how: Any,
) -> Test:
    """The rows of a table, read as `Rows` is told how."""
    from .. import likelihoods
    from ..serve.state import Test
    from . import models
    from .rows import Rows
    from .tables import open_table

    table = open_table(path)
    column = target or first.target.name
    if column is None:
        raise RecycleGPError(f"--test {path}: the modules do not say what y is called; name its column with --target")
    chosen = likelihoods.named(likelihood) if likelihood is not None else likelihoods.choose(first.likelihoods, None)
    columns = models.inputs_of(first, table, inputs, column)
    held = models.categories_of(first, columns)
    rows = Rows(table, columns, column, chosen.classifies, categories=held, **how)
    found = rows.whole(screen)
    models.check_labels(first, rows)
    return Test(found.X, found.y, likelihood, printable(table.path.name))
