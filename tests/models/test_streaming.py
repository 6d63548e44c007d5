"""Modules in passing: however they come in, the ensemble is the same, and nothing of the journey is left behind."""

import gc
import tempfile
import weakref

import numpy as np
import pytest

import recyclegp as rgp
from changed import with_latent
from made_modules import make
from recyclegp.core import packing
from recyclegp.merging import site_store

XT = np.random.default_rng(1).uniform(-1, 2, (30, 2))


@pytest.fixture(scope="module")
def modules():
    return list(make(12))


@pytest.fixture(scope="module")
def folder(modules, tmp_path_factory):
    path = tmp_path_factory.mktemp("modules")
    for m in reversed(modules):
        m.save(path / f"{m.name}.safetensors")
    (path / "notes.txt").write_text("not a module")
    return path


@pytest.fixture
def spools(monkeypatch, tmp_path):
    """Every temporary file that is opened, all of them where one can look."""
    made, opener = [], tempfile.TemporaryFile

    def opened(*args, **kwargs):
        made.append(opener(*args, dir=tmp_path, **kwargs))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", opened)
    yield made
    assert list(tmp_path.iterdir()) == []
    assert all(f.closed for f in made)


def identical(a, b):
    assert a.names == b.names
    for p, q in zip(a.predict(XT), b.predict(XT), strict=True):
        np.testing.assert_array_equal(p, q)
    assert (a.bound, a.evidence, a.slack) == (b.bound, b.evidence, b.slack)


def close(a, b, tolerance=1e-10):
    assert a.names == b.names
    for p, q in zip(a.predict(XT), b.predict(XT), strict=True):
        np.testing.assert_allclose(p, q, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose([a.bound, a.evidence, a.slack], [b.bound, b.evidence, b.slack], rtol=tolerance)
    np.testing.assert_allclose(
        [r["surprise"] for r in a.report()], [r["surprise"] for r in b.report()], rtol=1e3 * tolerance
    )


# --- where modules come from ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("learn", [False, True])
def test_lists_iterators_files_and_folders_are_one_merge(modules, folder, learn):
    files = sorted(folder.glob("*.safetensors"))
    expected = rgp.merge(modules, learn=learn)
    assert len(expected.names) == 12
    sources = [(m for m in modules), files, (str(f) for f in files), folder, str(folder), [*modules[:5], *files[5:]]]
    for source in sources if not learn else sources[:1]:
        identical(rgp.merge(source, learn=learn), expected)


def test_one_module_or_one_file(modules, folder):
    expected = rgp.merge([modules[3]], learn=False)
    for source in (modules[3], folder / "m0003.safetensors", str(folder / "m0003.safetensors")):
        identical(rgp.merge(source, learn=False), expected)


def test_add_takes_what_merge_takes(modules, folder):
    e = rgp.merge(modules[:2], learn=False)
    expected = e.add(modules[2:])
    files = sorted(folder.glob("*.safetensors"))[2:]
    for source in (iter(modules[2:]), files, map(str, files)):
        identical(e.add(source), expected)
    other = rgp.merge([modules[0].rename("other")], learn=False)
    identical(other.add(folder), other.add(modules))
    identical(other.add(folder / "m0001.safetensors"), other.add(modules[1]))
    with pytest.raises(rgp.RecycleGPError, match="two modules are named 'm0000'"):
        e.add(folder)


def test_what_cannot_be_merged_is_named(modules, folder, tmp_path):
    with pytest.raises(rgp.RecycleGPError, match=r"holds no \*.safetensors files"):
        rgp.merge(tmp_path)
    thin = rgp.fit(XT[:, :1], XT[:, 0], name="thin", publish=2, learn=False)
    thin.save(tmp_path / "thin.safetensors")
    with pytest.raises(rgp.RecycleGPError, match=r"module 'thin' \(.*thin.safetensors\) has 1 input column"):
        rgp.merge([modules[0], tmp_path / "thin.safetensors"])
    rgp.merge(modules[:2], learn=False).save(tmp_path / "both.safetensors")
    with pytest.raises(rgp.RecycleGPError, match=r"both.safetensors: it holds an ensemble.*to_module\(name\)"):
        rgp.merge([tmp_path / "both.safetensors"])
    (tmp_path / "torn.safetensors").write_bytes((folder / "m0001.safetensors").read_bytes()[:200])
    with pytest.raises(rgp.RecycleGPError, match=r"torn.safetensors: not a complete recyclegp file"):
        rgp.merge([modules[0], tmp_path / "torn.safetensors"])


def test_columns_are_aligned_in_passing(modules):
    named = modules[0].with_columns(("east", "north"))
    turned = modules[1].with_columns(("north", "east"))
    site = modules[1].latents[0].site
    straight = with_latent(modules[1], site=site._replace(Z=site.Z.flip(1)))
    options = {"learn": False, "kernel": modules[0].kernel, "inducing": 9}
    with pytest.warns(rgp.RecycleGPWarning, match="columns of m0002 have no names"):
        by_name = rgp.merge(iter([modules[2], named, turned]), **options)
    identical(by_name, rgp.merge([modules[2], modules[0], straight], **options))
    assert by_name.columns == ("east", "north")


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0] * 13, "weights has 13 numbers for 12 modules"),
        ([1.0] * 11, "weights has 11 numbers for 12 modules"),
        ({"m0001": 1.0, "nobody": 2.0}, "no module here is called nobody"),
        ([0.0] * 12, "all zero"),
    ],
)
def test_weights_are_checked_when_the_stream_ends(modules, weights, message):
    with pytest.raises(rgp.RecycleGPError, match=message):
        rgp.merge(iter(modules), weights=weights)


