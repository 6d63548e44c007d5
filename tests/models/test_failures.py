"""One bad file does not stop all, and every failure names its module."""

import os
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import recyclegp as rgp
from cases_cli import answer, call
from hostile_files import GOLDEN
from recyclegp.core.noise import NoiseEvidence
from recyclegp.errors import Argument, NotPositiveDefiniteError
from recyclegp.models import failures
from recyclegp.models.intake import ModuleIntake

X = np.linspace(0, 6, 45)[:, None]


@pytest.fixture(scope="module")
def honest():
    return [
        rgp.fit(
            X[k::3],
            np.sin(X[k::3, 0]),
            noise=0.01,
            name=f"m{k}",
            publish=6,
            learn=False,
            kernel="rbf",
            privacy="things",
        )
        for k in range(3)
    ]


def nonsense(module):
    """Its own prior overflows: nothing can be computed with it."""
    latent = module.latents[0]
    theta = latent.kernel.theta.clone()
    theta[0] = 230.0
    far = latent.site._replace(Rt=1e100 * torch.ones_like(latent.site.Rt), rho=1e100 * torch.ones_like(latent.site.rho))
    return replace(module, latents=(latent._replace(kernel=latent.kernel.with_theta(theta), site=far, mean=1e99),))


def test_who_cannot_be_merged_is_named(honest):
    bad = nonsense(honest[0]).rename("bad")
    options = {"learn": False, "kernel": "rbf", "trust": None}
    with pytest.raises(rgp.RecycleGPError, match=r"module 'bad' cannot be merged: .*on_failure='skip'"):
        rgp.merge([bad, *honest[1:]], **options)
    with pytest.warns(rgp.RecycleGPWarning, match="left out of the merge: bad"):
        e = rgp.merge([bad, *honest[1:]], **options, on_failure="skip")
    np.testing.assert_array_equal(e.predict(X)[0], rgp.merge(honest[1:], **options).predict(X)[0])
    assert [s.name for s in e.skipped] == ["bad"]


def test_files_that_cannot_be_read_are_skipped_and_remembered(honest, tmp_path):
    for m in honest:
        m.save(tmp_path / f"{m.name}.safetensors")
    (tmp_path / "a-broken.safetensors").write_bytes(b"no module")
    wide = rgp.fit(np.c_[X, X], X[:, 0], name="wide", publish=4, learn=False, privacy="things")
    wide.save(tmp_path / "a-wide.safetensors")  # the first of the folder must not decide how many inputs there are
    with pytest.raises(rgp.RecycleGPError, match="a-broken"):
        rgp.merge(tmp_path, learn=False)
    with pytest.warns(rgp.RecycleGPWarning, match="left out of the merge"):
        e = rgp.merge(tmp_path, learn=False, on_failure="skip")
    assert e.names == ["m0", "m1", "m2"]
    (tmp_path / "out").mkdir()
    e.save(tmp_path / "out" / "all.safetensors")
    again = rgp.load(tmp_path / "out" / "all.safetensors")
    assert again.skipped == e.skipped
    for row in (*e.report(), *again.report()):
        assert sorted(row["skipped"]) == sorted([str(tmp_path / "a-broken.safetensors"), "wide"])
    assert dict(again.skipped)["wide"] == "it has 2 inputs, where most have 1"
    assert answer("inspect", str(tmp_path / "out" / "all.safetensors"))["skipped"] == dict(e.skipped)


