"""The optimiser on functions that are hard on purpose, one at a time and many at once."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from recyclegp.core import optimiser
from recyclegp.errors import NotPositiveDefiniteError


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def box(p: int, reach: float = 50.0) -> tuple[Tensor, Tensor]:
    return torch.full((p,), -reach, dtype=torch.float64), torch.full((p,), reach, dtype=torch.float64)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rosenbrock(x: Tensor) -> Tensor:
    """−Σ 100(x_{i+1} − x_i²)² + (1 − x_i)²: a curved valley, optimum 0 at 1."""
    return -(100 * (x[..., 1:] - x[..., :-1] ** 2).square() + (1 - x[..., :-1]).square()).sum(-1)


def batched(f):
    """An objective that does not depend on the problem."""
    return lambda x, _: f(x)


@pytest.mark.parametrize("p", [2, 3, 5, 8])
def test_rosenbrock(p):
    """A curved valley in several dimensions, from the usual bad start."""
    start = tensor(*([-1.2, 1.0] * p)[:p])[None]
    found = optimiser.maximise(batched(rosenbrock), start, *box(p), iterations=500, tolerance=1e-15)
    assert bool(found.converged)
    torch.testing.assert_close(found.x[0], torch.ones(p, dtype=torch.float64), rtol=0, atol=1e-3)
    assert float(found.value) > -1e-6


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6])
def test_badly_scaled_quadratic(condition):
    """Curvatures that differ by many orders, along no coordinate axis."""
    p = 6
    U = torch.linalg.qr(torch.randn(p, p, generator=generator(1), dtype=torch.float64)).Q
    A = U @ torch.diag(torch.logspace(0, math.log10(condition), p, dtype=torch.float64)) @ U.mT
    best = torch.linspace(-2, 3, p, dtype=torch.float64)

    def f(x: Tensor) -> Tensor:
        d = x - best
        return 3.5 - 0.5 * ((d @ A) * d).sum(-1)

    found = optimiser.maximise(batched(f), torch.zeros(1, p, dtype=torch.float64), *box(p), tolerance=1e-15)
    torch.testing.assert_close(found.x[0], best, rtol=0, atol=1e-4)
    assert float(found.value) == pytest.approx(3.5, abs=1e-8)
    assert bool(found.converged)


def test_optimum_on_a_face_of_the_box():
    """Where the free optimum is outside, the answer satisfies the conditions of the constrained one."""
    A = tensor(2.0, 0.8, 0.8, 1.0).reshape(2, 2)
    far = tensor(3.0, 2.0)

    def f(x: Tensor) -> Tensor:
        d = x - far
        return -0.5 * ((d @ A) * d).sum(-1)

    lower, upper = tensor(-1.0, -1.0), tensor(1.0, 5.0)
    found = optimiser.maximise(batched(f), tensor(-0.5, 0.3)[None], lower, upper, gradient=1e-5)
    # on the face x₁ = 1: x₂ = 2 + 0.8·(3 − 1)
    torch.testing.assert_close(found.x[0], tensor(1.0, 3.6), rtol=0, atol=1e-4)
    assert bool(found.converged)


def test_optimum_in_a_corner_of_the_box():
    """A slope that never ends stops at the corner, converged."""
    lower, upper = tensor(-2.0, -1.0, -3.0), tensor(1.0, 4.0, 0.5)
    found = optimiser.maximise(batched(lambda x: x @ tensor(1.0, -2.0, 0.3)), torch.zeros(1, 3).double(), lower, upper)
    torch.testing.assert_close(found.x[0], tensor(1.0, -1.0, 0.5))
    assert bool(found.converged)


def test_start_outside_the_box_is_brought_inside():
    """A start is clamped; the search never looks outside."""
    seen = []

    def f(x: Tensor) -> Tensor:
        seen.append(x.detach().clone())
        return -(x - 0.2).square().sum(-1)

    found = optimiser.maximise(batched(f), tensor(9.0, -9.0)[None], tensor(-1.0, -1.0), tensor(1.0, 1.0))
    torch.testing.assert_close(found.x[0], tensor(0.2, 0.2), rtol=0, atol=1e-5)
    every = torch.cat(seen)
    assert bool(((every >= -1) & (every <= 1)).all())


@pytest.mark.parametrize("nothing", [math.nan, math.inf, -math.inf])
def test_regions_without_a_value_are_stepped_back_from(nothing):
    """NaN or ±∞ beyond a wall just behind the optimum is only a step too far."""

    def f(x: Tensor) -> Tensor:
        inside = (x < 2.05).all(-1)
        return torch.where(inside, -(x - 2).square().sum(-1), torch.full_like(x[..., 0], nothing))

    found = optimiser.maximise(batched(f), tensor(-8.0, 1.0)[None], *box(2))
    torch.testing.assert_close(found.x[0], tensor(2.0, 2.0), rtol=0, atol=1e-4)
    assert bool(found.converged)


def test_a_covariance_that_cannot_be_factored_is_a_step_too_far():
    """A kernel matrix that has no factor is a step too far, and no error of the search."""

    def f(x: Tensor) -> Tensor:
        if float(x.detach().max()) > 1.6:
            raise NotPositiveDefiniteError("not positive definite")
        return -(x - 1.5).square().sum(-1)

    found = optimiser.maximise(batched(f), tensor(-3.0)[None], *box(1))
    torch.testing.assert_close(found.x[0], tensor(1.5), rtol=0, atol=1e-4)


def test_other_errors_are_not_swallowed():
    """Only failures that a shorter step can mend are caught."""

    def f(x: Tensor) -> Tensor:
        raise KeyError("a bug")

    with pytest.raises(KeyError):
        optimiser.maximise(batched(f), tensor(0.0)[None], *box(1))


def test_a_problem_without_a_value_at_its_start_fails_alone():
    """It is reported as not converged, with value −∞, and the others go on."""

    def f(x: Tensor, index: Tensor) -> Tensor:
        value = -(x - 1).square().sum(-1)
        return torch.where(index == 1, torch.full_like(value, math.nan), value)

    found = optimiser.maximise(f, torch.zeros(3, 2, dtype=torch.float64), *box(2))
    assert found.converged.tolist() == [True, False, True]
    assert float(found.value[1]) == -math.inf
    torch.testing.assert_close(found.x[[0, 2]], torch.ones(2, 2, dtype=torch.float64), rtol=0, atol=1e-5)


def family(seed: int, B: int, p: int):
    """B different quadratics with a quartic wall, each with its own optimum."""
    A = torch.randn(B, p, p, generator=generator(seed), dtype=torch.float64)
    A = A @ A.mT + 0.2 * torch.eye(p, dtype=torch.float64)
    best = torch.randn(B, p, generator=generator(seed + 1), dtype=torch.float64)

    def f(x: Tensor, index: Tensor) -> Tensor:
        d = x - best[index]
        return index - 0.5 * (d[:, None] @ A[index] @ d[..., None])[:, 0, 0] - d.pow(4).sum(-1)

    return f, best


def test_many_problems_reach_their_own_optimum():
    """Hundreds of problems at once, each converging by itself."""
    B, p = 300, 4
    f, best = family(3, B, p)
    found = optimiser.maximise(f, torch.zeros(B, p, dtype=torch.float64), *box(p), tolerance=1e-14, gradient=1e-5)
    assert bool(found.converged.all())
    torch.testing.assert_close(found.x, best, rtol=0, atol=1e-3)
    torch.testing.assert_close(found.value, torch.arange(B, dtype=torch.float64), rtol=1e-6, atol=1e-6)


def test_a_problem_does_not_know_its_neighbours():
    """The same answer, and the same number of evaluations, alone and in a batch."""
    B, p = 12, 3
    f, _ = family(7, B, p)
    start = torch.randn(B, p, generator=generator(9), dtype=torch.float64)
    together = optimiser.maximise(f, start, *box(p))
    for i in range(B):
        alone = optimiser.maximise(lambda x, _, i=i: f(x, torch.full((len(x),), i)), start[i : i + 1], *box(p))
        torch.testing.assert_close(alone.x[0], together.x[i], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(alone.value[0], together.value[i], rtol=1e-12, atol=1e-12)
        assert int(alone.evaluations) == int(together.evaluations[i])


def test_one_problem_from_the_best_of_several_starts():
    """Of two hills the higher one, when a start lies on it; starts without a value are ignored."""

    def f(x: Tensor) -> Tensor:
        low, high = (-((x - c).square().sum(-1)) for c in (-4.0, 4.0))
        value = torch.logsumexp(torch.stack([low, high + 3.0]), 0)
        return torch.where(x[..., 0] > 20, torch.full_like(value, math.nan), value)

    starts = [tensor(-4.0), tensor(2.5), tensor(30.0)]
    found = optimiser.maximise_one(f, starts, *box(1))
    torch.testing.assert_close(found.x, tensor(4.0), rtol=0, atol=1e-3)
    assert found.value == pytest.approx(3.0, abs=1e-6)
    assert found.converged
    low = optimiser.maximise_one(f, starts[:1], *box(1))
    torch.testing.assert_close(low.x, tensor(-4.0), rtol=0, atol=1e-3)


def test_best_start_is_chosen_per_problem():
    """Each problem takes its own best of the starts."""
    goal = tensor(0.0, 10.0)

    def f(x: Tensor, index: Tensor) -> Tensor:
        return -(x[:, 0] - goal[index]).square()

    starts = [torch.full((2, 1), s, dtype=torch.float64) for s in (9.0, 1.0)]
    torch.testing.assert_close(optimiser.best_start(f, starts), tensor(1.0, 9.0)[:, None])


def test_nothing_to_learn():
    """No parameters: the value is returned, converged."""
    found = optimiser.maximise(lambda x, index: index + 1.5, torch.zeros(2, 0, dtype=torch.float64), *box(0))
    assert found.converged.tolist() == [True, True]
    assert found.value.tolist() == [1.5, 2.5]


def test_the_iteration_limit_is_reported():
    """A search that was cut off does not claim to have converged."""
    found = optimiser.maximise(batched(rosenbrock), tensor(-1.2, 1.0, -1.2)[None], *box(3), iterations=3)
    assert not bool(found.converged)
    assert float(found.value) > float(rosenbrock(tensor(-1.2, 1.0, -1.2)))


def test_what_cannot_come_as_high_as_is_wanted_is_given_up():
    """Two hills with their tops at −100 and 0: only the second can reach −1, and takes as many steps as ever."""
    depth, scale = tensor(100.0, 0.0), tensor(1.0, 4.0, 0.3)

    def f(x: Tensor, problem: Tensor) -> Tensor:
        return -torch.log1p((scale * (x - 1).square()).sum(-1)) - depth[problem]

    start = tensor(-1.2, 1.0, -1.2).repeat(2, 1)
    ever, found = (optimiser.maximise(f, start, *box(3), wanted=wanted) for wanted in (-math.inf, -1.0))
    assert int(found.evaluations[0]) < int(ever.evaluations[0]) / 2
    assert not bool(found.converged[0])
    assert bool(found.converged[1])
    torch.testing.assert_close(found.x[1], ever.x[1], rtol=0, atol=0)


def test_a_step_that_promises_next_to_nothing_is_not_shortened():
    """Where the slope is wrong no step leads higher: at once, and not after all halvings, if little is to be gained."""
    calls = []

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            calls.append(len(x))
            return -x.square().sum(-1)

        @staticmethod
        def backward(ctx, gradient):
            return 1e-2 * gradient[:, None].expand(-1, 2)

    start = torch.zeros(1, 2, dtype=torch.float64)
    optimiser.maximise(batched(Wrong.apply), start, *box(2))
    ever = len(calls)
    calls.clear()
    found = optimiser.maximise(batched(Wrong.apply), start, *box(2), least=1e-3)
    assert len(calls) < ever / 2
    assert float(found.value) == 0.0


def test_the_result_is_never_worse_than_the_start():
    """Whatever the function: noise-like ripples, kinks, plateaus."""

    def f(x: Tensor) -> Tensor:
        return (torch.sin(40 * x) - (x - 1).abs() + (x * 3).floor()).sum(-1)

    start = 4 * torch.randn(50, 2, generator=generator(2), dtype=torch.float64)
    found = optimiser.maximise(batched(f), start, *box(2))
    assert bool((found.value >= f(start)).all())
    torch.testing.assert_close(found.value, f(found.x))


def test_width_bounds_how_many_problems_are_evaluated_together():
    seen = []

    def objective(x, index):
        seen.append(len(index))
        return -(x - index[:, None]).square().sum(-1)

    start = torch.zeros(10, 2, dtype=torch.float64)
    box = torch.full((2,), 50.0, dtype=torch.float64)
    found = optimiser.maximise(objective, start, -box, box, width=3)
    assert max(seen) == 3
    torch.testing.assert_close(found.x, torch.arange(10.0, dtype=torch.float64)[:, None].expand(10, 2))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("width", [1, 4, 2**31])
def test_threads_share_the_problems_and_change_nothing(threads, width):
    """No thread is given more than `width` problems at once, every problem finds its own optimum, and one may fail.

    Where all problems are little work beside what may be done at once, one thread does it.
    """
    best = torch.linspace(-3, 3, 11, dtype=torch.float64)[:, None].expand(-1, 2)
    seen = []

    def f(x: Tensor, index: Tensor) -> Tensor:
        seen.append(len(index))
        return (-(x - best[index]).square().sum(-1)).where(index != 5, torch.nan)

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        starts = [torch.zeros(11, 2, dtype=torch.float64), torch.ones(11, 2, dtype=torch.float64)]
        chosen = optimiser.best_start(f, starts, width)
        found = optimiser.maximise(f, chosen, *box(2), width=width)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert max(seen) <= (min(width, math.ceil(11 / threads)) if width < 2**31 else 11)
    assert (chosen[:, 0] > 0).tolist() == [bool(b > 0.5) and i != 5 for i, b in enumerate(best[:, 0])]
    others = torch.arange(11) != 5
    assert found.converged.tolist() == others.tolist()
    torch.testing.assert_close(found.x[others], best[others], rtol=0, atol=1e-3)


def test_a_start_that_looks_worse_may_lead_higher():
    """Two starts are searched a little way, each problem keeps the one that leads higher, and a tie keeps the first."""
    goal = tensor(4.0, 0.0)

    def f(x: Tensor, index: Tensor) -> Tensor:
        near, far = -x[:, 0].square(), goal[index] - 3 * (x[:, 0] - 8.0).square()
        return torch.logsumexp(torch.stack([near, far]), 0)

    starts = [torch.full((2, 1), s, dtype=torch.float64) for s in (0.5, 6.0)]  # the second begins lower
    found = optimiser.maximise_from(f, starts, *box(1), first=4)
    torch.testing.assert_close(found.x[:, 0], tensor(8.0, 0.0), rtol=0, atol=1e-3)
    assert found.converged.all()
    one = optimiser.maximise_one(
        lambda x: f(x[None], torch.tensor([0]))[0], [*(s[0] for s in starts), tensor(-40.0)], *box(1)
    )
    torch.testing.assert_close(one.x, tensor(8.0), rtol=0, atol=1e-3)


@pytest.mark.parametrize(("drop", "converged"), [(0.0, True), (1.0, False)])
def test_a_search_ends_where_no_step_gains_what_counts(drop, converged):
    """A slope that leads nowhere, as jitter makes some: on level ground it is the end, at a cliff it is a failure."""
    evaluations = []

    def f(x: Tensor, index: Tensor) -> Tensor:
        evaluations.append(len(index))
        slope = 2.0 * (x - x.detach()).sum(-1)  # which no step gains anything of
        beyond = (x.detach()[:, 0] > 1e-12).to(x)
        return 5.0 + slope - drop * beyond

    found = optimiser.maximise(f, torch.zeros(1, 1, dtype=torch.float64), *box(1), least=1e-3)
    assert found.converged.tolist() == [converged]
    assert len(evaluations) < 20
    with_all_halvings = len(evaluations)
    optimiser.maximise(f, torch.zeros(1, 1, dtype=torch.float64), *box(1))
    assert len(evaluations) - with_all_halvings > with_all_halvings
