"""Tables and facts in lines: as wide as what is in them, folded where a terminal is narrow, and nothing is cut."""

import random

import pytest

from recyclegp.commands.lines import LEAST_COLUMN, Table, folded, width_of, wrapped


def test_columns_are_as_wide_as_what_is_in_them():
    table = Table(("file", "rows"), 1)
    table.add_row("north", "40")
    table.add_row("a long name", "1,000")
    assert table.lines(None) == ["file         rows", "north        40", "a long name  1,000"]


@pytest.mark.parametrize("width", [20, 30, 45, 200])
def test_nothing_is_cut(width):
    rng, letters = random.Random(width), "abc de東ü "
    words = ["".join(rng.choices(letters, k=rng.randrange(1, 40))) for _ in range(18)]
    rows = [(name, what, "12,345") for name, what in zip(words[::2], words[1::2], strict=True)]
    table = Table(("name", "what it holds", "rows"), 2)
    for row in rows:
        table.add_row(*row)
    lines = table.lines(width)
    least = 2 * LEAST_COLUMN + len("12,345") + 4
    assert max(map(width_of, lines)) <= max(width, least)
    if width < least:  # a table that cannot be folded to this width is folded as far as it goes
        assert max(map(width_of, lines)) <= least
    kept = sorted("".join(lines).replace(" ", ""))
    assert kept == sorted("".join(cell for row in table.rows for cell in row).replace(" ", ""))


def test_columns_that_are_not_folded_stay_whole():
    table = Table(("a", "digest"), 1)
    table.add_row("one two three", "0123456789abcdef")
    assert table.lines(10) == ["a          digest", "one two    0123456789abcdef", "three"]


def test_folding_is_between_words_and_within_long_ones():
    assert folded("one two three", 7) == ["one two", "three"]
    assert folded("abcdefgh ij", 3) == ["abc", "def", "gh", "ij"]
    assert folded("東京都 大阪", 4) == ["東京", "都", "大阪"]
    assert folded("", 4) == [""]


def test_width_on_a_terminal():
    assert [width_of(text) for text in ("", "abc", "süd", "東京", "e\u0301")] == [0, 3, 3, 4, 1]


def test_facts_are_wrapped_behind_their_labels():
    text = " ".join(["word"] * 30)
    assert wrapped(text, None, 10) == [text]
    lines = wrapped(text, 60, 10)
    assert max(map(len, lines)) <= 50
    assert " ".join(lines) == text
    assert len(wrapped("x" * 200, 40, 10)) == 1  # words stay whole
    assert wrapped("", 80, 10) == [""]
