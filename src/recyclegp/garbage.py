"""Where very many objects are made at once, Python looks for circles among them once and not again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def looked_for_afterwards() -> Iterator[None]:
    """Inside the block Python does not look for objects that refer to each other in circles.

    It would look at all that there are whenever some have been added: of fifty thousand modules that takes several
    times as long as making them, and none of them is in a circle.
    """
    if not gc.isenabled():  # somebody has said so already, and says when it ends
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
