"""What an owner has spent of its privacy budget: a file at the owner's, written before anything leaves.

σ for (ε, δ), and what several answers come to together, are dp-accounting's.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import RecycleGPError
from ..extras import install
from ..storage.atomic import locked, write_atomically

TOO_LITTLE = 1e-9  # of ε: what rounding may add


class Spent(NamedTuple):
    """One answer."""

    what: str  # the plan, the name, the round
    multiplier: float  # σ, of the Gaussian mechanism, in sensitivities


def _accounting() -> Any:
    handlers = logging.root.handlers[:]
    try:
        # absl, which it imports, keeps the stream that it finds, and closes it at the end unless it is the system's
        with contextlib.redirect_stderr(sys.__stderr__ or sys.stderr):
            import dp_accounting
            from dp_accounting import pld
    except ImportError as missing:
        raise RecycleGPError(f"privacy with a guarantee needs dp-accounting; {install('private')}") from missing
    logging.root.handlers[:] = handlers  # it would print what everybody logs
    return dp_accounting, pld.PLDAccountant


@lru_cache(maxsize=64)
def noise_multiplier(epsilon: float, delta: float) -> float:
    """σ of one Gaussian mechanism of sensitivity one that is (ε, δ)-differentially private."""
    dp, accountant = _accounting()
    return float(dp.calibrate_dp_mechanism(accountant, dp.GaussianDpEvent, epsilon, delta))


def epsilon_of(multipliers: Sequence[float], delta: float) -> float:
    """ε of all of them together."""
    dp, accountant = _accounting()
    together = accountant()
    for multiplier in multipliers:
        together.compose(dp.GaussianDpEvent(multiplier))
    return float(together.get_epsilon(delta))


def spend(ledger: Path, epsilon: float, delta: float, new: Spent) -> float:
    """Write it down, if the budget (ε, δ) of all answers allows it; returns ε of all that is spent then."""
    with locked(ledger):
        before = spent(ledger)
        total = epsilon_of([*(s.multiplier for s in before), new.multiplier], delta)
        if total > epsilon * (1 + TOO_LITTLE):
            raise RecycleGPError(
                f"{ledger}: with this answer all of them would come to ε = {total:.3g} at δ = {delta:g}, and the "
                f"budget is ε = {epsilon:g}; nothing was sent. Answer with a smaller ε, or not"
            )
        rows = [s._asdict() for s in (*before, new)]
        write_atomically(ledger, (json.dumps({"spent": rows}, indent=1) + "\n").encode())
        return total


def spent(ledger: Path) -> list[Spent]:
    """What is in the file; nothing, where there is none yet."""
    if not ledger.exists():
        return []
    try:
        rows = json.loads(ledger.read_text(encoding="utf-8"))["spent"]
        found = [Spent(str(row["what"]), float(row["multiplier"])) for row in rows]
    except (ValueError, KeyError, TypeError) as broken:
        raise RecycleGPError(f"{ledger}: not a ledger ({broken!r}); nothing is sent while it cannot be read") from None
    if not all(s.multiplier > 0 for s in found):
        raise RecycleGPError(f"{ledger}: not a ledger (a noise is not positive); nothing is sent")
    return found
