"""Many exchanges in one line: ask every owner, combine, and ask again."""

from __future__ import annotations

import hashlib
import time as clock
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..errors import RecycleGPError, warn_user
from ..local.held_back import held_back_if_any, take
from ..local.options import Publishing
from ..storage import container
from ..storage.making import ANSWER
from .answer import Answer
from .contributing import SCORED, check_not_people
from .ensemble import Ensemble
from .fit import fit
from .load import load
from .merge import merge
from .module import Module
from .plan import Plan
from .plan_ensemble import Parts
from .privacy import Privacy as DifferentialPrivacy
from .progress import bar
from .secure_answers import secure_round

Owner: TypeAlias = Any  # a callable, a folder, or (X, y)
PLANS, ANSWERS = "plan-{:04d}.safetensors", "answer-{:04d}-{}.safetensors"
ONE_SHOT = "one-shot.safetensors"
POLL = 0.2  # seconds between two looks into a folder


class Rounds(NamedTuple):
    """What many exchanges have come to."""

    ensemble: Ensemble
    plan: Plan  # the next one, with the history of all before it


def rounds(
    owners: Mapping[str, Owner] | Sequence[Owner],
    rounds: int = 10,
    points: int = 256,
    *,
    plan: Plan | None = None,
    score: bool = True,
    keep: str = "sites",
    folder: str | PathLike[str] | None = None,
    timeout: float = 60.0,
    progress: bool | None = None,
    secure: bool = False,
    **options: Any,
) -> Rounds:
    """A common sparse model of all owners' rows, which stay where they are: exchange after exchange.

    Args:
        owners: name → owner, or a list of them. An owner is a callable that is given a plan and returns its answer (and
            is given None first, and returns its module, where no plan is given), a folder in which the plan is put as
            plan.safetensors and its answer.safetensors awaited, or a pair (X, y), whose rows are here.
        rounds: how often the common bound is computed, at most; each takes one exchange or two.
        points: of the plan that the one-shot merge of the owners' modules proposes.
        plan: where to begin, instead of with such a merge.
        score: of pairs (X, y), hold a tenth of the rows back, and stop by what is predicted of them.
        keep: as for `Plan.combine`.
        folder: plans and answers are written there as they come; what is there already is not asked for again, so that
            whoever was interrupted goes on.
        timeout: seconds to wait for an answer in an owner's folder, before it counts as missing.
        progress: a bar on standard error; by default only where somebody may be looking.
        secure: one exchange, of a plan that is given, in which nobody sees anything but the sum of all answers
            (`secure_round`): owners are then pairs (X, y), or callables of bytes that return bytes, and options are
            privacy (a `Privacy`), threshold and honest.
        options: of `fit` for pairs (X, y): privacy, allow_small, kernel, … Answers about people need a guarantee: a
            plan that is given, score=False, and a `Privacy`; or secure=True.

    Returns:
        The ensemble and the next plan, whose `history` has bound, score and bytes of every exchange. It also unpacks
        as `e, plan = rounds(…)`.

    Raises:
        RecycleGPError: Nobody answers, or an argument cannot be what it is.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> x = np.linspace(0, 6, 90)
        >>> pairs = {f"ward-{i}": (x[i::3], np.sin(x[i::3])) for i in range(3)}
        >>> e, plan = rgp.rounds(pairs, rounds=2, points=8, privacy="things")
        >>> e.names
        ['ward-0', 'ward-1', 'ward-2']
    """
    check_rounds(rounds)
    several = owners if isinstance(owners, Mapping) else {f"owner-{i + 1}": own for i, own in enumerate(owners)}
    if secure:
        return _secure(several, plan, options)
    check_options(options)
    asked = {name: _asking(name, own, score, timeout, options) for name, own in several.items()}

    def everybody(now: Plan, here: Collection[str]) -> Iterator[Answer]:
        return (a for name, ask in asked.items() if name not in here and (a := _asked(name, ask, now)) is not None)

    store = Store(None if folder is None else Path(folder))
    begin = store.plan() or plan or first_plan(_modules(asked), points)
    return exchanges(begin, everybody, rounds, store, keep=keep, progress=progress)


def check_options(options: Mapping[str, Any]) -> None:
    """What would fail in every exchange, said before the first one."""
    chosen = options.get("privacy")
    check_not_people(None if isinstance(chosen, DifferentialPrivacy) else Publishing(privacy=chosen).privacy)


def check_rounds(rounds: Any) -> None:
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise RecycleGPError(f"rounds is {rounds!r}; pass a positive number of rounds")


def exchanges(
    begin: Plan,
    ask: Callable[[Plan, Collection[str]], Iterable[Answer]],
    rounds: int,
    store: Store,
    *,
    keep: str = "sites",
    progress: bool | None = None,
) -> Rounds:
    """The loop: ask, combine, and ask again. `ask` is given a plan and the names whose answers to it are here."""
    now = begin
    store.put_plan(now)
    make: Callable[[], Ensemble] | None = None
    with bar("rounds", rounds, progress) as advance:
        before = now.evaluations
        while make is None or (not now.done and (now.evaluations < rounds or now.asks == "slopes")):
            known = store.answers(now)
            new = ask(now, {a.name for a in known if a.plan == now.digest})
            make, now = now._combined([*(a.path for a in known), *store.put_answers(now, new)], keep, {})
            store.put_plan(now)
            advance(now.evaluations - before)
            before = now.evaluations
    return Rounds(make(), now)


