"""The exact merge, and owners that differ, against dense Gaussian algebra in NumPy."""

from dataclasses import replace

import gpytorch
import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.core.effects import Effects, scales_of_few
from recyclegp.merging import evidence as points_evidence
from recyclegp.merging.exact_learning import Sites
from recyclegp.merging.learning import price
from recyclegp.merging.member import stored
from recyclegp.merging.owners import owner_numbers

NOISE, LENGTHS, SIZE = 0.07, (0.8, 1.7), 1.3


def kernel():
    k = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2)).double()
    k.outputscale = SIZE
    k.base_kernel.lengthscale = torch.tensor(LENGTHS)
    return k


def gram(A, B):
    d = (A[:, None, :] - B[None, :, :]) / np.array(LENGTHS)
    return SIZE * np.exp(-0.5 * (d**2).sum(-1))


def rows(seed=0, sizes=(9, 14, 11), shifts=(0.7, -1.1, 0.2)):
    """Owners with different numbers of rows, whose functions differ by constants."""
    rng = np.random.default_rng(seed)
    data = []
    for n, shift in zip(sizes, shifts, strict=True):
        X = rng.uniform(-2, 2, (n, 2))
        data.append((X, np.sin(2 * X[:, 0]) + 0.4 * X[:, 1] + shift + 0.25 * rng.standard_normal(n)))
    return data


def modules(data, names="abcdef", owners=None):
    """Published at their own rows, so that nothing is lost."""
    owners = owners or [None] * len(data)
    options = {"kernel": kernel(), "learn": False, "noise": NOISE}
    return [
        rgp.fit(X, y, publish=X, name=name, owner=owner, **options)
        for (X, y), name, owner in zip(data, names, owners, strict=False)
    ]


def dense(data, who, mean, effects=(0.0, 0.0), owner=None, at=None, stretch=(0.0, 0.0)):
    """The exact GP on all rows, with a random intercept and a random function for each owner, as `owner` sees it."""
    X, y = np.concatenate([X for X, _ in data]), np.concatenate([y for _, y in data])
    whose = np.concatenate([[w] * len(y) for w, (_, y) in zip(who, data, strict=True)])
    offset, smooth = effects
    same, longer = whose[:, None] == whose[None, :], np.exp(stretch)

    def own(X1, X2):
        return offset + smooth * gram(X1 / longer, X2 / longer)

    A = gram(X, X) + same * own(X, X) + NOISE * np.eye(len(y))
    mine = (whose == owner)[None, :]
    cross = gram(at, X) + mine * own(at, X)
    prior = gram(at, at) + (0.0 if owner is None else own(at, at))
    solved = np.linalg.solve(A, np.column_stack([y - mean, cross.T]))
    density = -0.5 * (y - mean) @ solved[:, 0] - 0.5 * np.linalg.slogdet(2 * np.pi * A)[1]
    return mean + cross @ solved[:, 0], prior - cross @ solved[:, 1:], density


def with_known_variances(e):
    """As if effects had not been learned of few owners."""
    group = e.groups[0]
    form = replace(group.form, effects=replace(group.form.effects, owners=None))
    return replace(e, groups=(replace(group, form=form),))


@pytest.fixture(scope="module")
def at():
    return np.random.default_rng(5).uniform(-2.5, 2.5, (7, 2))


def test_at_the_rows_it_is_the_exact_gp(at):
    data = rows()
    e = rgp.merge(modules(data), inducing="all", learn=False, owners=None)
    mean, covariance, density = dense(data, "abc", e.mean, at=at)
    np.testing.assert_allclose(e.predict(at)[0], mean, atol=1e-8)
    np.testing.assert_allclose(e.predict(at)[1], np.diag(covariance), atol=1e-8)
    np.testing.assert_allclose(e.posterior.joint(torch.tensor(at)).covariance, covariance, atol=1e-8)
    assert e.evidence == pytest.approx(density, abs=1e-6)
    assert e.evidence == e.bound
    assert e.slack == 0
    assert e.size.form == "exact"


def test_it_is_the_merge_at_the_union_of_all_points(at):
    parts = [
        rgp.fit(X, y, publish=6, name=n, kernel=kernel(), learn=False) for (X, y), n in zip(rows(), "abc", strict=True)
    ]
    exact = rgp.merge(parts, inducing="all", learn=False, owners=None)
    union = rgp.merge(parts, inducing=np.concatenate([m.inducing for m in parts]), learn=False, owners=None)
    np.testing.assert_allclose(exact.predict(at), union.predict(at), atol=1e-6)
    assert exact.evidence == pytest.approx(union.evidence, abs=1e-6)


