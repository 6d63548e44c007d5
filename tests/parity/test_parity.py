"""Everything a model of one function can be asked or told, one of several functions can, too.

Every public name of Module and of Ensemble has an entry here: how it is called, and what must come back, for one
output, several outputs, correlated outputs, classes and varying noise. What the mathematics forbids is listed with the
words that the error must contain.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import recyclegp as rgp
from parity_cases import FORMS, KINDS, LEVELS, LOGARITHMS, OWNERS, ensemble, functions, module, options, rows, width

X = np.linspace(0.6, 5.4, 7)[:, None]
N = len(X)


def per_function(value: Any, kind: str, of: type | tuple[type, ...]) -> None:
    """One value for one function, a tuple for several."""
    found = value if functions(kind) > 1 else (value,)
    assert isinstance(found, tuple)
    assert len(found) == functions(kind)
    assert all(isinstance(v, of) for v in found)


def shaped(found: Any, *shape: int) -> None:
    assert np.shape(found) == shape
    assert np.isfinite(np.asarray(found, dtype=float)).all()


# --- questions: name → (model, kind) → asserts ---------------------------------------------------


def predict(m: Any, kind: str) -> None:
    mean, variance = m.predict(X)
    shaped(mean, N, *width(kind))
    shaped(variance, N, *width(kind))
    assert (variance > 0).all()
    tensor = m.predict(torch.as_tensor(X).requires_grad_())[0]
    assert isinstance(tensor, torch.Tensor)
    assert tensor.requires_grad
    np.testing.assert_allclose(tensor.detach().numpy(), mean, atol=1e-12)


def predict_y(m: Any, kind: str) -> None:
    mean, variance = m.predict_y(X)
    shaped(mean, N, *width(kind))
    shaped(variance, N, *width(kind))
    if kind == "classes":
        np.testing.assert_allclose(mean.sum(-1), 1, atol=1e-9)
    elif kind == "levels":  # positions 0, 1, 2
        assert ((mean > 0) & (mean < 2) & (variance > 0)).all()
        np.testing.assert_allclose(mean, m.predict_proba(X) @ [0, 1, 2], atol=1e-12)
    elif kind in LOGARITHMS:
        assert (np.log1p(variance / mean**2) > m.predict(X)[1]).all()  # of log y
    else:
        assert (variance > m.predict(X)[1]).all()


def predict_noise(m: Any, kind: str) -> None:
    found = m.predict_noise(X)
    shaped(found, N, *width(kind))
    assert (found > 0).all()


def predict_interval(m: Any, kind: str) -> None:
    low, high = m.predict_interval(X, 0.9)
    mean = m.predict_y(X)[0]
    if kind == "levels":
        assert set(low) | set(high) <= {0, 1, 2}
        return
    assert (low < mean).all()
    assert (mean < high).all()


def predict_quantiles(m: Any, kind: str) -> None:
    shaped(m.predict_quantiles(X, 0.3), N, *width(kind))
    found = m.predict_quantiles(X, [0.2, 0.5, 0.9])
    shaped(found, N, *width(kind), 3)
    steps = np.diff(found, axis=-1)
    assert (steps >= 0).all() if kind == "levels" else (steps > 0).all()


def predict_survival(m: Any, kind: str) -> None:
    if kind == "levels":
        np.testing.assert_allclose(m.predict_survival(X, 0.5), 1 - m.predict_proba(X)[:, 0], atol=1e-12)
        return
    middle = m.predict_quantiles(X, 0.5).reshape(N, -1)
    found = [m.predict_survival(X, at).reshape(N, -1) for at in (middle[:, 0], float(middle.min()) - 1, 1e6)]
    shaped(m.predict_survival(X, 1.0), N, *width(kind))
    np.testing.assert_allclose(found[0][:, 0], 0.5, atol=1e-9)
    assert (found[1][:, 0] > found[0][:, 0]).all()
    np.testing.assert_allclose(found[2], 0, atol=1e-12)


def predict_joint(m: Any, kind: str) -> None:
    mean, covariance = m.predict_joint(X)
    shaped(mean, N, *width(kind))
    shaped(covariance, *width(kind), N, N)
    variance = np.diagonal(covariance, axis1=-2, axis2=-1)
    np.testing.assert_allclose(variance.T if variance.ndim == 2 else variance, m.predict(X)[1], rtol=1e-6, atol=1e-9)


def predict_proba(m: Any, kind: str) -> None:
    shaped(m.predict_proba(X), N, 3)


def predict_class(m: Any, kind: str) -> None:
    assert set(m.predict_class(X)) <= {"high", "middle", "low"}


def log_density(m: Any, kind: str) -> None:
    new = rows(kind, 77, 9)
    found = m.log_density(new.X, new.y)
    assert np.shape(found) == ((9, 2) if "outputs" in kind else (9,))
    assert np.isfinite(found).all()


def sample(m: Any, kind: str) -> None:
    several = (functions(kind),) if functions(kind) > 1 else ()
    shaped(m.sample(X, 3, seed=1), 3, N, *several)
    np.testing.assert_array_equal(m.sample(X, 2, seed=5), m.sample(X, 2, seed=5))


def extrapolates(m: Any, kind: str) -> None:
    assert m.extrapolates(np.array([[3.0], [40.0]])).tolist() == [False, True]
    assert m.outside(np.array([[3.0], [40.0]])).tolist() == [False, True]


def numbers_of_functions(name: str) -> Callable[[Any, str], None]:
    def asked(m: Any, kind: str) -> None:
        per_function(getattr(m, name), kind, float)

    return asked


def value(name: str, of: type | tuple[type, ...]) -> Callable[[Any, str], None]:
    def asked(m: Any, kind: str) -> None:
        assert isinstance(getattr(m, name), of)

    return asked


def kernel(m: Any, kind: str) -> None:
    import gpytorch

    per_function(m.kernel, kind, gpytorch.kernels.Kernel)
    assert len(m.kernel_spec) == functions(kind) if functions(kind) > 1 else m.kernel_spec.describe()


def noise(m: Any, kind: str) -> None:
    has_one = kind not in ("classes", "levels", "varying noise")
    per_function(m.noise, kind, float if has_one else type(None))


def inducing(m: Any, kind: str) -> None:
    for Z in m.inducing if isinstance(m.inducing, tuple) else (m.inducing,):
        assert Z.shape[1] == 1
        assert not Z.flags.writeable


def to(m: Any, kind: str) -> None:
    assert m.to("cpu").device.type == "cpu"


def part(m: Any, kind: str) -> None:
    if functions(kind) == 1:
        np.testing.assert_array_equal(m.part("f").predict(X)[0], m.predict(X)[0])
        return
    own = m.part(m.functions[1])
    assert len(own.predict(X)) == 2
    assert np.shape(own.predict(X)[0]) == (N,)
    if kind not in ("correlated outputs", "varying noise"):
        np.testing.assert_allclose(own.predict(X)[0], m.predict(X)[0][:, 1], rtol=1e-9, atol=1e-9)


def transform(m: Any, kind: str) -> None:
    of_y = {"classes": (1.0, 0.0), "levels": (1.0, 0.0), "positive": (2.0, 0.0), "censored times": (2.0, 0.0)}.get(
        kind, (2.0, 5.0)
    )
    scale, shift = (1.0, np.log(2.0)) if kind in LOGARITHMS else of_y  # of f
    new = m.transform([1.0], *of_y, input_scale=[10.0])
    mean, variance = m.predict(X)
    moved = new.predict(10 * X + 1)
    np.testing.assert_allclose(moved[0], scale * mean + shift, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(moved[1], scale**2 * variance, rtol=1e-6, atol=1e-8)


def words(m: Any, kind: str) -> None:
    assert len(m.functions) == functions(kind)
    assert len(m.targets) == functions(kind)
    assert m.likelihood == "+".join(p.name for p in m.likelihoods)


def outputs(m: Any, kind: str) -> None:
    assert m.outputs == (("a",) if kind in ("one output", *LOGARITHMS, "levels") else ("a", "b"))


def classes(m: Any, kind: str) -> None:
    assert m.classes == (LEVELS if kind == "levels" else ("high", "low", "middle"))


def posterior(m: Any, kind: str) -> None:
    assert m.posterior is not None


def save(m: Any, kind: str, tmp_path: Any) -> None:
    path = tmp_path / "model.safetensors"
    m.save(path)
    again = rgp.load(path)
    assert type(again) is type(m)
    np.testing.assert_allclose(again.predict(X)[0], m.predict(X)[0], rtol=0, atol=1e-10)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(m)).predict(X)[1], m.predict(X)[1], rtol=0, atol=1e-10)
    assert repr(again) == repr(m)


COMMON: dict[str, Callable[..., None]] = {
    "predict": predict,
    "predict_y": predict_y,
    "predict_noise": predict_noise,
    "predict_interval": predict_interval,
    "predict_quantiles": predict_quantiles,
    "predict_survival": predict_survival,
    "predict_joint": predict_joint,
    "predict_proba": predict_proba,
    "predict_class": predict_class,
    "log_density": log_density,
    "sample": sample,
    "extrapolates": extrapolates,
    "outside": extrapolates,
    "mean": numbers_of_functions("mean"),
    "evidence": value("evidence", float),
    "region": value("region", np.ndarray),
    "rows": value("rows", int),
    "dimension": value("dimension", int),
    "columns": value("columns", tuple),
    "categories": value("categories", object),
    "convergence": value("convergence", object),
    "disclosure": value("disclosure", tuple),
    "device": value("device", torch.device),
    "target": value("target", object),
    "targets": words,
    "functions": words,
    "likelihood": words,
    "likelihoods": words,
    "outputs": outputs,
    "classes": classes,
    "kernel": kernel,
    "kernel_spec": kernel,
    "noise": noise,
    "inducing": inducing,
    "posterior": posterior,
    "to": to,
    "part": part,
    "transform": transform,
    "save": save,
}


# --- of modules ----------------------------------------------------------------------------------


def publish(m: Any, kind: str) -> None:
    small = m.publish(5)
    assert all(len(latent.site.Z) == 5 for latent in small.latents)
    given = m.publish(X)
    np.testing.assert_allclose(given.predict(X)[0], m.predict(X)[0], rtol=1e-5, atol=1e-5)


def rounded(m: Any, kind: str) -> None:
    np.testing.assert_allclose(m.rounded(9).predict(X)[0], m.predict(X)[0], rtol=1e-4, atol=1e-4)


def renamed(m: Any, kind: str) -> None:
    assert m.rename("east").name == "east"
    assert m.owned_by("city").owner == "city"
    assert m.at_time("2026-03-01").time is not None
    assert m.with_columns(["hour"]).columns == ("hour",)
    assert m.method


def of_outputs(m: Any, kind: str) -> None:
    if "outputs" in kind:
        both = rgp.Module.of_outputs([m.part("a"), m.part("b")])
        np.testing.assert_array_equal(both.predict(X)[0], m.predict(X)[0])


MODULE: dict[str, Callable[..., None]] = COMMON | {
    "name": renamed,
    "owner": renamed,
    "time": renamed,
    "method": renamed,
    "rename": renamed,
    "owned_by": renamed,
    "at_time": renamed,
    "with_columns": renamed,
    "about": value("about", tuple),
    "latents": value("latents", tuple),
    "jitter": numbers_of_functions("jitter"),
    "kept": numbers_of_functions("kept"),
    "held_back": value("held_back", (float, type(None))),
    "noise_evidence": value("noise_evidence", object),
    "site": value("site", tuple),
    "publish": publish,
    "rounded": rounded,
    "of_outputs": of_outputs,
    "from_moments": value("from_moments", object),  # one function; tests/models/test_moments.py
}


# --- of ensembles --------------------------------------------------------------------------------


def add(e: Any, kind: str) -> None:
    more = e.add(module(kind, "east"))
    assert more.names == [*OWNERS, "east"]
    back = more.remove("east")
    np.testing.assert_allclose(back.predict(X)[0], e.predict(X)[0], rtol=1e-6, atol=1e-7)
    assert back.unlearned.removed == 1
    assert back.traces_of_removed == 0


def remove(e: Any, kind: str) -> None:
    less = e.remove("south", relearn=False)
    assert less.names == ["north", "west"]
    assert less.unlearned.removed == 1
    assert less.traces_of_removed == 1
    again = e.remove("south", relearn=True)
    assert again.names == ["north", "west"]
    assert again.unlearned.guarantee.value == "as if they had never been here"
    shaped(again.predict(X)[0], N, *width(kind))


def reweight(e: Any, kind: str) -> None:
    half = e.reweight({"north": 0.5})
    assert {row["weight"] for row in half.report() if row["name"] == "north"} == {0.5}
    assert not np.allclose(half.predict(X)[1], e.predict(X)[1])
    np.testing.assert_allclose(half.reweight({"north": 1.0}).predict(X)[0], e.predict(X)[0], rtol=1e-6, atol=1e-7)
    assert e.reweight({"north": 2.0}, relearn=True).names == e.names


def with_noise(e: Any, kind: str) -> None:
    found = e.with_noise(0.5)
    assert found.noise == (0.5 if functions(kind) == 1 else (0.5, 0.5))
    for owner in OWNERS:
        mean, variance = found.predict_y(X, owner=owner)
        of_seen = np.log1p(variance / mean**2) if kind in LOGARITHMS else variance
        both = of_seen - found.predict(X, owner=owner)[1]
        np.testing.assert_allclose(both, 0.5, rtol=1e-6)


def gain(e: Any, kind: str) -> None:
    X, y = rows(kind, 20, 40)
    mine = rgp.fit(X, y, name="mine", hold_back=0.3, **options(kind))
    found = e.add(mine).gain(X, y)
    assert found.name == "mine"
    assert 4 < found.rows < 20
    assert np.isfinite([found.merged, found.alone, found.standard_error]).all()


def update(e: Any, kind: str) -> None:
    new = rows(kind, 55, 25)
    more = e.update(new.X, new.y, name="late", owner="late")
    assert more.names == [*OWNERS, "late"]
    assert (more.predict(X)[1] <= e.predict(X)[1] * (1 + 1e-9)).all()
    faded = e.update(new.X, new.y, decay=0.5)
    assert {row["weight"] for row in faded.report() if row["name"] == "north"} == {0.5}
    for wrong in (5.0, 0.0, -1.0):
        with pytest.raises(rgp.RecycleGPError, match="forget"):
            e.update(new.X, new.y, forget=wrong)
    assert e.update(new.X, new.y, relearn=True).names == [*OWNERS, "update-1"]


def drop_sites(e: Any, kind: str) -> None:
    small = e.drop_sites()
    np.testing.assert_allclose(small.predict(X)[0], e.predict(X)[0], rtol=1e-9, atol=1e-9)
    with pytest.raises(rgp.RecycleGPError, match="sites"):
        small.remove("north")


def to_module(e: Any, kind: str) -> None:
    m = e.to_module("all")
    assert m.name == "all"
    assert m.functions == e.functions
    shaped(m.predict(X)[0], N, *width(kind))
    if kind != "correlated outputs":
        np.testing.assert_allclose(m.predict(X)[0], e.predict(X)[0], rtol=1e-3, atol=1e-3)
    merged = rgp.merge([m, module(kind, "east")], learn=False)
    assert merged.names == ["all", "east"]


def plan(e: Any, kind: str) -> None:
    agreed = e.plan(points=6)
    assert agreed.functions == e.functions
    given = [agreed.contribute(*rows(kind, seed, 40), name=f"w{seed}", allow_small=True) for seed in (1, 2)]
    found, following = agreed.combine(given)
    assert found.names == ["w1", "w2"]
    shaped(found.predict(X)[0], N, *width(kind))
    assert following.round == 1


def report(e: Any, kind: str) -> None:
    found = e.report()
    assert len(found) == functions(kind) * len(OWNERS)
    assert {row["function"] for row in found} == set(e.functions)
    assert {row["name"] for row in found} == set(OWNERS)


def owners(e: Any, kind: str) -> None:
    assert e.owners == list(OWNERS)
    for who in ("north", "new"):
        shaped(e.predict(X, owner=who)[0], N, *width(kind))
        shaped(e.predict_y(X, owner=who)[1], N, *width(kind))
    with pytest.raises(rgp.RecycleGPError, match="nobody"):
        e.predict(X, owner="nobody")


def names(e: Any, kind: str) -> None:
    assert e.names == list(OWNERS)


def bounds(e: Any, kind: str) -> None:
    assert e.bound <= e.evidence + 1e-6
    assert e.slack >= 0


def correlated(e: Any, kind: str) -> None:
    B = e.output_covariance
    assert (B is not None) == (kind == "correlated outputs")
    assert e.independent().output_covariance is None


def to_gpytorch(e: Any, kind: str) -> None:
    found = e.to_gpytorch()
    assert len(found) == 2


def to_botorch(e: Any, kind: str) -> None:
    pytest.importorskip("botorch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = e.to_botorch().posterior(torch.as_tensor(X))
    mean = e.predict(X)[0]
    np.testing.assert_allclose(found.mean.detach().numpy().reshape(mean.shape), mean, atol=1e-6)


ENSEMBLE: dict[str, Callable[..., None]] = COMMON | {
    "names": names,
    "owners": owners,
    "frame": value("frame", tuple),
    "groups": value("groups", tuple),
    "how": value("how", tuple),
    "choice": value("choice", (str, int, type(None))),
    "jitter": value("jitter", (float, tuple)),
    "bound": bounds,
    "slack": bounds,
    "size": value("size", object),
    "offset_sd": numbers_of_functions("offset_sd"),
    "smooth_sd": numbers_of_functions("smooth_sd"),
    "basis": value("basis", tuple),
    "skipped": value("skipped", tuple),
    "signers": value("signers", tuple),
    "unlearned": remove,
    "traces_of_removed": remove,
    "output_covariance": correlated,
    "independent": correlated,
    "report": report,
    "add": add,
    "remove": remove,
    "reweight": reweight,
    "with_noise": with_noise,
    "gain": gain,
    "update": update,
    "drop_sites": drop_sites,
    "forget_sites": drop_sites,
    "to_module": to_module,
    "plan": plan,
    "to_gpytorch": to_gpytorch,
    "to_botorch": to_botorch,
}

# what the mathematics forbids, and the word in the error that says why
NO_CLASSES = "likelihood|outputs|noise"
FORBIDDEN: dict[str, dict[str, str]] = {
    "one output": {"predict_proba": NO_CLASSES, "predict_class": NO_CLASSES, "classes": NO_CLASSES},
    "positive": {"predict_proba": NO_CLASSES, "predict_class": NO_CLASSES, "classes": NO_CLASSES},
    "censored times": {
        "predict_proba": NO_CLASSES,
        "predict_class": NO_CLASSES,
        "classes": NO_CLASSES,
        "with_noise": "for gaussian modules",
    },
    "several outputs": {"predict_proba": NO_CLASSES, "predict_class": NO_CLASSES, "classes": NO_CLASSES},
    "correlated outputs": {
        "predict_proba": NO_CLASSES,
        "predict_class": NO_CLASSES,
        "classes": NO_CLASSES,
        "to_gpytorch": "correlated",
        "to_botorch": "correlated",
        "plan": "correlated",
    },
    "classes": {
        "predict_noise": "no noise",
        "predict_interval": "classes",
        "predict_quantiles": "classes",
        "predict_survival": "classes",
        "outputs": "classes",
        "with_noise": "has none to give",
        "to_botorch": "classes",
    },
    "levels": {
        "predict_noise": "no noise",
        "with_noise": "for gaussian modules",
        "to_gpytorch": "has no likelihood 'ordinal'",
    },
    "varying noise": {
        "predict_proba": NO_CLASSES,
        "predict_class": NO_CLASSES,
        "classes": NO_CLASSES,
        "outputs": "varying noise",
        "with_noise": "has none to give",
        "to_gpytorch": "varying noise",
        "to_botorch": "varying noise",
    },
}


def public(cls: type) -> set[str]:
    fields = getattr(cls, "__dataclass_fields__", {})
    return {name for name in (*dir(cls), *fields) if not name.startswith("_")}


@pytest.mark.parametrize(("cls", "table"), [(rgp.Module, MODULE), (rgp.Ensemble, ENSEMBLE)], ids=["module", "ensemble"])
def test_every_public_name_is_asked_here(cls: type, table: dict[str, Any]) -> None:
    assert public(cls) == set(table)


def ask(table: dict[str, Callable[..., None]], name: str, model: Any, kind: str, tmp_path: Any) -> None:
    forbidden = FORBIDDEN[kind].get(name)
    extra = (tmp_path,) if name == "save" else ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rgp.RecycleGPWarning)
        if forbidden is None:
            table[name](model, kind, *extra)
            return
        with pytest.raises(rgp.RecycleGPError, match=forbidden):
            table[name](model, kind, *extra)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(MODULE))
def test_modules(name: str, kind: str, tmp_path: Any) -> None:
    if kind == "correlated outputs":
        kind = "several outputs"  # a module's outputs are not correlated yet
    ask(MODULE, name, module(kind), kind, tmp_path)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(ENSEMBLE))
def test_ensembles(name: str, kind: str, form: str, tmp_path: Any) -> None:
    model = ensemble(kind, form)
    assert {group.form.kind for group in model.groups} == {form}
    ask(ENSEMBLE, name, model, kind, tmp_path)
