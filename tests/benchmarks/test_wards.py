"""The benchmark of censored times and of levels in an order measures what docs/likelihoods.md says."""

import numpy as np
import pytest
import torch

import wards
from pages import read


@pytest.mark.slow
def test_a_quick_run(tmp_path, capsys):
    threads = torch.get_num_threads()
    wards.main(["--seeds", "1", "--json", str(tmp_path / "run.json")])
    torch.set_num_threads(threads)
    found = read(tmp_path / "run.json")
    assert [row["of"] for row in found] == ["survival", "ordinal"]
    said = capsys.readouterr().out
    assert all(text in said for text in wards.values(found).values())


def test_rows_of_wards_are_what_they_are_called():
    rng = np.random.default_rng(0)
    ward, test = wards.censored(rng, 0, 400), wards.censored(rng, None, 400)
    assert 0.2 < np.mean(ward.y < 0) < 0.8
    assert (np.abs(ward.y) <= ward.known).all()
    assert (test.y == test.known).all()
    assert set(wards.ordered(rng, None, 400).y) == set(wards.LEVELS)
    assert ward.X[:, 0].max() < 2.5 < test.X[:, 0].max()


def test_what_is_kept_holds():
    """Merged as one model of all rows to 0.05, and better than everything else."""
    for of in ("survival", "ordinal"):
        rows = [row["models"] for row in read(wards.KEPT) if row["of"] == of]
        assert len(rows) == wards.SEEDS
        nlpd = {name: np.mean([row[name]["nlpd"] for row in rows]) for name in rows[0]}
        merged, pooled = nlpd.pop("merged"), nlpd.pop("all rows in one place")
        assert merged < pooled + 0.05
        assert len(nlpd) == 2
        assert all(merged < other - 0.05 for other in nlpd.values())
