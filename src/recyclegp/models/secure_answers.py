"""Answers to a plan as a secure sum: the coordinator gets one answer, of all owners' rows together, and no other.

`SecureSum` is the coordinator's side and `join_sum` makes an owner's; both speak in bytes. With a `Privacy` every owner
adds its share of the noise: that of `honest` owners together is as much as one of them alone would need.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..arrays import Array
from ..errors import RecycleGPError, printable, warn_user
from ..local.functions import requests_for
from ..local.options import Publishing
from ..plans import masking
from ..plans.masking import BITS
from ..plans.prior import Prior
from ..plans.private import Bounded, secret_normals, unshaped, variances_of
from ..plans.sums import NOISY, PlanRows, Sums, of_owner
from ..record import About, Guaranteed
from .answer import Answer
from .contributing import _check_private, _inputs, _numbers, _options
from .ledger import noise_multiplier
from .plan import Plan
from .plan_facts import AnswerFacts, PlanFacts
from .privacy import Privacy, Protected, bounded, rows_said, spend_on
from .secure_sum import SumCoordinator
from .sum_owner import SumOwner
from .sum_terms import Terms

FIELDS = {"plan", "bits", "honest", "privacy"}


# --- what is agreed on ------------------------------------------------------------------------------


def _subject(plan: Plan, privacy: Privacy | None, honest: int) -> str:
    own = None if privacy is None else _agreed(privacy)
    return json.dumps({"plan": plan.digest, "bits": BITS, "honest": honest, "privacy": own}, sort_keys=True)


def _agreed(privacy: Privacy) -> dict[str, Any]:
    g = privacy.guaranteed
    return {
        "epsilon": float(g.epsilon),
        "delta": float(g.delta),
        "bound": float(g.bound),
        "unit": g.unit,
        "rows_each": g.rows_each,
    }


def _check(plan: PlanFacts) -> Prior:
    if plan.variational or len(plan.priors) > 1 or plan.priors[0].effects.present:
        raise RecycleGPError(
            "a secure sum is of one function with Gaussian noise that owners share; agree on a plan without effects "
            "and of one output"
        )
    return plan.priors[0]


def _sizes(prior: Prior) -> dict[str, int]:
    M = len(prior.Z)
    return {"G": M * (M + 1) // 2, "b": M, "h": M, "c": 1, "a": 1, "o": 1, "t": 1}


def _units(prior: Prior, known: Bounded | None) -> np.ndarray:
    """What one row adds to each number, at most; without a bound of y, about as much as it adds."""
    if known is not None:
        each = {name: known.unit_of(name, len(prior.Z)).numpy() for name in NOISY}
    else:
        a = float(prior.kernel.diagonal(prior.Z).mean())
        B = math.sqrt(a + prior.noise)
        plain = {"G": a, "b": a**0.5 * B, "h": a**0.5, "c": B**2, "a": B, "o": 1.0, "t": a}
        each = {name: np.array(plain[name]) for name in NOISY}
    return np.concatenate([np.broadcast_to(each[name], (size,)) for name, size in _sizes(prior).items()])


def _vector(sums: Sums) -> np.ndarray:
    return np.concatenate([getattr(sums, name).reshape(-1).numpy() for name in NOISY])


def _parts(vector: np.ndarray, prior: Prior) -> dict[str, torch.Tensor]:
    sizes = _sizes(prior)
    pieces = torch.from_numpy(vector.copy()).split(list(sizes.values()))
    return {name: p if sizes[name] > 1 or name in "Gbh" else p[0] for name, p in zip(sizes, pieces, strict=True)}


def _noise_sd(known: Bounded, privacy: Privacy | Guaranteed, honest: int, numbers: int) -> float:
    """Of each owner's share, on φ. Rounding to quanta may move sums by a quantum more in each number."""
    sensitivity = privacy.rows_each * known.sensitivity + math.sqrt(numbers) * 2.0**-BITS
    return noise_multiplier(float(privacy.epsilon), float(privacy.delta)) * sensitivity / math.sqrt(honest)


# --- an owner ---------------------------------------------------------------------------------------


