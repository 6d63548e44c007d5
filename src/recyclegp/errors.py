"""What recyclegp raises and warns with.

A message is made of text and of parts that are values: an argument with what was found, a remedy. In Python they are
worded as arguments and calls, on the command line as options and commands; both wordings are here and nowhere else.

Everything imports this module, also what should start at once: so these are plain classes, because the standard
library's `dataclasses` takes longer to import than Python to start.
"""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

# options of the command line that are not called like the argument
OPTIONS = {"columns": "inputs", "decay": "forget", "digits": "round", "labels": "positive"}


class Worded(ABC):
    """Something that is said in one way in Python, and in another on the command line. Compared by what it holds."""

    @abstractmethod
    def worded(self, *, shell: bool) -> str: ...

    def __str__(self) -> str:
        return self.worded(shell=False)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), str(self)))

    def __repr__(self) -> str:
        held = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({held})"


Part = str | Worded | Exception  # of a message


def in_words(parts: Iterable[Part], *, shell: bool) -> str:
    """Parts of a message, one after the other; an error or a warning among them says again what it says."""
    return "".join(p.worded(shell=shell) if hasattr(p, "worded") else str(p) for p in parts)


class Message(Worded):
    """Text and values, one after the other."""

    def __init__(self, *parts: Part) -> None:
        self.parts = parts

    @staticmethod
    def joined(parts: Iterable[Part], between: str = ", ") -> Message:
        return Message(*[piece for part in parts for piece in (between, part)][1:])

    def worded(self, *, shell: bool) -> str:
        return in_words(self.parts, shell=shell)


class Either(Worded):
    """Words that differ otherwise: what can be done in one of the two places only, or goes by another name there."""

    def __init__(self, python: str, shell: str) -> None:
        self.python, self.shell = python, shell

    def worded(self, *, shell: bool) -> str:
        return self.shell if shell else self.python


class Argument(Worded):
    """An argument, which is an option on the command line, with what was found or what would help."""

    def __init__(self, name: str, value: Any = ...) -> None:  # …: whatever the caller chooses
        self.name, self.value = name, value

    def worded(self, *, shell: bool) -> str:
        if shell:
            return " ".join(_options(self))
        return f"{self.name}={'' if self.value is ... else _python(self.value)}"


class Name(Worded):
    """An argument by its name alone."""

    def __init__(self, argument: str) -> None:
        self.argument = argument

    def worded(self, *, shell: bool) -> str:
        return f"--{_option(self.argument)}" if shell else self.argument


class Remedy(Worded):
    """A call that would help: a method, which is a command with a file on the command line."""

    def __init__(
        self,
        call: str,
        arguments: tuple[Argument, ...] = (),
        command: str = "",  # where it is not called like the method
        writes: bool = True,  # does the command write another file?
    ) -> None:
        self.call, self.arguments, self.command, self.writes = call, arguments, command, writes

    def worded(self, *, shell: bool) -> str:
        return self.shell() if shell else self.python

    @property
    def python(self) -> str:
        return f"{self.call}({', '.join(f'{a.name}={_python(a.value)}' for a in self.arguments)})"

    def shell(self, file: str = "FILE") -> str:
        """With the file of the model it is about."""
        import shlex

        named = f"./{file}" if file.startswith("-") else file
        words = [self.command or self.call, shlex.quote(named)]
        words += [option for a in self.arguments for option in _options(a, chosen="…")]
        if self.writes:
            words += ["-o", shlex.quote(f"{named.removesuffix('.safetensors')}-new.safetensors")]
        return f"recyclegp {' '.join(words)}"

    def on(self, model: Any) -> Any:
        """What it gives, done."""
        return getattr(model, self.call)(**{a.name: a.value for a in self.arguments})


def _option(argument: str) -> str:
    return OPTIONS.get(argument, argument).replace("_", "-")


