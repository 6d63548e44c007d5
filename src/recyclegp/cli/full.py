"""All of the command line, by typer. Heavy imports (torch takes seconds) happen inside commands, never here."""

from __future__ import annotations

import errno
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .. import __version__
from ..commands import (
    calibrate,
    demo,
    experiment,
    fit,
    gain,
    hub,
    inspect,
    join,
    merge,
    modules,
    operate,
    plans,
    plot,
    predict,
    score,
    screening,
    secure_sums,
    serve,
    signatures,
    transform,
)
from ..commands.plain_help import PlainCommand, in_panels, without_types
from ..errors import RecycleGPError, RecycleGPWarning, in_words, printable

UsageError: Any = typer.BadParameter.__base__  # typer has no public name for it


class Commands(TyperGroup):
    """Commands that report every error of a user in one line, with exit code 2."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept --debug also behind the command, where users add it when something has failed."""
        end = args.index("--") if "--" in args else len(args)
        if "--debug" in args[:end]:
            args = ["--debug", *(a for a in args[:end] if a != "--debug"), *args[end:]]
        return super().parse_args(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        return without_types(super().get_params(ctx))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        in_panels([self.commands[name] for name in self.list_commands(ctx)], formatter)

    def invoke(self, ctx: Any) -> Any:
        try:
            with _plain_warnings(ctx.params.get("debug")):
                return super().invoke(ctx)
        except UsageError as error:
            about = error.ctx.command_path if error.ctx is not None else "recyclegp"
            typer.echo(f"recyclegp: {_one_line(error.format_message())} ({about} --help says more)", err=True)
            raise typer.Exit(2) from None
        except (RecycleGPError, OSError) as error:
            if getattr(error, "errno", None) == errno.EPIPE:  # the reader of a pipe has closed it, which is no error
                raise
            if ctx.params.get("debug"):
                traceback.print_exc()
            typer.echo(f"recyclegp: {_one_line(_message(error))}", err=True)
            raise typer.Exit(2) from None


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return in_words([error], shell=True) or type(error).__name__


def _one_line(text: str) -> str:
    """Also what a file or its name has put into a message cannot move the cursor."""
    return printable(" ".join(text.split()))


@contextmanager
def _plain_warnings(debug: bool | None) -> Iterator[None]:
    """Show each of the library's own warnings once, as one line; nobody can act upon those of other libraries."""
    said: set[str] = set()

    def show(message: Warning | str, *args: Any, **kwargs: Any) -> None:
        line = _one_line(in_words([message], shell=True))
        if line not in said:
            typer.echo(f"recyclegp: warning: {line}", err=True)
        said.add(line)

    with warnings.catch_warnings():
        if not debug:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", RecycleGPWarning)
            warnings.showwarning = show
        yield


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"recyclegp {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the whole traceback of an error; also behind a command.")
    ] = False,
) -> None:
    """Merge fitted Gaussian processes into one, without revisiting any data.

    Each owner: recyclegp fit north.csv --target y -o north.safetensors

    Anybody: recyclegp merge north.safetensors south.safetensors -o city.safetensors
    """


PANELS = {
    "From data to predictions": (fit.fit, merge.merge, predict.predict, plot.plot),
    "Ask the owners once more": (
        *(plans.plan, plans.contribute, plans.combine),
        *(secure_sums.gather_sum, secure_sums.join_sum),
    ),
    "Meet at a hub": (hub.hub, join.join, join.leave, hub.coordinate),
    "How good it is": (score.score, gain.gain, calibrate.calibrate),
    "What is in a file": (inspect.inspect, screening.screen, inspect.compare, transform.transform, serve.serve),
    "Where modules live": (modules.modules,),
    "Who vouches for it": (signatures.keygen, signatures.sign, signatures.verify, signatures.keys),
    "Change an ensemble": (operate.update, operate.add, operate.remove, operate.reweight),
    "See it work": (demo.demo, experiment.experiment),
}


def command_name(function: Callable[..., None]) -> str:
    return function.__name__.replace("_", "-")


for panel, functions in PANELS.items():
    for function in functions:
        app.command(command_name(function), cls=PlainCommand, rich_help_panel=panel)(function)
