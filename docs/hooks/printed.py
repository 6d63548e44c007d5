"""What a block prints beside what its page shows: the same words, and numbers within a tolerance.

Words must agree exactly, numbers to two percent or one unit of the last digit that the page shows, so that another
machine's rounding passes and another default does not. Digests, times and counts of evaluations are not compared. A
line of the page that is only … stands for any lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

WITHIN = 0.02  # of a number, unless a page says otherwise of a block
NOISE = 1e-6  # numbers below are rounding errors: only that they are small is compared
NUMBER = re.compile(r"(?<![\w.,])-?\d{1,3}(?:,\d{3})+(?![,.]?\d)|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
UNSTABLE = [  # what another machine, another day or another version writes differently, and what is compared instead
    (re.compile(r"sha256:[0-9a-f]{64}|\b(?=[0-9a-f]*[a-f])(?=[0-9a-f]*\d)[0-9a-f]{8}\b|\b[0-9a-f]{64}\b"), "<digest>"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)?"), "<moment>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ms|s|seconds)\b"), "<time>"),
    (re.compile(r"http://127\.0\.0\.1:\d+(?:/[\w-]+/)?"), "<address>"),
    (re.compile(r"after \d+ evaluations"), "after <some> evaluations"),
    (re.compile(r"by recyclegp \d+\.\d+\.\d+\S*"), "by recyclegp <version>"),
]
ELLIPSIS = "…"


class Line(NamedTuple):
    words: str  # without numbers, and without the spaces that make room for them
    numbers: tuple[str, ...]


def line(text: str) -> Line:
    for pattern, name in UNSTABLE:
        text = pattern.sub(name, text)
    return Line(re.sub(r"\s+", " ", NUMBER.sub("#", text)).strip(), tuple(NUMBER.findall(text)))


def unit(number: str) -> float:
    """One of the last digit shown: 0.01 of 3.14, 1e-9 of 1e-09."""
    digits, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


def agree(shown: str, printed: str, within: float = WITHIN) -> bool:
    a, b = (float(number.replace(",", "")) for number in (shown, printed))
    if max(abs(a), abs(b)) < NOISE:
        return True
    return abs(a - b) <= max(within * max(abs(a), abs(b)), 1.0001 * unit(shown.replace(",", "")))


def same(shown: str, printed: str, within: float = WITHIN) -> bool:
    """One line each."""
    a, b = line(shown), line(printed)
    if a.words != b.words or len(a.numbers) != len(b.numbers):
        return False
    return all(agree(x, y, within) for x, y in zip(a.numbers, b.numbers, strict=True))


def parts(shown: str) -> Iterator[list[str]]:
    """Lines that follow each other, between lines that are only an ellipsis."""
    found: list[str] = []
    for each in shown.strip("\n").splitlines():
        if each.strip() == ELLIPSIS:
            yield found
            found = []
        else:
            found.append(each)
    yield found


def aligned(shown: str, printed: str, within: float = WITHIN) -> str | None:
    """What was printed where the page shows something, with its ellipses; None where they differ."""
    wanted, lines = list(parts(shown)), printed.strip("\n").splitlines()
    taken, start = [], 0
    for i, part in enumerate(wanted):
        last = i == len(wanted) - 1
        first_place = len(lines) - len(part) if last and i else start  # the end of what was printed, or where we are
        places = range(first_place, first_place + 1) if last or not i else range(start, len(lines) - len(part) + 1)
        at = next((p for p in places if p >= start and _fits(part, lines[p : p + len(part)], within)), None)
        if at is None or (last and at + len(part) != len(lines)):
            return None
        taken.append("\n".join(map(settled, part, lines[at:])))
        start = at + len(part)
    return f"\n{ELLIPSIS}\n".join(taken).strip("\n")


def settled(shown: str, printed: str) -> str:
    """The line as it was printed, unless nothing but times has changed."""
    a, b = (_without_times(text) for text in (shown, printed))
    return shown if a == b else printed.rstrip()


def _without_times(text: str) -> str:
    for pattern, name in UNSTABLE:
        if name in ("<moment>", "<time>"):
            text = pattern.sub(name, text)
    return text


def _fits(part: list[str], lines: list[str], within: float) -> bool:
    return len(part) == len(lines) and all(same(a, b, within) for a, b in zip(part, lines, strict=True))
