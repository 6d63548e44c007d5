"""Kernels: names, composition, GPyTorch there and back, units, columns, pooling, refusals."""

from __future__ import annotations

import json
import math

import gpytorch
import numpy as np
import pytest
import torch
from gpytorch.kernels import LinearKernel, MaternKernel, PeriodicKernel, RBFKernel, RQKernel, ScaleKernel

import reference as ref
from recyclegp.errors import RecycleGPError
from recyclegp.kernels import Kernel, entries, file_form, parse, pool, units
from recyclegp.kernels.gpytorch_objects import from_gpytorch, to_gpytorch

CENTRE = (0.4, -2.0)
LENGTHS = (0.7, 3.1)
RNG = np.random.default_rng(11)
A, B = RNG.normal(CENTRE, (1.0, 4.0), (6, 2)), RNG.normal(CENTRE, (1.0, 4.0), (5, 2))


def value(kernel, X1=A, X2=B):
    return kernel.matrix(torch.tensor(X1), torch.tensor(X2)).numpy()


def centred(expression, centre, logs):
    """A kernel by name with these logarithms, in the order in which θ lists them, about this centre."""
    structure = parse(expression, len(centre)).structure
    places = [c for p in structure.parameters() if not p.learned for c in centre]
    return file_form.assemble(structure, [float(t) for t in logs], places)


def named(expression, *parameters):
    return centred(expression, CENTRE, np.log(parameters))


def learned(kernel):
    """The logarithms in θ, without centres."""
    return [t for t, p in zip(kernel.theta.tolist(), entries(kernel.structure), strict=True) if p.learned]


def check_close(actual, expected, tolerance=1e-12):
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


FORMULAS = {
    "rbf": (named("rbf", 1.7, *LENGTHS), lambda X, Y: 1.7 * ref.rbf(X, Y, LENGTHS)),
    "matern12": (named("matern12", 0.6, *LENGTHS), lambda X, Y: 0.6 * ref.matern(X, Y, LENGTHS, 0.5)),
    "matern32": (named("matern32", 0.6, *LENGTHS), lambda X, Y: 0.6 * ref.matern(X, Y, LENGTHS, 1.5)),
    "matern52": (named("matern52", 2.6, *LENGTHS), lambda X, Y: 2.6 * ref.matern(X, Y, LENGTHS, 2.5)),
    "rq": (named("rq", 1.2, *LENGTHS, 0.8), lambda X, Y: 1.2 * ref.rational_quadratic(X, Y, LENGTHS, 0.8)),
    "periodic": (
        named("periodic", 1.4, 0.9, 2.2, 1.3, 5.0),
        lambda X, Y: 1.4 * ref.periodic(X, Y, (0.9, 2.2), (1.3, 5.0)),
    ),
    "linear": (named("linear", 0.3, 0.05), lambda X, Y: ref.linear(X, Y, (0.3, 0.05), CENTRE)),
    "constant": (named("constant", 0.7), lambda X, Y: np.full((len(X), len(Y)), 0.7)),
    "linear + constant": (
        named("linear + constant", 0.3, 0.05, 4.2),
        lambda X, Y: ref.linear(X, Y, (0.3, 0.05), CENTRE) + 4.2,
    ),
    "(rbf + constant) * periodic": (
        named("(rbf + constant) * periodic", 0.8, *LENGTHS, 0.6, 0.9, 2.2, 1.3, 5.0),
        lambda X, Y: 0.8 * (ref.rbf(X, Y, LENGTHS) + 0.6) * ref.periodic(X, Y, (0.9, 2.2), (1.3, 5.0)),
    ),
    "rbf + linear": (
        named("rbf + linear", 1.7, *LENGTHS, 0.3, 0.05),
        lambda X, Y: 1.7 * ref.rbf(X, Y, LENGTHS) + ref.linear(X, Y, (0.3, 0.05), CENTRE),
    ),
    "rbf * periodic": (
        named("rbf * periodic", 0.8, *LENGTHS, 0.9, 2.2, 1.3, 5.0),
        lambda X, Y: 0.8 * ref.rbf(X, Y, LENGTHS) * ref.periodic(X, Y, (0.9, 2.2), (1.3, 5.0)),
    ),
    "(rbf + linear) * matern32": (
        named("(rbf + linear) * matern32", 0.8, *LENGTHS, 0.3, 0.05, 2.0, 9.0),
        lambda X, Y: (
            0.8 * (ref.rbf(X, Y, LENGTHS) + ref.linear(X, Y, (0.3, 0.05), CENTRE)) * ref.matern(X, Y, (2.0, 9.0), 1.5)
        ),
    ),
}
every = pytest.mark.parametrize("name", FORMULAS)


