"""Combining answers is the central collapsed model, and its gradient; against dense algebra in NumPy and autograd."""

import math

import numpy as np
import pytest
import torch

import recyclegp as rgp
from cases_plans import KERNEL, MEAN, NOISE, Central, answers, owners, plan, rbf, rounds, rows
from recyclegp.core.effects import NO_EFFECTS, Effects
from recyclegp.core.posterior import basis
from recyclegp.kernels import parse
from recyclegp.plans import bound, restating, slopes, sums
from recyclegp.plans.prior import Prior

T = np.random.default_rng(5).uniform(-2, 2, (7, 2))


def together(of):
    return tuple(np.concatenate(part) for part in zip(*of.values(), strict=True))


def close(found, expected, tolerance=1e-8):
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("slopes_too", [False, True])
def test_combining_is_the_central_collapsed_model(slopes_too):
    agreed, of = plan(), owners()
    X, y = together(of)
    e, _ = agreed.combine(answers(agreed, of, slopes=slopes_too))
    central = Central(agreed.points, X, y, NOISE * np.eye(len(y)), jitter=agreed.jitter)
    close(e.bound, central.bound)
    close(e.predict(T), central.predict(T))


def test_an_answer_is_a_module_at_the_points_of_the_plan():
    agreed, of = plan(), owners()
    X, y = of["ward-1"]
    answer = answers(agreed, of)[1]
    alone = Central(agreed.points, X, y, NOISE * np.eye(len(y)), jitter=agreed.jitter)
    close(answer.predict(T), alone.predict(T))
    merged = rgp.merge(answers(agreed, of), inducing=agreed.points, kernel=agreed.kernel, learn=False)
    X, y = together(of)
    central = Central(agreed.points, X, y, NOISE * np.eye(len(y)), jitter=agreed.jitter)
    close(merged.predict(T), central.predict(T))
    close(merged.bound, central.bound, 1e-7)


def test_removing_an_owner_is_never_having_asked():
    agreed, of = plan(), owners()
    all_of_them = agreed.combine(answers(agreed, of))[0]
    some = {name: own for name, own in of.items() if name != "ward-1"}
    fewer = agreed.combine(answers(agreed, some))[0]
    close(all_of_them.remove("ward-1").predict(T), fewer.predict(T))


def test_names_only():
    agreed, of = plan(), owners()
    some, _ = agreed.combine(answers(agreed, of), keep="names")
    full, _ = agreed.combine(answers(agreed, of))
    close(some.predict(T), full.predict(T), 1e-12)
    assert some.names == full.names
    with pytest.raises(rgp.RecycleGPError, match="keep='sites'"):
        some.remove("ward-1")


def test_weights_are_powers():
    """A row of weight two is there twice, and so is an owner's."""
    agreed, of = plan(), owners(2)
    (X0, y0), (X1, y1) = of.values()
    w = np.random.default_rng(0).integers(1, 4, len(y0))
    weighted = [
        agreed.contribute(X0, y0, name="a", weights=w, privacy="things"),
        agreed.contribute(X1, y1, name="b", privacy="things"),
    ]
    e = agreed.combine(weighted, weights={"b": 2.0})[0]
    X, y = np.concatenate([np.repeat(X0, w, 0), X1, X1]), np.concatenate([np.repeat(y0, w), y1, y1])
    central = Central(agreed.points, X, y, NOISE * np.eye(len(y)), jitter=agreed.jitter)
    close(e.bound, central.bound)
    close(e.predict(T), central.predict(T))


def test_known_noises_of_rows():
    agreed, of = plan(), owners(2)
    rng = np.random.default_rng(1)
    noise = {name: rng.uniform(0.02, 0.4, len(y)) for name, (_, y) in of.items()}
    given = [agreed.contribute(X, y, name=n, noise=noise[n], privacy="things") for n, (X, y) in of.items()]
    e, following = agreed.combine(given)
    X, y = together(of)
    central = Central(agreed.points, X, y, np.diag(np.concatenate(list(noise.values()))), jitter=agreed.jitter)
    close(e.bound, central.bound)
    close(e.predict(T), central.predict(T))
    assert following.noise == agreed.noise  # there is none to be learned


