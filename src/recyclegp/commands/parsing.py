"""Values that are written in a way of their own on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import RecycleGPError
from ..times import When, when

OWNERS = ("auto", "offset", "smooth")  # how owners may differ
TRUST = ("learn", "report")  # what becomes of modules that contradict the others


def pairs(given: list[str], option: str) -> dict[str, float]:
    """NAME=NUMBER …, also several separated by commas; a name may itself hold a comma or an equals sign."""
    found = {}
    for item in given:
        several = [_pair(part.strip()) for part in item.split(",")]
        for pair in several if None not in several else [_pair(item)]:
            if pair is None:
                raise RecycleGPError(f"{option} {item}: write NAME=NUMBER, as ward-7=0.5, and commas between several")
            name, number = pair
            if name in found:
                raise RecycleGPError(f"{option} {item}: {name!r} has a number already; name each once")
            found[name] = number
    return found


def _pair(text: str) -> tuple[str, float] | None:
    name, _, number = text.rpartition("=")
    try:
        return (name, float(number)) if name else None
    except ValueError:
        return None


def names_of(given: Sequence[str], known: Sequence[str]) -> list[str]:
    """Names, also several separated by commas; one that is known as it stands may itself hold a comma."""
    return [
        name
        for item in given
        for name in ([item] if item in known else [part.strip() for part in item.split(",") if part.strip()])
    ]


def time_of(text: str, name: str) -> When:
    """A number, or a date."""
    try:
        return when(float(text), name)
    except ValueError:
        return when(text, name)


def in_days(dates: str | None) -> bool:
    """Are dates to be read as days?"""
    if dates not in (None, "days"):
        raise RecycleGPError(f"--dates {dates}: dates can be read as days; use --dates days")
    return dates is not None


def none_or(word: str, option: str, words: Sequence[str]) -> str | None:
    """One of these words, or none for None."""
    if word not in (*words, "none"):
        raise RecycleGPError(f"{option} {word}: use {', '.join(words)} or none")
    return None if word == "none" else word