# --- names and formulas -----------------------------------------------------------------------


@every
def test_a_name_means_its_formula(name):
    """Each kernel, and compositions, against NumPy in anisotropic 2-D."""
    kernel, formula = FORMULAS[name]
    check_close(value(kernel), formula(A, B))
    check_close(value(kernel, A, A), formula(A, A))
    check_close(kernel.diagonal(torch.tensor(A)), np.diag(formula(A, A)))


@every
def test_batches_are_matrices_one_by_one(name):
    """k(X_b, X_b) for a whole batch of point sets."""
    kernel, formula = FORMULAS[name]
    batch = torch.tensor(np.stack([A[:5], B]))
    found = kernel.matrix(batch, batch)
    check_close(found, np.stack([formula(A[:5], A[:5]), formula(B, B)]))


@every
def test_derivatives_by_theta(name):
    """Autograd through θ, against central differences of the matrix itself."""
    kernel, _ = FORMULAS[name]
    weights = torch.tensor(RNG.standard_normal((6, 5)))
    theta = kernel.theta.clone().requires_grad_()

    def total(t):
        return (weights * kernel.with_theta(t).matrix(torch.tensor(A), torch.tensor(B))).sum()

    (found,) = torch.autograd.grad(total(theta), theta)
    for i in range(len(theta)):
        step = torch.zeros_like(kernel.theta)
        step[i] = 1e-5
        difference = (total(kernel.theta + step) - total(kernel.theta - step)) / 2e-5
        assert float(found[i]) == pytest.approx(float(difference), rel=1e-6, abs=1e-8)


def test_one_input_column_has_one_lengthscale():
    """ARD only where there are several inputs."""
    kernel = parse("rbf + matern12", 1)
    assert [p.name for p in entries(kernel.structure)] == ["outputscale", "lengthscale", "outputscale", "lengthscale"]


@pytest.mark.parametrize(("expression", "amplitudes"), [("rbf * rbf", 1), ("rbf + rbf", 2), ("rbf * (rq + rbf)", 1)])
def test_every_additive_term_has_one_amplitude(expression, amplitudes):
    """Products would otherwise share it twice."""
    names = [p.name for p in entries(parse(expression, 2).structure)]
    assert names.count("outputscale") == amplitudes


@every
def test_description_names_structure_and_values(name):
    """One line for people, which can be read back as a structure."""
    kernel, _ = FORMULAS[name]
    text = kernel.describe()
    values = [math.exp(t) for t in learned(kernel)]
    assert all(f"{v:.4g}" in text for v in values)
    structure = text[: text.rindex("(")]
    assert parse(structure, 2).structure == kernel.structure


# --- GPyTorch ---------------------------------------------------------------------------------


@every
def test_gpytorch_round_trip(name):
    """to_gpytorch gives an object with these values; from_gpytorch reads them back."""
    kernel, formula = FORMULAS[name]
    built = to_gpytorch(kernel, 2)
    check_close(built(torch.tensor(A), torch.tensor(B)).to_dense().detach(), formula(A, B), 1e-10)
    again = from_gpytorch(built, 2)
    assert again.structure == kernel.structure
    check_close(again.theta, kernel.theta, 1e-12)


def test_gpytorch_object_with_active_dims():
    """Kernels on some of the columns, with float32 parameters, are read exactly as they stand."""
    first = RBFKernel(active_dims=[1])
    first.lengthscale = 2.5
    second = MaternKernel(nu=2.5, active_dims=[0])
    second.lengthscale = 0.3
    built = ScaleKernel(first * second) + LinearKernel()
    built.kernels[0].outputscale = 1.9
    built.kernels[1].variance = 0.07
    kernel = from_gpytorch(built, 2)
    expected = 1.9 * ref.rbf(A[:, 1:], B[:, 1:], (2.5,)) * ref.matern(A[:, :1], B[:, :1], (0.3,), 2.5)
    check_close(value(kernel), expected + ref.linear(A, B, 0.07, 0.0), 1e-6)
    check_close(to_gpytorch(kernel, 2)(torch.tensor(A), torch.tensor(B)).to_dense().detach(), value(kernel), 1e-10)