@pytest.mark.parametrize("owners", ["offset", "smooth"])
def test_owners_are_random_intercepts_and_random_functions(owners, at):
    data = rows()
    e = rgp.merge(modules(data), inducing="all", learn=False, owners=owners)
    effects = e.offset_sd**2, e.smooth_sd**2
    assert effects[0] > 0.01
    assert (effects[1] > 0) == (owners == "smooth")
    for owner in (None, "a", "b", "c"):
        mean, covariance, density = dense(data, "abc", e.mean, effects, owner, at)
        np.testing.assert_allclose(e.predict(at, owner=owner)[0], mean, atol=1e-8)
        np.testing.assert_allclose(e.predict(at, owner=owner)[1], np.diag(covariance), atol=1e-8)
        joint = e._processes(owner, of_y=False)[0].together(torch.tensor(at))
        np.testing.assert_allclose(joint.covariance, covariance, atol=1e-8)
    assert e.evidence == pytest.approx(density, abs=1e-6)
    mean, covariance, _ = dense(data, "abc", e.mean, effects, "nobody", at)
    known = with_known_variances(e)
    np.testing.assert_allclose(known.predict(at, owner="new")[0], mean, atol=1e-8)
    np.testing.assert_allclose(known.predict(at, owner="new")[1], np.diag(covariance), atol=1e-8)
    shared = dense(data, "abc", e.mean, effects, None, at)[1]
    wider = shared + scales_of_few(3).mean * (covariance - shared)  # three owners say little about others
    np.testing.assert_allclose(e.predict(at, owner="new")[0], mean, atol=1e-8)
    np.testing.assert_allclose(e.predict(at, owner="new")[1], np.diag(wider), atol=1e-8)


@pytest.mark.parametrize("inducing", ["exact", "points"])
def test_owners_own_functions_may_have_lengths_of_their_own(inducing, at, tmp_path):
    data, stretch = rows(), (0.6, -0.4)
    parts = modules(data)
    everywhere = "all" if inducing == "exact" else np.concatenate([m.inducing for m in parts])
    e = rgp.merge(parts, inducing=everywhere, learn=False, owners=None)
    group, effects = e.groups[0], Effects(0.4, 0.3, stretch)
    numbers = owner_numbers(group.members)
    with stored(group.members) as store:
        form = group.form.like(group.form.kernel, e.mean, effects, group.form.Z, store, numbers)
    e = replace(e, groups=(replace(group, form=form),))
    e.save(tmp_path / "e.safetensors")
    loaded = rgp.load(tmp_path / "e.safetensors")
    for owner in (None, "a", "c"):
        mean, covariance, density = dense(data, "abc", e.mean, (0.4, 0.3), owner, at, stretch)
        for model in (e, loaded):
            np.testing.assert_allclose(model.predict(at, owner=owner)[0], mean, atol=1e-5)
            np.testing.assert_allclose(model.predict_joint(at, owner=owner)[1], covariance, atol=1e-5)
            np.testing.assert_allclose(model.predict(at, owner=owner)[1], np.diag(covariance), atol=1e-5)
    assert e.evidence == pytest.approx(density, abs=1e-4)
    moved = e.transform(input_scale=[2.0, 0.1], output_scale=3.0)
    np.testing.assert_allclose(moved.predict(at * [2.0, 0.1], owner="b")[0], 3 * e.predict(at, owner="b")[0], rtol=1e-6)


def test_questions_about_y_are_about_a_new_owner(at):
    e = with_known_variances(rgp.merge(modules(rows()), inducing="all", learn=False, owners="offset"))
    shared, new = e.predict(at), e.predict(at, owner="new")
    np.testing.assert_allclose(new[1], shared[1] + e.offset_sd**2, rtol=1e-12)
    np.testing.assert_allclose(e.predict_y(at)[1], new[1] + e.noise, rtol=1e-12)
    y = shared[0] + 0.3
    known = -0.5 * ((y - new[0]) ** 2 / (new[1] + e.noise) + np.log(2 * np.pi * (new[1] + e.noise)))
    np.testing.assert_allclose(e.log_density(at, y), known, rtol=1e-10)
    np.testing.assert_allclose(e.sample(at, n=4000, owner="b").mean(0), e.predict(at, owner="b")[0], atol=0.1)


def test_offsets_are_those_of_the_dense_model():
    data = rows()
    e = rgp.merge(modules(data), inducing="all", learn=False, owners="offset")
    X, y = np.concatenate([X for X, _ in data]), np.concatenate([y for _, y in data])
    whose = np.repeat([0, 1, 2], [len(y) for _, y in data])
    B = e.offset_sd**2 * (whose[:, None] == np.arange(3)[None, :])
    A = gram(X, X) + e.offset_sd**2 * (whose[:, None] == whose[None, :]) + NOISE * np.eye(len(y))
    mean = B.T @ np.linalg.solve(A, y - e.mean)
    sd = np.sqrt(e.offset_sd**2 - np.einsum("ij,ij->j", B, np.linalg.solve(A, B)))
    report = e.report()
    np.testing.assert_allclose([r["offset"] for r in report], mean, atol=1e-8)
    np.testing.assert_allclose([r["offset_sd"] for r in report], sd, atol=1e-8)