def test_the_command_goes_on_without(honest, tmp_path):
    for m in honest:
        m.save(tmp_path / f"{m.name}.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"no module")
    out = tmp_path / "out" / "all.safetensors"
    out.parent.mkdir()
    asked = ["merge", str(tmp_path), "--no-learn", "-o", str(out)]
    assert call(*asked).exit_code == 2
    assert not out.exists()
    done = call(*asked, "--skip-bad")
    assert done.exit_code == 0, done.output
    assert "broken.safetensors" in done.stderr
    assert rgp.load(out).names == ["m0", "m1", "m2"]


def test_files_that_macos_puts_beside_others_are_ignored(honest, tmp_path):
    for m in honest:
        m.save(tmp_path / f"{m.name}.safetensors")
        (tmp_path / f"._{m.name}.safetensors").write_bytes(b"\0\5\26\7")
    assert rgp.merge(tmp_path, learn=False).names == ["m0", "m1", "m2"]
    out = tmp_path / "out" / "all.safetensors"
    out.parent.mkdir()
    assert call("merge", str(tmp_path), "--no-learn", "-o", str(out)).exit_code == 0
    assert call("merge", str(tmp_path / "*"), "--no-learn", "-o", str(out)).exit_code == 0
    assert len(answer("inspect", str(tmp_path))) == 3


def test_nothing_is_saved_that_cannot_be_asked(honest, tmp_path):
    """Of one point at which R is 1e8 times what it was; numbers that are finite one by one."""
    latent = honest[0].latents[0]
    for far in (1e6, 1e12, 1e30, 1e60):
        site = latent.site._replace(Rt=far * latent.site.Rt, rho=far * latent.site.rho)
        bad = replace(honest[0], latents=(latent._replace(site=site),)).rename("bad")
        try:
            e = rgp.merge([bad, *honest[1:]], learn=False, trust=None)
        except rgp.RecycleGPError as refused:
            assert "'bad'" in str(refused)  # noqa: PT017
            continue
        e.save(tmp_path / "e.safetensors")
        assert np.isfinite(rgp.load(tmp_path / "e.safetensors").predict(X)).all()


def test_two_bad_ones_are_skipped_one_after_the_other(honest):
    bad = [nonsense(honest[0]).rename(name) for name in ("bad", "worse")]
    with pytest.warns(rgp.RecycleGPWarning, match="left out of the merge"):
        e = rgp.merge([*bad, *honest], learn=False, kernel="rbf", trust=None, on_failure="skip")
    assert e.names == ["m0", "m1", "m2"]
    assert {s.name for s in e.skipped} == {"bad", "worse"}


def changed_site(change):
    return lambda latent: latent._replace(site=change(latent.site))


BAD = {
    "weights of rows": lambda latent: latent._replace(effective_rows=1e100),
    "noise evidence": lambda latent: latent._replace(noise_evidence=NoiseEvidence(1.0, 1.0, 1e-300, 1e100)),
    "R and rho": changed_site(lambda s: s._replace(Rt=1e8 * s.Rt, rho=1e8 * s.rho)),
    "no rows": changed_site(lambda s: s._replace(Rt=s.Rt[:0], rho=s.rho[:0])),
    "far points": changed_site(lambda s: s._replace(Z=s.Z + 1e12)),
}


@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("options", [{}, {"learn": False, "trust": None}], ids=["usual", "plain"])
def test_one_bad_file_does_not_stop_all(honest, tmp_path, what, options):
    """Each is merged, or named; what is merged can be saved, loaded and asked."""
    flat = [
        rgp.fit(np.c_[X, X[::-1]][k::3], np.sin(X[k::3, 0]), name=f"f{k}", publish=6, learn=False, privacy="things")
        for k in range(3)
    ]
    for some in (honest, flat):
        bad = replace(some[0], latents=(BAD[what](some[0].latents[0]),)).rename("bad")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rgp.RecycleGPWarning)
            try:
                e = rgp.merge([bad, *some[1:]], **options)
            except rgp.RecycleGPError as refused:
                assert "'bad'" in str(refused)  # noqa: PT017
                e = rgp.merge([bad, *some[1:]], **options, on_failure="skip")
                assert [s.name for s in e.skipped] == ["bad"]
            e.save(tmp_path / "e.safetensors")
            assert np.isfinite(rgp.load(tmp_path / "e.safetensors").predict(some[1].inducing)).all()


