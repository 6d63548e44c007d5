"""A dictionary is merged again after a change as if from scratch, at the price of what has changed."""

from __future__ import annotations

import time

import gpytorch
import numpy as np
import pytest
import torch

import recyclegp as rgp
from recyclegp.core import folded_rows
from recyclegp.core.least_squares import Rows
from recyclegp.merging.fold_tree import FoldTree


def kernel() -> gpytorch.kernels.Kernel:
    made = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2))
    made.base_kernel.lengthscale = torch.tensor([1.3, 0.9])
    made.outputscale = 1.7
    return made


def modules(names, *, rows=30, publish=9, level=3.0, seed=0, **options) -> list[rgp.Module]:
    rng = np.random.default_rng(seed)
    given = {"kernel": kernel(), "learn": False, "noise": 0.05, **options}
    parts = []
    for _ in names:
        X = rng.uniform(-3, 3, (rows, 2))
        parts.append((X, level + np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=rows)))
    return list(rgp.fit_many(parts, names=list(names), publish=publish, **given))


def filled(place, found) -> rgp.Dictionary:
    d = rgp.Dictionary(place)
    for m in found:
        d.add(m)
    return d


X = np.random.default_rng(9).uniform(-3, 3, (40, 2))
Z = np.random.default_rng(8).uniform(-3, 3, (25, 2))


