"""What `inspect` does with small files of modules and ensembles; apart from its options, so that it can begin without
typer and torch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from ..models import module_look, plain_evidence
from . import fact_words, module_facts, words
from .module_facts import Facts
from .plain_paths import expanded
from .screen import Screen, say, show


def inspect(files: Sequence[str], screen: Screen) -> Callable[[], int] | None:
    """Look at every file; what is returned says what was found. None where a file is of another kind, or refused."""
    found = list[Facts]()
    for path in expanded(files):
        facts = of_file(path, for_machines=screen.as_json)
        if facts is None:
            return None
        found.append(facts)
    alone = len(files) == 1 and os.path.isfile(files[0])

    def tell() -> int:
        screen.result(found[0] if alone else found, lambda: tell_of(found, alone=alone))
        return 0

    return tell


def tell_of(found: Sequence[Facts], *, alone: bool) -> None:
    """One file in words, several as a table."""
    if alone:
        say(fact_words.in_words(found[0]))
    elif found:
        show(fact_words.table(found))


def of_file(path: str, *, for_machines: bool) -> Facts | None:
    """With its evidence only for machines: people are not told of it. None where this takes torch."""
    looked = module_look.look(path)
    if looked is None:
        return None if for_machines else _of_ensemble(path)
    evidence = plain_evidence.evidence(looked.record) if for_machines else None
    if for_machines and evidence is None:
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
        **module_facts.of_module(looked.record, evidence),
        **module_facts.place(about.columns, about.categories, region),
        "words": named,
        **module_facts.of_any(path, looked.header, looked.content_id),
    }


def _of_ensemble(path: str) -> Facts | None:
    from ..models import ensemble_look
    from . import ensemble_facts

    looked = ensemble_look.look(path)
    if looked is None:
        return None
    found = ensemble_facts.of_ensemble(looked.ensemble)
    return {"file": path, **found, **module_facts.of_any(path, looked.header, looked.content_id)}