def test_counts_that_overflow_are_very_large():
    """E[y] = exp(m + v/2), where m is in the thousands."""
    m = rgp.load(GOLDEN / "poisson.safetensors")
    site = m.latents[0].site
    huge = replace(m, latents=(m.latents[0]._replace(site=site._replace(rho=1e5 * site.rho)),))
    latent, counts = huge.predict(m.inducing)[0], huge.predict_y(m.inducing)
    assert latent.max() > 1000
    assert np.isfinite(counts).all()
    assert counts[0].max() == pytest.approx(1e100)


def test_who_takes_the_name_of_another_evicts_nobody_unseen(honest, tmp_path):
    """Nobody can say whose the name is: both are left out, and both files are named, whichever comes first."""
    for m in honest:
        m.save(tmp_path / f"{m.name}.safetensors")
    honest[0].rename("m1").save(tmp_path / "0.safetensors")
    files = [str(tmp_path / f"{name}.safetensors") for name in ("0", "m1")]
    with pytest.raises(rgp.RecycleGPError, match="two modules are named 'm1'") as failed:
        rgp.merge(tmp_path, learn=False)
    assert all(file in str(failed.value) for file in files)
    out = tmp_path / "out" / "all.safetensors"
    out.parent.mkdir()
    with pytest.warns(rgp.RecycleGPWarning, match="nobody can say whose name it is"):
        e = rgp.merge(tmp_path, learn=False, on_failure="skip")
    assert e.names == ["m0", "m2"]
    assert [s.name for s in e.skipped] == files
    done = call("merge", str(tmp_path), "--no-learn", "-o", str(out), "--skip-bad")
    assert done.exit_code == 0, done.output
    assert all(file in done.stderr for file in files)
    assert rgp.load(out).skipped == e.skipped


def test_one_of_many_in_a_file_is_left_out_without_the_others(honest, tmp_path):
    """Also where its name is that of a module of its own."""
    rng = np.random.default_rng(3)
    parts = [(x, np.sin(x[:, 0])) for x in rng.uniform(0, 6, (3, 20, 1))]
    many = rgp.fit_many(parts, names=["a", "m1", "b"], publish=6, learn=False, kernel="rbf", privacy="things")
    many.save(tmp_path / "many.safetensors")
    honest[1].save(tmp_path / "m1.safetensors")
    for source in (tmp_path, [many, honest[1]]):
        with pytest.warns(rgp.RecycleGPWarning, match="nobody can say whose name it is"):
            e = rgp.merge(source, learn=False, on_failure="skip")
        assert sorted(e.names) == ["a", "b"]
    expected = rgp.merge([many[0], many[2]], learn=False)
    np.testing.assert_allclose(e.predict(X)[0], expected.predict(X)[0], atol=1e-9)


def test_the_one_that_is_unlike_the_others_is_named(honest, tmp_path):
    """Though it is the first of the folder."""
    for m in honest:
        m.save(tmp_path / f"{m.name}.safetensors")
    wide = rgp.fit(np.c_[X, X], X[:, 0], name="wide", publish=4, learn=False, privacy="things")
    wide.save(tmp_path / "a-first.safetensors")
    said = r"'wide' \(.*a-first.safetensors\) cannot be merged with the others: it has 2 inputs, where most have 1"
    with pytest.raises(rgp.RecycleGPError, match=said):
        rgp.merge(tmp_path, learn=False)
    with pytest.raises(rgp.RecycleGPError, match="'wide' cannot be merged with the others"):
        rgp.merge([wide, *honest], learn=False)
    with pytest.raises(rgp.RecycleGPError, match="module 'wide' has 2 input columns where the others have 1"):
        rgp.merge([honest[0], wide, *honest[1:]], learn=False)
    with pytest.raises(rgp.RecycleGPError, match="module 'm0' has 1 input column where the others have 2"):
        rgp.merge([wide, honest[0]], learn=False)  # of two nobody can say which is the odd one


