"""Gaussian data as rows."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

import reference as ref
from problems import check_site, many, problems
from recyclegp.core import sites
from recyclegp.local import observations


@many
@given(problem=problems())
def test_streaming_changes_nothing(problem):
    """Folding chunks of data into one triangle is the same site as all data at once."""
    X, y, noise = torch.tensor(problem.X), torch.tensor(problem.y), torch.tensor(problem.noise, dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observations, "ROWS", 2)
        rows = observations.stream(problem.base, X, y, noise, problem.mean)
    check_site(sites.from_rows(problem.base.Z, problem.base.L, rows, problem.mean), ref.collapsed_site(*problem.args))
