"""Rounds between owners as apps of Flower: what travels is plans, modules and answers, as the bytes of their files.

A coordinator runs `server_app` at a SuperLink, every owner `client_app` at a SuperNode beside its rows. Flower carries
messages and knows who is there; what they say is read like the file of a stranger, with all its checks.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Collection, Iterator
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import RecycleGPError, warn_user
from ..models.answer import Answer
from ..models.load import load
from ..models.module import Module
from ..models.plan import Plan
from ..models.rounds import Store, check_rounds, exchanges, first_plan, from_rows

try:
    from flwr.app import ConfigRecord, Context, Message, MessageType, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
except ImportError:
    raise RecycleGPError("engines.flower needs flwr; pip install 'recyclegp[flower]'") from None

QUESTION, REPLY, FILE = "plan", "answer", "file"  # records of a message, and what each holds
ENSEMBLE = "ensemble.safetensors"
POLL = 0.5  # seconds between two looks at who is there


def client_app(rows: Callable[[Context], tuple[Any, Any]], *, score: bool = True, **options: Any) -> ClientApp:
    """An owner's app: it answers plans from rows that stay where they are.

    The owner's name is `name` of the SuperNode's --node-config.

    Args:
        rows: is given Flower's context, which knows the node's configuration, and returns X and y.
        score: hold a tenth of the rows back, and say what models predict of them.
        options: of `fit` and `Plan.contribute`: privacy, allow_small, kernel, …

    Returns:
        The app, for the `clientapp` of a pyproject.toml.

    Examples:
        >>> app = rgp.engines.flower.client_app(lambda context: (X, y), privacy="things")
    """

    def answer(message: Message, context: Context) -> Message:
        X, y = rows(context)
        name = str(context.node_config.get("name", f"node-{context.node_id}"))
        asked = message.content.get(QUESTION)
        plan = None if asked is None else from_bytes(asked[FILE])
        if plan is not None and not isinstance(plan, Plan):
            raise RecycleGPError(f"the coordinator has sent a {type(plan).__name__} where a plan should be")
        return Message(_record(REPLY, from_rows(name, X, y, plan, score, options)), reply_to=message)

    app = ClientApp()
    app.query()(answer)
    return app


def server_app(
    folder: str | PathLike[str],
    *,
    rounds: int = 10,
    points: int = 256,
    plan: Plan | None = None,
    owners: int = 2,
    timeout: float = 600.0,
    keep: str = "sites",
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

    Returns:
        The app, for the `serverapp` of a pyproject.toml.

    Raises:
        RecycleGPError: An argument cannot be what it is; when it runs, too few nodes are there, or nobody answers.

    Examples:
        >>> app = rgp.engines.flower.server_app("city", rounds=5, points=64, owners=3)
    """
    check_rounds(rounds)

    def main(grid: Grid, context: Context) -> None:
        nodes = Nodes(grid, timeout)
        nodes.wait_for(owners)
        store = Store(Path(folder))
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
        asked = [node for node in self.grid.get_node_ids() if node not in there]
        messages = [
            Message(question, dst_node_id=node, message_type=MessageType.QUERY, ttl=self.timeout) for node in asked
        ]
        replies = list(self.grid.send_and_receive(messages, timeout=self.timeout))
        sent_to = {m.metadata.message_id: m.metadata.dst_node_id for m in messages}
        for reply in replies:
            # where a node is gone, the SuperLink replies in its place
            node = sent_to.get(reply.metadata.reply_to_message_id, reply.metadata.src_node_id)
            if reply.has_error():
                warn_user(f"{self._who(node)} does not answer: {reply.error.reason}")
                continue
            try:
                said = from_bytes(reply.content[REPLY][FILE])
            except Exception as rubbish:  # whatever a stranger has sent is no reason to stop
                warn_user(f"{self._who(node)}: what it says cannot be read, and is left out: {rubbish}")
                continue
            if not isinstance(said, (Module, Answer)):
                warn_user(f"{self._who(node)}: it has sent a {type(said).__name__}, which is left out")
            elif self.names.setdefault(said.name, node) != node:
                warn_user(f"{self._who(node)}: {said.name!r} is the name of another node; what it says is left out")
            else:
                yield said

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