def test_options_are_checked_before_the_stream_is_read(modules):
    def stream():
        yield modules[0]
        raise AssertionError("read on")

    for options in ({"inducing": 0}, {"inducing": np.ones((3, 5))}, {"kernel": "rbff"}, {"weights": [-1.0]}):
        with pytest.raises(rgp.RecycleGPError):
            rgp.merge(stream(), **options)


# --- bounded memory ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("learn", [False, True])
@pytest.mark.parametrize("keep", ["sites", "names"])
def test_on_disk_as_in_memory(modules, spools, monkeypatch, keep, learn):
    """Tiny packets, no memory, chunks of a module or two: the same ensemble."""
    weights = [1.0, 0.3, 2.0] * 4
    expected = rgp.merge(modules, weights=weights, learn=learn, inducing=14)
    assert not spools
    monkeypatch.setattr(site_store, "IN_MEMORY", 1000)
    monkeypatch.setattr(site_store, "PACK", 60)
    monkeypatch.setattr(packing, "FEATURES", 100)
    found = rgp.merge(iter(modules), weights=weights, learn=learn, inducing=14, keep=keep)
    assert len(spools) == 1
    close(found, expected, 1e-6 if learn else 1e-10)


def test_no_file_is_left_by_an_error(modules, spools, monkeypatch):
    monkeypatch.setattr(site_store, "IN_MEMORY", 0)
    monkeypatch.setattr(site_store, "PACK", 30)

    def broken():
        yield from modules[:9]
        raise OSError("the line went dead")

    with pytest.raises(OSError, match="went dead"):
        rgp.merge(broken())
    with pytest.raises(rgp.RecycleGPError, match="two modules are named"):
        rgp.merge([*modules, modules[0]])
    assert len(spools) == 2


def test_modules_are_let_go_as_they_are_packed(monkeypatch):
    monkeypatch.setattr(site_store, "PACK", 200)
    alive, most = weakref.WeakSet(), 0

    def stream():
        nonlocal most
        for m in make(60, sizes=(3,)):
            alive.add(m)
            most = max(most, len(alive))
            yield m
            del m

    gc.collect()
    e = rgp.merge(stream(), learn=False, inducing=10, keep="names")
    assert len(e.names) == 60
    assert most <= 3
    assert all(m.site is None for m in e._members)
    assert len({id(m.likelihoods) for m in e._members}) == 1
    assert len({id(m.kernel.structure) for m in e._members}) == 1


def test_names_only_ensembles_stay_so(modules):
    small = rgp.merge(modules[:8], learn=False, keep="names", inducing=12)
    full = rgp.merge(modules[:8], learn=False, inducing=12)
    assert full.groups[0].form.marginal is None  # evidence is computed when somebody asks
    more, expected = small.add(iter(modules[8:])), full.add(modules[8:])
    assert all(m.site is None for m in more._members)
    close_enough = {"rtol": 1e-9}
    np.testing.assert_allclose([more.evidence, more.bound], [expected.evidence, expected.bound], **close_enough)
    new = [[r["surprise"] for r in e.report()][8:] for e in (more, expected)]
    np.testing.assert_allclose(*new, rtol=1e-6)
    with pytest.raises(rgp.RecycleGPError, match="merge the module files again without the ones to leave out"):
        more.remove("m0009")
    # asked for once, the evidence rows are carried on instead of being stacked anew
    assert full.evidence == pytest.approx(small.evidence, rel=1e-12)
    assert full.add(modules[8:]).groups[0].form.marginal is not None
    assert full.add(modules[8:]).evidence == pytest.approx(expected.evidence, rel=1e-12)