def odd_files(folder, modules):
    """What may lie in a folder beside modules, by name, with how it is made."""
    os.symlink("/nowhere", folder / "link.safetensors")
    os.symlink("loop.safetensors", folder / "loop.safetensors")
    (folder / "folder.safetensors").mkdir()
    rgp.merge(modules, learn=False).save(folder / "ensemble.safetensors")
    return [folder / f"{name}.safetensors" for name in ("ensemble", "folder", "link", "loop")]


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_what_is_no_module_is_skipped_whatever_it_is(honest, tmp_path):
    """By the library, and by the command, which reads the files itself."""
    folder, out = tmp_path / "in", tmp_path / "all.safetensors"
    folder.mkdir()
    for m in honest:
        m.save(folder / f"{m.name}.safetensors")
    odd = odd_files(folder, honest)
    for path in odd:
        with pytest.raises((rgp.RecycleGPError, OSError), match=path.name):
            rgp.merge([*honest, path], learn=False)
    with pytest.warns(rgp.RecycleGPWarning, match="left out of the merge"):
        e = rgp.merge(folder, learn=False, on_failure="skip")
    assert e.names == ["m0", "m1", "m2"]
    assert [s.name for s in e.skipped] == list(map(str, odd))
    assert call("merge", str(folder), "--no-learn", "-o", str(out)).exit_code == 2
    done = call("merge", str(folder), "--no-learn", "-o", str(out), "--skip-bad")
    assert done.exit_code == 0, done.output
    assert rgp.load(out).names == ["m0", "m1", "m2"]
    assert [s.name for s in rgp.load(out).skipped] == list(map(str, odd))


def test_all_bad_is_a_failure(honest, tmp_path):
    with pytest.raises(rgp.RecycleGPError, match=r"modules is empty.*cannot use .*absent"):
        rgp.merge([tmp_path / "absent"], on_failure="skip")
    with pytest.raises(rgp.RecycleGPError, match="on_failure is 'stop'; use 'name' or 'skip'"):
        rgp.merge(honest, on_failure="stop")


@pytest.fixture(scope="module")
def seventy():
    """More than could each be left out in turn."""
    rng = np.random.default_rng(70)
    parts = []
    for _ in range(70):
        x = rng.uniform(0, 4, (20, 1))
        parts.append((x, np.sin(2.5 * x[:, 0]) + 0.2 * rng.standard_normal(20)))
    names = [f"m{k}" for k in range(70)]
    return list(rgp.fit_many(parts, names=names, publish=10, learn=False, kernel="rbf", privacy="things"))


def huge(module):
    """It can be merged alone, and with nobody else."""
    return replace(module, latents=(changed_site(lambda s: s._replace(rho=1e99 * s.rho))(module.latents[0]),))


@pytest.mark.parametrize("places", [[0], [37], [3, 50, 69]], ids=str)
def test_who_stops_all_is_found_among_seventy(seventy, places):
    some = [huge(m) if k in places else m for k, m in enumerate(seventy)]
    options = {"learn": False, "trust": None}
    with pytest.raises(rgp.RecycleGPError, match=f"module 'm{places[0]}'"):
        rgp.merge(some, **options)
    with pytest.warns(rgp.RecycleGPWarning, match="left out of the merge"):
        e = rgp.merge(some, **options, on_failure="skip")
    assert [s.name for s in e.skipped] == [f"m{k}" for k in places]
    honest = rgp.merge([m for k, m in enumerate(seventy) if k not in places], **options)
    np.testing.assert_array_equal(e.predict(X)[0], honest.predict(X)[0])


@pytest.mark.parametrize("options", [{}, {"learn": False, "trust": None}], ids=["usual", "plain"])
def test_a_site_of_no_rows_is_merged_with_many(seventy, options):
    """It says nothing of f."""
    empty = replace(seventy[0], latents=(BAD["no rows"](seventy[0].latents[0]),)).rename("empty")
    e = rgp.merge([empty, *seventy[1:]], **options)
    assert np.isfinite(e.predict(X)).all()
    assert not e.skipped
    np.testing.assert_allclose(e.predict(X)[0], rgp.merge(seventy[1:], **options).predict(X)[0], atol=0.05)


