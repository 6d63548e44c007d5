"""What is published where rows are people: nothing that follows from few of them (docs/privacy.md).

Three things of a fit say something about single rows, and each is replaced:

- where points are, and how precisely f is known there. Both are taken from as many made-up rows, which resemble the
  real ones in how each column is distributed, and in its correlations with others (`made_up_rows`);
- what is known of f at the points. It is what the real rows say, with noise, and less precise by as much
  (`shared`): by an attack that knows everything else, a row is found no more easily than if each published number were
  the mean of `PEOPLE.rows_share` rows;
- kernel, noise and mean: of each the nearest on a coarse grid (`coarse`), which begins elsewhere in each module.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..core import least_squares, linalg
from ..core.least_squares import CentredRows, Solution
from ..core.rounding import significant
from ..errors import RecycleGPError
from ..kernels import Kernel, Unit
from ..record import Privacy
from .candidates import as_index, spread
from .constants import PEOPLE
from .planning import PEOPLE_OPTION
from .request import FitRequest
from .samples import Samples, side_by_side
from .search_space import Hyperparameters


def are_people(request: FitRequest) -> bool:
    return request.privacy is Privacy.PEOPLE


def published_rows(request: FitRequest) -> int:
    """How many rows the module says that it has: of people not exactly."""
    step = PEOPLE.rows_step if are_people(request) else 1
    return step * round(request.rows / step)


def check_alike(request: FitRequest) -> None:
    """Rows of which few count far more than the others say what these few are like."""
    if not are_alike(request):
        raise RecycleGPError(
            PEOPLE_OPTION,
            f": one row counts so much more than others that all of them are worth {alike(request):.3g} like it, and "
            f"{PEOPLE.fewest} are needed; give weights, or noises of rows, that are more alike",
        )


def are_alike(request: FitRequest) -> bool:
    """If they are people, do no few rows count far more than the others?"""
    return not are_people(request) or alike(request) >= PEOPLE.fewest


def alike(request: FitRequest) -> float:
    """How many rows that count as the one that counts most would say as much as all do."""
    return float(rows_alike(side_by_side([request.sample], request.X.device), [request])[0])


def rows_alike(data: Samples, requests: Sequence[FitRequest]) -> Tensor:
    """(B,)  how many rows that count as the one that counts most would say as much as all do.

    A row with noise σ_i² and weight ω says ω/σ_i² (of the mean of many rows, σ²/σ_i² = v²), and is wrong by σ_i²: it
    moves what is known by ω²v² in units in which all rows together say Σw², with w² = ωv². So its share is ω²v²/Σw².
    """
    counts = torch.where(data.often > 0, data.often, 1.0)
    largest = (data.w.square() / counts).amax(-1)  # v²
    heaviest = largest.new_tensor([max(1.0, r.heaviest) for r in requests])
    return torch.minimum(data.w.square().sum(-1) / (heaviest.square() * largest), data.rows)


# --- made-up rows -----------------------------------------------------------------------------


def made_up_rows(data: Samples, requests: Sequence[FitRequest]) -> Samples:
    """As many as there are: each from a row drawn at random, moved towards the middle and away again at random.

    x̃ = μ + √(1 − b²)(x − μ) + bLε: of the same mean μ, spreads and correlations, with LLᵀ the covariance of the rows.
    Before that x is brought into the central part of each column, so that nobody's smallest or largest value matters.
    Then, unless rows are few, each column is given its shape back: what has come out at some rank becomes what the rows
    have there, roughly (`_shape`, of rows that are at most a standard deviation beyond the central part), and a part a
    of x̃ stays, so that no made-up row has the numbers of a row. A level becomes another row's with probability b². A
    column that has common values only (`_common_values`) has as many of each as before, in the order in which x̃ has
    come out there. Functions of one model have the same random numbers, and the same made-up rows.
    """
    b, levels = PEOPLE.blur, list(requests[0].kernel.structure.discrete)
    X, picks = torch.empty_like(data.X), torch.zeros_like(data.y, dtype=torch.long)
    for i, request in enumerate(requests):
        rng, rows = np.random.default_rng([*request.entropy, 4]), data.X[i, : len(request.y)]
        n, D = rows.shape
        pick, other = (
            as_index(rng.integers(n, size=n), rows.device),
            as_index(rng.integers(n, size=(n, D)), rows.device),
        )
        noise, swapped = rng.standard_normal((n, D)), as_index(rng.uniform(size=(n, D)) < b**2, rows.device)
        low, high = _central_part(rows)
        away = rows.clamp(low, high)
        middle = away.mean(0)
        away = away - middle
        moved = middle + (1 - b**2) ** 0.5 * away[pick] + b * as_index(noise, rows.device) @ _root(away).mT
        central, rank = rows.clamp(low, high), moved.argsort(0).argsort(0)
        common = _common_values(central, levels)
        wide = rows.clamp(low - central.std(0, correction=0), high + central.std(0, correction=0))
        if n >= PEOPLE.rows_shaped:
            moved = (1 - PEOPLE.normal) * _shape(wide).gather(0, rank) + PEOPLE.normal * moved
        for c, column in common.items():
            moved[:, c] = column.sort().values[rank[:, c]]
        for c in levels:
            moved[:, c] = rows[:, c][torch.where(swapped[:, c], other[:, c], pick)]
        X[i], picks[i, :n] = moved[:1], pick
        X[i, :n] = moved
    return data.map(lambda t: t.gather(1, picks) * (data.w > 0) if t.ndim == 2 else X)


def _root(away: Tensor) -> Tensor:
    """L with LLᵀ the covariance of centred rows (n, D); a column that is the same everywhere, or as others, may be."""
    spread = away.square().mean(0).sqrt()
    unit = away / torch.where(spread > 0, spread, torch.ones_like(spread))
    correlations = unit.mT @ unit / len(away)
    correlations.diagonal().copy_(torch.ones_like(spread) + PEOPLE.nugget)
    return spread[:, None] * linalg.cholesky(correlations).L


def _central_part(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Of every column two quantiles, beyond each of which there are some rows."""
    ordered = rows.sort(0).values
    beyond = min((len(rows) - 1) // 2, max(PEOPLE.fewest_beyond, round(PEOPLE.beyond * len(rows))))
    return ordered[beyond], ordered[-1 - beyond]


def _shape(rows: Tensor) -> Tensor:
    """For each rank (n, D) the value of a broken line through the means of many neighbours in the order of a column.

    So nobody's value is a part of more than a mean of so many.
    """
    n = len(rows)
    parts = n // PEOPLE.rows_share
    means = np.stack([part.mean(0) for part in np.array_split(rows.sort(0).values.cpu().numpy(), parts)])
    known, wanted = (np.arange(parts) + 0.5) / parts, (np.arange(n) + 0.5) / n
    return as_index(np.stack([np.interp(wanted, known, column) for column in means.T], 1), rows.device)


def _common_values(central: Tensor, levels: Sequence[int]) -> dict[int, Tensor]:
    """Columns such as 0 or 1, of which every value in the central part is that of many rows.

    What is between such values is nobody's: points there would say little of those who have either. One column that is
    not of levels is left out, that of most values, so that no made-up row is a row.
    """
    found: dict[int, int] = {}  # column → how many values
    for c in sorted(set(range(central.shape[1])) - set(levels)):
        _, counts = central[:, c].unique(return_counts=True)
        if len(counts) > 1 and int(counts.min()) >= PEOPLE.rows_of_level:
            found[c] = len(counts)
    if found and len(found) + len(levels) == central.shape[1]:
        del found[max(found, key=lambda c: found[c])]
    return {c: central[:, c] for c in found}


# --- what is said of f ------------------------------------------------------------------------


def shared(
    said: CentredRows, made_up: CentredRows, alike: Tensor, requests: Sequence[FitRequest], functions: int
) -> CentredRows:
    """What real rows say about the whitened values v, as if each published number were the mean of many of them.

    With P̃ = U diag(λ) Uᵀ, the precision that made-up rows give, direction u_j of v is published with a precision
    γ_j ≤ λ_j. A row counts 1/n of what all of them say about it, where what they say varies by 1/λ_j and the noise that
    is added by 1/γ_j − 1/λ_j: an attacker who knows all but the row has a signal-to-noise ratio of

        d² = 1/n Σ_j γ_j/(1 + λ_j)        (Σ_j λ_j/(1 + λ_j) are the degrees of freedom of a fit without noise)

    Where d² may be 1/k at most, as of the mean of k rows, most information ½Σ log(1 + γ_j) is kept by γ_j =
    max(0, θ(1 + λ_j) − 1) with one θ (`_filled`): weak directions, which few rows support, are left out, and the strong
    ones have alike much noise. Functions of one model share the bound. Where rows do not count equally, n is `alike`,
    so that d² is that of the row that counts most (`rows_alike`).

    Real rows may know less of a direction than made-up ones do. With I + P = CCᵀ of the real rows, m their posterior
    mean and c = uᵀ(I + P)⁻¹u, the mean of uᵀm is (1 − c)uᵀv, but for other directions. So uᵀm/(1 − c) says uᵀv, with

        ν = (c − ‖(I + P)⁻¹u‖²)/(1 − c)²

    as variance. It is published with noise of variance 1/γ − ν, and with less precision where 1/γ is smaller than ν.
    """
    said = least_squares.compress(said)
    solved = least_squares.solve(said)
    U, precision = _directions(solved.C, made_up.H)
    kept = _filled(precision, alike / (PEOPLE.rows_share * functions))
    seen = _seen(solved, U)
    kept = torch.where(seen.share > PEOPLE.least_seen, kept * _on_powers(1 / (seen.variance * kept)), 0.0)
    noise = [
        np.random.default_rng([*r.entropy, 5, i % functions]).standard_normal(kept.shape[-1])
        for i, r in enumerate(requests)
    ]
    added = (1 / kept - seen.variance).clamp_min(0).sqrt() * as_index(np.stack(noise), kept.device)
    rho = torch.where(kept > 0, kept.sqrt() * (seen.value + added), 0.0)
    H, rho = (significant(t, PEOPLE.digits) for t in (kept.sqrt()[..., None] * U.mT, rho))
    return CentredRows(H, rho, said.e, said.slack)


class _Seen(NamedTuple):
    """What real rows say about directions u of the whitened values v."""

    value: Tensor  # (B, M)  uᵀm/(1 − c), centred on uᵀv
    variance: Tensor  # (B, M)  ν
    share: Tensor  # (B, M)  1 − c, of what is unknown of uᵀv before


def _seen(solved: Solution, U: Tensor) -> _Seen:
    W = linalg.solve_lower(solved.C, U)  # C⁻¹U: its columns have the squares c
    c, rest = W.square().sum(-2), linalg.solve_upper(solved.C, W).square().sum(-2)
    share = (1 - c).clamp_min(PEOPLE.least_seen)
    mean = (U.mT @ solved.v[..., None])[..., 0]
    return _Seen(mean / share, (c - rest).clamp_min(0) / share.square() + 1e-300, 1 - c)


def _on_powers(share: Tensor) -> Tensor:
    """A share of the precision, at most all of it: as a power of √2, so that no few rows decide about it."""
    return torch.exp2((2 * share.clamp(1e-300, 1).log2()).round() / 2)


def _directions(C: Tensor, H: Tensor) -> tuple[Tensor, Tensor]:
    """U and λ: what made-up rows say, I + P̃ = I + HᵀH, but where real ones, I + P = CCᵀ, say far less.

    With I + P̃ = C̃C̃ᵀ the eigenvalues of C̃⁻¹(I + P)C̃⁻ᵀ are near one, but for directions that are known from made-up rows
    only, as between groups of people. Such a direction is as open as real rows leave it, roughly.
    """
    identity = torch.eye(H.shape[-1], dtype=H.dtype, device=H.device)
    made_up = linalg.cholesky(identity + H.mT @ H).L
    A = linalg.solve_lower(made_up, C)
    W, d, _ = torch.linalg.svd(A)  # A Aᵀ = W diag(d²) Wᵀ
    d = d.square()
    d = torch.where(d < PEOPLE.far_less, _power_of_two(d), torch.ones_like(d))
    U, S, _ = torch.linalg.svd(made_up @ W * d.sqrt()[..., None, :])
    return U, (S.square() - 1).clamp_min(0)


def _filled(precision: Tensor, most: Tensor) -> Tensor:
    """γ_j = max(0, θ(1 + λ_j) − 1) with the largest θ ≤ 1 for which Σ γ_j/(1 + λ_j) ≤ most."""
    rest = 1 / (1 + precision)
    low, high = torch.zeros_like(most), torch.ones_like(most)
    for _ in range(50):  # halvings
        middle = (low + high) / 2
        fits = (middle[:, None] - rest).clamp_min(0).sum(-1) <= most  # γ/(1 + λ) = max(0, θ − 1/(1 + λ))
        low, high = torch.where(fits, middle, low), torch.where(fits, high, middle)
    theta = torch.where((1 - rest).sum(-1) <= most, torch.ones_like(low), low)[:, None]
    return torch.minimum((theta * (1 + precision) - 1).clamp_min(0), precision)


# --- evidence ---------------------------------------------------------------------------------


def coarse_evidence(e: Tensor, noise: Tensor, alike: Tensor, requests: Sequence[FitRequest]) -> tuple[Tensor, Tensor]:
    """The constants e (B,) and what rows say of their noise (B, 4), in steps of what `PEOPLE.rows_share` rows change.

    χ²/n, q, the residual for each degree of freedom and the rows n − tr W² that explain f are means over rows: a step
    of their logarithms is 20/n. e is a sum, and its step at least 20 times what a row has on average. Grids begin at
    random, other for each module and number, as those of hyperparameters.
    """
    rows = torch.tensor([r.effective_rows for r in requests], dtype=e.dtype)
    told = torch.tensor([float(published_rows(r)) for r in requests], dtype=e.dtype)
    begin = np.stack([np.random.default_rng([*r.entropy, 7]).uniform(size=5) for r in requests])
    begins = torch.as_tensor(begin, dtype=e.dtype)
    step = (PEOPLE.rows_share / alike).clamp_max(1.0)

    def coarse(values: Tensor, i: int) -> Tensor:
        grid = ((values.clamp_min(1e-300).log() / step - begins[:, i]).round() + begins[:, i]) * step
        return torch.where(values > 0, grid.exp(), values)

    chi2, q, residual, dof = noise.unbind(-1)
    variance = residual / torch.where(dof > 0, dof, 1.0)
    left = (told - coarse((rows - dof).clamp_min(0), 3)).clamp_min(0)
    left = torch.where(dof > 0, left, dof)
    said = [coarse(chi2 / rows, 0) * told, coarse(q, 1), coarse(variance, 2) * torch.where(dof > 0, left, 1.0), left]
    each = torch.exp2((PEOPLE.rows_share * (e.abs() / alike).clamp_min(1.0)).log2().ceil())
    whole = ((e / each - begins[:, 4]).round() + begins[:, 4]) * each
    return significant(whole, PEOPLE.digits), significant(torch.stack(said, -1), PEOPLE.digits)


# --- hyperparameters --------------------------------------------------------------------------


def coarse(hyper: Hyperparameters, data: Samples, requests: Sequence[FitRequest]) -> Hyperparameters:
    """On a grid: logarithms in steps, and places and means in fractions of a spread. What was given stays.

    Grids of logarithms begin at random, other for each model: v is published as v + h(U − ½) with step h and uniform U.
    Nobody else knows where a grid begins, so that a module says as little as on a common one. But owners who agree are
    not all wrong by the same: what the grid does to each averages out where they are merged.
    """
    request = requests[0]
    if not request.learn:
        return hyper
    rngs = [np.random.default_rng([*r.entropy, 6]) for r in requests]  # functions of one model begin alike

    def logarithms(values: Tensor, step: float) -> Tensor:
        begin = step * as_index(np.stack([rng.uniform(size=values.shape[1:]) for rng in rngs]), values.device)
        return begin + _on_grid(values - begin, step)

    sd, theta, at = spread(data.X, (data.w > 0)[..., None])[:, 0], hyper.kernel.theta.clone(), 0
    for p in hyper.kernel.parameters:
        own, columns = slice(at, at + p.size), list(p.columns or range(sd.shape[1]))
        if p.unit is Unit.PLACE:
            theta[:, own] = _on_grid(theta[:, own], PEOPLE.place * _power_of_two(sd[:, columns]))
        else:
            theta[:, own] = logarithms(theta[:, own], PEOPLE.log_kernel)
        at += p.size
    kernel, likelihood = Kernel(hyper.kernel.structure, theta), hyper.likelihood
    if request.noise is None:
        likelihood = likelihood.map(lambda p: logarithms(p.log(), PEOPLE.log_noise).exp())
    height = _power_of_two(kernel.diagonal(data.X).mean(-1).sqrt())
    return Hyperparameters(kernel, likelihood, _on_grid(hyper.mean, PEOPLE.place * height))


def _power_of_two(size: Tensor) -> Tensor:
    return torch.exp2(size.clamp_min(1e-300).log2().round())


def _on_grid(values: Tensor, step: Tensor | float) -> Tensor:
    return (values / step).round() * step
