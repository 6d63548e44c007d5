"""Objectives that a GPU remembers: the same values and gradients, and nobody asks it anything in between."""

import numpy as np
import pytest
import torch

import recyclegp as rgp
from asking import Asking
from recyclegp.core import linalg, optimiser
from recyclegp.core.recorded import Recorded
from recyclegp.devices import holds, questions_put_off
from recyclegp.errors import NotPositiveDefiniteError

needs_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


def parts(K, D, smooth=0.0):
    rng = np.random.default_rng(K + D)
    found = []
    for k in range(K):
        X = rng.uniform(-2, 2, (40 + k, D))
        f = np.sin(2 * X[:, 0]) * X[:, -1] + smooth * np.cos(3 * X[:, 0] + k) + 0.5 * rng.normal()
        found.append((X, f + 0.1 * rng.normal(size=len(X))))
    return found


@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
@pytest.mark.parametrize("D", [1, 3])
@pytest.mark.parametrize("options", [{"inducing": "all"}, {"inducing": 20, "owners": None}, {"inducing": 20}])
def test_a_search_that_can_be_recorded_asks_nothing(D, options, monkeypatch):
    maximise_one, asked = optimiser.maximise_one, []

    def looked_at(objective, starts, *args, recorded=False, **rest):
        if recorded:
            x = starts[0].clone().requires_grad_()
            value = objective(x)  # what is done once for all
            (slope,) = torch.autograd.grad(value, x)
            with Asking() as asking, questions_put_off() as questions:
                again = objective(x)
                (slope_again,) = torch.autograd.grad(again, x)
            torch.testing.assert_close((again, slope_again), (value, slope), rtol=1e-12, atol=1e-12)
            assert asking.found == []
            assert all(bool(question) for question in questions)
            asked.append(len(questions))
        return maximise_one(objective, starts, *args, recorded=recorded, **rest)

    monkeypatch.setattr(optimiser, "maximise_one", looked_at)
    rgp.merge(rgp.fit_many(parts(9, D, 0.5), progress=False), **options)
    assert len(asked) > 3
    assert min(asked) > 0


def test_questions_that_are_put_off_are_asked_later():
    yes, no = torch.tensor([True, False])
    assert holds(yes)
    assert not holds(no)
    with questions_put_off() as questions:
        assert holds(yes)
        assert holds(no)
    assert [bool(question) for question in questions] == [True, False]
    assert not holds(no)


def objective(device):
    """−½log det(e^a A + e^b I) + a; where b > 2 the matrix is of another kind, which no jitter mends."""
    identity = torch.eye(40, dtype=torch.float64, device=device)
    A = torch.diag(torch.linspace(1.0, 3.0, 40, dtype=torch.float64, device=device)) + 0.3

    def value(x):
        matrix = A * x[0].exp() + x[1].exp() * identity - 1e9 * (x[1] > 2) * identity
        return x[0] - linalg.logdet(linalg.cholesky(matrix).L)

    return value


@needs_a_gpu
def test_a_recording_has_the_same_values_and_gradients():
    recorded, here = Recorded(objective("cuda"), torch.device("cuda")), objective("cpu")
    for place in ([0.1, 0.2], [0.3, -0.1], [0.2, 3.0], [-1.0, 0.5], [0.2, 0.1]):
        x = torch.tensor(place, dtype=torch.float64, requires_grad=True)
        if place[1] > 2:
            with pytest.raises(NotPositiveDefiniteError):
                recorded(x)
            continue
        found, expected = recorded(x), here(x)
        slopes = [torch.autograd.grad(value, x)[0] for value in (found, expected)]
        torch.testing.assert_close((found, slopes[0]), (expected, slopes[1]), rtol=1e-11, atol=1e-11)


@needs_a_gpu
@pytest.mark.filterwarnings("ignore::recyclegp.RecycleGPWarning")
@pytest.mark.parametrize("D", [1, 2])
@pytest.mark.parametrize("options", [{"inducing": "all"}, {"inducing": 20}, {"owners": "smooth"}])
def test_a_merge_with_recordings_is_the_same(D, options):
    modules = rgp.fit_many(parts(9, D, 0.5), progress=False)
    here, there = rgp.merge(modules, **options), rgp.merge(modules, device="cuda", **options)
    assert there.evidence == pytest.approx(here.evidence, rel=1e-4)