def agree(one: rgp.Ensemble, other: rgp.Ensemble) -> None:
    for a, b in zip((*one.predict(X), *one.predict_y(X)), (*other.predict(X), *other.predict_y(X)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)
    for what in ("bound", "evidence", "slack", "rows"):
        np.testing.assert_allclose(getattr(one, what), getattr(other, what), rtol=1e-10, atol=1e-10)
    assert (one.names, one.owners) == (other.names, other.owners)
    np.testing.assert_allclose(np.ravel(one.mean), np.ravel(other.mean), rtol=1e-10)
    rows, others = one.report(), other.report()
    for a, b in zip(rows, others, strict=True):
        np.testing.assert_allclose(a["agreement"], b["agreement"], rtol=0, atol=1e-8)
    for a, b in zip(one.likelihoods, other.likelihoods, strict=True):
        np.testing.assert_allclose(a.values, b.values, rtol=1e-10)


@pytest.mark.parametrize("options", [{}, {"noise": 0.08}, {"weights": {"m03": 0.5, "m05": 0.0}}], ids=str)
def test_with_kernel_and_points_given_it_is_as_from_scratch(options):
    """Means, noises and sizes of what comes differ, so that everything that is pooled moves."""
    given = {"kernel": kernel(), "inducing": Z, "learn": False, **options}
    d = filled("memory://again-" + str(len(options)) + str(list(options)), modules([f"m{i:02d}" for i in range(20)]))
    merged = d.merge(**given)
    agree(merged, rgp.merge([d.get(e.name) for e in d.list()], **given))
    assert d.merge(**given) is merged
    kept = d._memory.last.kept
    changes = (
        lambda: d.replace(modules(["m04"], seed=1, publish=6, noise=0.2, level=-40.0)[0]),
        lambda: d.remove("m07"),
        lambda: [d.add(m) for m in modules(["a", "z"], seed=2, rows=60, level=5000.0)],
        lambda: [d.remove(f"m{i:02d}") for i in (0, 1, 2, 8, 9)],
        lambda: d.add(modules(["m07"], seed=3)[0]),
    )
    for change in changes:
        change()
        agree(d.merge(**given), rgp.merge([d.get(e.name) for e in d.list()], **given))
        assert d._memory.last.kept is kept
    d.remove("m03")
    if "weights" in options:
        with pytest.raises(rgp.RecycleGPError, match="weights: no module here is called"):
            d.merge(**given)
    else:
        d.merge(**given)
        assert d._memory.last.kept is kept


def test_other_options_are_another_merge():
    d = filled("memory://again-options", modules("abc"))
    given = {"kernel": kernel(), "inducing": Z, "learn": False}
    first = d.merge(**given)
    other = kernel()
    other.outputscale = 0.5
    assert d.merge(**{**given, "kernel": other})._kernels != first._kernels
    agree(d.merge(**given), first)
    points = Z.copy()
    d.merge(**{**given, "inducing": points})
    points += 1.0  # whoever owns the array may change it
    agree(d.merge(**{**given, "inducing": points}), rgp.merge(modules("abc"), **{**given, "inducing": points}))


def test_outputs_and_classes():
    rng = np.random.default_rng(4)

    def of(name, seed):
        A = np.random.default_rng(seed).uniform(-3, 3, (40, 2))
        Y = np.c_[np.sin(A[:, 0]), A[:, 1]] + 0.1 * rng.normal(size=(40, 2))
        return rgp.fit(A, Y, target=["heat", "salt"], kernel=kernel(), learn=False, noise=0.05, name=name, publish=9)

    given = {"kernel": kernel(), "inducing": Z, "learn": False}
    d = filled("memory://again-outputs", [of(name, i) for i, name in enumerate("abcd")])
    d.merge(**given)
    kept = d._memory.last.kept
    d.replace(of("b", 7))
    e, whole = d.merge(**given), rgp.merge([d.get(x.name) for x in d.list()], **given)
    assert d._memory.last.kept is kept
    for a, b in zip(e.predict(X), whole.predict(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)
    single = of("e", 11).part("salt")
    d.add(single)  # of another kind: from scratch
    assert d.merge(**given).names == list("abcde")
    assert d._memory.last.kept is not kept


def test_what_was_learned_is_kept_until_it_must_not_be():
    d = filled("memory://again-learned", modules([f"m{i:02d}" for i in range(12)], rows=40, publish=16))
    given = {"inducing": 20, "owners": None, "trust": None}
    first = d.merge(**given)
    kept = d._memory.last.kept
    d.add(modules(["new"], seed=5, rows=40, publish=16)[0])
    second = d.merge(**given)
    assert d._memory.last.kept is kept
    assert (second._kernels, second.mean) == (first._kernels, first.mean)
    for a, b in zip(second.predict(X), first.add(d.get("new")).predict(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)
    d.remove("m03")
    third = d.merge(relearn=False, **given)
    assert third._kernels == first._kernels
    assert third.unlearned.removed == 1  # and it says so
    for a, b in zip(third.predict(X), second.remove("m03", relearn=False).predict(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)
    d.remove("m05")
    fourth = d.merge(**given)  # it was learned with m05, which is gone
    assert d._memory.last.kept is not kept
    assert fourth.unlearned.removed == 0
    agree(fourth, rgp.merge([d.get(x.name) for x in d.list()], **given))


def test_exact_ensembles_keep_what_was_learned_too():
    d = filled("memory://again-exact", modules("abc"))
    first = d.merge(inducing="all", owners=None, trust=None)
    d.add(modules(["x"], seed=3)[0])
    second = d.merge(inducing="all", owners=None, trust=None)
    assert second._kernels == first._kernels
    for a, b in zip(second.predict(X), first.add(d.get("x")).predict(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)


def test_folded_rows_against_numpy():
    """Σ‖Hv + m·1 − ρ‖² for any v and m, of one triangle and of several."""
    rng = np.random.default_rng(3)
    M, mean, reference = 7, 12.5, 11.0
    parts, dense = [], []
    for r in (3, 20, 1, 9):
        H, rho, ones = rng.normal(size=(r, M)), 12 + rng.normal(size=r), rng.uniform(0.5, 2, r)
        e, slack = rng.normal(), rng.uniform()
        dense.append((H, rho, ones, e, slack))
        tensors = [torch.tensor(x, dtype=torch.float64) for x in (H, rho, ones, e, slack)]
        parts.append(folded_rows.fold(Rows(*tensors), reference))
    found = folded_rows.centre(folded_rows.join([folded_rows.join(parts[:2]), *parts[2:]]), reference, mean)
    assert found.H.shape == (M, M)
    for _ in range(5):
        v = rng.normal(size=M)
        whole = sum(e - s - 0.5 * np.sum((H @ v + mean * ones - rho) ** 2) for H, rho, ones, e, s in dense)
        rest = found.H.numpy() @ v - found.rho.numpy()
        np.testing.assert_allclose(float(found.e - found.slack) - 0.5 * rest @ rest, whole, rtol=1e-12)


def test_a_tree_grows_and_shrinks(monkeypatch):
    """Whatever comes and goes, in whatever order, it is the sum of what is there."""
    from recyclegp.core.posterior import basis
    from recyclegp.merging.folding import fold
    from recyclegp.merging.site_store import SiteStore

    found = {m.name: m.site for m in modules([f"{i:03d}" for i in range(90)], rows=12, publish=4)}
    own = rgp.merge(modules(["k"]), kernel=kernel(), learn=False, inducing=Z).groups[0].form.kernel
    base = basis(own, torch.tensor(Z))
    rng = np.random.default_rng(0)
    there = set(list(found)[:40])
    tree = FoldTree(base, 2.0, {name: found[name] for name in there})
    for step in range(12):
        gone = set(rng.choice(sorted(there), size=int(rng.integers(0, len(there) // 2 + 1)), replace=False).tolist())
        absent = sorted(set(found) - there)
        new = set(rng.choice(absent, size=min(len(absent), int(rng.integers(1, 40))), replace=False).tolist())
        tree.change(gone, {name: found[name] for name in new})
        there = (there - gone) | new
        assert len(tree) == len(there)
        with SiteStore() as store:
            for i, name in enumerate(sorted(there)):
                store.put(found[name], 1.0, i)
            whole = fold(base, store, 3.3, marginal=False)
        now = tree.rows(3.3)
        torch.testing.assert_close(now.H.mT @ now.H, whole.H.mT @ whole.H, rtol=1e-11, atol=1e-11, msg=str(step))
        torch.testing.assert_close(now.H.mT @ now.rho, whole.H.mT @ whole.rho, rtol=1e-11, atol=1e-10)
        square = now.e - 0.5 * now.rho.square().sum()
        torch.testing.assert_close(square, whole.e - 0.5 * whole.rho.square().sum(), rtol=1e-12, atol=1e-9)
        torch.testing.assert_close(now.slack, whole.slack, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_merged_again_fifty_times_faster():
    """A thousand modules, one of them replaced: processor time, the best of many beside one from scratch."""
    d = filled("memory://again-fast", modules([f"m{i:04d}" for i in range(1000)], rows=40, publish=16))
    given = {"kernel": kernel(), "inducing": Z, "learn": False}
    d.merge(**given)
    changed = modules(["m0123"], seed=7, rows=40, publish=16)[0]
    quick = []
    for i in range(12):
        d.replace(changed.transform(output_shift=float(i)))
        began = time.process_time()
        again = d.merge(**given)
        quick.append(time.process_time() - began)
    fresh = rgp.Dictionary(d.path)
    began = time.process_time()
    scratch = fresh.merge(**given)
    ratio = (time.process_time() - began) / min(quick)
    np.testing.assert_allclose(again.predict(X), scratch.predict(X), rtol=0, atol=1e-10)
    assert ratio >= 50, (ratio, quick)


def test_the_price_of_a_change_in_short():
    """The same without a clock: only the module that has changed is read."""
    d = filled("memory://again-short", modules([f"m{i:02d}" for i in range(10)]))
    given = {"kernel": kernel(), "inducing": Z, "learn": False}
    d.merge(**given)
    read = []
    real = d.read
    d.read = lambda name: (read.append(name), real(name))[1]
    d.replace(modules(["m04"], seed=3)[0])
    d.remove("m06")
    assert "m06" not in d.merge(**given).names
    assert read == ["m04"]


def test_what_is_skipped_is_not_read_again_until_it_is_another(tmp_path, recwarn):
    """One of other inputs, and one that is damaged for a while: the others cost what has changed."""
    d = filled(tmp_path, modules([f"m{i:02d}" for i in range(10)]))
    whole = modules(["m99"], seed=6)[0]
    d.add(whole)
    d.add(rgp.fit(X[:, :1], X[:, 0], name="narrow", publish=6, learn=False))
    place = tmp_path / "events" / "0000000011" / "m99.safetensors"
    content = place.read_bytes()
    place.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    given = {"kernel": kernel(), "inducing": Z, "learn": False, "on_failure": "skip"}
    read, real = [], d.read
    d.read = lambda name: (read.append(name), real(name))[1]

    def merged(*skipped):
        e = d.merge(**given)
        assert {each.name for each in e.skipped} == set(skipped)
        scratch = rgp.Dictionary(tmp_path).merge(**given)
        agree(e, scratch)
        assert {each.name for each in scratch.skipped} == set(skipped)
        return e

    first = merged("m99", "narrow")
    kept = d._memory.last.kept
    read.clear()
    assert d.merge(**given) is first
    d.replace(modules(["m04"], seed=3)[0])
    merged("m99", "narrow")
    d.remove("narrow")
    merged("m99")
    assert set(read) == {"m04", "m99"}
    place.write_bytes(content)
    assert "m99" in merged().names
    d.add(rgp.fit(X[:, :1], X[:, 0], name="narrow", publish=6, learn=False))
    merged("narrow")  # of another kind: from scratch
    assert d._memory.last.kept is not kept
    kept = d._memory.last.kept
    d.replace(modules(["narrow"], seed=8)[0])
    merged()
    assert d._memory.last.kept is kept
    damaged = d.replace(modules(["m04"], seed=4)[0]).number
    path = tmp_path / "events" / f"{damaged:010d}" / "m04.safetensors"
    path.write_bytes(b"nothing")
    merged("m04")
    assert d._memory.last.kept is kept
    d.remove("m04")
    merged()


def test_two_that_come_together_and_are_not_alike():
    """They are left out, and stop nobody."""
    d = filled("memory://again-unlike", modules("abcd"))
    given = {"kernel": kernel(), "inducing": Z, "learn": False, "on_failure": "skip"}
    d.merge(**given)
    d.add(rgp.fit(X, X[:, 0], name="e", target="level", unit="m", publish=6, learn=False))
    d.add(rgp.fit(X, X[:, 0], name="f", target="level", unit="feet", publish=6, learn=False))
    with pytest.warns(rgp.RecycleGPWarning, match="left out of the merge: f"):
        assert d.merge(**given).names == list("abcde")
