"""Text in lines: folded where a terminal is narrow, in columns that are as wide as what is in them."""

from __future__ import annotations

from collections.abc import Sequence

LEAST_WIDTH = 30  # characters of a fact on a line, however narrow the terminal
LEAST_COLUMN = 9  # characters of a column that is folded
BETWEEN = "  "  # columns


class Table:
    """Columns of text below their names, without lines between them."""

    def __init__(self, columns: Sequence[str], folded: int) -> None:
        self.folded = folded  # so many of the first columns may be folded
        self.rows: list[tuple[str, ...]] = [tuple(columns)]

    def add_row(self, *cells: str) -> None:
        assert len(cells) == len(self.rows[0])
        self.rows.append(cells)

    def lines(self, width: int | None) -> list[str]:
        """The first is that of the names. Nothing is cut: where folding does not suffice, lines are too long."""
        widths = self._widths(width)
        found = []
        for row in self.rows:
            cells = [folded(cell, room) for cell, room in zip(row, widths, strict=True)]
            for i in range(max(map(len, cells))):
                parts = [cell[i] if i < len(cell) else "" for cell in cells]
                padded = [part + " " * (room - width_of(part)) for part, room in zip(parts, widths, strict=True)]
                found.append(BETWEEN.join(padded).rstrip())
        return found

    def _widths(self, width: int | None) -> list[int]:
        widths = [max(map(width_of, column)) for column in zip(*self.rows, strict=True)]
        if width is None:
            return widths
        excess = sum(widths) + len(BETWEEN) * (len(widths) - 1) - width
        while excess > 0:  # the widest gives most
            i = max(range(self.folded), key=widths.__getitem__, default=0)
            if not self.folded or widths[i] <= LEAST_COLUMN:
                break
            widths[i], excess = widths[i] - 1, excess - 1
        return widths


def wrapped(text: str, width: int | None, indent: int) -> list[str]:
    """A fact in lines, behind its label; words stay whole."""
    if width is None:
        return [text]
    import textwrap

    room = max(LEAST_WIDTH, width - indent)
    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]


def folded(text: str, room: int) -> list[str]:
    """In lines no longer than that: between words, and within a word that is longer."""
    if width_of(text) <= room:
        return [text]
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if width_of(joined) <= room:
            lines[-1] = joined
            continue
        if lines[-1]:
            lines.append("")
        for letter in word:
            if width_of(lines[-1] + letter) > room:
                lines.append("")
            lines[-1] += letter
    return lines


def width_of(text: str) -> int:
    """On a terminal, where Chinese letters are two columns wide, and accents that stand alone none."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in text)
