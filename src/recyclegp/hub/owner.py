"""The owner's side: register, send the module, answer what is asked, fetch what came of it. Rows never leave.

Whatever was done already is not done again, so that a command that was killed can be started once more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from ..errors import Either, RecycleGPError
from ..local.held_back import held_back_if_any, is_held_back, take
from ..models.contributing import SCORED
from ..models.gain import Gain
from ..models.load import load
from ..models.module import Module
from ..models.plan import Plan
from ..models.privacy import Privacy as Guarantee
from ..models.secure_answers import join_sum
from ..models.sum_owner import SumOwner
from ..record import Privacy
from ..storage.signing import content_id
from .client import HubClient, query
from .folder import Facts
from .home import Home, token_of
from .protocol import RefusedError
from .waiting import FOR_EVER, Wait

SETTLED = ("ready",)  # states of a hub in which nothing more is to be waited for


class Rows(NamedTuple):
    """An owner's rows, as they were fitted."""

    X: Any
    y: Any
    noise: Any  # variances of rows that are known, or None
    share: float  # that is held back
    privacy: str | None  # "people", "things", or nothing said

    @property
    def kept(self) -> np.ndarray:
        """(n,) bool  rows that the module was fitted to, and answers are about."""
        return ~is_held_back(self.X, self.y, self.share)


class Promise(NamedTuple):
    """Of an owner that lets nothing leave but what is protected: no module, no scores, no exact answer."""

    privacy: Guarantee | None  # of every answer, with the ledger in which it is written down
    secure: bool  # nothing but masked numbers of secure sums

    @property
    def words(self) -> str:
        asked = [] if self.privacy is None else [f"differentially private ({self.privacy.guaranteed.words})"]
        asked += ["under masks, so that nobody sees more than the sum of all owners"] if self.secure else []
        return " and ".join(asked)