def _secure(owners: Mapping[str, Owner], plan: Plan | None, options: Mapping[str, Any]) -> Rounds:
    unknown = set(options) - {"privacy", "threshold", "honest"}
    if plan is None or unknown:
        wrong = "a plan is missing" if plan is None else f"{min(unknown)!r} is none of its options"
        raise RecycleGPError(f"secure: {wrong}; a secure sum takes a plan, privacy, threshold and honest")
    answer = secure_round(plan, owners, **options)
    return Rounds(*plan.combine([answer]))


# --- owners ---------------------------------------------------------------------------------------

Ask: TypeAlias = Callable[[Plan | None], Any]


def _asking(name: str, owner: Owner, score: bool, timeout: float, options: Mapping[str, Any]) -> Ask:
    if callable(owner):
        return owner
    if isinstance(owner, (str, PathLike)):
        return lambda plan: _by_folder(Path(owner), plan, timeout)
    if isinstance(owner, tuple) and len(owner) == 2:
        return lambda plan: from_rows(name, *owner, plan, score, options)
    raise TypeError(f"owner {name!r} must be a callable, a folder, or a pair (X, y), not {type(owner).__name__}")


def from_rows(name: str, X: Any, y: Any, plan: Plan | None, score: bool, options: Mapping[str, Any]) -> Module | Answer:
    """What an owner of rows says: its answer to a plan, or its module where there is none yet."""
    own = {key: options[key] for key in ("privacy", "allow_small", "rows_per_point", "missing") if key in options}
    if plan is not None:
        return plan.contribute(X, y, name=name, score=score, **own)
    if score:
        kept = ~held_back_if_any(X, y, SCORED)
        X, y = take(X, kept), take(y, kept)
    return fit(X, y, name=name, **options)


def _by_folder(folder: Path, plan: Plan | None, timeout: float) -> Any:
    if plan is None:
        return load(folder / "module.safetensors")
    plan.save(folder / "plan.safetensors")
    end = clock.monotonic() + timeout
    path = folder / "answer.safetensors"
    while True:
        if path.exists():
            found = load(path)
            if isinstance(found, Answer) and found.plan == plan.digest:
                return found
        if clock.monotonic() > end:
            raise RecycleGPError(f"{path}: no answer to this plan within {timeout:g} seconds")
        clock.sleep(POLL)


def _asked(name: str, ask: Ask, plan: Plan) -> Answer | None:
    """The answer, if there is one: a round does not fail because somebody does."""
    try:
        found = ask(plan.public)
    except Exception as failed:  # whatever goes wrong there is no reason to stop here
        warn_user(f"{name} does not answer: {failed}")
        return None
    if found is None or (isinstance(found, Answer) and found.plan == plan.digest):
        return found
    what = f"to another plan ({found.plan[:8]})" if isinstance(found, Answer) else f"a {type(found).__name__}"
    warn_user(f"{name}: the answer is {what}, and is left out")
    return None


def _modules(asked: Mapping[str, Ask]) -> list[Module]:
    """Those that owners have; whoever has none joins later."""
    modules = list[Module]()
    for name, ask in asked.items():
        try:
            found = ask(None)
        except Exception as failed:
            warn_user(f"{name} has no module: {failed}")
            continue
        modules += [found] if isinstance(found, Module) else []
    return modules


def first_plan(modules: Sequence[Module], points: int) -> Plan:
    """What the one-shot merge proposes."""
    if not modules:
        raise RecycleGPError("nobody has a module to make a plan from; give a plan")
    return merge(modules).plan(points)


def _parts(e: Ensemble) -> Parts:
    return Parts(e.likelihoods[0], e.frame, e.groups, e.how)


# --- files ----------------------------------------------------------------------------------------


class Store:
    """Plans and answers in a folder, or nowhere."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def plan(self) -> Plan | None:
        """The last that was written."""
        if self.folder is None:
            return None
        found = sorted(self.folder.glob(PLANS.replace("{:04d}", "*")))
        last = load(found[-1]) if found else None
        if not isinstance(last, Plan):
            return None
        shot = self.folder / ONE_SHOT
        return Plan._of(last._facts, one_shot=_parts(load(shot)) if shot.exists() else None)

    def put_plan(self, plan: Plan) -> None:
        if self.folder is not None:
            if plan._one_shot is not None and not (self.folder / ONE_SHOT).exists():
                Ensemble._of_groups(*plan._one_shot).save(self.folder / ONE_SHOT)
            plan.save(self.folder / PLANS.format(plan.round))

    def put_answers(self, plan: Plan, answers: Iterable[Answer]) -> list[Answer | Path]:
        """Each is written when it comes, and will be read from there; without a folder they stay in memory."""
        found = list[Answer | Path]()
        for answer in answers:
            if self.folder is None:
                found.append(answer)
                continue
            path = self.folder / ANSWERS.format(plan.round, _file_name(answer.name))
            answer.save(path)
            found.append(path)
        return found

    def answers(self, plan: Plan) -> list[Filed]:
        """Of this plan, and where the coordinator has forgotten them, those before it: the newest of each owner."""
        found: dict[tuple[str, bool], Filed] = {}
        for path in [] if self.folder is None else sorted(self.folder.glob(ANSWERS.replace("{:04d}-{}", "*"))):
            try:
                said = container.header(path)
            except RecycleGPError as broken:
                warn_user(f"an answer cannot be read, and will be asked for again: {broken}")
                continue
            one = Filed(path, str(said.get("name")), str(said.get("plan")))
            has_sums = bool(said.get("sums"))
            if said.get("kind") == ANSWER and (one.plan == plan.digest or (has_sums and not plan._last)):
                found[one.name, has_sums] = one
        return list(found.values())


class Filed(NamedTuple):
    """An answer in the folder."""

    path: Path
    name: str
    plan: str


def _file_name(name: str) -> str:
    """The name itself, where a file may be called so; otherwise something like it, that no other name has."""
    safe = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