@pytest.mark.parametrize(("offset", "smooth"), [(0.5, 0.0), (0.4, 0.6)])
def test_owners_that_differ_are_integrated_out_at_home(offset, smooth):
    agreed, of = plan(offset_sd=offset, smooth_sd=smooth), owners()
    e, _ = agreed.combine(answers(agreed, of))
    X, y = together(of)
    N, first = NOISE * np.eye(len(y)), 0
    for own, _ in of.values():
        here = slice(first, first + len(own))
        N[here, here] += offset**2 + smooth**2 * rbf(own, own)
        first += len(own)
    central = Central(agreed.points, X, y, N, jitter=agreed.jitter)
    close(e.bound, central.bound)
    close(e.predict(T), central.predict(T))
    assert np.abs(e.remove("ward-1").predict(T)[0] - e.predict(T)[0]).max() > 1e-6
    # an owner's own function: f + b + g given all rows, by dense algebra
    Z = agreed.points

    def through_points(A, B):
        return rbf(A, Z) @ np.linalg.solve(rbf(Z, Z), rbf(Z, B))

    same = np.arange(len(y)) < 30
    cross = through_points(T, X) + same * (offset**2 + smooth**2 * rbf(T, X))
    exact = MEAN + cross @ np.linalg.solve(through_points(X, X) + N, y - MEAN)
    assert np.abs(e.predict(T, owner="ward-0")[0] - exact).max() < 0.15
    assert np.abs(e.predict(T)[0] - exact).max() > 2 * np.abs(e.predict(T, owner="ward-0")[0] - exact).max()
    new = e.predict(T, owner="new")[1]  # by what is known of how owners differ, from so few of them
    assert (new > central.predict(T)[1] + 0.99 * (offset**2 + smooth**2 * 1.3)).all()


def test_several_outputs_of_which_some_were_not_seen():
    rng = np.random.default_rng(3)
    X, y = rows(60)
    Y = np.c_[y, np.cos(X[:, 0]) + 0.1 * rng.standard_normal(60)]
    Y[rng.uniform(size=60) < 0.3, 1] = np.nan
    agreed = rgp.Plan(
        points=rgp.Plan.grid([-2, -2], [2, 2], 4), kernel=KERNEL, noise=[NOISE, 0.01], mean=[MEAN, 0], target=["a", "b"]
    )
    parts = [slice(0, 25), slice(25, 60)]
    given = [
        agreed.contribute(X[p], Y[p], name=f"w{i}", missing="allow", privacy="things") for i, p in enumerate(parts)
    ]
    e, following = agreed.combine(given)
    mean, variance = e.predict(T)
    for c, noise, m in ((0, NOISE, MEAN), (1, 0.01, 0.0)):
        seen = np.isfinite(Y[:, c])
        N = noise * np.eye(seen.sum())
        central = Central(agreed.points, X[seen], Y[seen, c], N, mean=m, jitter=agreed.jitter[c])
        close(np.stack([mean[:, c], variance[:, c]]), central.predict(T))
    assert e.outputs == ("a", "b")
    assert following.round == 1


def test_categories_are_the_plans():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(0, 4, 60), "kind": rng.choice(["red", "blue"], 60)})
    y = np.sin(table["x"]) + (table["kind"] == "red") + 0.1 * rng.standard_normal(60)
    m = rgp.fit(table, y, name="a", privacy="things")
    agreed = rgp.merge([m]).plan(8)
    one = agreed.contribute(table[table["kind"] == "red"], y[table["kind"] == "red"], name="r", privacy="things")
    both = agreed.combine([one, agreed.contribute(table, y, name="b", privacy="things")])[0]
    assert np.isfinite(both.predict(table)[0]).all()
    odd = table.assign(kind="green")
    with pytest.raises(rgp.RecycleGPError, match=r"levels that the plan does not know.*green"):
        agreed.contribute(odd, y, name="g")


# --- gradients --------------------------------------------------------------------------------------


def some_rows(seed, n=20, D=2):
    torch.manual_seed(seed)
    X = torch.randn(n, D, dtype=torch.float64)
    counts = torch.randint(1, 3, (n,)).double()
    w = (counts * (0.5 + torch.rand(n, dtype=torch.float64))).sqrt()
    return sums.PlanRows(X, torch.sin(X[:, 0]), w, counts)


@pytest.mark.parametrize("kernel", ["rbf", "matern52 + linear", "matern32"])
@pytest.mark.parametrize("effects", [NO_EFFECTS, Effects(0.3, 0.0), Effects(0.2, 0.4), Effects(0.2, 0.4, (0.5, -0.3))])
def test_both_gradients_are_that_of_the_central_bound(kernel, effects):
    parts = [some_rows(seed) for seed in range(3)]
    k = parse(kernel, 2, ())
    k = k.with_theta(k.theta + 0.1 * torch.arange(len(k.theta)))
    Z = torch.randn(9, 2, dtype=torch.float64)
    prior = Prior.at(Z, k, 0.3, 0.2, effects)

    def central(x):
        base = basis(prior.kernel_at(x), Z, prior.jitter)
        total = sums.add([sums.of_rows(base, p, prior.mean, prior.noise, prior.effects_at(x)) for p in parts])
        return bound.solve(total, prior.noise).bound

    x = prior.x.requires_grad_()
    (expected,) = torch.autograd.grad(central(x), x)
    total = sums.add([sums.of_owner(prior.basis(), p, prior.mean, prior.noise, effects) for p in parts])
    by_sums = bound.adjoint(total, prior.noise)
    close(sum(slopes.share(prior, p, by_sums) for p in parts), expected)
    each = zip(*(slopes.derivatives(prior, p) for p in parts), strict=True)
    close(torch.stack([slopes.inner(by_sums, sums.add(list(own))) for own in each]), expected)