def test_a_linear_kernel_of_the_users_is_added_without_a_factorisation():
    """GPyTorch would take the Cholesky factor of the other part first, and warn of the jitter that needs."""
    X = RNG.uniform(0, 1, (200, 2))
    smooth = ScaleKernel(RBFKernel())
    smooth.base_kernel.lengthscale = 4.0
    for built in (smooth + LinearKernel(), LinearKernel() + smooth, (smooth + LinearKernel()) * MaternKernel()):
        kernel = from_gpytorch(built.double(), 2)
        check_close(value(kernel, X, X), value(kernel, X, np.r_[X, X[:1]])[:, :200])  # warnings are errors


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_gpytorch_scale_with_active_dims_is_read_right_or_refused(where):
    """GPyTorch lets ScaleKernel choose the columns itself: that may be refused, but not forgotten."""
    if where == "inside":
        built = ScaleKernel(RBFKernel(active_dims=[1])).double()
    else:
        built = ScaleKernel(RBFKernel(), active_dims=[1]).double()
    expected = built(torch.tensor(A), torch.tensor(B)).to_dense().detach()
    try:
        kernel = from_gpytorch(built, 2)
    except RecycleGPError:
        assert where == "outside"
    else:
        check_close(value(kernel), expected, 1e-10)


def test_the_object_is_read_and_never_kept():
    """Changing the user's kernel afterwards changes nothing, nor is it changed."""
    mine = ScaleKernel(RBFKernel(ard_num_dims=2)).double()
    before = {k: v.clone() for k, v in mine.state_dict().items()}
    kernel = from_gpytorch(mine, 2)
    first = value(kernel)
    assert all(torch.equal(v, before[k]) for k, v in mine.state_dict().items())
    mine.base_kernel.lengthscale = 9.0
    check_close(value(kernel), first)
    to_gpytorch(kernel, 2).outputscale = 5.0
    check_close(value(kernel), first)


def test_evaluation_does_not_remember_old_parameters():
    """The shared template is a function of θ."""
    kernel, formula = FORMULAS["rbf + linear"]
    other = kernel.with_theta(kernel.theta + 0.7)
    before = value(kernel)
    assert np.abs(value(other) - before).max() > 0.1
    check_close(value(kernel), before)
    check_close(before, formula(A, B))


# --- units, columns, pooling ------------------------------------------------------------------


@every
@pytest.mark.parametrize("factor", [0.03, 17.0])
def test_scaled(name, factor):
    """factor · k, through the amplitudes it already has."""
    kernel, formula = FORMULAS[name]
    found = units.scaled(kernel, factor)
    check_close(value(found), factor * formula(A, B), 1e-11)
    assert found.structure == kernel.structure


def test_scaled_without_an_amplitude_gains_one():
    """A kernel the user gave without ScaleKernel."""
    bare = from_gpytorch(RBFKernel(ard_num_dims=2).double(), 2)
    check_close(value(units.scaled(bare, 3.5)), 3.5 * value(bare))
    mixed = from_gpytorch((RBFKernel() + ScaleKernel(RQKernel())).double(), 2)
    check_close(value(units.scaled(mixed, 0.2)), 0.2 * value(mixed))
    both = from_gpytorch((ScaleKernel(RBFKernel()) * ScaleKernel(RQKernel())).double(), 2)
    check_close(value(units.scaled(both, 0.2)), 0.2 * value(both))
    nested = from_gpytorch(ScaleKernel(LinearKernel() + ScaleKernel(RBFKernel())).double(), 2)
    check_close(value(units.scaled(nested, 6.0)), 6.0 * value(nested))


@every
def test_in_units(name):
    """s²·k((x − c)/a, (x' − c)/a), also for the kernels that are not stationary."""
    kernel, formula = FORMULAS[name]
    scale, shift = np.array([3.0, 0.02]), np.array([5.0, -70.0])
    found = units.in_units(kernel, -1.5, units.InputUnits(torch.tensor(scale), torch.tensor(shift)))
    check_close(value(found, scale * A + shift, scale * B + shift), 1.5**2 * formula(A, B), 1e-9)