def join_sum(
    plan: Plan,
    invitation: bytes,
    X: Array,
    y: Array,
    *,
    name: str,
    privacy: Privacy | None = None,
    persons: Array = None,
) -> SumOwner:
    """An owner's side of a secure sum of answers to a plan.

    Args:
        plan: the plan.
        invitation: the coordinator's first message.
        X: rows, as for `Plan.contribute`.
        y: their targets.
        name: the owner's, one of those who were invited.
        privacy: must be what the coordinator has agreed to with everybody; the ledger is the owner's own.
        persons: whose each row is, where persons are protected.

    Returns:
        An owner with `message`, the first to be sent, and `reply(bytes)` for all that follow. Its secrets are in
        memory, and it serves this one sum.

    Raises:
        RecycleGPError: The invitation is to another plan, or to another privacy.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> plan = rgp.Plan(points=np.linspace(0, 6, 8), kernel="rbf", noise=0.1)
        >>> gathering = rgp.SecureSum(plan, ["north", "south", "west"])
        >>> x = np.linspace(0, 6, 30)
        >>> rgp.join_sum(plan, gathering.message("north"), x, np.sin(x), name="north").done
        False
    """
    facts, terms = plan._facts, Terms.of(invitation)
    prior = _check(facts)
    try:
        agreed = json.loads(terms.subject)
        honest = int(agreed["honest"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise RecycleGPError("this invitation is malformed; ask for it again") from None
    if terms.subject != _subject(plan, privacy, honest):
        raise RecycleGPError(
            "this invitation is to another plan, or to another privacy than was given here; nothing is sent. It says "
            f"{printable(terms.subject, 400)}"
        )
    K = len(terms.names)
    if not 1 <= honest <= terms.threshold or terms.length != sum(_sizes(prior).values()):
        raise RecycleGPError(f"this invitation counts on {honest} honest owners, of {terms.threshold} who must stay")
    inputs = _inputs(facts, X)
    requests_for(inputs, y, name, _options(facts, Publishing("auto", None, True, None), "refuse"))  # its checks
    numbers = _numbers(facts.likelihood, y, len(inputs)).reshape(-1)
    one = torch.ones_like(numbers)
    rows = PlanRows(inputs, numbers, one, one)
    if privacy is None:
        if persons is not None:
            raise RecycleGPError("persons is for a Privacy that protects persons; leave it out")
        exact = _vector(of_owner(prior.basis(), rows, prior.mean, prior.noise, prior.effects))
        quanta = _units(prior, None) * 2.0**-BITS
        whole = masking.fixed(exact, quanta, K)
        return SumOwner(terms, name, lambda: whole)
    _check_private(facts, privacy, None, None, False, None)
    what = f"{name}, secure sum {terms.session.hex()[:8]}, plan {plan.digest[:8]}, {privacy.guaranteed.words}"
    return SumOwner(terms, name, _noisy(prior, privacy, bounded(privacy, prior, rows, persons, what), honest, K))


def _noisy(prior: Prior, privacy: Privacy, found: Protected, honest: int, owners: int) -> Callable[[], np.ndarray]:
    """Whole numbers with this owner's share of the noise; what is spent is written down when they are asked for."""
    units = _units(prior, found.known)
    whole = masking.fixed(_vector(found.exact), units * 2.0**-BITS, owners)
    sd = _noise_sd(found.known, privacy, honest, len(whole))

    def numbers() -> np.ndarray:
        spend_on(privacy, found)
        noise = np.rint(sd * secret_normals(len(whole)).numpy() * 2.0**BITS).astype(np.int64)
        return whole + noise

    return numbers


# --- the coordinator ----------------------------------------------------------------------------------


class SecureSum(SumCoordinator):
    """The coordinator's side of a secure sum of answers to a plan.

    `message(name)` is what an owner is to be sent, `receive(bytes)` takes what owners send, and `advance()` goes on
    with those who have answered: four times, for keys, shares, masked numbers and openings. Then there is `answer()`.

    Args:
        plan: the plan, of one function with Gaussian noise.
        names: the owners.
        threshold: how many must stay to the end; two thirds, unless given. Fewer can open nothing.
        privacy: the same for all: each adds its share of the noise. Its ledger is nobody's here.
        honest: owners who are counted on to add their share, and who stay; the fewer, the more noise. The threshold's,
            unless given.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> plan = rgp.Plan(points=np.linspace(0, 6, 8), kernel="rbf", noise=0.1)
        >>> gathering = rgp.SecureSum(plan, ["north", "south", "west"])
        >>> x = np.linspace(0, 6, 30)
        >>> owners = {n: rgp.join_sum(plan, gathering.message(n), x, np.sin(x), name=n) for n in gathering.terms.names}
        >>> names = [gathering.receive(owner.message) for owner in owners.values()]
        >>> for _ in range(3):
        ...     gathering.advance()
        ...     names = [gathering.receive(owner.reply(gathering.message(n))) for n, owner in owners.items()]
        >>> gathering.advance()
        >>> gathering.answer().rows
        90
    """

    def __init__(
        self,
        plan: Plan,
        names: Sequence[str],
        *,
        threshold: int | None = None,
        privacy: Privacy | None = None,
        honest: int | None = None,
    ) -> None:
        prior = _check(plan._facts)
        if privacy is not None and privacy.public_rows:
            raise RecycleGPError(
                "public_rows: in a secure sum the number of rows has noise like all others; leave it out"
            )
        terms = Terms.new("", names, threshold, sum(_sizes(prior).values()))
        counted = terms.threshold if honest is None else honest
        if isinstance(counted, bool) or not isinstance(counted, int) or not 1 <= counted <= terms.threshold:
            raise RecycleGPError(f"honest is {counted!r}; it is between 1 and the threshold, {terms.threshold}")
        super().__init__(terms._replace(subject=_subject(plan, privacy, counted)))
        self.plan, self.privacy, self.honest = plan, privacy, counted

    def answer(self) -> Answer:
        """Of all owners together who have stayed: one answer, to be given to `Plan.combine`.

        Raises:
            RecycleGPError: Not all stages are behind it, or an owner has sent wrong shares.

        Examples:
            >>> gathering.answer().rows
            90
        """
        prior, K = self.plan._facts.priors[0], len(self.survivors)
        total = self.total()
        guaranteed = None
        if self.privacy is None:
            found = _parts(masking.floating(total, _units(prior, None) * 2.0**-BITS), prior)
            sums = Sums(n=found["o"], logdet=0 * found["o"], **found)
        else:
            known = Bounded.of(prior, self.privacy.bound)
            found = _parts(masking.floating(total, _units(prior, known) * 2.0**-BITS), prior)
            sd = _noise_sd(known, self.privacy, self.honest, len(total)) * math.sqrt(K)
            sums = unshaped(found, variances_of(known, sd), known.shape)
            guaranteed = self.privacy.guaranteed._replace(owners=K, honest=self.honest)
        return Answer(self._facts(sums, guaranteed, K))

    def _facts(self, sums: Sums, guaranteed: Guaranteed | None, owners: int) -> AnswerFacts:
        plan = self.plan._facts
        name = f"sum of {owners} owners, {self.terms.session.hex()[:8]}"
        about = About(name, None, None, "plan", *plan.frame[1:3], plan.targets, None, plan.origin)
        return AnswerFacts(
            about=about._replace(guaranteed=guaranteed),
            likelihood=plan.whole,
            plan=self.plan.digest,
            round=plan.round,
            priors=plan.priors,
            rows=(rows_said(sums),),
            known_noise=False,
            sums=(sums,),
        )


# --- all of it, where owners can be asked -------------------------------------------------------------

Replies = Callable[[bytes], bytes]  # an owner, wherever it is: a message in, a message out; the invitation comes first


def secure_round(
    plan: Plan,
    owners: Mapping[str, Replies | tuple[Any, Any]],
    *,
    threshold: int | None = None,
    privacy: Privacy | None = None,
    honest: int | None = None,
) -> Answer:
    """One secure sum from beginning to end: every owner is asked four times, and whoever fails is left behind.

    Args:
        plan: the plan.
        owners: name → a function of bytes that returns bytes, or a pair (X, y) whose rows are here.
        threshold: as for `SecureSum`.
        privacy: likewise.
        honest: likewise.

    Returns:
        One answer, of all who have stayed.

    Raises:
        RecycleGPError: Too few have stayed.

    Examples:
        >>> import numpy as np, recyclegp as rgp
        >>> plan = rgp.Plan(points=np.linspace(0, 6, 8), kernel="rbf", noise=0.1)
        >>> x = np.linspace(0, 6, 90)
        >>> rgp.secure_round(plan, {f"ward-{i}": (x[i::3], np.sin(x[i::3])) for i in range(3)}).rows
        90
    """
    gathering = SecureSum(plan, list(owners), threshold=threshold, privacy=privacy, honest=honest)
    asked = {name: _local(plan, name, *own, privacy) if isinstance(own, tuple) else own for name, own in owners.items()}
    while gathering.stage != "done":
        for name in gathering.waiting_for:
            try:
                gathering.receive(asked[name](gathering.message(name)))
            except Exception as failed:  # whatever goes wrong there is no reason to stop here
                warn_user(f"{name} does not answer: {failed}")
        gathering.advance()
    return gathering.answer()


def _local(plan: Plan, name: str, X: Any, y: Any, privacy: Privacy | None) -> Replies:
    known: list[SumOwner] = []

    def reply(message: bytes) -> bytes:
        if known:
            return known[0].reply(message)
        known.append(join_sum(plan, message, X, y, name=name, privacy=privacy))
        return known[0].message

    return reply