@pytest.mark.parametrize("owners", ["offset", "smooth"])
def test_at_the_union_of_points_owners_are_the_same(owners, at):
    """Both forms, for everybody, each owner, and their offsets."""
    parts = modules(rows())
    exact = rgp.merge(parts, inducing="all", learn=False, owners=owners)
    points = rgp.merge(parts, inducing=np.concatenate([m.inducing for m in parts]), learn=False, owners=owners)
    form = exact.groups[0].form
    form = type(form)(form.kernel, points.mean, form.stacked, points.groups[0].form.effects)
    assert points.offset_sd == pytest.approx(exact.offset_sd, rel=1e-2)
    for number, owner in ((None, None), (0, "a"), (1, "b"), (2, "c")):
        here = form.posterior if number is None else form.of_owner(number)
        mean, variance = here.predict(torch.tensor(at))
        np.testing.assert_allclose(points.predict(at, owner=owner)[0], mean, atol=1e-5)
        np.testing.assert_allclose(points.predict(at, owner=owner)[1], variance, atol=1e-5)
        joint = points._processes(owner, of_y=False)[0].together(torch.tensor(at)).covariance
        np.testing.assert_allclose(joint, here.joint(torch.tensor(at)).covariance, atol=1e-5)
    assert points.evidence == pytest.approx(form.bound, abs=1e-5)
    for k, row in enumerate(points.report()):
        offset = form.posterior._replace(effects=form.effects).offset(k)
        assert row["offset"] == pytest.approx(offset.mean, abs=1e-5)
        assert row["offset_sd"] == pytest.approx(offset.sd, abs=1e-5)


@pytest.mark.parametrize("form", ["exact", "points"])
def test_effects_of_no_size_are_none(form, at):
    parts = modules(rows())
    inducing = "all" if form == "exact" else np.concatenate([m.inducing for m in parts])
    e = rgp.merge(parts, inducing=inducing, learn=False, owners=None)
    tiny = Effects(1e-14, 1e-14)
    numbers = owner_numbers(e._members)
    with stored(e._members) as store:
        changed = type(e.groups[0].form)(**{**vars_of(e.groups[0].form), "effects": tiny}).only(store, numbers)
    np.testing.assert_allclose(changed.posterior.predict(torch.tensor(at)).mean, e.predict(at)[0], atol=1e-8)
    seen = changed.of_owner(1, e._members[1].site).predict(torch.tensor(at))
    np.testing.assert_allclose(seen.mean, e.predict(at)[0], atol=1e-8)
    np.testing.assert_allclose(seen.variance, e.predict(at)[1], atol=1e-8)


def vars_of(form):
    names = ("kernel", "mean", "stacked", "Z", "jitter", "bound_rows")
    return {n: getattr(form, n) for n in names if n in type(form).__dataclass_fields__ and n != "jitter"} | (
        {"jitter": form.jitter} if hasattr(form, "bound_rows") else {}
    )


@pytest.mark.parametrize("inducing", ["all", "union"])
def test_an_owner_may_send_several_modules(inducing, at):
    """Two modules of one owner share its intercept."""
    data = rows(sizes=(9, 8, 11, 7), shifts=(0.7, 0.7, -1.1, 0.2))
    parts = modules(data, owners=["x", "x", None, "z"])
    points = inducing if inducing == "all" else np.concatenate([m.inducing for m in parts])
    e = rgp.merge(parts, inducing=points, learn=False, owners="offset")
    assert e.owners == ["x", "c", "z"]
    tolerance = 1e-8 if inducing == "all" else 1e-5
    for owner in ("x", "c", "z"):
        mean, covariance, _ = dense(data, "xxcz", e.mean, (e.offset_sd**2, 0.0), owner, at)
        np.testing.assert_allclose(e.predict(at, owner=owner)[0], mean, atol=tolerance)
        np.testing.assert_allclose(e.predict(at, owner=owner)[1], np.diag(covariance), atol=tolerance)
    first, second, *_ = e.report()
    assert first["offset"] == second["offset"]


