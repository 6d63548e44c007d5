"""What comes in decides what comes out: arrays, tensors, frames, types, columns and gradients."""

import copy
import pickle
import warnings

import gpytorch
import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp
from recyclegp import arrays
from recyclegp.errors import ContradictionWarning

OPTIONS = {"publish": 12, "seed": 3}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    X = rng.uniform(-2, 3, (30, 2)) * [1.0, 4.0]
    y = np.sin(X[:, 0]) + 0.2 * X[:, 1] + 0.1 * rng.standard_normal(30)
    return X, y


@pytest.fixture(scope="module")
def module(data):
    return rgp.fit(*data, name="a", **OPTIONS)


@pytest.fixture(scope="module")
def framed(data):
    X, y = data
    return rgp.fit(pd.DataFrame(X, columns=["east", "north"]), y, name="a", **OPTIONS)


@pytest.fixture(scope="module")
def ensemble(data, module):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ContradictionWarning)  # the same function 0.4 beside itself
        return rgp.merge([module, rgp.fit(X + 0.4, y, name="b", **OPTIONS)])


def check_same(m, n, X):
    for a, b in zip(m.predict(X), n.predict(X), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-12)


@pytest.mark.parametrize(
    "form",
    [
        lambda X: X.tolist(),
        lambda X: X.astype(object),
        lambda X: np.asfortranarray(X),
        lambda X: torch.tensor(X),
        lambda X: torch.tensor(X, requires_grad=True),
        lambda X: pd.DataFrame(X),
        lambda X: X[::-1][::-1],
    ],
    ids=["list", "object", "fortran", "tensor", "grad", "frame", "strided"],
)
def test_every_form_of_x_gives_the_same_module(data, module, form):
    X, y = data
    other = rgp.fit(form(X), y, name="a", **OPTIONS)
    check_same(module, other, X)
    np.testing.assert_array_equal(module.inducing, other.inducing)


@pytest.mark.parametrize(
    "form",
    [
        lambda y: y[:, None],
        lambda y: list(y),
        lambda y: pd.Series(y, index=np.arange(len(y))[::-1]),
        lambda y: pd.DataFrame({"y": y}),
        lambda y: torch.tensor(y),
    ],
    ids=["column", "list", "series", "frame", "tensor"],
)
def test_every_form_of_y_gives_the_same_module(data, module, form):
    X, y = data
    check_same(module, rgp.fit(X, form(y), name="a", **OPTIONS), X)


def test_float32_is_computed_in_float64(data):
    X, y = (a.astype(np.float32) for a in data)
    low, high = rgp.fit(X, y, **OPTIONS), rgp.fit(X.astype(np.float64), y.astype(np.float64), **OPTIONS)
    check_same(low, high, X)
    assert low.predict(X)[0].dtype == np.float64
    assert low.inducing.dtype == np.float64


def test_integers(data):
    X = np.random.default_rng(0).integers(-4, 5, (30, 2))
    y = X[:, 0] - X[:, 1] ** 2
    assert y.dtype.kind == "i"
    a, b = rgp.fit(X, y, **OPTIONS), rgp.fit(X.astype(float), y.astype(float), **OPTIONS)
    check_same(a, b, X)
    out = a.predict(torch.tensor(X))
    assert [t.dtype for t in out] == [torch.float64, torch.float64]


def test_one_column_may_be_a_vector(data):
    X, y = data
    a, b = rgp.fit(X[:, 0], y, **OPTIONS), rgp.fit(X[:, :1], y, **OPTIONS)
    check_same(a, b, X[:, :1])
    np.testing.assert_array_equal(a.predict(X[:, 0])[0], a.predict(X[:, :1])[0])


@pytest.mark.parametrize("labels", [[0, 1], [-1, 1], [False, True], [0.0, 1.0]], ids=str)
def test_labels(data, labels):
    X, y = data
    truth = (y > np.median(y)).astype(int)
    m = rgp.fit(X, np.array(labels)[truth], likelihood="bernoulli", publish=8, inducing=8, learn=False)
    p = m.predict_proba(X)
    assert p.shape == (30, 2)
    np.testing.assert_allclose(p.sum(1), 1.0)
    assert np.mean((p[:, 1] > 0.5) == truth) > 0.7
    np.testing.assert_allclose(m.log_density(X, np.array(labels)[truth]), np.log(p[np.arange(30), truth]), rtol=1e-9)


