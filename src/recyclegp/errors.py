"""What recyclegp raises and warns with."""

import sys
import warnings


class RecycleGPError(ValueError):
    """Something a caller can put right; the message names the argument and the remedy."""


class NotPositiveDefiniteError(RecycleGPError):
    """A kernel matrix has no Cholesky factor, however much jitter is added: the parameters are impossible.

    While hyperparameters are learned this is a step too far, and not an end.
    """


class RecycleGPWarning(UserWarning):
    """A result was returned, but the caller should know something about it."""


class ContradictionWarning(RecycleGPWarning):
    """Modules that contradict the others do not count."""


class LittleKeptWarning(RecycleGPWarning):
    """A module's points are too few for what its rows say."""


class FewRowsWarning(RecycleGPWarning):
    """A module is of so few rows that it says much about each of them."""


LONGEST_MESSAGE = 500  # characters about a file that is refused


def printable(text: str, most: int | None = None) -> str:
    """A text that may come from a stranger, for one line of a terminal: without control characters, and not endless."""
    shown = text if most is None or len(text) <= most else text[:most] + "…"
    return shown if shown.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)


def warn_user(text: str, category: type[RecycleGPWarning] = RecycleGPWarning) -> None:
    """Warn whoever has called the library, however many of its functions are in between."""
    level, frame = 2, sys._getframe(1)
    inside = f"{__name__.partition('.')[0]}."
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(inside):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