@every
def test_permuted(name):
    """The same kernel on columns in another order."""
    kernel, formula = FORMULAS[name]
    check_close(value(units.permuted(kernel, [1, 0]), A[:, [1, 0]], B[:, [1, 0]]), formula(A, B))


def test_permuted_in_three_columns_with_active_dims():
    """A cyclic order, which is not its own inverse, distinguishes the two directions."""
    X = RNG.standard_normal((5, 3))
    part = RBFKernel(ard_num_dims=2, active_dims=[0, 2])
    part.lengthscale = torch.tensor([[0.5, 2.0]])
    whole = MaternKernel(nu=1.5, ard_num_dims=3)
    whole.lengthscale = torch.tensor([[0.7, 1.3, 4.0]])
    linear = centred("linear", (0.1, 0.2, 0.3), np.log([0.3, 0.6, 1.2]))
    order = [2, 0, 1]  # new column j is the old column order[j]
    for kernel in (from_gpytorch((part + whole).double(), 3), linear):
        check_close(value(units.permuted(kernel, order), X[:, order], X[:, order]), value(kernel, X, X))


@every
def test_reference_is_one_standard_deviation(name):
    """θ − reference does not know the units: rescaling x and y moves the reference, not the kernel's values."""
    kernel, _ = FORMULAS[name]
    x, y = torch.tensor([0.8, 6.0], dtype=torch.float64), torch.tensor(2.5, dtype=torch.float64)
    stretch, scale = torch.tensor([100.0, 0.03], dtype=torch.float64), 41.0
    centre = torch.tensor(CENTRE, dtype=torch.float64)
    offset = kernel.theta - units.reference(kernel.structure, x, centre, y)
    rescaled = units.reference(kernel.structure, x * stretch, centre * stretch, y * scale)
    rescaled = kernel.with_theta(offset + rescaled)
    s = stretch.numpy()
    check_close(value(rescaled, A * s, B * s) / scale**2, value(kernel), 1e-10)


def side_by_side(*kernels):
    return Kernel(kernels[0].structure, torch.stack([kernel.theta for kernel in kernels]))


def test_pool_is_the_coordinate_wise_median():
    """Of log-parameters and of centres: one degenerate module moves nothing."""
    several = [
        centred("rbf + linear", (c, -c), [t, t + 1, t - 1, 2 * t, 0.3])
        for c, t in ((0.0, 0.1), (1.0, 0.4), (500.0, -30.0))
    ]
    pooled = pool(side_by_side(*several), [1, 1, 1])
    check_close(learned(pooled), [0.1, 1.1, -0.9, 0.2, 0.3], 1e-6)
    check_close(pooled.theta[-2:], [1.0, -1.0])
    assert pooled.structure == several[0].structure


def test_pool_of_an_even_number_and_of_one():
    """Half-way in logarithms; one kernel is itself."""
    a, b = named("rbf", 1.0, 2.0, 3.0), named("rbf", 4.0, 8.0, 3.0)
    check_close(pool(side_by_side(a, b), [1, 1]).theta.exp(), [2.0, 4.0, 3.0])
    assert pool(side_by_side(a), [3]) == a


def test_pool_counts_rows():
    """Two large data sets are not outvoted by three tiny ones."""
    tiny, large = named("rbf", 1.0, 0.002, 3.0), named("rbf", 4.0, 8.0, 3.0)
    check_close(pool(side_by_side(tiny, tiny, tiny, large, large), [2, 2, 2, 500, 400]).theta, large.theta)


def test_structures_do_not_know_centres():
    """What may be pooled together."""
    one, two = centred("linear", (0.0, 1.0), [0, 0]), centred("linear", (5.0, 6.0), [0, 0])
    assert one != two
    assert one.structure == two.structure
    assert one.structure != parse("rbf", 2).structure
    assert parse("matern12", 2).structure != parse("matern32", 2).structure


def test_kernels_are_values():
    """Equal and with one hash where structure and numbers are equal; safe from changes of what they were made of."""
    a, b = named("rbf + linear", 1.7, *LENGTHS, 0.3, 0.05), named("rbf + linear", 1.7, *LENGTHS, 0.3, 0.05)
    assert a == b
    assert len({a, b, named("rbf + linear", 1.7, *LENGTHS, 0.3, 0.06)}) == 2
    copy = a.own()
    copy.theta[0] = 5.0
    assert a == b
    assert a != copy


