"""An objective whose launches a GPU remembers: hundreds of small ones are started together instead of one by one.

Where matrices are small, starting the kernels of one value and its gradient takes several times as long as these run.
Asked again at another x they are the same, and so they are recorded once (a CUDA graph) and then replayed. That works
where nothing that is done depends on a number that only the GPU knows; `devices.holds` puts such questions off until
after the replay, and where an answer is no, that x is looked at once more without a recording.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..devices import CPU, questions_put_off


def can_record(device: torch.device) -> bool:
    """Is it a GPU of which that is known to work?"""
    return device.type == "cuda" and torch.version.cuda is not None


class Recorded:
    """f(x) (), for x (p,) on the CPU, as f does on the GPU; differentiable once."""

    def __init__(self, objective: Callable[[Tensor], Tensor], device: torch.device) -> None:
        self._objective = objective
        self._device = device
        self._tried = False
        self._x = torch.zeros(0, dtype=torch.float64)  # from where the recording reads x, there,
        self._found = self._x  # and where it writes value, gradient, and whether all questions were answered with yes
        self._graph: Any = None

    def __call__(self, x: Tensor) -> Tensor:
        value: Tensor = _known(x, self._evaluated(x.detach()))
        return value

    def _evaluated(self, x: Tensor) -> Tensor:
        """(1 + p,)  value and gradient, on the CPU."""
        if not self._tried:  # what libraries set up when they are used first cannot be recorded
            found = self._now(x).to(CPU)
            self._tried = True
            return found
        if self._graph is None:
            self._record(x)
        self._x.detach().copy_(x)
        self._graph.replay()
        found = self._found.to(CPU)
        return found[:-1] if bool(found[-1]) else self._now(x).to(CPU)

    def _now(self, x: Tensor) -> Tensor:
        return self._differentiated(x.to(self._device).requires_grad_())

    def _differentiated(self, x: Tensor) -> Tensor:
        """(1 + p,)  value and gradient, there."""
        with torch.enable_grad():
            value = self._objective(x)
        (gradient,) = torch.autograd.grad(value, x)
        return torch.cat([value.detach()[None], gradient])

    def _record(self, x: Tensor) -> None:
        graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(self._device)
        self._x = x.to(self._device).requires_grad_()
        stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(stream), questions_put_off() as questions:
            graph.capture_begin(capture_error_mode="thread_local")  # other threads may wait for the GPU meanwhile
            try:
                found = self._differentiated(self._x)
                fine = torch.stack([torch.ones_like(found[0], dtype=torch.bool), *questions]).all()
                self._found = torch.cat([found, fine[None].to(found)])
            finally:
                graph.capture_end()
        torch.cuda.current_stream(self._device).wait_stream(stream)
        self._graph = graph


class _Known(torch.autograd.Function):
    """A value whose gradient is known already."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, found: Tensor) -> Tensor:
        ctx.save_for_backward(found[1:])
        return found[0].clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = ctx.saved_tensors
        return gradients[0] * gradient, None


_known: Callable[[Tensor, Tensor], Tensor] = _Known.apply
