"""plot.rounds: what is drawn is what the history says."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import recyclegp as rgp
from cases_plans import answers, owners, plan


def test_rounds_draws_the_bound_or_the_score():
    agreed, of = plan(), owners(2, 200)
    with pytest.raises(rgp.RecycleGPError, match="nobody has answered"):
        rgp.plot.rounds(agreed)
    now = agreed
    for _ in range(3):
        _, now = now.combine(answers(now, of, slopes=True))
    ax = rgp.plot.rounds(now)
    (line,) = ax.get_lines()
    np.testing.assert_array_equal(line.get_ydata(), [r["bound"] for r in now.history])
    assert ax.get_ylabel() == "common bound, in nats"
    shot = rgp.merge([rgp.fit(X, y, name=name, privacy="things") for name, (X, y) in of.items()])
    now = shot.plan(12)
    for _ in range(3):
        _, now = now.combine(answers(now, of, slopes=True, score=True))
    ax = Figure().subplots()
    assert rgp.plot.rounds(now, ax) is ax
    line, merged = ax.get_lines()
    scores = [r["score"] for r in now.history if r["score"] is not None]
    np.testing.assert_array_equal(line.get_ydata(), scores)
    assert max(scores) - merged.get_ydata()[0] == pytest.approx(now.gain)
    assert ax.get_xlabel().startswith("exchanges")
    with pytest.raises(TypeError, match="draws a Plan, not int"):
        rgp.plot.rounds(3)
    with pytest.raises(TypeError, match="pass matplotlib axes"):
        rgp.plot.rounds(now, "axes")
