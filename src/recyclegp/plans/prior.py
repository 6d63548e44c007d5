"""What a plan says of one function before any row is seen: points, kernel, mean, noise, how owners differ."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..core.effects import NO_EFFECTS, Effects
from ..core.posterior import Basis, basis
from ..errors import RecycleGPError
from ..kernels import Kernel, learned


class Prior(NamedTuple):
    """f ~ GP(m, k) at public points Z, seen with Gaussian noise s; owners depart from f by `effects`."""

    Z: Tensor  # (M, D)
    kernel: Kernel
    mean: float
    noise: float  # s, a variance; 1 where the likelihood has none
    jitter: float  # added to K_ZZ by everybody alike, so that all sums are in the same coordinates
    effects: Effects = NO_EFFECTS

    @staticmethod
    @torch.no_grad()
    def at(Z: Tensor, kernel: Kernel, mean: float, noise: float, effects: Effects = NO_EFFECTS) -> Prior:
        """With the smallest jitter that these points need under this kernel."""
        return Prior(Z, kernel, mean, noise, float(basis(kernel, Z).jitter), effects)

    @property
    def without_effects(self) -> Prior:
        """Of what one owner sees: f and its own effects together."""
        return self._replace(effects=NO_EFFECTS)

    @torch.no_grad()
    def basis(self) -> Basis:
        """LLᵀ = K_ZZ + jitter, the same for everybody."""
        found = basis(self.kernel, self.Z, self.jitter)
        if float(found.jitter) != self.jitter:
            raise RecycleGPError("the plan's points are too close together for its kernel; make a plan with fewer")
        return found

    # --- what is learned, as one vector: free parameters of the kernel, then log σ_b² and log σ_d² where there are any

    @property
    def x(self) -> Tensor:
        logs = [value for value in (self.effects.offset, self.effects.smooth) if value > 0]
        return torch.cat([self.kernel.theta[self._free], self.kernel.theta.new_tensor(logs).log()])

    def kernel_at(self, x: Tensor) -> Kernel:
        free = self._free
        theta = self.kernel.theta.clone()
        theta[free] = x[: int(free.sum())]
        return self.kernel.with_theta(theta)

    def effects_at(self, x: Tensor) -> Effects:
        """Tensors, where they are learned; what is zero stays zero."""
        logs = iter(x[int(self._free.sum()) :])
        offset, smooth = (
            next(logs).exp() if value > 0 else 0.0 for value in (self.effects.offset, self.effects.smooth)
        )
        return replace(self.effects, offset=offset, smooth=smooth)

    def moved(self, x: Tensor) -> Prior:
        """The same at other parameters."""
        effects = self.effects_at(x)
        effects = replace(effects, offset=float(effects.offset), smooth=float(effects.smooth))
        return Prior.at(self.Z, self.kernel_at(x), self.mean, self.noise, effects)

    def with_noise(self, noise: float, mean: float) -> Prior:
        """At another noise, with effects that are as large beside it as before: sums stay what they are."""
        ratio = noise / self.noise
        return self._replace(noise=noise, mean=mean, effects=self.effects.scaled(ratio))

    @property
    def _free(self) -> Tensor:
        return torch.tensor(learned(self.kernel.structure))