@pytest.mark.parametrize("which", ["module", "ensemble"])
def test_numpy_in_numpy_out_tensor_in_tensor_out(request, which, data):
    model = request.getfixturevalue(which)
    X, y = data
    for method in (
        model.predict,
        model.predict_y,
        lambda X: [model.log_density(X, y)],
        lambda X: [model.sample(X, 2, seed=4)],
    ):
        for a, b, c in zip(method(X), method(torch.tensor(X)), method(torch.tensor(X).float()), strict=True):
            assert isinstance(a, np.ndarray)
            assert a.dtype == np.float64
            assert isinstance(b, torch.Tensor)
            assert b.dtype == torch.float64
            assert b.device.type == "cpu"
            assert c.dtype == torch.float32
            np.testing.assert_array_equal(a, b.numpy())
            assert a.flags.writeable  # the caller's own


@pytest.mark.parametrize("which", ["module", "ensemble"])
def test_gradient_in_x(request, which, data):
    model = request.getfixturevalue(which)
    X = torch.tensor(data[0][:4] + 0.05, requires_grad=True)
    y = torch.tensor(data[1][:4])
    assert torch.autograd.gradcheck(model.predict, (X,), eps=1e-6, atol=1e-5)
    assert torch.autograd.gradcheck(lambda X: model.predict_y(X)[1], (X,), eps=1e-6, atol=1e-5)
    assert torch.autograd.gradcheck(lambda X: model.log_density(X, y), (X,), eps=1e-6, atol=1e-5)
    assert torch.autograd.gradcheck(lambda X: model.sample(X, 2, seed=1), (X,), eps=1e-6, atol=1e-4)


def test_no_rows_to_predict(module, ensemble):
    for model in (module, ensemble):
        empty = np.empty((0, 2))
        assert [a.shape for a in model.predict(empty)] == [(0,), (0,)]
        assert [a.shape for a in model.predict_y(empty)] == [(0,), (0,)]
        assert model.log_density(empty, []).shape == (0,)
        assert model.sample(empty, 3).shape == (3, 0)


def test_many_rows_are_predicted_in_chunks(module):
    X = np.random.default_rng(0).uniform(-2, 3, (9000, 2))
    mean, variance = module.predict(X)
    np.testing.assert_allclose(mean[-5:], module.predict(X[-5:])[0], rtol=1e-10)
    assert variance.shape == (9000,)


# --- columns ----------------------------------------------------------------------------------


def test_frames_give_column_names(framed, module, data):
    assert framed.columns == ("east", "north")
    assert module.columns is None
    check_same(framed, module, data[0])


