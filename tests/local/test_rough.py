"""Exact searches begin in single precision, and end where they would have ended without it."""

import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.local import batch_fit, objectives

SEARCH = batch_fit.SEARCH


def parts(noise, columns=1, shift=0.0, count=4, rows=90):
    rng = np.random.default_rng(7)
    found = []
    for _ in range(count):
        X = rng.uniform(-1, 1, (rows, columns))
        found.append((X + shift, np.sin(4 * X).sum(1) + noise * rng.normal(size=rows)))
    return found


def reached(data, monkeypatch, *, rough, **options):
    """Per data set, what the search has maximised where it ended; and how many were begun again in double."""
    values, begun = [], []
    learn, first = batch_fit._learn, batch_fit._first_steps
    with monkeypatch.context() as patched:
        patched.setattr(batch_fit, "_learn", lambda *a: (found := learn(*a), values.append(found.values))[0])
        patched.setattr(batch_fit, "_first_steps", lambda *a: (begun.append(len(a[2][0])), first(*a))[1])
        patched.setattr(objectives, "SEARCH", SEARCH._replace(rough_from=64 if rough else 10**9))
        modules = rgp.fit_many(data, method="exact", publish=3, progress=False, **options)
    return torch.cat(values), begun, modules


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
@pytest.mark.parametrize(
    ("noise", "columns", "shift", "kernel"),
    [(0.3, 1, 0.0, "matern52"), (0.3, 2, 0.0, "rbf + linear"), (0.1, 1, 2e9, "rq"), (1e-3, 2, 5.0, "rbf")],
)
def test_it_ends_where_it_would_have_ended(noise, columns, shift, kernel, monkeypatch):
    data = parts(noise, columns, shift)
    (ever, none, _), (found, some, _) = (reached(data, monkeypatch, rough=r, kernel=kernel) for r in (False, True))
    assert not none
    assert some[0] == len(data)
    assert bool((found > ever - 1e-2).all())


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
def test_what_single_precision_has_wrong_begins_again_in_double(monkeypatch):
    """Beside data with noise there are some with none, and those alone."""
    data = parts(0.3, count=3) + parts(1e-4, count=2)
    found, begun, _ = reached(data, monkeypatch, rough=True)
    ever, _, _ = reached(data, monkeypatch, rough=False)
    assert begun == [5, 2]
    np.testing.assert_allclose(found, ever, atol=1e-2)


@pytest.mark.filterwarnings("ignore::recyclegp.errors.LittleKeptWarning")
def test_inputs_far_from_a_kernel_with_a_centre_stay_in_double(monkeypatch):
    """A line is drawn about a place, which inputs cannot be moved away from."""
    _, begun, _ = reached(parts(0.3, shift=1e6), monkeypatch, rough=True, kernel="rbf + linear")
    assert not begun
