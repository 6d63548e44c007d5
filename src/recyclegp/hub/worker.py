"""What takes time: merging, planning, combining. Run in a process of its own, and told only where files are.

Each job reads files, writes files under names that nobody looks at yet, and returns facts; the hub then makes them the
current ones. A job that dies, or is run twice, changes nothing.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .folder import SUFFIX, Facts, Folder
from .rounds import Run, plan_file

if TYPE_CHECKING:
    from ..models.answer import Answer
    from ..models.ensemble import Ensemble
    from ..models.module import Module
    from ..models.plan import Plan

T = TypeVar("T")
ANSWERS = "answer-*.safetensors"
ONE_SHOT = "one-shot.safetensors"


def start(threads: int, memory: int) -> None:
    """Once in the process: the import that takes seconds, and who comes first where cores are few."""
    for each in (
        signal.SIGINT,
        signal.SIGTERM,
    ):  # they are for the hub, which ends this process
        signal.signal(each, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    import torch

    from ..serve.memory import limit_memory

    torch.set_num_threads(threads)
    os.nice(5)
    limit_memory(memory)


def _end_with_parent() -> None:
    """A hub that is killed cannot end this process, which would wait for jobs for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def merge(root: str, names: Mapping[str, str], relearn: bool, too_much: Mapping[str, str]) -> Facts:
    """All modules in the dictionary, screened; `names` are those that the hub knows, with their content ids.

    The facts say which were read: others may have come, and some of these may have gone, since the hub looked.
    """
    from . import merges

    folder = Folder(Path(root))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        e, flagged, modules = merges.of(folder.modules).merged(names, relearn, too_much)
    facts = _saved(folder, e)
    facts["flagged"] = flagged | facts["flagged"]
    facts |= {"modules": modules, "kind": "one shot", "round": None, "said": _words(said)}
    return {**facts, "learned_without": merges.learned_without(e), "people": merges.of_people(e)}


def plan(root: str, model: str, run: str, points: int) -> str:
    """The first plan of a run, from a merge; gives its digest."""
    from ..errors import RecycleGPError
    from ..models.load import load
    from . import merges

    folder = Folder(Path(root))
    merged = load(folder.model(model))
    if people := merges.of_people(merged):
        raise RecycleGPError(
            f"rows of {', '.join(people)} are about people, whose exact answers are not asked for; give 'coordinate "
            "rounds' a plan with a guarantee, or for a secure sum"
        )
    proposed = merged.plan(points)
    proposed.save(plan_file(folder.rounds / run, 0))
    merged.save(folder.rounds / run / ONE_SHOT)
    return str(proposed.digest)


def combine(root: str, run: str) -> Facts:
    """One exchange of a run: the model that it makes, and the next plan where there is one."""
    from ..models.load import load
    from ..models.plan import Plan
    from ..models.plan_ensemble import Parts

    folder = Folder(Path(root))
    own = Run(folder.rounds / run)
    asked = load(own.plan_file)
    if (own.folder / ONE_SHOT).exists():  # what rounds are compared with
        shot = load(own.folder / ONE_SHOT)
        asked = Plan._of(asked._facts, one_shot=Parts(shot.likelihoods[0], shot.frame, shot.groups, shot.how))
    newest: dict[tuple[str, bool], tuple[Path, Answer]] = {}
    old: list[Path] = []
    for path in sorted(own.folder.glob(ANSWERS)):  # of one owner later rounds come later
        answer = load(path)
        key = answer.name, bool(answer.facts.sums)
        if not answer.facts.sums and answer.plan != asked.digest:
            old.append(path)
            continue
        if key in newest:
            old.append(newest[key][0])
        newest[key] = path, answer
    answers = [_summed(own)] if own.secure else [answer for _, answer in newest.values()]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        e, following = asked.combine(answers)
    wanted = following.evaluations < own.facts["rounds"] or following.asks == "slopes"
    more = wanted and not following.done and not own.secure
    if more:
        following.save(plan_file(own.folder, own.round + 1))
    for path in old:  # what they said counts no more
        path.unlink(missing_ok=True)
    facts = {"kind": "rounds", "round": own.round + 1, "said": _words(said), "history": _history(following)}
    return {**_saved(folder, e), **facts, "next": following.digest if more else None}


def _summed(run: Run) -> Answer:
    """The one answer of all owners together who have stayed."""
    from .sums import opened

    return opened(run).answer()


def checked_module(path: Path, most_points: int) -> Module:
    """A module that a stranger has sent: read strictly, and asked something, which takes the cube of its points."""
    from ..models.load import load
    from ..models.module import Module
    from ..storage import container
    from .protocol import RefusedError

    with container.opened(path) as file:
        points = max((p.shape[0] for p in file.places if _are_points(p.name) and len(p.shape) == 2), default=0)
    if points > most_points:
        raise RefusedError(f"{points:,} points, and a module here may have {most_points:,}; publish it at fewer", 422)
    found = load(path)
    if not isinstance(found, Module):
        raise RefusedError("this is not a module; send what `recyclegp fit` writes", 422)
    return found


def _are_points(name: str) -> bool:
    return name.split("/")[-1].split(".")[-1] == "Z"


def checked_answer(path: Path) -> Any:
    from ..models.answer import Answer
    from ..models.load import load
    from .protocol import RefusedError

    found = load(path)
    if not isinstance(found, Answer):
        raise RefusedError("this is not an answer to a plan; send what `recyclegp contribute` writes", 422)
    return found


def checked_plan(path: Path) -> Plan:
    from ..models.load import load
    from ..models.plan import Plan
    from .protocol import RefusedError

    found = load(path)
    if not isinstance(found, Plan):
        raise RefusedError("this is not a plan; send what `recyclegp plan` writes, or Plan.save", 422)
    return found


def _saved(folder: Folder, e: Ensemble) -> Facts:
    """Under its content id, with its report beside it."""
    from ..storage.signing import content_id

    temporary = folder.incoming / f"{os.getpid()}{SUFFIX}"
    e.save(temporary)
    digest = content_id(temporary)
    os.replace(temporary, folder.model(digest))
    report = [dict(row) for row in e.report()]
    skipped = {each.name: str(each.reason) for each in e.skipped}
    return {
        "model": digest,
        "counted": list(dict.fromkeys(e.names)),
        "flagged": skipped,
        "rows": int(sum(row["rows"] for row in report if row["function"] == e.functions[0])),
        "report": [_plain(row) for row in report],
        "summary": str(e),
    }


def _plain(row: Mapping[str, Any]) -> Facts:
    """As JSON has it."""
    return {key: json.loads(json.dumps(_finite(value), default=str)) for key, value in row.items()}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


def _history(plan: Any) -> list[Facts]:
    keep = ("asked", "bound", "score", "owners", "bytes", "missing", "left_out")
    return [{key: _finite(entry[key]) for key in keep} for entry in plan.history]


def _words(said: list[warnings.WarningMessage]) -> list[str]:
    from ..errors import RecycleGPWarning

    return [str(w.message) for w in said if issubclass(w.category, RecycleGPWarning)][:20]


def run(job: Callable[..., T], *arguments: Any) -> T:
    """A job that fails says so in words: what it raises may not fit through a pipe."""
    from ..errors import RecycleGPError

    try:
        return job(*arguments)
    except RecycleGPError as refused:
        raise RecycleGPError(str(refused)) from None
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, MemoryError) or "allocate memory" in str(error):
            raise MemoryError("more memory than this hub allows") from None
        raise
