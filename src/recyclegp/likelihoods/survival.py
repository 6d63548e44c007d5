"""Times until something happens, of which some are only known to be longer than what was waited: right censoring."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.special import log_ndtr

from ..errors import RecycleGPError
from .base import Change, Likelihood, Moments, Scale, Tail, Value
from .bernoulli import BernoulliProbit
from .gaussian import Gaussian, log_normal
from .lognormal import SMALLEST, Lognormal, change_of_logarithm, factor_of_y
from .quantiles import Interval


@dataclass(frozen=True)
class Survival(Likelihood):
    """log T ~ N(f, noise): an accelerated failure time model. y = t saw the event, y = −t waited for t in vain.

        log p(y|f) = log N(log t; f, σ²)        of an event at t, as a density of log t
        log p(y|f) = log Φ((f − log t)/σ)       of a time censored at t: P(T > t)

    Both are log-concave in f. A new T is log-normal: without censored rows this is `Lognormal`, with which it shares f
    and its units, so that modules of both merge. f sees y with its sign, as that says what log t would not.
    """

    noise: Value = None  # a variance of log T

    name: ClassVar[str] = "survival"
    parameter_names: ClassVar[tuple[str, ...]] = ("noise",)
    has_units: ClassVar[bool] = True
    censors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.check_parameters()

    # --- what f sees: y with its sign ---

    def check(self, y: Tensor) -> Tensor:
        wrong = int((y == 0).sum())
        if wrong:
            raise RecycleGPError(
                f"y: a {self.name} likelihood takes times, and −t where nothing had happened by the time t; {wrong} of "
                f"{len(y)} are zero; leave those rows out, or pass a time that is long enough, as half a day"
            )
        return y

    def scale_of(self, y: Tensor, w: Tensor) -> Scale:
        """As if censored times were events: where to begin is all that is asked."""
        return Gaussian().scale_of(y.abs().log(), w)

    def log_prob(self, y: Tensor, f: Tensor) -> Tensor:
        noise = self._noise(f)
        away = y.abs().log() - f
        return torch.where(y > 0, log_normal(away, noise), log_ndtr(-away / noise.sqrt()))

    def expected_log_prob(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        y, mean, variance, noise = torch.broadcast_tensors(y, mean, variance, self._noise(mean))
        away = y.abs().log() - mean
        found = log_normal(away, noise) - 0.5 * variance / noise
        censored = y < 0
        if not bool(censored.any()):
            return found
        # a yes of a probit classifier, of (f − log t)/σ
        m, v = -away[censored] / noise[censored].sqrt(), variance[censored] / noise[censored]
        yes = BernoulliProbit().expected_log_prob(torch.ones_like(m), m, v)
        return found.index_put((censored,), yes)

    def resolution(self, y: Tensor, f: Tensor) -> Tensor:
        return self._noise(f).sqrt().expand_as(y)

    @property
    def of_seen(self) -> Gaussian:
        """Of log T."""
        return Gaussian(self.noise)

    def from_seen(self, seen: Tensor) -> Tensor:
        """T, from its logarithm."""
        return self._of_events.from_seen(seen)

    def shown(self, seen: Tensor) -> float:
        return float(seen)

    # --- a new T, which is not censored, and the y that was seen ---

    def log_density(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """log p(t) of an event, and log P(T > t) of a time that was censored."""
        t = y.abs()
        longer = log_ndtr((mean - t.log()) / (variance + self._noise(mean)).sqrt())
        return torch.where(y > 0, self._of_events.log_density(t, mean, variance), longer)

    def moments(self, mean: Tensor, variance: Tensor) -> Moments:
        return self._of_events.moments(mean, variance)

    def distribution(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tail:
        """Of a censored time: P(T ≤ t), and one, as the event may come at any time after t."""
        up_to = self._of_events.distribution(y.abs(), mean, variance).up_to
        return Tail(up_to, torch.where(y < 0, torch.ones_like(up_to), up_to))

    def quantile(self, p: float, mean: Tensor, variance: Tensor) -> Tensor:
        return self._of_events.quantile(p, mean, variance)

    def interval(self, mean: Tensor, variance: Tensor, level: float) -> Interval:
        return self._of_events.interval(mean, variance, level)

    def crps(self, y: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """NaN of censored times: how far off a model was is not known."""
        return self._known(y, self._of_events.crps(y.abs(), mean, variance))

    def compared(self, y: Tensor) -> Tensor:
        return self._known(y, y)

    @staticmethod
    def _known(y: Tensor, value: Tensor) -> Tensor:
        return torch.where(y > 0, value, torch.full_like(value, math.nan))

    def survival_at(self, y: Tensor, at: Moments) -> Tensor:
        """P(T > y) = Φ((m − log y)/√(v + σ²)): one for y ≤ 0."""
        mean, variance = at.mean[:, 0], at.variance[:, 0]
        return torch.special.ndtr((mean - y.clamp_min(SMALLEST).log()) / (variance + self._noise(mean)).sqrt())

    def noise_at(self, at: Moments) -> Tensor:
        """V[T|f] where f is its mean."""
        return self._of_events.noise_at(at)

    # --- units ---

    def in_units(self, scale: float, shift: float) -> Survival:
        return self if self.noise is None else Survival(self.noise * scale**2)

    def changes(self, scale: Any, shift: Any, unit: Any) -> list[Change]:
        return [change_of_logarithm(super().changes(scale, shift, unit)[0], self.name)]

    def change_of_y(self, scale: float, shift: float) -> Change | None:
        return factor_of_y(scale, shift)

    @property
    def _of_events(self) -> Lognormal:
        return Lognormal(self.noise)

    def _noise(self, like: Tensor) -> Tensor:
        return torch.as_tensor(self.noise, dtype=like.dtype, device=like.device)
