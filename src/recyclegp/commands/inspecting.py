"""What `inspect` does with files of modules; apart from its options, so that it can begin without typer and torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from ..models import module_look
from . import fact_words, module_facts, words
from .module_facts import Facts
from .plain_paths import expanded
from .screen import say, show


def inspect(files: Sequence[str], *, quiet: bool) -> Callable[[], int] | None:
    """Look at every file; what is returned says what was found. None where a file is of another kind, or refused."""
    found = list[Facts]()
    for path in expanded(files):
        facts = of_file(path)
        if facts is None:
            return None
        found.append(facts)

    def tell() -> int:
        if not quiet:
            tell_of(found, alone=len(files) == 1 and os.path.isfile(files[0]))
        return 0

    return tell


def tell_of(found: Sequence[Facts], *, alone: bool) -> None:
    """One file in words, several as a table."""
    if alone:
        say(fact_words.in_words(found[0]))
    elif found:
        show(fact_words.table(found))


def of_file(path: str) -> Facts | None:
    """All but its evidence, which takes torch."""
    looked = module_look.look(path)
    if looked is None:
        return None
    about = looked.record.about
    region = looked.region
    named = words.words(
        [about.name],
        [about.owner],
        about.columns,
        about.categories,
        about.targets,
        words.words_of_y(looked.record.likelihoods),
    )
    return {
        "file": path,
        **module_facts.of_module(looked.record, None),
        **module_facts.place(about.columns, about.categories, region),
        "words": named,
        **module_facts.of_any(path, looked.header, looked.content_id),
    }