def test_columns_are_aligned_at_predict(framed, data):
    X, y = data
    frame = pd.DataFrame(X, columns=["east", "north"])
    expected = framed.predict(X)
    turned = frame[["north", "east"]].assign(extra="text", other=np.nan)
    for a, b in zip(framed.predict(turned), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(framed.log_density(turned, y), framed.log_density(X, y))
    np.testing.assert_array_equal(framed.sample(turned, 1, seed=2), framed.sample(X, 1, seed=2))


def test_missing_column_is_named(framed, data):
    with pytest.raises(rgp.RecycleGPError, match="X lacks the columns north"):
        framed.predict(pd.DataFrame(data[0], columns=["east", "south"]))


def test_column_labels_need_not_be_text(data):
    X, y = data
    m = rgp.fit(pd.DataFrame(X, columns=[0, 1]), y, **OPTIONS)
    assert m.columns == ("0", "1")
    np.testing.assert_array_equal(m.predict(pd.DataFrame(X, columns=[0, 1])[[1, 0]])[0], m.predict(X)[0])
    with pytest.raises(rgp.RecycleGPError, match="repeat"):
        m.predict(pd.DataFrame(np.c_[X, X[:, :1]], columns=[0, 1, "1"]))


def test_publish_points_are_aligned_too(data):
    X, y = data
    frame = pd.DataFrame(X, columns=["east", "north"])
    Z = frame.iloc[:5] + 0.1
    m = rgp.fit(frame, y, publish=Z[["north", "east"]])
    np.testing.assert_array_equal(m.inducing, Z.to_numpy())


@pytest.mark.parametrize("kernel", ["rbf", "rbf + linear", "matern52 * periodic"])
def test_columns_are_aligned_at_merge(data, kernel):
    X, y = data
    frame = pd.DataFrame(X, columns=["east", "north"])
    options = OPTIONS | {"kernel": kernel, "learn": False}
    a = rgp.fit(frame, y, name="a", **options)
    b = rgp.fit(frame + 0.3, y, name="b", **options)
    # the same module with its columns the other way round, as another owner would have fitted it
    turned = rgp.fit(frame[["north", "east"]] + 0.3, y, name="b", publish=b.inducing[:, ::-1].copy(), kernel=kernel,
                     learn=False)  # fmt: skip
    np.testing.assert_allclose(turned.predict(frame + 0.3)[0], b.predict(frame + 0.3)[0], rtol=1e-8, atol=1e-10)
    e, f = rgp.merge([a, b], learn=False), rgp.merge([a, turned], learn=False)
    assert f.columns == ("east", "north")
    for p, q in zip(e.predict(X), f.predict(frame[["north", "east"]]), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-6, atol=1e-9)
    g = rgp.merge([a], learn=False, inducing=e.inducing).add(turned)
    np.testing.assert_allclose(g.predict(X)[0], rgp.merge([a], learn=False, inducing=e.inducing).add(b).predict(X)[0],
                               rtol=1e-6, atol=1e-9)  # fmt: skip


def test_unnamed_modules_merge_with_named_ones(framed, module, data):
    with pytest.warns(rgp.RecycleGPWarning, match="columns of plain have no names and were taken to be east, north"):
        e = rgp.merge([module.rename("plain"), framed], learn=False)
    assert e.columns == ("east", "north")
    np.testing.assert_array_equal(
        e.predict(pd.DataFrame(data[0], columns=["east", "north"])[["north", "east"]])[0], e.predict(data[0])[0]
    )


def test_columns_named_by_hand(framed, module, data):
    """An array with names for its columns is aligned as a frame is; so is a module that is given them later."""
    X, y = data
    turned = rgp.fit(X[:, [1, 0]], y, columns=["north", "east"], name="b", **OPTIONS)
    plain = module.rename("c").with_columns(["east", "north"])
    e = rgp.merge([framed, turned, plain], learn=False)  # a warning would be an error
    assert e.columns == ("east", "north")
    for names in (["north"], ["north", "north"], "ab", [1, 2]):
        with pytest.raises(rgp.RecycleGPError, match="columns"):
            rgp.fit(X, y, columns=names, **OPTIONS)
        with pytest.raises(rgp.RecycleGPError, match="columns"):
            module.with_columns(names)


def test_different_columns_do_not_merge(framed, data):
    X, y = data
    other = rgp.fit(pd.DataFrame(X, columns=["east", "height"]), y, name="b", **OPTIONS)
    with pytest.raises(rgp.RecycleGPError, match=r"'a' and 'b' have different columns .* rename the header"):
        rgp.merge([framed, other])
    with pytest.raises(rgp.RecycleGPError, match="different columns"):
        rgp.merge([framed]).add(other)


def test_update_aligns_columns(framed, data):
    X, y = data
    e = rgp.merge([framed], learn=False)
    frame = pd.DataFrame(X + 0.2, columns=["east", "north"])
    a, b = e.update(frame[["north", "east"]], y), e.update(X + 0.2, y)
    np.testing.assert_array_equal(a.predict(X)[0], b.predict(X)[0])


# --- objects ----------------------------------------------------------------------------------


def test_objects_are_picklable(framed, ensemble, data):
    for model in (framed, ensemble):
        for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            assert repr(other) == repr(model)
            for a, b in zip(model.predict(data[0]), other.predict(data[0]), strict=True):
                np.testing.assert_array_equal(a, b)


def test_objects_are_frozen(module, ensemble):
    for model in (module, ensemble):
        with pytest.raises(AttributeError):
            model.mean = 3.0
        points = model.inducing
        with pytest.raises(ValueError, match="read-only"):
            points[0] = 0.0
        assert not np.shares_memory(points, model.inducing)


def test_the_callers_arrays_are_copied(data):
    X, y = data[0].copy(), data[1].copy()
    Z = X[:6] + 0.1
    m = rgp.fit(X, y, publish=Z)
    before = m.predict(data[0])[0]
    X[:], y[:], Z[:] = 0, 0, 0
    fresh = copy.deepcopy(m)
    np.testing.assert_array_equal(fresh.predict(data[0])[0], before)
    assert not np.any(m.inducing == 0)


def test_tensors_passed_in_are_not_kept(data):
    Z = torch.tensor(data[0][:6] + 0.1)
    m = rgp.fit(torch.tensor(data[0]), torch.tensor(data[1]), publish=Z)
    e = rgp.merge([m], inducing=Z, learn=False)
    before = Z.numpy().copy()
    Z.zero_()
    np.testing.assert_array_equal(m.inducing, before)
    np.testing.assert_array_equal(e.inducing, before)


def test_kernels_are_deep_copied_in_and_out(data):
    X, y = data
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2))
    state = {k: v.clone() for k, v in kernel.state_dict().items()}
    m = rgp.fit(X, y, kernel=kernel, **OPTIONS)
    e = rgp.merge([m], kernel=kernel)
    assert all(torch.equal(v, state[k]) for k, v in kernel.state_dict().items())
    for model in (m, e):
        before = model.predict(X)[0]
        kernel.outputscale = 123.0
        model.kernel.outputscale = 77.0
        assert model.kernel.outputscale.item() not in (123.0, 77.0)
        np.testing.assert_array_equal(model.predict(X)[0], before)