@every
def test_many_kernels_side_by_side(name):
    """Each model of a batch is its own kernel, with its own points."""
    kernel, _ = FORMULAS[name]
    thetas = torch.stack([kernel.theta, kernel.theta + 0.3, kernel.theta - 0.2])
    X, Y = torch.tensor(RNG.standard_normal((3, 6, 2))), torch.tensor(RNG.standard_normal((3, 4, 2)))
    many = kernel.with_theta(thetas)
    for i in range(3):
        check_close(many.matrix(X, Y)[i], kernel.with_theta(thetas[i]).matrix(X[i], Y[i]))
        check_close(many.diagonal(X)[i], kernel.with_theta(thetas[i]).diagonal(X[i]))
        assert many.select(i) == kernel.with_theta(thetas[i])


@pytest.mark.parametrize("name", [name for name in FORMULAS if name != "constant"])
def test_derivatives_by_the_points(name):
    """First and second derivatives through X, against central differences."""
    kernel, _ = FORMULAS[name]
    weights = torch.tensor(RNG.standard_normal((6, 5)))
    X = torch.tensor(A, requires_grad=True)

    def total(points):
        return (weights * kernel.matrix(points, torch.tensor(B))).sum()

    assert torch.autograd.gradcheck(total, X)
    assert torch.autograd.gradgradcheck(total, X)


@pytest.mark.parametrize("name", ["rbf", "matern12", "matern32", "matern52", "rq", "periodic"])
def test_far_from_zero(name):
    """A common offset of all points changes nothing; of x = 100,000 a phase alone has lost its last digits."""
    kernel, _ = FORMULAS[name]
    far = np.round(A * 64) / 64 + 2.0**17  # moved without rounding
    near = far - 2.0**17
    check_close(value(kernel, far, far), value(kernel, near, near), 1e-10)


def test_the_same_point_in_two_sets_is_at_no_distance():
    """A root of rounding errors would be 1e-8 away, and a slack of 1e-5 nats."""
    X = RNG.uniform(-50, 50, (40, 2))
    check_close(np.diag(value(FORMULAS["matern12"][0], X, X[:, :].copy())), np.full(40, 0.6), 1e-15)


# --- refusals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression", ["", "gauss", "rbf -", "rbf - linear", "rbf ** 2", "2 * rbf", "rbf()", "rbf; rbf"]
)
def test_unreadable_names_are_refused_with_the_choices(expression):
    """The message repeats what was given and says what there is."""
    with pytest.raises(RecycleGPError, match=r"cannot be read; use rbf, matern12") as refused:
        parse(expression, 2)
    assert repr(expression) in str(refused.value)


class Custom(RBFKernel):
    """Not one of the kinds a file can hold."""


@pytest.mark.parametrize(
    "kernel", [Custom(), gpytorch.kernels.CosineKernel(), ScaleKernel(gpytorch.kernels.PolynomialKernel(power=2))]
)
def test_other_gpytorch_kernels_are_refused_by_name(kernel):
    """Also a subclass, whose formula may be anything."""
    inner = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    with pytest.raises(RecycleGPError, match=f"kernel {type(inner).__name__} cannot be represented"):
        from_gpytorch(kernel, 2)


def test_objects_that_are_no_kernels_are_refused_by_type():
    """A TypeError, as the convention is."""
    with pytest.raises(TypeError, match="must be a name or a gpytorch kernel, not list"):
        from_gpytorch([1.0], 2)


def test_batched_kernels_are_refused():
    """One kernel at a time."""
    with pytest.raises(RecycleGPError, match="batch_shape"):
        from_gpytorch(RBFKernel(batch_shape=torch.Size([3])), 2)


