"""JSON from strangers: not deep, nothing said twice, no numbers that are none."""

from __future__ import annotations

import json
import re
from itertools import accumulate
from typing import Any

from .limits import DEEPEST

# One pass, however long or broken a text is: nothing is remembered for another try (++, *+), and a quotation mark
# that is never closed takes all the rest with it, so that no other search begins behind it.
TEXT = re.compile(r'"(?:[^"\\]++|\\.?)*+"?', re.DOTALL)
NO_BRACKETS = re.compile(r"[^\[\]{}]++")


def parsed(text: str) -> Any:
    """What the text says.

    Args:
        text: JSON, of any origin.

    Returns:
        The value.

    Raises:
        ValueError: It is not JSON, is nested deeper than any file of ours, or names a field twice (of which two
            readers could see different ones).
    """
    if _depth(text) > DEEPEST:
        raise ValueError("the header is nested too deeply")
    return json.loads(text, parse_constant=_refuse, object_pairs_hook=_object)


def _depth(text: str) -> int:
    """How many brackets are open at once, at most; those within texts are no brackets."""
    brackets = NO_BRACKETS.sub("", TEXT.sub("", text))
    return max(accumulate(1 if b in "[{" else -1 for b in brackets), default=0)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a field is given twice")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(f"the header holds {constant}")
