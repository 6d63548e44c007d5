"""What is random in modules of people cannot be computed by whoever has the rows; the owner can, and so can tests."""

import subprocess
import sys

import numpy as np
import pytest

import recyclegp as rgp
from recyclegp.local import secret

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 5, (80, 2))
Y = np.sin(X[:, 0]) + 0.3 * RNG.standard_normal(80)
OTHER = "\n".join(
    [
        "import numpy as np, recyclegp as rgp",
        "r = np.random.default_rng(3)",
        "X = r.uniform(0, 5, (80, 2))",
        "Y = np.sin(X[:, 0]) + 0.3 * r.standard_normal(80)",
        "m = rgp.fit(X, Y, privacy='{}', name='m')",
        "print(*m.site.rho.tolist(), *m.site.Z[0].tolist())",
    ]
)


@pytest.fixture(autouse=True)
def nobody_has_said(monkeypatch):
    monkeypatch.delenv(secret.VARIABLE)
    secret._of_this_process.cache_clear()
    yield
    secret._of_this_process.cache_clear()


def said(privacy="people", **options):
    m = rgp.fit(X, Y, privacy=privacy, name="m", **options)
    return np.r_[m.site.rho.numpy(), m.site.Z[0].numpy()]


def same(a, b):
    return a.shape == b.shape and np.array_equal(a, b)


def test_somebody_who_has_all_rows_does_not_have_the_noise():
    own, again = said(), said()
    assert same(own, again)  # in this process nobody can average it away
    (many,) = rgp.fit_many([(X, Y)], privacy="people", names=["m"], progress=False)
    assert same(own[: len(many.site.rho)], many.site.rho.numpy())
    secret._of_this_process.cache_clear()
    assert not same(own, said())
    assert same(said("things"), said("things", seed=0))
    things = said("things")
    secret._of_this_process.cache_clear()
    assert same(things, said("things"))


@pytest.mark.slow
def test_another_process_does_not_have_it_either():
    def elsewhere(privacy):
        code = [sys.executable, "-c", OTHER.format(privacy)]
        return np.array(subprocess.run(code, capture_output=True, text=True, check=True).stdout.split(), float)

    assert np.allclose(elsewhere("things"), said("things"))
    theirs, own = elsewhere("people"), said()
    assert theirs.shape != own.shape or not np.allclose(theirs, own, rtol=0.01)


def test_an_owner_may_have_a_secret(monkeypatch):
    monkeypatch.setenv(secret.VARIABLE, "a sentence that nobody guesses")
    own = said()
    secret._of_this_process.cache_clear()
    assert same(own, said())
    assert not same(own, said(seed=1))
    monkeypatch.setenv(secret.VARIABLE, "another one that nobody guesses")
    assert not same(own, said())
    monkeypatch.setenv(secret.VARIABLE, "none")
    assert same(said(), said())
    for short in ("", "short"):
        monkeypatch.setenv(secret.VARIABLE, short)
        with pytest.raises(rgp.RecycleGPError, match=f"RECYCLEGP_SECRET has {len(short)} characters and needs 16"):
            said()
        said("things")