def _options(argument: Argument, chosen: str = "") -> list[str]:
    """As many as there are values: `--keep sites`, `--relearn`, `--no-learn`, `--input-scale a=2 --input-scale b=3`."""
    import shlex

    name, value = _option(argument.name), argument.value
    if isinstance(value, bool):
        return [f"--{name}" if value else f"--no-{name}"]
    values = [f"{key}={_plain(v)}" for key, v in value.items()] if isinstance(value, Mapping) else [_plain(value)]
    return [f"--{name} {chosen if value is ... else shlex.quote(text)}".rstrip() for text in values]


def _plain(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ",".join(map(_plain, value))
    return "none" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def _python(value: Any) -> str:
    if value is ...:
        return "…"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_python(v)}' for key, v in value.items())}}}"
    return f"{value:.10g}" if isinstance(value, float) else repr(value)


class RecycleGPError(ValueError):
    """Something a caller can put right; the message names the argument and the remedy."""

    def __init__(self, *parts: Part) -> None:
        super().__init__(*parts)

    def worded(self, *, shell: bool) -> str:
        """The message in the words of Python, or of the command line.

        Examples:
            >>> RecycleGPError("pass ", Argument("keep", "sites")).worded(shell=True)
            'pass --keep sites'
        """
        return in_words(self.args, shell=shell)

    def __str__(self) -> str:
        return self.worded(shell=False)


class NotPositiveDefiniteError(RecycleGPError):
    """A kernel matrix has no Cholesky factor, however much jitter is added: the parameters are impossible.

    While hyperparameters are learned this is a step too far, and not an end.
    """


class FewRowsError(RecycleGPError):
    """A module would be of one or two rows, and say little else than what these were."""


class RecycleGPWarning(UserWarning):
    """A result was returned, but the caller should know something about it."""

    def __init__(self, *parts: Part) -> None:
        super().__init__(*parts)

    def worded(self, *, shell: bool) -> str:
        """The message in the words of Python, or of the command line.

        Examples:
            >>> RecycleGPWarning("pass ", Argument("keep", "sites")).worded(shell=True)
            'pass --keep sites'
        """
        return in_words(self.args, shell=shell)

    def __str__(self) -> str:
        return self.worded(shell=False)


class ContradictionWarning(RecycleGPWarning):
    """Modules that contradict the others do not count."""


class UncheckedWarning(RecycleGPWarning):
    """Modules count whose mistakes nobody would notice, because the others know too little of what they say."""


class NothingToLearnWarning(RecycleGPWarning):
    """A target or an input is the same in all rows, so that they say nothing about it."""


class FewCalibrationRowsWarning(RecycleGPWarning):
    """Intervals are calibrated on so few rows that they may hold far less often than they say."""


class PublishingWarning(RecycleGPWarning):
    """Something about what a module publishes of its rows."""


class LittleKeptWarning(PublishingWarning):
    """A module's points are too few for what its rows say."""


class IdentifierWarning(RecycleGPWarning):
    """A column or a class may say who somebody is."""


class FewRowsWarning(PublishingWarning):
    """A module is of so few rows that it says much about each of them."""


class PrivacyWarning(PublishingWarning):
    """A module says much about each of its rows, and nobody has said whether these are people."""


LONGEST_MESSAGE = 500  # characters about a file that is refused


class OfStranger(Worded):
    """What is said about a file, which may hold words of whoever made it."""

    def __init__(self, part: Part) -> None:
        self.part = part

    def worded(self, *, shell: bool) -> str:
        return printable(in_words([self.part], shell=shell), LONGEST_MESSAGE)


def printable(text: str, most: int | None = None) -> str:
    """A text that may come from a stranger, for one line of a terminal: without control characters, and not endless."""
    shown = text if most is None or len(text) <= most else text[:most] + "…"
    return shown if shown.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)


def warn_user(*parts: Part, category: type[RecycleGPWarning] = RecycleGPWarning) -> None:
    """Warn whoever has called the library, however many of its functions are in between."""
    level, frame = 2, sys._getframe(1)
    inside = f"{__name__.partition('.')[0]}."
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(inside):
        level, frame = level + 1, frame.f_back
    warnings.warn(category(*parts), stacklevel=level)
