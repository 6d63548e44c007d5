"""Partitions on one machine: the answers of fit_many and merge, resumed from what was written, errors that help."""

import os
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

import recyclegp as rgp
from cases_partitions import X_NEW, Z, loaders, names, pair, pairs, parquet, plain, plan, same_bits, states, table
from recyclegp.engines import store as store_file
from recyclegp.engines import tasks
from recyclegp.engines.executor import CHILDREN, Tree
from recyclegp.engines.joblib import JoblibExecutor, fit_partitions
from recyclegp.engines.store import ChunkStore
from recyclegp.engines.tasks import FittedChunk, _modules
from recyclegp.local import batch_fit
from recyclegp.merging.site_store import SiteStore


def run(partitions, **options):
    return fit_partitions(partitions, jobs=1, progress=False, **{"publish": 6, **options})


# --- the same as without engines --------------------------------------------------------------


def close(a, b, tolerance):
    for ours, theirs in zip(a.predict(X_NEW), b.predict(X_NEW), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance)
    assert a.names == b.names
    assert a.rows == b.rows


def test_at_a_fixed_kernel_and_given_points_to_rounding():
    agreed = {"inducing": Z, "kernel": plan()["kernel"], "learn": False}
    ours = fit_partitions(pairs(), jobs=1, merge=agreed, **plan())
    theirs = plain(pairs(), plan(), agreed)
    close(ours, theirs, 1e-8)
    assert ours.bound == pytest.approx(theirs.bound, rel=1e-10)
    assert ours.evidence == pytest.approx(theirs.evidence, rel=1e-10)


@pytest.mark.parametrize("inducing", ["auto", "all", 10, Z])
def test_learned(inducing):
    ours = run(pairs(), merge={"inducing": inducing})
    theirs = plain(pairs(), {"publish": 6}, {"inducing": inducing})
    close(ours, theirs, 1e-5)
    assert ours.evidence == pytest.approx(theirs.evidence, rel=1e-4)
    assert ours.slack == pytest.approx(theirs.slack, rel=1e-3, abs=1e-6)
    for one, other in zip(ours.report(), theirs.report(), strict=True):
        assert one["name"] == other["name"]
        # where points have little left to explain, rounding decides where the last of them is
        assert one["surprise"] == pytest.approx(other["surprise"], rel=1e-2)


def patients(seed, devices):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"age": rng.uniform(20, 80, 40), "device": rng.choice(devices, 40)})
    return X, np.sin(X["age"] / 12) + 0.7 * (X["device"] == "b") + 0.1 * rng.standard_normal(40)


