"""Small work gets one thread, and gives the user's back."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp import threads
from recyclegp.local import batch_fit


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_a_small_fit_and_a_small_merge_use_one(monkeypatch):
    seen = []
    real = batch_fit.solve
    monkeypatch.setattr(batch_fit, "solve", lambda *asked: seen.append(torch.get_num_threads()) or real(*asked))
    X = np.random.default_rng(0).uniform(0, 6, (30, 1))
    m = rgp.fit(X, np.sin(X[:, 0]), publish=6)
    assert seen == [1]
    assert torch.get_num_threads() == 2
    rgp.merge([m])


@pytest.mark.usefixtures("two_threads")
def test_large_work_keeps_them_and_errors_give_them_back():
    with threads.limit_threads(1e12):
        assert torch.get_num_threads() == 2
    with threads.limit_threads(10.0):
        assert torch.get_num_threads() == 1
    with pytest.raises(KeyError), threads.limit_threads(10.0):
        raise KeyError
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_calls_from_many_python_threads():
    """The first that comes sets the count, the last that goes restores it."""

    def work(_):
        with threads.limit_threads(10.0):
            return sum(torch.ones(50).sum().item() for _ in range(50))

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(64))) == {2500.0}


@pytest.mark.usefixtures("two_threads")
def test_a_team_works_on_parts_with_one_thread_each():
    """In the order of the parts; afterwards the user's threads are back, also after an error."""
    with threads.share_work(5) as workers:
        assert workers.size == 2
        assert torch.get_num_threads() == 1
        assert workers.map(lambda a, b: (a, b, torch.get_num_threads()), "xyz", range(3)) == [
            ("x", 0, 1),
            ("y", 1, 1),
            ("z", 2, 1),
        ]
    assert torch.get_num_threads() == 2
    with pytest.raises(ZeroDivisionError), threads.share_work(2) as workers:
        workers.map(lambda a: 1 / a, [1, 0])


@pytest.mark.usefixtures("two_threads")
def test_a_team_of_one_is_the_caller_with_all_threads():
    with threads.share_work(1) as workers:
        assert (workers.size, torch.get_num_threads()) == (1, 2)
        assert workers.map(lambda _: threading.get_ident(), [0, 1]) == [threading.get_ident()] * 2
    with threads.limit_threads(10.0), threads.share_work(8) as workers:  # many small problems are shared all the same
        assert workers.size == 2
        assert workers.map(shared_again, [0, 1]) == [1, 1]  # but not by those who share already


def shared_again(_):
    with threads.share_work(8) as workers:
        return workers.size


def test_how_many_threads_problems_are_worth():
    assert [threads.worth(count, 100) for count in (1, 12, 13, 25, 100)] == [1, 1, 1, 2, 8]
    assert threads.worth(3, 1) == 3