class TestWhoIsApart:
    """Which of the names fail together, told by a rule."""

    @pytest.mark.parametrize("bad", [{0}, {99}, {13, 14}, {5, 50, 95}])
    def test_the_few_that_are_bad_are_found_in_few_merges(self, bad):
        asked = []

        def fails(names):
            asked.append(names)
            return "yes" if len(names) > 1 and bad & set(names) else ""

        assert set(failures._apart(range(100), fails)) == bad
        assert len(asked) <= 2 * 7 * len(bad) + 7

    def test_what_fails_only_when_it_is_learned_is_found_too(self, honest):
        """Nothing fails plainly; what fails is asked for."""
        intake = ModuleIntake(device=torch.device("cpu"), keep=True)
        read = intake.read([*honest, honest[0].rename("bad")])

        def fully(some):
            if {"bad", "m1"} <= {m.name for m in some.functions[0].members}:
                raise ZeroDivisionError

        found = failures.culprits(read, lambda some: None, fully)
        assert [s.name for s in found] in (["bad"], ["m1"])

    def test_nobody_is_to_blame_for_what_fails_with_each(self, honest):
        intake = ModuleIntake(device=torch.device("cpu"), keep=True)

        def fully(some):
            raise rgp.RecycleGPError("an argument is wrong")

        assert failures.culprits(intake.read(honest), lambda some: None, fully) == []


def test_of_two_that_cannot_be_merged_both_are_named(seventy):
    """Left out is the one whose numbers are larger."""
    some = [seventy[0], huge(seventy[1])]
    read = ModuleIntake(device=torch.device("cpu"), keep=True).read(some)

    def fails(few):
        if len(few.functions[0].members) > 1:
            raise ArithmeticError("both")

    found = failures.culprits(read, fails, fails)
    assert [s.name for s in found] == ["m1"]
    assert "module 'm1' cannot be merged: both ('m0' cannot be merged with it" in str(
        failures.named(found, OSError("both"))
    )


@pytest.mark.parametrize("on_failure", ["name", "skip"])
def test_the_only_one_is_named_too(honest, on_failure):
    bad = nonsense(honest[0]).rename("bad")
    with pytest.raises(rgp.RecycleGPError, match="module 'bad' cannot be merged"):
        rgp.merge([bad], learn=False, trust=None, on_failure=on_failure)


def test_who_cannot_be_compared_is_named(honest):
    with pytest.raises(rgp.RecycleGPError, match="module 'bad' cannot be compared with others"):
        rgp.screen([nonsense(honest[2]).rename("bad")])


def test_who_is_merged_alone_and_cannot_be_learned_from_is_named(honest):
    """Also where it can be merged without learning, and where the failure says of which of its functions it is."""
    x = np.random.default_rng(280125).uniform(-2, 2, (24, 2))
    both = np.c_[np.sin(2 * x[:, 0]), 29 + x[:, 1]]
    fitted = rgp.fit(
        x, both, target=["heat", "salt"], name="two", publish=4, learn=False, privacy="things", kernel="rbf"
    )
    heat, salt = fitted.latents
    far = heat.site.Rt.clone()
    far[2, 1] = 1e100
    bad = replace(fitted, latents=(heat._replace(site=heat.site._replace(Rt=far)), salt))
    assert rgp.merge([bad], learn=False).names == ["two"]
    for options in ({}, {"on_failure": "skip"}):
        with pytest.raises(rgp.RecycleGPError, match="module 'two' cannot be merged: heat"):
            rgp.merge([bad], **options)


def test_what_failed_first_decides_what_kind_of_failure_it_is():
    algebra, argument = NotPositiveDefiniteError("no factor"), rgp.RecycleGPError(Argument("points", 3), " is too few")
    for within in (lambda failed: failed, lambda failed: rgp.RecycleGPError("heat (one of the outputs): ", failed)):
        assert failures.is_of_algebra(within(algebra))
        assert failures.is_of_algebra(within(ZeroDivisionError("division by zero")))
        assert failures.is_about_an_argument(within(argument))
        assert not failures.is_of_algebra(within(argument))
        assert not failures.is_about_an_argument(within(algebra))