def test_rows_in_pieces_have_the_same_sums_and_slopes(monkeypatch):
    prior = Prior.at(torch.randn(9, 2, dtype=torch.float64), parse("rbf", 2, ()), 0.3, 0.2)
    part = some_rows(1, n=50)
    whole = sums.of_owner(prior.basis(), part, 0.3, 0.2, NO_EFFECTS)
    by_sums = bound.adjoint(whole, 0.2)
    slope = slopes.share(prior, part, by_sums)
    monkeypatch.setattr(sums, "AT_ONCE", 9 * 7)
    for a, b in zip(whole, sums.of_owner(prior.basis(), part, 0.3, 0.2, NO_EFFECTS), strict=True):
        close(a, b, 1e-12)
    close(slope, slopes.share(prior, part, by_sums), 1e-10)


def test_noise_and_mean_are_the_best():
    prior = Prior.at(torch.randn(9, 2, dtype=torch.float64), parse("rbf", 2, ()), 0.3, 0.2)
    total = sums.of_owner(prior.basis(), some_rows(2, n=60), 0.3, 0.2, NO_EFFECTS)
    best = bound.profile(total, 0.2, learn_noise=True)

    def at(log_noise, change):
        return float(bound.solve(total.shifted(change), math.exp(log_noise)).bound)

    here = at(math.log(best.noise), best.change)
    for d in (1e-3, -1e-3):
        assert at(math.log(best.noise) + d, best.change) < here
        assert at(math.log(best.noise), best.change + d) < here
    assert bound.profile(total, 0.2, learn_noise=False).noise == pytest.approx(0.2)


def test_the_slope_of_an_owner_who_is_not_there():
    """What was said before is taken as observations at the old points: exact derivatives of that."""
    before = Prior.at(torch.randn(9, 2, dtype=torch.float64), parse("rbf", 2, ()), 0.3, 0.2)
    now = Prior.at(
        torch.randn(8, 2, dtype=torch.float64), before.kernel.with_theta(before.kernel.theta + 0.2), 0.1, 0.3
    )
    old = sums.of_owner(before.basis(), some_rows(3, n=60), 0.3, 0.2, NO_EFFECTS)
    by_sums = bound.adjoint(restating.restated(old, before, now), now.noise)
    found = restating.share(old, before, now, by_sums)
    for j, step in enumerate(1e-6 * torch.eye(len(now.x), dtype=torch.float64)):
        ends = [slopes.inner(by_sums, restating.restated(old, before, now, now.x + s * step)) for s in (1, -1)]
        close(found[j], (ends[0] - ends[1]) / 2e-6, 1e-5)


def test_an_old_answer_under_the_same_plan_is_itself():
    prior = Prior.at(torch.randn(9, 2, dtype=torch.float64), parse("rbf", 2, ()), 0.3, 0.2)
    old = sums.of_owner(prior.basis(), some_rows(3, n=60), 0.3, 0.2, NO_EFFECTS)
    for a, b in zip(restating.restated(old, prior, prior), old, strict=True):
        close(a, b, 1e-6)
    moved = prior.with_noise(0.4, 0.7)
    direct = sums.of_owner(prior.basis(), some_rows(3, n=60), 0.7, 0.4, NO_EFFECTS)
    for a, b in zip(restating.expressed(old, prior, moved), direct, strict=True):
        close(a, b, 1e-10)


# --- rounds -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("slopes_too", [pytest.param(False, marks=pytest.mark.slow), True])
def test_rounds_come_to_the_central_optimum(slopes_too):
    """The bound to 1e-4, whether slopes take an exchange of their own or not."""
    from scipy.optimize import minimize

    agreed, of = plan(16), owners(3, 120)
    X, y = together(of)
    _, last = rounds(agreed, of, slopes=slopes_too)
    assert last.done

    def cost(x):
        def kernel(A, B):
            return rbf(A, B, np.exp(x[1:3]), np.exp(x[0]))

        central = Central(agreed.points, X, y, np.exp(x[3]) * np.eye(len(y)), mean=x[4], kernel=kernel, jitter=1e-10)
        return -central.bound

    begin = [*np.log([1.3, 0.9, 1.4, 0.05]), 2.0]
    best = minimize(cost, begin, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-7})
    assert last.history[-1]["bound"] == pytest.approx(-best.fun, abs=1e-4)
    assert last.noise == pytest.approx(np.exp(best.x[3]), rel=1e-2)
    np.testing.assert_allclose(last.kernel.base_kernel.lengthscale.detach().numpy()[0], np.exp(best.x[1:3]), rtol=2e-2)