def test_a_given_kernel_is_used_as_is(data):
    X, y = data
    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2)).double()
    kernel.outputscale = 1.7
    kernel.base_kernel.lengthscale = torch.tensor([[0.8, 3.0]])
    m = rgp.fit(X, y, kernel=kernel, learn=False, noise=0.3, **OPTIONS)
    assert m.kernel.outputscale.item() == pytest.approx(1.7, rel=1e-6)
    np.testing.assert_allclose(m.kernel.base_kernel.lengthscale.detach().numpy(), [[0.8, 3.0]], rtol=1e-6)
    assert m.noise == pytest.approx(0.3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_tensors_stay_on_their_device(ensemble, data):
    X = torch.tensor(data[0], device="cuda")
    mean, variance = ensemble.predict(X)
    assert mean.device == X.device
    np.testing.assert_allclose(mean.cpu().numpy(), ensemble.predict(data[0])[0], rtol=1e-8)
    assert ensemble.update(X, data[1]).predict(data[0])[0].shape == (30,)
    assert variance.device == X.device


# --- tables as pandas has them ----------------------------------------------------------------


def nullable():
    frame = pd.DataFrame({"dose": [1.0, 2.0, 3.0], "age": [30, 40, 50]})
    return frame.astype({"dose": "Float64", "age": "Int64"})


def test_nullable_columns_are_numbers():
    frame = nullable().assign(smokes=pd.array([True, False, True], dtype="boolean"))
    np.testing.assert_array_equal(arrays.inputs(frame).X, [[1, 30, 1], [2, 40, 0], [3, 50, 1]])
    np.testing.assert_array_equal(arrays.targets(frame["age"], 3), [30, 40, 50])


def test_what_is_missing_in_nullable_columns_is_counted_by_column():
    frame = nullable()
    frame.loc[1, "dose"] = pd.NA
    frame.loc[[0, 2], "age"] = pd.NA
    with pytest.raises(rgp.RecycleGPError, match=r"X holds 3 NaN or infinite values \(in 'dose': 1, 'age': 2\)"):
        arrays.inputs(frame)
    with pytest.raises(rgp.RecycleGPError, match="y holds 2 NaN or infinite values; drop or fill those rows first"):
        arrays.targets(frame["age"], 3)
    mixed = pd.DataFrame({"x": [1.0, pd.NA, 2.0]}, dtype=object)
    with pytest.raises(rgp.RecycleGPError, match=r"X holds 1 NaN or infinite values \(in 'x': 1\)"):
        arrays.inputs(mixed)
