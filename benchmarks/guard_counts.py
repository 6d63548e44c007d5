"""What no noise disturbs: calls, evaluations, imports, bytes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import guard_commands
import recyclegp as rgp
from data import adjoining, intervals
from gpu_profile import python_calls
from guard_rows import Row
from recyclegp.core import optimiser
from speed_fit import COLLAPSED


class TensorCalls(TorchDispatchMode):
    """How many operations torch is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return call(*args, **(kwargs or {}))


def tensor_calls(call: Callable[[], Any]) -> int:
    call()  # what is computed once for all
    with TensorCalls() as calls:
        call()
    return calls.count


def evaluations(call: Callable[[], Any]) -> int:
    """Of all objectives with their gradients, in all searches together."""
    count, derivative = 0, optimiser._derivative

    def counted(objective: Any, x: torch.Tensor, index: torch.Tensor) -> Any:
        nonlocal count
        count += len(x)
        return derivative(objective, x, index)

    with mock.patch.object(optimiser, "_derivative", counted):
        call()
    return count


def modules_of(K: int) -> Any:
    return rgp.fit_many(adjoining(K, 200, np.random.default_rng(0)), publish=3, progress=False)


def calls_of_merges() -> Iterator[Row]:
    """None of them for each module: as many for twice as many."""
    many = modules_of(100)
    kernel, Z = many[0].kernel_spec, np.linspace(0, 5.5, 35)[:, None]

    def calls(K: int, what: Any) -> int:
        return tensor_calls(lambda: rgp.merge(what(K), kernel=kernel, inducing=Z, learn=False))

    few, twice = calls(50, lambda K: many[:K]), calls(100, lambda K: many)
    yield Row("tensor calls, merge of 50 from fit_many", few, 330)
    yield Row("more of them for 100", twice - few, 20)
    singly = [list(many)[:K] for K in (50, 100)]
    few, twice = (calls(len(one_by_one), lambda _, m=one_by_one: m) for one_by_one in singly)
    yield Row("tensor calls, merge of 50 from a list", few, 280)
    yield Row("more of them for 100 from a list", twice - few, 20)


def calls_of_learning() -> Iterator[Row]:
    """All defaults but the kernel, owners of a few dozen points in four dimensions who agree."""
    rng = np.random.default_rng(0)
    inputs = [rng.uniform(0, 1, (80, 4)) for _ in range(8)]
    parts = [(X, np.sin(3 * X).sum(1) + 0.1 * rng.normal(size=80)) for X in inputs]
    modules = rgp.fit_many(parts, kernel="rbf", publish=24, progress=False)
    whole = evaluations(lambda: rgp.merge(modules))
    once = evaluations(lambda: rgp.merge(modules, owners=None, trust=None))
    yield Row("evaluations, default merge of 8 × 24 in 4-D", whole, 70)
    yield Row("the same / one search for kernel and noise", whole / once, 1.5, target=1.5)
    yield Row("tensor calls of it", tensor_calls(lambda: rgp.merge(modules)), 72_000)
    screening = evaluations(lambda: rgp.merge(modules)) - evaluations(lambda: rgp.merge(modules, trust=None))
    yield Row("evaluations of its screening, where all agree", screening, 0)


def python_for_each() -> Iterator[Row]:
    """Python functions that one more module calls where nothing is learned, and so nothing else differs."""
    parts, many = list(intervals(400, 200, 0)), modules_of(400)
    kernel, Z = many[0].kernel_spec, np.linspace(0, 5.5, 35)[:, None]

    def of_one_more(call: Callable[[int], Any]) -> float:
        call(50)  # what is computed once for all
        few, twice = (python_calls(lambda K=K: call(K)) for K in (200, 400))
        return (twice - few) / 200

    merging = of_one_more(lambda K: rgp.merge(many[:K], kernel=kernel, inducing=Z, learn=False))
    yield Row("Python calls for one more module, merge", merging, 35)
    fitting = of_one_more(lambda K: rgp.fit_many(parts[:K], learn=False, progress=False, **COLLAPSED))
    yield Row("Python calls for one more module, fit_many", fitting, 160)


def files() -> Iterator[Row]:
    many = modules_of(50)
    merged = rgp.merge(many, kernel=many[0].kernel_spec, inducing=20, learn=False)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.safetensors"

        def size(thing: Any) -> int:
            thing.save(path)
            return path.stat().st_size

        yield Row("bytes, a module of 3 points", size(many[0]), 2000)
        yield Row("bytes, 50 modules of 3 points in one file", size(many), 20_000)
        yield Row("bytes, an ensemble of them at 20 points", size(merged), 65_000)


def imports() -> Iterator[Row]:
    """Python modules that a command has loaded when it ends."""
    with guard_commands.files() as folder:
        for command in (*guard_commands.COMMANDS, guard_commands.WITH_TORCH):
            found = guard_commands.imported(command, folder)
            yield Row(f"imports, recyclegp {command.what}", found, command.imports)


ROWS = {f.__name__: f for f in (calls_of_merges, calls_of_learning, python_for_each, files, imports)}
