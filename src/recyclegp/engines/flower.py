"""Rounds between owners as apps of Flower: what travels is plans, modules and answers, as the bytes of their files.

A coordinator runs `server_app` at a SuperLink, every owner `client_app` at a SuperNode beside its rows. Flower carries
messages and knows who is there; what they say is read like the file of a stranger, with all its checks. In a secure
sum what travels is its messages, and nobody but an owner sees what it says.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Collection, Iterator, Mapping
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import RecycleGPError, warn_user
from ..extras import install
from ..models.answer import Answer
from ..models.load import load
from ..models.module import Module
from ..models.naming import check_name
from ..models.plan import Plan
from ..models.privacy import Privacy
from ..models.rounds import Store, check_options, check_rounds, exchanges, first_plan, from_rows
from ..models.secure_answers import SecureSum, join_sum
from ..models.sum_messages import read

try:
    from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
except ImportError:
    raise RecycleGPError(f"engines.flower needs flwr; {install('flower')}") from None

QUESTION, REPLY, FILE = "plan", "answer", "file"  # records of a message, and what each holds
SUM, NAME = "sum", "name"  # of a secure sum
RUN, INVITATION, HELD = "run", "invitation", "held"  # of it, in a node's memory
ENSEMBLE = "ensemble.safetensors"
POLL = 0.5  # seconds between two looks at who is there


def client_app(
    rows: Callable[[Context], tuple[Any, Any]], *, score: bool = True, secure: bool = False, **options: Any
) -> ClientApp:
    """An owner's app: it answers plans from rows that stay where they are.

    The owner's name is `name` of the SuperNode's --node-config.

    Args:
        rows: is given Flower's context, which knows the node's configuration, and returns X and y.
        score: hold a tenth of the rows back, and say what models predict of them.
        secure: take part in secure sums, one in each run, and answer nothing else; the one option is then privacy, a
            `Privacy` of rows that all owners and the coordinator have agreed on. Secrets are in the SuperNode's memory.
        options: of `fit` and `Plan.contribute`: privacy, allow_small, kernel, …

    Returns:
        The app, for the `clientapp` of a pyproject.toml.

    Raises:
        RecycleGPError: An argument cannot be what it is.

    Examples:
        >>> app = rgp.engines.flower.client_app(lambda context: (X, y), privacy="things")
    """

    if secure:
        _check_secure(options)
    else:
        check_options(options)

    def answer(message: Message, context: Context) -> Message:
        name = str(context.node_config.get("name", f"node-{context.node_id}"))
        if secure:
            return Message(_in_sum(message, context, name, rows, **options), reply_to=message)
        X, y = rows(context)
        plan = None if QUESTION not in message.content else _plan_in(message)
        return Message(_record(REPLY, from_rows(name, X, y, plan, score, options)), reply_to=message)

    app = ClientApp()
    app.query()(answer)
    return app


def _plan_in(message: Message) -> Plan:
    found = from_bytes(message.content[QUESTION][FILE])
    if not isinstance(found, Plan):
        raise RecycleGPError(f"the coordinator has sent a {type(found).__name__} where a plan should be")
    return found


def _check_secure(options: Mapping[str, Any]) -> None:
    if set(options) - {"privacy"}:
        raise RecycleGPError(f"secure: {min(set(options) - {'privacy'})!r} is none of its options; it takes privacy")
    privacy = options.get("privacy")
    if privacy is not None and (not isinstance(privacy, Privacy) or privacy.unit != "row"):
        raise RecycleGPError(f"privacy is {privacy!r}; in a secure sum over Flower it is None, or a Privacy of rows")


def _in_sum(
    message: Message,
    context: Context,
    name: str,
    rows: Callable[[Context], tuple[Any, Any]],
    privacy: Privacy | None = None,
) -> RecordDict:
    """What an owner says in a secure sum: its name first, then its own messages.

    Every message is answered by another process, and the SuperNode holds `context.state` in its memory between them.
    A run has one sum: what is held stays, without secrets, when it is done. Runs of a series share what is held.
    """
    asked = message.content.get(SUM)
    if asked is None:
        raise RecycleGPError("this owner takes part in secure sums only, and answers nothing else")
    if FILE not in asked:
        return RecordDict({SUM: ConfigRecord({NAME: name})})
    said, plan, (X, y) = asked[FILE], _plan_in(message), rows(context)
    run, before = str(context.run_id), context.state.get(SUM)
    if before is not None and before[RUN] != run:
        before = None
    if before is not None and HELD not in before:
        raise RecycleGPError("the secure sum of this run is done; nothing more is answered in it")
    invitation = said if before is None else before[INVITATION]
    owner = join_sum(plan, invitation, X, y, name=name, privacy=privacy)
    if before is None:
        reply = owner.message
    else:
        owner.go_on(before[HELD])
        reply = owner.reply(said)
    kept = {RUN: run, INVITATION: invitation}
    context.state[SUM] = ConfigRecord(kept if owner.done else kept | {HELD: owner.held()})
    return RecordDict({SUM: ConfigRecord({FILE: reply})})


def server_app(
    folder: str | PathLike[str],
    *,
    rounds: int = 10,
    points: int = 256,
    plan: Plan | None = None,
    owners: int = 2,
    timeout: float = 600.0,
    keep: str = "sites",
    secure: bool = False,
    privacy: Privacy | None = None,
    threshold: int | None = None,
    honest: int | None = None,
) -> ServerApp:
    """The coordinator's app: asks every node that is there, combines, and asks again.

    Nodes that do not answer in time count with what they said before, nodes that come later join, and what is no
    answer is named in a warning and left out: no round fails because of one of them.

    Args:
        folder: plans and answers are written there as they come, and the ensemble at the end, as ensemble.safetensors.
            What is there already is not asked for again: an app that was stopped goes on.
        rounds: how often the common bound is computed, at most; each takes one exchange or two.
        points: of the plan that the one-shot merge of the owners' modules proposes.
        plan: where to begin, instead of with such a merge.
        owners: how many nodes must be there before the first is asked.
        timeout: seconds to wait for them, and then for the answers to each plan.
        keep: as for `Plan.combine`.
        secure: one exchange, of a plan that is given, in which nobody sees anything but the sum of all answers; the
            owners' apps say so, too. Whoever does not answer in time is left behind.
        privacy: of a secure sum, as for `SecureSum`.
        threshold: likewise.
        honest: likewise.

    Returns:
        The app, for the `serverapp` of a pyproject.toml.

    Raises:
        RecycleGPError: An argument cannot be what it is; when it runs, too few nodes are there, or nobody answers.

    Examples:
        >>> app = rgp.engines.flower.server_app("city", rounds=5, points=64, owners=3)
    """
    check_rounds(rounds)
    if secure and plan is None:
        raise RecycleGPError("secure: a plan is missing; a secure sum takes a plan, privacy, threshold and honest")
    sum_options = {"privacy": privacy, "threshold": threshold, "honest": honest}
    if not secure and any(value is not None for value in sum_options.values()):
        raise RecycleGPError("privacy, threshold and honest are of a secure sum; give secure=True, too")

    def main(grid: Grid, context: Context) -> None:
        nodes = Nodes(grid, timeout)
        nodes.wait_for(owners)
        store = Store(Path(folder))
        if secure and plan is not None:
            store.put_plan(plan)
            here: list[Any] = [a.path for a in store.answers(plan) if a.plan == plan.digest]
            e, after = plan.combine(here or store.put_answers(plan, [nodes.summed(plan, **sum_options)]), keep=keep)
            store.put_plan(after)
            e.save(Path(folder) / ENSEMBLE)
            return
        begin = store.plan() or plan or first_plan(nodes.modules(), points)
        found = exchanges(begin, nodes.answers, rounds, store, keep=keep, progress=False)
        found.ensemble.save(Path(folder) / ENSEMBLE)

    app = ServerApp()
    app.main()(main)
    return app


class Nodes:
    """Who is at the SuperLink, and under which names they have answered."""

    def __init__(self, grid: Grid, timeout: float) -> None:
        self.grid = grid
        self.timeout = timeout
        self.names: dict[str, int] = {}  # name → the node that came with it first

    def wait_for(self, count: int) -> None:
        end = clock.monotonic() + self.timeout
        while len(found := list(self.grid.get_node_ids())) < count:
            if clock.monotonic() > end:
                raise RecycleGPError(
                    f"{len(found)} of {count} nodes are there after {self.timeout:g} seconds; start more SuperNodes, "
                    "or ask for fewer owners"
                )
            clock.sleep(POLL)

    def modules(self) -> list[Module]:
        return [found for found in self._said(None) if isinstance(found, Module)]

    def answers(self, plan: Plan, here: Collection[str]) -> list[Answer]:
        """To this plan, of all nodes but those whose answer is here."""
        there = {self.names[name] for name in here if name in self.names}
        found = []
        for said in self._said(plan, there):
            if not isinstance(said, Answer) or said.plan != plan.digest:
                warn_user(f"{said.name}: what it says is no answer to this plan, and is left out")
            elif said.name not in here:
                found.append(said)
        return found

    def _said(self, plan: Plan | None, there: Collection[int] = ()) -> Iterator[Module | Answer]:
        """What nodes reply, each under a name that is its own."""
        question = RecordDict() if plan is None else _record(QUESTION, plan)
        for node, content in self._replies({n: question for n in self.grid.get_node_ids() if n not in there}):
            try:
                said = from_bytes(content[REPLY][FILE])
            except Exception as rubbish:  # whatever a stranger has sent is no reason to stop
                warn_user(f"{self._who(node)}: what it says cannot be read, and is left out: {rubbish}")
                continue
            if not isinstance(said, (Module, Answer)):
                warn_user(f"{self._who(node)}: it has sent a {type(said).__name__}, which is left out")
            elif self.names.setdefault(said.name, node) != node:
                warn_user(f"{self._who(node)}: {said.name!r} is the name of another node; what it says is left out")
            else:
                yield said

    def summed(self, plan: Plan, **options: Any) -> Answer:
        """One answer, the secure sum of those of all nodes who stay."""
        self._ask_names()
        gathering = SecureSum(plan, sorted(self.names), **options)
        asked = _record(QUESTION, plan)[QUESTION]
        while gathering.stage != "done":
            questions = {
                self.names[name]: RecordDict({QUESTION: asked, SUM: ConfigRecord({FILE: gathering.message(name)})})
                for name in gathering.waiting_for
            }
            for node, content in self._replies(questions):
                try:
                    said = content[SUM][FILE]
                    if self.names.get(read(said).sender) != node:
                        raise RecycleGPError("it speaks under the name of another")
                    gathering.receive(said)
                except Exception as rubbish:
                    warn_user(f"{self._who(node)}: what it says is left out: {rubbish}")
            gathering.advance()
        return gathering.answer()

    def _ask_names(self) -> None:
        question = RecordDict({SUM: ConfigRecord({})})
        for node, content in self._replies({node: question for node in self.grid.get_node_ids()}):
            try:
                name = content[SUM][NAME]
                check_name(name)
            except Exception as rubbish:
                warn_user(f"{self._who(node)}: it does not say its name, and is left out: {rubbish}")
                continue
            if self.names.setdefault(name, node) != node:
                warn_user(f"{self._who(node)}: {name!r} is the name of another node; it is left out")

    def _replies(self, questions: Mapping[int, RecordDict]) -> Iterator[tuple[int, RecordDict]]:
        """What nodes reply to what each is asked; whoever does not is named in a warning."""
        messages = [
            Message(question, dst_node_id=node, message_type=MessageType.QUERY, ttl=self.timeout)
            for node, question in questions.items()
        ]
        replies = list(self.grid.send_and_receive(messages, timeout=self.timeout))
        sent_to = {m.metadata.message_id: m.metadata.dst_node_id for m in messages}
        for reply in replies:
            # where a node is gone, the SuperLink replies in its place
            node = sent_to.get(reply.metadata.reply_to_message_id, reply.metadata.src_node_id)
            if reply.has_error():
                warn_user(f"{self._who(node)} does not answer: {reply.error.reason}")
            else:
                yield node, reply.content

    def _who(self, node: int) -> str:
        return next((f"{name} (node {node})" for name, known in self.names.items() if known == node), f"node {node}")


def _record(name: str, value: Plan | Module | Answer) -> RecordDict:
    return RecordDict({name: ConfigRecord({FILE: to_bytes(value)})})


def to_bytes(value: Plan | Module | Answer) -> bytes:
    """What its file would hold."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sent.safetensors"
        value.save(path)
        return path.read_bytes()


def from_bytes(content: Any) -> Any:
    """A plan, module or answer from somebody else, checked as its file would be."""
    if not isinstance(content, bytes):
        raise TypeError(f"a file must be bytes, not {type(content).__name__}")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "received.safetensors"
        path.write_bytes(content)
        try:
            return load(path)
        except RecycleGPError as refused:  # whose path is nobody's business
            raise RecycleGPError(str(refused).removeprefix(f"{path}: ")) from None
