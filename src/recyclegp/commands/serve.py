"""serve: modules on a local page, to look at and to try out."""

from __future__ import annotations

import sys
import threading
import webbrowser
from typing import Annotated, Any

import typer

from ..errors import RecycleGPError
from ..extras import install
from . import options
from .models import with_a_way_on
from .options import option, switch
from .parsing import OWNERS, TRUST, none_or
from .paths import expand
from .reading import ReadAs
from .screen import Screen


def serve(
    files: options.Modules,
    port: Annotated[int, option("On this machine; 0 is any that is free.", min=0, max=65535)] = 0,
    test: Annotated[str | None, option("Rows whose target is known, to score what is chosen.", "TABLE")] = None,
    target: Annotated[
        str | None, option("The column y of TABLE.", "COLUMN", "as modules say", "-t", "--target")
    ] = None,
    inputs: options.Inputs = None,
    likelihood: options.Likelihood = None,
    positive: options.Positive = None,
    dates: options.Dates = None,
    drop_missing: Annotated[bool, switch("--drop-missing", "Leave out incomplete rows of TABLE.")] = False,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    sheet: options.Sheet = None,
    owners: options.Owners = "auto",
    trust: options.Trust = "learn",
    learn: options.Learn = True,
    recycle: options.Recycle = False,
    file_names: options.FileNames = False,
    browser: Annotated[bool, switch("--open/--no-open", "Open the page in your browser.")] = True,
    threads: options.Threads = 1,
    seed: options.NoSeed = 0,
    verbose: options.Verbose = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Show modules on a local web page, until Ctrl-C.

    See who agrees with whom, switch owners on and off, change units, watch
    curves and scores, download the merged file. Only this machine can open the
    page, and only with the whole address that is printed. No network is needed.

    Example: recyclegp serve north.safetensors south.safetensors --test test.csv
    """
    screen = Screen(quiet, as_json, verbose)
    paths = expand(files)
    differing = none_or(owners, "--owners", OWNERS)
    believed = none_or(trust, "--trust", TRUST)
    with screen.working("Reading", threads, total=len(paths)) as advance:
        server = _server()
        from ..serve import state
        from ..serve.state import ServeState, Settings, Snapshot

        naming = state.Naming(recycle, file_names)
        held: list[state.Held] = []
        for place, path in enumerate(paths):
            try:
                held.extend(state.modules_in(path, str(path), naming))
            except state.UnreadableError as refused:
                raise with_a_way_on(refused, paths, place) from None
            advance(by=1)
        whole = state.with_modules((), held)
        from .served_tables import ServedTables

        how = ReadAs(decimal, encoding, sheet)
        tables = ServedTables(target, inputs, likelihood, positive, dates, drop_missing, how)
    rows = None if test is None else tables.test(test, [h.module for h in whole], screen)
    snapshot = Snapshot(whole, rows, Settings(differing, believed, learn), naming, reader=tables)
    serve_state = ServeState(snapshot)
    with server.page(serve_state, port, threads) as page:
        facts = {"address": page.address, "modules": len(whole)}
        screen.result(facts, lambda: typer.echo(page.address))
        sys.stdout.flush()  # whoever reads it from a pipe can open the page
        screen.note(f"{len(whole)} module{'s' * (len(whole) > 1)} on the page above; Ctrl-C ends it")
        if browser:  # which may not come back before it is closed
            threading.Thread(target=webbrowser.open, args=(page.address,), daemon=True).start()
        with screen.telling("Page"):
            page.run()


def _server() -> Any:
    """The part that needs the extra, which may not be there."""
    try:
        from ..serve import server
    except ModuleNotFoundError as absent:
        if absent.name not in ("starlette", "uvicorn", "anyio"):
            raise
        raise RecycleGPError(f"serve needs {absent.name}; {install('serve')}") from None
    return server
