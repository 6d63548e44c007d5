"""A file that lies: what it may say instead of the truth, and the module that says it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

import recyclegp as rgp
from recyclegp.core.noise_evidence import NoiseEvidence
from recyclegp.core.sites import Site
from recyclegp.kernels import Kernel, Unit, entries, parse
from recyclegp.likelihoods import Gaussian
from recyclegp.record import Latent

MOST_ROWS = 10**15
OTHERS = ("matern52", "linear", "periodic", "rbf + linear")  # structures of kernels, beside a module's own

Said = float | np.ndarray


class Forgery(NamedTuple):
    """What is said instead of the truth: logarithms of factors, but for those that say otherwise."""

    gain: float = -1.0  # of f, in itself: −1 is the opposite function, 1 the truth
    shift: float = 0.0  # of f, in itself
    sure: float = 0.0  # precision
    noise: float = 0.0
    rows: float = 0.0
    densities: float = 0.0
    chi2: float = 0.0
    left_open: float = 0.0
    residual: float = 0.0
    dof: float = 0.0
    kept: float = 0.0  # less of it, whatever the sign
    evidence: float = 0.0  # e, more by the hyperbolic sine of it
    outputscale: float = 0.0
    lengthscale: float = 0.0
    structure: float = 0.0  # of the kernel: rounded, 0 its own, then those of OTHERS in turn
    mean: float = 0.0  # in itself
    stretch: float = 0.0  # of the points
    move: float = 0.0  # of the points, in itself
    # for each point, or one for all
    wave: Said = 0.0  # f there, in itself
    surer: Said = 0.0  # precision there
    places: Said = 0.0  # (P, D)  where it is, in itself


BY_POINT = ("wave", "surer", "places")
NUMBERS = tuple(name for name in Forgery._fields if name not in BY_POINT)
IN_ITSELF = frozenset({"gain", "shift", "mean", "move", "structure"})


def forged(m: rgp.Module, f: Forgery) -> rgp.Module:
    """The module that says so."""
    latent = _latent(m.latents[0], f)
    return replace(m, latents=(latent,), likelihoods=(Gaussian(float(m.likelihoods[0].values[0]) * np.exp(f.noise)),))


def _latent(one: Latent, f: Forgery) -> Latent:
    rows = max(1, round(min(MOST_ROWS, one.rows * np.exp(f.rows))))
    return one._replace(
        site=_site(one.known_site, f),
        kernel=_kernel(one.kernel, one.known_site.Z.shape[1], f),
        mean=one.mean + f.mean,
        rows=rows,
        effective_rows=rows * float(np.exp(f.densities)),
        kept=(1.0 if one.kept is None else one.kept) * float(np.exp(-abs(f.kept))),
        noise_evidence=_evidence(one.noise_evidence, f),
    )


def _site(site: Site, f: Forgery) -> Site:
    """R, ρ of gain·f + shift + wave, ρ as if the function were what the rows said plus Rᵀ(shift + wave)."""
    more = torch.as_tensor(f.shift + f.wave, dtype=torch.float64).expand(len(site.Z))
    each = torch.as_tensor(np.exp(0.5 * np.asarray(f.surer)), dtype=torch.float64).expand(len(site.Z))
    root = float(np.exp(0.5 * f.sure))
    rho = f.gain * site.rho + site.Rt @ more
    if bool((each != 1).any()):  # surer of some points: what it says of f there stays about the same
        values = torch.linalg.lstsq(site.Rt, rho[:, None]).solution[:, 0]
        rho = (site.Rt * each) @ values
    Z = site.Z * float(np.exp(f.stretch)) + f.move + torch.as_tensor(f.places, dtype=torch.float64)
    return Site(Z, site.Rt * each * root, rho * root, site.e + float(np.sinh(f.evidence)))


def _evidence(said: NoiseEvidence | None, f: Forgery) -> NoiseEvidence | None:
    if said is None:
        return None
    factors = np.exp([f.chi2, f.left_open, f.residual, f.dof]).tolist()
    return NoiseEvidence(*(a * b for a, b in zip(said, factors, strict=True)))


def _kernel(kernel: Kernel, dimension: int, f: Forgery) -> Kernel:
    which = round(abs(f.structure)) % (len(OTHERS) + 1)
    told = kernel if which == 0 else parse(OTHERS[which - 1], dimension)
    steps = {Unit.AMPLITUDE: f.outputscale, Unit.LENGTH: f.lengthscale}
    more = [steps.get(p.unit, 0.0) for p in entries(told.structure)]
    return told.with_theta(told.theta + torch.tensor(more, dtype=torch.float64))
