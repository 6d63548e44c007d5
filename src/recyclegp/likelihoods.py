"""Likelihoods p(y|f): what each expects of y, its expectation under q(f), and its predictive.

GPyTorch has these too, but its Bernoulli is the probit (the paper's is the logistic), it has no
Poisson, and its 20-point Gauss–Hermite rule errs by 0.03 nats at variance 100. The integrals here
are trapezoid sums: for these analytic integrands the error falls exponentially in the number of
points, and the spacing follows the narrower of q(f) and the likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.special import log_ndtr

from .errors import RecycleGPError

REACH = 9.0  # standard deviations of q(f) that are integrated over
COARSEST = 0.4  # spacing in standard deviations; enough for the Gaussian itself
FINEST = 0.4 / 2**9
BLOCK = 2**22  # integrand values held at once
POINTS = 2**14  # data points differentiated at once


@dataclass(frozen=True)
class Likelihood:
    """A family by name and its parameters in the user's units; () where they are not known."""

    name: str
    parameters: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        wanted = family(self.name).parameters
        if len(self.parameters) not in (0, len(wanted)) or not all(math.isfinite(p) and p > 0 for p in self.parameters):
            raise RecycleGPError(
                f"likelihood {self.name!r} takes {len(wanted)} positive parameters {wanted}, got {self.parameters}"
            )

    def log_parameters(self, like: Tensor) -> Tensor:
        return torch.tensor([math.log(p) for p in self.parameters], dtype=like.dtype, device=like.device)

    def in_units(self, scale: float, shift: float) -> Likelihood:
        """The family for y' = s·y + b; only location–scale families have one."""
        if (scale, shift) == (1.0, 0.0):
            return self
        if not family(self.name).has_noise:
            raise RecycleGPError(
                f"output_scale and output_shift do not apply to likelihood {self.name!r}, whose f has fixed "
                "units; leave them at 1 and 0"
            )
        squared = [p * scale**2 for p in self.parameters[:1]]
        return Likelihood(self.name, (*squared, *self.parameters[1:]))


class Family(NamedTuple):
    name: str
    parameters: tuple[str, ...]
    has_noise: bool  # is parameters[0] a squared scale in the units of y²?
    check: Callable[[Tensor], Tensor]
    log_prob: Callable[[Tensor, Tensor, Tensor], Tensor]  # (y, f, log-parameters: one for all y, or one for each)
    width: Callable[[Tensor, Tensor, Tensor], Tensor]  # narrowest feature of log_prob about f
    moments: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]  # of y, from those of f


# --- the families -----------------------------------------------------------------------------


def _real(y: Tensor) -> Tensor:
    return y


def _labels(y: Tensor) -> Tensor:
    """{0,1}, {False,True} or {−1,1} → {0,1}."""
    values = set(torch.unique(y).tolist())
    if values <= {0.0, 1.0}:
        return y
    if values <= {-1.0, 1.0}:
        return (y + 1) / 2
    shown = ", ".join(f"{v:g}" for v in sorted(values)[:5])
    raise RecycleGPError(
        f"y: a bernoulli likelihood takes two classes, 0 and 1 (or −1 and 1), got {len(values)} "
        f"values ({shown}{', …' if len(values) > 5 else ''}); fit one model per class against the rest"
    )


def _counts(y: Tensor) -> Tensor:
    if bool((y < 0).any()) or bool((y != y.round()).any()):
        raise RecycleGPError(
            "y: a poisson likelihood takes counts 0, 1, 2, …; negative or fractional values were given; "
            "use likelihood='gaussian' for measurements"
        )
    return y


def _gaussian(y: Tensor, f: Tensor, log_p: Tensor) -> Tensor:
    return -0.5 * (math.log(2 * math.pi) + log_p[0] + (y - f).square() * (-log_p[0]).exp())


def _logistic(y: Tensor, f: Tensor, log_p: Tensor) -> Tensor:
    return torch.nn.functional.logsigmoid((2 * y - 1) * f)


def _probit(y: Tensor, f: Tensor, log_p: Tensor) -> Tensor:
    return log_ndtr((2 * y - 1) * f)


def _poisson(y: Tensor, f: Tensor, log_p: Tensor) -> Tensor:
    return y * f - f.exp() - torch.lgamma(y + 1)


def _student(y: Tensor, f: Tensor, log_p: Tensor) -> Tensor:
    log_s2, df = log_p[0], log_p[1].exp()
    constant = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2) - 0.5 * (math.log(math.pi) + log_p[1] + log_s2)
    return constant - (df + 1) / 2 * torch.log1p((y - f).square() * (-log_s2).exp() / df)