class Owner:
    """Somebody who has rows, a module of them, and an account with a hub."""

    def __init__(
        self,
        client: HubClient,
        home: Home,
        rows: Rows,
        *,
        share_score: bool,
        say: Callable[[str], None],
        promise: Promise | None = None,
    ) -> None:
        self._client, self._home, self._rows, self._say = client, home, rows, say
        self._share_score, self._promise = share_score, promise
        self._sums: dict[str, SumOwner] = {}  # run → its secrets, which are nowhere else

    def register(self, invitation: str | None, poll: float, patience: float, wait: Wait = FOR_EVER) -> None:
        """Until the coordinator has approved it, where that is needed."""
        assert self._client.hub is not None
        token = None if invitation is None else token_of(invitation, self._client.hub)
        found = self._client.ask("POST", "/register", {"invitation": token})
        if found["standing"] == "waiting":
            self._say("waiting for the coordinator to approve this key")
        end = time.monotonic() + patience
        while found["standing"] == "waiting":
            if time.monotonic() > end:
                raise RefusedError("the coordinator has not approved this key yet; start again later, nothing is lost")
            wait.check("the coordinator has not approved this key yet")
            wait.pause(poll)
            found = self._client.ask("POST", "/register", {"invitation": None})
        if found["standing"] != "in":
            raise RefusedError("the coordinator has not let this key in", 403)

    def send_module(self) -> str:
        """The same file twice is the same module."""
        if self._promise is not None:
            raise RecycleGPError("a module has no guarantee, and is not sent where one was asked for")
        found = self._client.send("/module", self._home.module.read_bytes())
        return str(found["module"])

    def attend(self, poll: float, *, stay: bool = False, wait: Wait = FOR_EVER) -> Facts:
        """Answer what is asked, until the model is complete; gives the last status."""
        declined = set[str]()
        said = ""
        while True:
            status: Facts = self._client.ask("GET", "/tasks")
            self._check_module(status)
            waiting = [task for task in status["tasks"] if task["digest"] + task["kind"] not in declined]
            for task in waiting:
                if not self._did(task):
                    declined.add(task["digest"] + task["kind"])
            words = _words(status)
            if words != said:
                self._say(words)
                said = words
            settled = status["state"] in SETTLED and (self._promise is None or status["counted"])
            if not waiting and settled and not stay:
                return status
            if not waiting and settled and wait.is_over:
                return status
            wait.check(f"the model is not complete ({words})")
            wait.pause(0 if waiting else poll)

    def _check_module(self, status: Facts) -> None:
        if self._promise is not None:
            if status["module"] is not None:
                raise RefusedError(
                    "the hub has a module of yours, sent before without a guarantee; leave first, and join with "
                    "another name",
                    409,
                )
            return
        if status["module"] not in (None, content_id(self._home.module)):
            raise RefusedError("the hub has another module of yours; another machine with this key has sent it", 409)
        if status["module"] is None:
            raise RefusedError("your module is not in the hub any more; the coordinator has removed it", 403)

    def fetch(self, path: Path, digest: str | None = None) -> Any:
        """The merged model, which the hub has signed; checked as a file of a stranger."""
        content = self._client.fetch("/model" if digest is None else query("/model", digest=digest))
        self._home.keep(path, content)
        return load(path)

    def gain(self, merged: Any) -> Gain:
        """What merging has gained, on the rows that were held back at home."""
        own = load(self._home.module)
        assert isinstance(own, Module)
        found: Gain = merged.gain(self._rows.X, self._rows.y, name=own.name, module=own)
        return found

    def leave(self, poll: float, patience: float) -> Facts:
        return leave(self._client, poll, patience)

    # --- tasks ---

    def _did(self, task: Facts) -> bool:
        """Whether it could be done; what is refused because it came too late, or twice, was done."""
        try:
            if task["kind"] == "answer":
                self._answer()
            elif task["kind"] == "sum":
                self._add_up(task)
            elif task["kind"] == "score":
                self._score(task)
            else:
                raise RecycleGPError(f"the hub asks for {task['kind']!r}, which this version does not know")
        except RefusedError as refused:
            if refused.status not in (404, 409):
                raise
        except RecycleGPError as cannot:
            self._say(f"cannot do what the hub asks ({task['kind']}): {cannot}")
            return False
        return True

    def _plan(self) -> Plan:
        with TemporaryDirectory(prefix="recyclegp-") as folder:
            path = Path(folder) / "plan.safetensors"
            path.write_bytes(self._client.fetch("/plan"))
            plan = load(path)
        if not isinstance(plan, Plan):
            raise RecycleGPError("the hub has sent something that is no plan")
        return plan

    def _answer(self) -> None:
        if self._promise is not None and self._promise.secure:
            raise RecycleGPError("this round is not a secure sum, and nothing else was agreed to")
        plan = self._plan()
        if self._promise is not None and self._promise.privacy is not None:
            self._answer_privately(plan, self._promise.privacy)
            return
        rows = self._rows
        if rows.privacy == Privacy.PEOPLE.value:
            raise RecycleGPError(
                "rows are about people, and sums without noise say too much of them; take part in secure sums, or in "
                "rounds with a guarantee: ",
                Either("a promise with privacy=", "--epsilon"),
            )
        kept, score = rows.kept, self._share_score and rows.share >= SCORED
        if score:  # those that were held back are scored, and are in no sum
            kept = kept | held_back_if_any(rows.X, rows.y, SCORED)
        answer = plan.contribute(
            take(rows.X, kept),
            take(rows.y, kept),
            name=self._client.name,
            noise=take(rows.noise, kept),
            privacy=rows.privacy,
            allow_small=True,
            score=score,
        )
        with TemporaryDirectory(prefix="recyclegp-") as folder:
            path = Path(folder) / "answer.safetensors"
            answer.save(path)
            scores = ", with a score of rows held back" if score else ""
            what = f"{answer.nbytes:,} bytes of {plan.asks} over {answer.rows} rows leave{scores}"
            self._say(f"round {plan.round + 1}: {what}")
            self._client.send("/answer", path.read_bytes())

    def _answer_privately(self, plan: Plan, privacy: Guarantee) -> None:
        """It is kept at home before it leaves: asked again after a kill, the same answer costs nothing more."""
        path = self._home.answer(plan.digest)
        if not path.exists():
            kept = self._rows.kept
            X, y = take(self._rows.X, kept), take(self._rows.y, kept)
            plan.contribute(X, y, name=self._client.name, privacy=privacy).save(path)
        content = path.read_bytes()
        self._say(f"round {plan.round + 1}: {len(content):,} bytes leave, {privacy.guaranteed.words}")
        self._client.send("/answer", content)

    def _add_up(self, task: Facts) -> None:
        """One message of a secure sum. Secrets are in memory only: a sum that was begun before a kill goes on
        without this owner."""
        run, stage = task["id"], task["digest"].rpartition("-")[2]
        if run not in self._sums and stage != "0":
            raise RecycleGPError("this secure sum was begun before this command was started; it goes on without")
        asked = self._client.fetch("/sum")
        if run not in self._sums:
            kept = self._rows.kept
            X, y = take(self._rows.X, kept), take(self._rows.y, kept)
            privacy = None if self._promise is None else self._promise.privacy
            self._sums = {run: join_sum(self._plan(), asked, X, y, name=self._client.name, privacy=privacy)}
        owner = self._sums[run]
        content = owner.message if stage == "0" else owner.reply(asked)
        if stage == "1":
            self._say(f"a secure sum of {len(owner.terms.names)} owners, fingerprint {owner.fingerprint}")
        if stage == "2":
            self._say(f"secure sum: {len(content):,} bytes of numbers under masks leave")
        self._client.send("/sum", content)

    def _score(self, task: Facts) -> None:
        if self._promise is not None:
            raise RecycleGPError("scores have no guarantee, and none are sent where one was asked for")
        with TemporaryDirectory(prefix="recyclegp-") as folder:
            found = self.gain(self.fetch(Path(folder) / "model.safetensors", task["digest"]))
        sums = {"merged": -found.merged * found.rows, "alone": -found.alone * found.rows}
        self._say(f"score: {found.rows} rows and two sums leave{' under your name' if self._share_score else ''}")
        question = {"evaluation": task["id"], "rows": found.rows, **sums, "shared": self._share_score}
        self._client.ask("POST", "/score", question)


def leave(client: HubClient, poll: float, patience: float) -> Facts:
    """Withdraw, and wait for the receipt, which follows the model that was learned without the module."""
    name = client.ask("DELETE", "/module")["receipt"]
    end = time.monotonic() + patience
    while True:
        found: Facts = client.ask("GET", f"/receipts/{name}")
        if found["signature"] is not None:
            return found
        if time.monotonic() > end:
            raise RefusedError("the module is gone, but its receipt is not signed yet; ask again later", 503)
        time.sleep(poll)


def _words(status: Facts) -> str:
    """What the hub does, for somebody who waits."""
    if status["failed"]:
        return f"the hub cannot merge: {status['failed']}"
    words = {
        "collecting": f"{status['owners']} of {status['expect']} owners are there; waiting for the others",
        "merging": "the hub is merging",
        "rounds": "rounds are going on",
        "ready": "the model is complete",
    }
    now = words.get(str(status["state"]), str(status["state"]))
    failed = status.get("rounds_failed")  # older hubs do not say it
    return f"{now}; the last rounds have come to nothing: {failed}" if failed else now