@pytest.mark.parametrize("owners", [None, "smooth"])
@pytest.mark.parametrize("inducing", ["all", "points"])
def test_adding_and_removing_is_merging_from_scratch(inducing, owners, at):
    parts = modules(rows(sizes=(9, 14, 11, 6), shifts=(0.7, -1.1, 0.2, 0.0)), owners=["a", "b", "c", "a"])
    points = "all" if inducing == "all" else parts[0].inducing
    whole = rgp.merge(parts, inducing=points, learn=False, owners=owners)
    less = whole.remove("d", relearn=False)
    again = less.add(parts[3])
    fresh = whole.reweight({"d": 1.0})  # stacked anew
    assert abs(less.evidence - whole.evidence) > 0.1
    for other in (again, fresh):
        for owner in (None, "a", "c"):
            np.testing.assert_allclose(other.predict(at, owner=owner), whole.predict(at, owner=owner), atol=1e-8)
        assert other.evidence == pytest.approx(whole.evidence, abs=1e-8)
        assert other.bound == pytest.approx(whole.bound, abs=1e-8)
    gone = whole.remove("b", relearn=False)
    assert "b" not in gone.owners
    with pytest.raises(rgp.RecycleGPError, match="nobody here is called so"):
        gone.predict(at, owner="b")


def test_a_weight_of_two_is_the_module_twice(at):
    parts = modules(rows())
    twice = rgp.merge([*parts, parts[0].rename("copy").owned_by("a")], inducing="all", learn=False, owners=None)
    heavy = rgp.merge(parts, inducing="all", learn=False, owners=None, weights=[2, 1, 1])
    np.testing.assert_allclose(heavy.predict(at), twice.predict(at), atol=1e-8)
    assert heavy.evidence == pytest.approx(twice.evidence, abs=1e-8)
    light = twice.reweight({"copy": 0.0})
    plain = rgp.merge(parts, inducing="all", learn=False, owners=None)
    np.testing.assert_allclose(light.predict(at), plain.predict(at), atol=1e-8)
    assert light.evidence == pytest.approx(plain.evidence, abs=1e-8)


def test_agreement_is_leave_one_out():
    parts = modules(rows())
    e = rgp.merge(parts, inducing="all", learn=False, owners="offset")
    found = e.groups[0].form.agreements(stored(e._members))
    A = (e.groups[0].form.L @ e.groups[0].form.L.mT).numpy()
    rho = (e.groups[0].form.stacked.rho - e.mean * e.groups[0].form.stacked.ones).numpy()
    member = e.groups[0].form.stacked.member.numpy()
    for k in range(3):
        own, rest = member == k, member != k
        gain = np.linalg.solve(A[np.ix_(rest, rest)], A[np.ix_(rest, own)])
        left = rho[own] - gain.T @ rho[rest]
        S = A[np.ix_(own, own)] - A[np.ix_(own, rest)] @ gain
        assert found[k].surprise == pytest.approx(left @ np.linalg.solve(S, left) / own.sum(), rel=1e-8)
        assert e.report()[k]["surprise"] == pytest.approx(found[k].surprise, rel=1e-10)


def test_publishing_is_the_exact_marginal(at):
    parts = modules(rows())
    e = rgp.merge(parts, inducing="all", learn=False, owners="offset")
    module = e.to_module("all", inducing=at)
    np.testing.assert_allclose(module.predict(at)[0], e.predict(at)[0], atol=1e-6)
    np.testing.assert_allclose(module.predict(at)[1], e.predict(at)[1], atol=1e-6)
    assert module.evidence == pytest.approx(e.evidence, abs=1e-6)
    assert len(e.to_module("few", inducing=5).inducing) == 5


@pytest.mark.parametrize("smooth", [0.0, 0.3])
def test_gradients_are_finite_differences(smooth):
    parts = modules(rows())
    e = rgp.merge(parts, inducing="all", learn=False, owners=None)
    kernel = e.groups[0].form.kernel
    with stored(e._members) as store:
        sites = Sites.of(store, owner_numbers(e._members))
        Z = parts[0].latents[0].site.Z

        def exact(theta, offset):
            stretch = torch.stack([offset, -offset])
            own = Effects(offset, smooth * offset / offset, stretch)
            return sites.log_evidence(kernel.with_theta(theta), own).value

        def at_points(theta, offset):
            effects = Effects(offset, smooth)
            return points_evidence.evidence(kernel.with_theta(theta), Z, store, price, e.mean, effects)

        for value in (exact, at_points):
            theta = kernel.theta.clone().requires_grad_()
            offset = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
            slopes = torch.autograd.grad(value(theta, offset), [theta, offset])
            step = 1e-5
            for i in range(len(theta)):
                move = torch.zeros_like(theta)
                move[i] = step
                with torch.no_grad():
                    rise = value(theta + move, offset) - value(theta - move, offset)
                assert float(slopes[0][i]) == pytest.approx(float(rise) / (2 * step), rel=1e-5, abs=1e-5)
            with torch.no_grad():
                rise = value(theta, offset + step) - value(theta, offset - step)
            assert float(slopes[1]) == pytest.approx(float(rise) / (2 * step), rel=1e-5, abs=1e-5)