def _gaussian_moments(m: Tensor, v: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
    return m, v + log_p[0].exp()


def _student_moments(m: Tensor, v: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
    df = log_p[1].exp()
    return m, v + (log_p[0].exp() * df / (df - 2) if df > 2 else torch.inf)


def _poisson_moments(m: Tensor, v: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
    rate = (m + v / 2).exp()
    return rate, rate + rate.square() * v.expm1()


def _class_moments(name: str) -> Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]:
    def moments(m: Tensor, v: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
        p = log_density(name, torch.ones_like(m), m, v, log_p).exp().clamp(0, 1)
        return p, p * (1 - p)

    return moments


def _unit(y: Tensor, f: Tensor, log_p: Tensor) -> Tensor:
    return y.new_ones(())


def _noise_width(y: Tensor, f: Tensor, log_p: Tensor) -> Tensor:
    return (0.5 * log_p[0]).exp()


def _student_width(y: Tensor, f: Tensor, log_p: Tensor) -> Tensor:
    return (0.5 * (log_p[0] + log_p[1])).exp() / math.pi  # poles at ±i·s√ν


def _count_width(y: Tensor, f: Tensor, log_p: Tensor) -> Tensor:
    return 0.5 * torch.maximum(y, f.exp()).clamp_min(1.0).rsqrt()  # exp(−exp f) grows beyond ±iπ/2


FAMILIES = {
    f.name: f
    for f in (
        Family("gaussian", ("noise",), True, _real, _gaussian, _noise_width, _gaussian_moments),
        Family("bernoulli", (), False, _labels, _logistic, _unit, _class_moments("bernoulli")),
        Family("bernoulli-probit", (), False, _labels, _probit, _unit, _class_moments("bernoulli-probit")),
        Family("poisson", (), False, _counts, _poisson, _count_width, _poisson_moments),
        Family("student-t", ("noise", "df"), True, _real, _student, _student_width, _student_moments),
    )
}


def family(name: str) -> Family:
    if not isinstance(name, str):
        raise TypeError(f"likelihood must be a name, not {type(name).__name__}")
    if name not in FAMILIES:
        raise RecycleGPError(f"likelihood={name!r} is not known; use one of {', '.join(FAMILIES)}")
    return FAMILIES[name]


# --- integrals over q(f) = N(m, v) ------------------------------------------------------------


def expected_log_prob(name: str, y: Tensor, m: Tensor, v: Tensor, log_p: Tensor) -> Tensor:
    """E_q[log p(y|f)] per point."""
    if name == "gaussian":
        return _gaussian(y, m, log_p) - 0.5 * v * (-log_p[0]).exp()
    if name == "poisson":
        return y * m - (m + v / 2).exp() - torch.lgamma(y + 1)
    log_prob = FAMILIES[name].log_prob
    return _integrate(lambda y, f, p, w: (log_prob(y, f, p) * w.exp()).sum(-1), name, y, m, v, log_p, m)


def log_density(name: str, y: Tensor, m: Tensor, v: Tensor, log_p: Tensor) -> Tensor:
    """log p(y) = log E_q[p(y|f)] per point."""
    if name == "gaussian":
        return _gaussian(y, m, torch.log(v + log_p[0].exp())[None])
    if name == "bernoulli-probit":
        return log_ndtr((2 * y - 1) * m / (1 + v).sqrt())
    if name == "student-t":
        return _student_density(y, m, v, log_p)
    log_prob = FAMILIES[name].log_prob
    mode = _mode(name, y, m, v)  # of a log-concave integrand, beyond which it falls faster than q
    return _integrate(lambda y, f, p, w: torch.logsumexp(log_prob(y, f, p) + w, -1), name, y, m, v, log_p, mode)


def _student_density(y: Tensor, m: Tensor, v: Tensor, log_p: Tensor) -> Tensor:
    """A Gaussian whose precision is Gamma distributed: ∫ Gamma(w; ν/2, ν/2) N(y; m, v + s²/w) dw over log w."""
    half = 0.5 * log_p[1].exp()
    h = min(0.25, 0.5 / math.sqrt(float(half.detach())))  # log w has standard deviation about √(2/ν)
    t = torch.arange(-60.0, 6.0, max(h, 1e-3), dtype=m.dtype, device=m.device)
    log_gamma = half * (half.log() + t - t.exp()) - torch.lgamma(half) + math.log(max(h, 1e-3))
    parts = [
        torch.logsumexp(log_gamma + _gaussian(y_, m_, torch.log(v_ + (log_p[0] - t).exp())[None]), -1)
        for y_, m_, v_ in zip(*(a[:, None].split(BLOCK // len(t)) for a in (y, m, v)), strict=True)
    ]
    return torch.cat(parts)


@torch.no_grad()
def _mode(name: str, y: Tensor, m: Tensor, v: Tensor) -> Tensor:
    """Where p(y|f) N(f; m, v) is largest: the root of ∂log p/∂f = (f − m)/v, by bisection."""
    if name == "poisson":
        known = y.clamp_min(0.5).log()
        low = torch.where(y > 0, torch.minimum(m, known), m - v * m.clamp_max(600).exp())
        high = torch.where(y > 0, torch.maximum(m, known), m)
    else:  # |∂log σ(±f)/∂f| ≤ 1
        low, high = m - v, m + v
    for _ in range(60):
        f = 0.5 * (low + high)
        pull = y - f.exp() if name == "poisson" else y - torch.sigmoid(f)
        above = pull > (f - m) / v
        low, high = torch.where(above, f, low), torch.where(above, high, f)
    return 0.5 * (low + high)


def _integrate(
    integrand: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    name: str,
    y: Tensor,
    m: Tensor,
    v: Tensor,
    log_p: Tensor,
    about: Tensor,
) -> Tensor:
    """integrand(y (n,1), f (n,J), parameters (p,n,1), log-weights (n,J)) on J nodes of N(m, v) about given
    places, in blocks."""
    if not y.numel():
        return m.new_zeros(0)
    sd = v.clamp_min(1e-300).sqrt()
    # Poles of log p lie about π·width from the real axis, so spacing h errs by exp(−2π²·width/(sd·h)).
    wanted = FAMILIES[name].width(y, about.detach(), log_p.detach()) / sd.detach()
    wanted = wanted.nan_to_num(COARSEST).clamp(FINEST, COARSEST)
    # halved as often as each point needs, so that neighbouring calls mostly use the very same rule
    halvings = (COARSEST / wanted).log2().ceil().expand_as(y)
    levels, order, parts = halvings.unique().tolist(), [], []
    columns = (y, m, sd, about, _each(log_p, len(y)))
    for level in levels:
        index = (halvings == level).nonzero()[:, 0]
        h = COARSEST / 2**level
        z = torch.arange(-math.ceil(REACH / h), math.ceil(REACH / h) + 1, dtype=m.dtype, device=m.device) * h
        chosen = columns if len(levels) == 1 else tuple(t[..., index] for t in columns)
        for y_, m_, s_, a_, p_ in zip(*(t[..., None].split(max(1, BLOCK // len(z)), -2) for t in chosen), strict=True):
            shifted = (a_ - m_) / s_ + z
            log_weight = math.log(h / math.sqrt(2 * math.pi)) - 0.5 * shifted.square()
            parts.append(integrand(y_, m_ + s_ * shifted, p_, log_weight))
        order.append(index)
    found = torch.cat(parts)
    return found if len(levels) == 1 else found[torch.cat(order).argsort()]


def _each(log_p: Tensor, n: int) -> Tensor:
    """Parameters (p,) or (p, n) as (p, n)."""
    return (log_p if log_p.ndim == 2 else log_p[:, None]).expand(-1, n)


class Dual(NamedTuple):
    """A Gaussian pseudo-observation per data point: precision β and β times its value, α."""

    alpha: Tensor
    beta: Tensor


def dual(name: str, y: Tensor, m: Tensor, v: Tensor, log_p: Tensor) -> tuple[Tensor, Dual]:
    """E = E_q[log p(y|f)] per point, with β = −2 ∂E/∂v and α = ∂E/∂m + β m.

    Derivatives go through m and v (autograd), not through a quadrature of second derivatives.
    β ≥ 0 for log-concave likelihoods; elsewhere (student-t) it is clipped just above 0.
    """
    parts = []
    each = _each(log_p.detach(), len(y))
    for y_, *q, p_ in zip(y.split(POINTS), m.split(POINTS), v.split(POINTS), each.split(POINTS, -1), strict=True):
        with torch.enable_grad():
            m_, v_ = (t.detach().requires_grad_() for t in q)
            expected = expected_log_prob(name, y_, m_, v_, p_)
            parts.append((expected.detach(), *torch.autograd.grad(expected.sum(), (m_, v_))))
    expected, by_m, by_v = (torch.cat(p) for p in zip(*parts, strict=True))
    beta = (-2 * by_v).clamp_min(smallest_precision(name, y, log_p))
    return expected, Dual(by_m + beta * m.detach(), beta)


def smallest_precision(name: str, y: Tensor, log_p: Tensor) -> Tensor:
    return 1e-10 / FAMILIES[name].width(y, torch.zeros_like(y), log_p.detach()).square()
