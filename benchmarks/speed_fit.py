"""Fitting thousands of small models: together, one by one, and by others. Peers are timed on a sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import mean, median
from typing import Any, NamedTuple

import numpy as np

import peer_gpytorch
import peer_sklearn
import recyclegp as rgp
from data import adjoining
from speed_rows import PEERS, Options, Row, timed

COLLAPSED: dict[str, Any] = {"method": "collapsed", "inducing": 3, "publish": None}
EXACT: dict[str, Any] = {"method": "exact", "publish": 3}
NEAR = 0.1  # nats below our evidence at which a peer is as good
RATES = (0.01, 0.1, 0.3)  # of Adam: GPyTorch's own example, ten times that, and as fast as it still arrives here

Part = tuple[np.ndarray, np.ndarray]


class Sizes(NamedTuple):
    K: int
    n: int
    by_fit: int  # how many `fit` does one by one
    by_svgp: int
    svgp_steps: int
    by_sklearn: int  # and by our exact method
    rates: tuple[float, ...]


FULL = Sizes(K=5000, n=200, by_fit=20, by_svgp=5, svgp_steps=2000, by_sklearn=100, rates=RATES)
QUICK = Sizes(K=200, n=200, by_fit=2, by_svgp=2, svgp_steps=300, by_sklearn=8, rates=RATES[1:])


def rows(options: Options) -> Iterator[Row]:
    sizes = QUICK if options.quick else FULL
    parts = adjoining(sizes.K, sizes.n, np.random.default_rng(options.seed))
    rgp.fit_many(parts[:2], progress=False, **COLLAPSED)  # what is computed once for all

    def together() -> tuple[float, list[rgp.Module]]:
        return timed(lambda: rgp.fit_many(iter(parts), progress=False, **COLLAPSED))

    # Too long to take turns: ours before and after the others, so that a machine that slows down slows down both.
    before, modules = together()
    alone = [timed(lambda p=p: rgp.fit(*p, **COLLAPSED))[0] for p in spread(parts, sizes.by_fit)]
    sample = spread(list(zip(parts, modules, strict=True)), sizes.by_svgp)
    trained = {rate: train(sizes, sample, rate, options.seed) for rate in sizes.rates}
    ours = [before, together()[0]]
    yield against_fit(sizes, ours, alone)
    for rate, found in trained.items():
        yield from against_svgp(sizes, ours, rate, found)
    yield from against_sklearn(sizes, ours, parts, options.threads)


def spread(things: Sequence[Any], count: int) -> list[Any]:
    """So many of them, evenly spaced."""
    return [things[i] for i in np.linspace(0, len(things) - 1, count).round().astype(int)]


def against_fit(sizes: Sizes, ours: list[float], times: list[float]) -> Row:
    return Row(
        "fit",
        f"fit_many, {sizes.K:,} × {sizes.n} rows, collapsed",
        "fit, one by one",
        ours=mean(ours),
        other=sizes.K * mean(times),
        target=20.0,
        note=f"same options; fit extrapolated from {len(times)} models",
        sizes=sizes._asdict(),
        raw={"ours": ours, "other_each": times, "sample": len(times)},
    )


class Peer(NamedTuple):
    end: peer_gpytorch.Trained
    evidence: float  # ours, of the same rows


def train(sizes: Sizes, sample: list[tuple[Part, rgp.Module]], rate: float, seed: int) -> list[Peer]:
    options = {"points": 3, "rate": rate, "most_steps": sizes.svgp_steps, "seed": seed}
    return [
        Peer(peer_gpytorch.train(*data, target=module.evidence - NEAR, **options), module.evidence)
        for data, module in sample
    ]


def against_svgp(sizes: Sizes, ours: list[float], rate: float, found: list[Peer]) -> Iterator[Row]:
    """Twice: ended by itself, as ours is, and stopped by somebody who knows how good ours is."""
    ends, below = [peer.end for peer in found], [peer.evidence - peer.end.elbo for peer in found]
    raw = {"ours": ours, "sample": len(ends), "ends": [end._asdict() for end in ends], "nats_below": below}
    known = [end.target_steps or end.steps for end in ends]
    reached = sum(end.target_steps is not None for end in ends)
    common: dict[str, Any] = {"ours": mean(ours), "target": 100.0, "sizes": sizes._asdict(), "raw": raw}
    said = f"one by one, extrapolated from {len(ends)} models; "
    name = f"fit_many, {sizes.K:,} × {sizes.n} rows, collapsed"
    yield Row(
        "fit",
        name,
        f"GPyTorch SVGP, Adam at {rate}",
        other=sizes.K * mean(end.seconds for end in ends),
        bounded=not all(end.still for end in ends),
        note=f"{said}each until {peer_gpytorch.PATIENCE} steps gain less than {peer_gpytorch.RISE} nats: "
        f"{median(end.steps for end in ends):.0f} steps (at most {sizes.svgp_steps}), "
        f"{median(below):.2f} nats below our evidence",
        **common,
    )
    yield Row(
        "fit",
        name,
        f"the same, stopped at our evidence − {NEAR}",
        other=sizes.K * mean(end.target_seconds or end.seconds for end in ends),
        bounded=reached < len(ends),
        note=f"{said}{reached} came there, in {median(known):.0f} steps; nobody who fits it alone could know when",
        **common,
    )


def against_sklearn(sizes: Sizes, ours: list[float], parts: list[Part], processes: int) -> Iterator[Row]:
    collapsed, exact = (f"fit_many, {sizes.K:,} × {sizes.n} rows, {how}" for how in ("collapsed", "exact"))
    name = f"scikit-learn exact GP, {processes} processes"
    try:
        crowd = peer_sklearn.Crowd(processes)
    except ImportError:
        yield Row("fit", collapsed, name, ours=mean(ours), missing=f"not installed: {PEERS}")
        yield Row("fit", exact, name, missing=f"not installed: {PEERS}")
        return
    sample = spread(parts, sizes.by_sklearn)
    crowd.fit(sample[: 2 * processes])  # starting processes is not fitting
    first, theirs = timed(lambda: crowd.fit(sample))
    mine, modules = timed(lambda: rgp.fit_many(sample, progress=False, **EXACT))
    second, _ = timed(lambda: crowd.fit(sample))
    each = sizes.K / len(sample)
    common: dict[str, Any] = {"other": each * (first + second) / 2, "sizes": sizes._asdict()}
    raw = {"other_sample": [first, second], "sample": len(sample)}
    said = f"scikit-learn extrapolated from {len(sample)} models"
    yield Row("fit", collapsed, name, ours=mean(ours), note=said, raw={"ours": ours, **raw}, **common)
    gain = [m.evidence - other for m, other in zip(modules, theirs, strict=True)]
    yield Row(
        "fit",
        exact,
        name,
        ours=each * mine,
        target=4.0,
        note=f"both extrapolated from {len(sample)} models; our log evidence is {median(gain):+.2f} nats from theirs",
        raw={"ours_sample": [mine], "evidence_less_theirs": gain, **raw},
        **common,
    )