@pytest.mark.parametrize("inducing", ["all", 12])
def test_categories_of_which_partitions_have_different_levels(inducing):
    parts = [patients(i, devices) for i, devices in enumerate((["a", "b"], ["c", "b"], ["d"]))]
    ours = run(parts, merge={"inducing": inducing, "learn": False}, per_task=1)
    theirs = rgp.merge(rgp.fit_many(parts, publish=6), inducing=inducing, learn=False)
    assert sorted(ours.categories.names(1)) == ["a", "b", "c", "d"]
    X, _ = patients(9, ["a", "b", "c", "d"])
    for one, other in zip(ours.predict(X), theirs.predict(X), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_automatic_points_of_sites_of_many_sizes():
    """Rounding may decide where the last points of a module are, and so how many it has."""
    ours = run(pairs(), publish="auto")
    theirs = plain(pairs(), {}, {})
    close(ours, theirs, 1e-2)
    assert ours.evidence == pytest.approx(theirs.evidence, rel=1e-2)


@pytest.mark.filterwarnings("ignore::recyclegp.errors.NothingToLearnWarning")
def test_classes():
    data = [(X, (y > 0).astype(float)) for X, y in pairs(6)]
    ours = run(data, likelihood="bernoulli", merge={"inducing": 8})
    theirs = plain(data, {"likelihood": "bernoulli", "publish": 6}, {"inducing": 8})
    assert ours.evidence == pytest.approx(theirs.evidence, rel=1e-4)


SEVERAL = {
    "outputs": (lambda y: np.c_[y, 2 - y], {}),
    "classes": (lambda y: np.where(y > 0, "up", "down"), {"likelihood": "categorical", "classes": ["up", "down"]}),
    "noise": (lambda y: y, {"likelihood": "heteroscedastic", "inducing": 8}),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SEVERAL)
@pytest.mark.parametrize("inducing", ["all", 10])
def test_several_functions(kind, inducing, tmp_path):
    """Every function is merged from the files of all chunks; what is there is not fitted again."""
    change, how = SEVERAL[kind]
    data = [(X, change(y)) for X, y in pairs(6)]
    ours = run(data, per_task=2, folder=tmp_path, merge={"inducing": inducing}, **how)
    theirs = plain(data, {"publish": 6, **how}, {"inducing": inducing})
    assert ours.functions == theirs.functions
    close(ours, theirs, 2e-2)
    assert ours.evidence == pytest.approx(theirs.evidence, rel=1e-2)
    written = states(tmp_path)
    run(data, per_task=2, folder=tmp_path, merge={"inducing": inducing}, **how)
    assert states(tmp_path) == written


def test_outputs_of_tables_and_outputs_that_a_partition_has_not():
    def frame(k):
        X, y = pair(k)
        return pd.DataFrame({"x": X[:, 0], "a": y, "b": np.nan if k == 2 else 3 - y})

    ours = run([partial(frame, k) for k in range(4)], target=["a", "b"], missing="allow", merge={"inducing": 10})
    assert ours.functions == ("a", "b")
    assert ours.names == ["part-0", "part-1", "part-2", "part-3"]
    mean, _ = ours.predict(X_NEW[:10])
    np.testing.assert_allclose(mean[:, 1], 3 - mean[:, 0], atol=0.5)


@pytest.mark.parametrize("kernel", ["auto", "matern52"])
def test_a_kernel_that_no_module_has_is_begun_at_the_scale_of_all_points(kernel):
    ours = run(pairs(6), merge={"inducing": 8, "kernel": kernel})
    theirs = plain(pairs(6), {"publish": 6}, {"inducing": 8, "kernel": kernel})
    assert ours.kernel_spec.structure == theirs.kernel_spec.structure
    assert ours.evidence == pytest.approx(theirs.evidence, rel=1e-4)


def test_one_kernel_is_chosen_for_all_partitions():
    ours = run(pairs(6), kernel="auto", merge={"inducing": 8})
    theirs = plain(pairs(6), {"kernel": "auto", "publish": 6}, {"inducing": 8})
    assert ours.kernel_spec.structure == theirs.kernel_spec.structure


def test_weights():
    weights = {"part-0": 0.0, "part-3": 2.0}
    ours = run(pairs(), merge={"inducing": Z, "weights": weights})
    theirs = plain(pairs(), {"publish": 6}, {"inducing": Z, "weights": weights})
    close(ours, theirs, 1e-5)


def test_owners_and_trust_may_be_asked_for():
    wrong = pairs()
    wrong[4] = (wrong[4][0], -40 * wrong[4][1])
    with pytest.warns(rgp.RecycleGPWarning, match="part-4"):
        ours = run(wrong, merge={"inducing": Z, "trust": "learn", "owners": "offset"})
    assert next(r for r in ours.report() if r["name"] == "part-4")["weight"] == 0


# --- forms of partitions ----------------------------------------------------------------------


@pytest.mark.slow
def test_tables_functions_and_files_are_the_same_partitions(tmp_path):
    folder = parquet(tmp_path / "rows")
    options = {"names": names(), "target": "y", "merge": {"inducing": Z}, "columns": None}
    expected = run([lambda k=k: table(k) for k in range(12)], **options)
    assert expected.columns == ("x",)
    assert expected.target.name == "y"
    assert same_bits(run(folder, **options), expected)
    assert same_bits(run(str(folder), inputs=["x"], **options), expected)
    assert same_bits(run(sorted(folder.iterdir()), **options), expected)
    assert same_bits(run(loaders(), merge={"inducing": Z}), run(pairs(), merge={"inducing": Z}))


def test_files_give_modules_their_names(tmp_path):
    found = run(parquet(tmp_path / "rows", 3), target="y")
    assert found.names == ["part-00", "part-01", "part-02"]


def test_how_many_partitions_a_task_has_does_not_matter_much():
    one, many = (run(pairs(), per_task=n, merge={"inducing": Z}) for n in (1, 12))
    assert one.evidence == pytest.approx(many.evidence, rel=1e-4)


@pytest.mark.slow
def test_two_processes_give_the_bits_of_one():
    expected = run(pairs(), merge={"inducing": 10})
    assert same_bits(fit_partitions(pairs(), jobs=2, publish=6, merge={"inducing": 10}), expected)


# --- resuming ---------------------------------------------------------------------------------


def test_what_is_there_is_not_fitted_again(tmp_path, monkeypatch):
    first = run(pairs(), folder=tmp_path, per_task=3)
    written = states(tmp_path)
    assert len(written) == 4
    monkeypatch.setattr("recyclegp.engines.tasks.fit_data_sets", None)  # nobody may call it
    assert same_bits(run(pairs(), folder=tmp_path, per_task=3), first)
    assert states(tmp_path) == written


def test_other_options_are_other_modules(tmp_path):
    run(pairs(6), folder=tmp_path, per_task=3)
    before = states(tmp_path)
    run(pairs(6), folder=tmp_path, per_task=3, publish=5)
    after = states(tmp_path)
    assert all(after[name] != before[name] for name in before)


def test_only_what_has_changed_is_fitted_again(tmp_path):
    folder = parquet(tmp_path / "rows", 6)
    run(folder, target="y", folder=tmp_path / "modules", per_task=2)
    before = states(tmp_path / "modules")
    changed = folder / "part-03.parquet"
    table(5).to_parquet(changed, index=False)
    os.utime(changed, ns=(0, 0))
    ours = run(folder, target="y", folder=tmp_path / "modules", per_task=2)
    after = states(tmp_path / "modules")
    assert [name for name in before if after[name] != before[name]] == ["chunk-000001.safetensors"]
    assert same_bits(ours, run(folder, target="y", per_task=2))


def test_a_file_that_is_cut_short_is_made_again(tmp_path):
    first = run(pairs(6), folder=tmp_path, per_task=3)
    path = tmp_path / "chunk-000001.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    assert same_bits(run(pairs(6), folder=tmp_path, per_task=3), first)


def test_numbers_in_any_container(tmp_path):
    """Lists, tensors, and tables whose columns have numbers for names are the same data each time."""
    for k, (X, y) in enumerate([(x.tolist(), y.tolist()) for x, y in pairs(2)]):
        forms = [(X, y), (torch.tensor(X), torch.tensor(y)), (pd.DataFrame(X, columns=["x"]), pd.Series(y, name=0))]
        for i, form in enumerate(forms):
            folder = tmp_path / f"{k}-{i}"
            run([form], folder=folder)
            before = states(folder)
            run([form], folder=folder)
            assert states(folder) == before


def test_nothing_is_left_in_the_folder_but_chunks(tmp_path):
    run(pairs(4), folder=tmp_path / "new" / "folder", per_task=2)
    assert {p.name for p in (tmp_path / "new" / "folder").iterdir()} == {
        "chunk-000000.safetensors",
        "chunk-000001.safetensors",
    }


# --- failures ---------------------------------------------------------------------------------


@pytest.fixture
def failing(monkeypatch):
    """Fits of part-2 fail, beside others and alone."""
    solve = batch_fit.solve

    def fails(requests, group):
        if any(request.name == "part-2" for request in requests):
            raise rgp.RecycleGPError("no luck")
        return solve(requests, group)

    monkeypatch.setattr(batch_fit, "solve", fails)


@pytest.mark.usefixtures("failing")
def test_failures_are_named_and_remembered(tmp_path):
    for _ in range(2):
        with pytest.raises(rgp.RecycleGPError, match=r"1 of the models failed \(part-2: no luck\); on_failure='skip'"):
            run(pairs(6), folder=tmp_path, per_task=3)
    with pytest.warns(rgp.RecycleGPWarning, match="part-2: no luck"):
        ours = run(pairs(6), folder=tmp_path, per_task=3, on_failure="skip", merge={"inducing": Z})
    assert ours.names == [f"part-{k}" for k in (0, 1, 3, 4, 5)]


def test_bad_rows_name_their_partition():
    broken = pairs()
    broken[7] = (broken[7][0], np.full(len(broken[7][1]), np.nan))
    with pytest.raises(rgp.RecycleGPError, match=r"7 \(part-7\).*NaN"):
        run(broken)


@pytest.mark.parametrize(
    ("partitions", "options", "message"),
    [
        ([], {}, "partitions is empty"),
        (5, {}, "partitions must be several"),
        ([3], {}, r"partitions\[0\] is a int"),
        ([(1, 2, 3)], {}, r"partitions\[0\] has 3 entries"),
        ([lambda: 3], {}, r"partition 0 \(part-0\): a partition was loaded as a int"),
        ([lambda: table(0)], {}, "target: the partitions are tables"),
        ([lambda: table(0)], {"target": "z"}, "no column 'z' in a partition; there are x, y"),
        ([lambda: table(0)], {"target": "y", "inputs": ["w"]}, "no column 'w'"),
        (pd.DataFrame({"x": [1.0]}), {}, "partitions is one table"),
        (pairs(2), {"names": ["a"]}, "names has 1 entries for 2 partitions"),
        (pairs(2), {"names": ["a", "a"]}, "'a' is given more than once"),
        (pairs(2), {"per_task": 0}, "per_task=0"),
        (pairs(2), {"on_failure": "ask"}, "on_failure='ask'"),
        (pairs(2), {"merge": {"keep": "sites"}}, "keep='sites'"),
        (pairs(2), {"merge": {"publish": 3}}, "merge: no option is called 'publish'"),
        (pairs(2), {"merge": {"trust": "me"}}, "trust='me'"),
        (pairs(2), {"merge": {"inducing": 0}}, "inducing"),
        (pairs(2), {"colour": "red"}, "no option is called 'colour'"),
        ([pair(0), (np.zeros((5, 2)), np.arange(5.0))], {}, "input columns"),
        (["missing.parquet"], {}, "missing.parquet"),
        (["rows.csv"], {}, "must be a Parquet file"),
    ],
)
def test_bad_arguments(partitions, options, message):
    with pytest.raises((rgp.RecycleGPError, TypeError, OSError), match=message):
        run(partitions, **options)


def test_columns_in_another_order_are_refused():
    first = pd.DataFrame({"a": [0.0, 1, 2, 3], "b": [1.0, 0, 1, 0]})
    y = np.arange(4.0)
    for per_task in (1, 2):
        with pytest.raises(rgp.RecycleGPError, match="in one order"):
            run([(first, y), (first[["b", "a"]], y)], per_task=per_task, publish=2)


def test_an_empty_folder(tmp_path):
    with pytest.raises(rgp.RecycleGPError, match="holds no"):
        run(tmp_path, target="y")


# --- the pieces -------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 63, 64, 65, 70, 513])
def test_results_that_come_one_by_one_are_joined_in_the_same_tree(count):
    """As if all were there: neighbours in groups of at most eight, level by level."""

    def join(a, b):
        return f"({a}{b})"

    level = [f"{i}," for i in range(count)]
    while len(level) > 1:
        groups = [level[i : i + CHILDREN] for i in range(0, len(level), CHILDREN)]
        level = ["".join("(" * (len(g) - 1)) + g[0] + "".join(f"{x})" for x in g[1:]) for g in groups]
    tree = Tree(join)
    for i in range(count):
        tree.put(f"{i},")
    assert tree.root() == level[0]


def modules():
    return rgp.fit_many([pair(k, rows=20 + 7 * (k % 4)) for k in range(12)], names=names())


def facts(made):
    """Of modules that are alike, but for their numbers."""
    (piece,) = made._pieces()
    return tuple(sorted(_modules(piece.block), key=lambda m: made.names.index(m.name)))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """The same sites, of many sizes, in one store and in the files of three chunks."""
    folder, made, found = tmp_path_factory.mktemp("chunks"), modules(), []
    local = SiteStore()
    for i, m in enumerate(made):
        local.put(m.site, 1.0, i)
    for first in range(0, 12, 4):
        some, path = made[first : first + 4], folder / f"{first}.safetensors"
        tasks.write_chunk(path, some, str(first), {})
        found.append(FittedChunk(str(path), str(first), facts(some), 1, None, {}, False))
    assert len({len(m.site.Z) for m in made}) > 2
    return local, ChunkStore(JoblibExecutor(1), found, [1.0] * 12)


def test_a_store_of_files_counts_like_any_other(both):
    local, spread = both
    for of in (lambda s: s, lambda s: s.without([3, 4, 5, 6, 7, 8])):
        a, b = of(local), of(spread)
        assert (a.points, a.rows, a.sites, a.largest) == (b.points, b.rows, b.sites, b.largest)
        assert {i for i, _ in a.each()} == {i for i, _ in b.each()}


def test_every_nth_site_is_the_same_wherever_sites_are(both):
    for local, spread in (both, tuple(s.without([0, 5]) for s in both)):
        for points in (10, 40, 1000):
            ours = {i: site for i, site in local.thinned(points).each()}
            theirs = {i: site for i, site in spread.thinned(points).each()}
            assert ours.keys() == theirs.keys()
            assert all((ours[i].Rt == theirs[i].Rt).all() for i in ours)


def test_a_chunk_comes_back_as_it_was(tmp_path):
    made = modules()
    tasks.write_chunk(tmp_path / "a.safetensors", made, "f", {"lost": "why"})
    found = tasks.read_chunk(tmp_path / "a.safetensors")
    assert (found.fingerprint, found.failures) == ("f", {"lost": "why"})
    for a, b in zip(made, found.modules, strict=True):
        assert all((s == t).all() for s, t in zip(a.site, b.site, strict=True))
        assert (a.about, a.likelihoods, a.kernel_spec) == (b.about, b.likelihoods, b.kernel_spec)
        assert (a.kept, a.noise_evidence, a.convergence) == (b.kept, b.noise_evidence, b.convergence)


def test_a_file_that_somebody_else_has_written_is_noticed(both, tmp_path):
    made = modules()[:2]
    path = tmp_path / "a.safetensors"
    tasks.write_chunk(path, made, "one", {})
    fitted = FittedChunk(str(path), "another", facts(made), 1, None, {}, False)
    with pytest.raises(rgp.RecycleGPError, match="another run has written"):
        list(ChunkStore(JoblibExecutor(1), [fitted], [1.0, 1.0]).packs(1))


def test_small_chunks_share_a_task(both, monkeypatch):
    _, spread = both
    assert len(spread._leaves(spread._wanted(), 10)) == 3
    monkeypatch.setattr(store_file, "POINTS", 10**6)
    (leaf,) = spread._leaves(spread._wanted(), 10)
    assert len(leaf.files) == 3
    assert [len(group.files) for group in spread._leaves(spread._wanted(), 10**5)] == [1, 1, 1]
    for points in (10, 40):
        chosen = {i for i, _ in spread.thinned(points).each()}
        assert chosen == {i for i, _ in both[0].thinned(points).each()}


def test_tasks_that_are_shared_give_the_same_answer(monkeypatch):
    apart = run(pairs(), merge={"inducing": Z}, per_task=2)
    monkeypatch.setattr(store_file, "POINTS", 10**6)
    assert run(pairs(), merge={"inducing": Z}, per_task=2).evidence == pytest.approx(apart.evidence, rel=1e-6)