@pytest.mark.parametrize(
    "kernel", [RBFKernel(ard_num_dims=3), RBFKernel(active_dims=[0, 2]), PeriodicKernel(ard_num_dims=5)]
)
def test_columns_that_do_not_exist_are_refused(kernel):
    """ARD for another number of inputs, or a column beyond the last."""
    with pytest.raises(RecycleGPError, match=r"columns outside|ard_num_dims=\d for 2 input columns"):
        from_gpytorch(kernel, 2)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"kind": "spectral"}, "kind 'spectral' is not known"),
        ({"kind": "rbf", "ard": 2, "dims": [0, 9]}, "columns outside"),
        ({"kind": "rbf", "ard": 7, "dims": None}, "ard_num_dims=7 for 2 input columns"),
        ({"kind": "constant", "ard": 2, "dims": None}, "'constant' looks at no columns"),
        ({"kind": "matern", "nu": 0.7, "ard": 2, "dims": None}, "nu=0.7"),
        ({"kind": "centred", "centre": [1.0], "base": {"kind": "rbf", "ard": 2, "dims": None}}, "centre of 2"),
        ({"kind": "sum", "parts": []}, "not known"),
        ({"kind": "scale"}, "malformed"),
        ([1, 2], "malformed"),
        ({"kind": "sum", "parts": [{"kind": "rbf", "ard": 2, "dims": None}] * 100}, "too large"),
    ],
)
def test_specifications_of_strangers_are_checked(node, message):
    """What a file may not say."""
    with pytest.raises(RecycleGPError, match=message):
        file_form.from_json({"tree": node, "log_parameters": [0.0] * 300}, 2)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ({"kind": "rbf", "ard": 2.0, "dims": None}, "ard_num_dims=2.0"),
        ({"kind": "rbf", "ard": True, "dims": [0]}, "ard_num_dims=True"),
        ({"kind": "rbf", "ard": 2, "dims": [0, 0]}, "one twice"),
        ({"kind": "rbf", "ard": None, "dims": [True]}, "columns outside"),
        ({"kind": "rbf", "ard": None, "dims": "0"}, "columns outside"),
        ({"kind": "matern", "nu": True, "ard": 2, "dims": None}, "nu=True"),
        ({"kind": "centred", "centre": ["1", 2.0], "base": {"kind": "rbf", "ard": 2, "dims": None}}, "a centre is 1"),
        ({"kind": ["rbf"]}, "not known"),
    ],
)
def test_types_are_strict(node, message):
    """A number that only looks right is refused where the file is read, not where the kernel is used."""
    with pytest.raises(RecycleGPError, match=message):
        file_form.from_json({"tree": node, "log_parameters": [0.0]}, 2)


@every
def test_file_form_round_trip(name):
    """Bit for bit, centres and all."""
    kernel, _ = FORMULAS[name]
    written = json.loads(json.dumps(file_form.to_json(kernel, 2)))
    assert file_form.from_json(written, 2) == kernel


def test_parameters_are_counted_and_finite():
    """θ belongs to its structure."""
    structure = parse("rbf", 2).structure
    with pytest.raises(RecycleGPError, match="2 parameters for a structure with 3"):
        Kernel(structure, torch.zeros(2))
    with pytest.raises(RecycleGPError, match="finite"):
        file_form.assemble(structure, [0.0, 1.0, math.nan], [])


def test_no_kernel_is_larger_than_a_file_can_hold():
    """What cannot be read again is refused where it comes in, not after it was saved."""
    small = sum((ScaleKernel(RBFKernel()) for _ in range(20)), start=ScaleKernel(RBFKernel()))
    file_form.from_json(file_form.to_json(from_gpytorch(small, 2), 2), 2)
    large = sum((ScaleKernel(RBFKernel()) for _ in range(40)), start=ScaleKernel(RBFKernel()))
    with pytest.raises(RecycleGPError, match="more than 64 parts"):
        from_gpytorch(large, 2)


def test_kernels_side_by_side_one_by_one():
    structure = parse("rbf + linear", 3).structure
    theta = torch.from_numpy(np.random.default_rng(5).normal(size=(4, structure.size)))
    many = Kernel(structure, theta)
    alone = many.each()
    assert alone == [Kernel(structure, own) for own in theta]
    X = torch.from_numpy(np.random.default_rng(6).normal(size=(5, 3)))
    np.testing.assert_allclose(torch.stack([k.matrix(X, X) for k in alone]), many.matrix(X, X), rtol=1e-12)


def test_nor_is_a_kernel_by_name():
    """22 amplitudes, 22 periodic kernels and 21 sums are 65 parts."""
    most = parse("+".join(["periodic"] * 21), 1)
    file_form.from_json(file_form.to_json(most, 1), 1)
    for name in ("+".join(["periodic"] * 22), "(" + "+".join(["linear"] * 22) + ")"):
        with pytest.raises(RecycleGPError, match=r"it has \d\d parts .* a file holds 64; use fewer"):
            parse(name, 1)
