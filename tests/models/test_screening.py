"""rgp.screen, as users meet it."""

import numpy as np
import pytest

import cases_trust as cases
import recyclegp as rgp
from cases_trust import BAD, honest, spoiled

NAMES = [f"o{k}" for k in BAD]


@pytest.fixture(scope="module")
def found():
    far = cases.fitted([cases.rows(40, 30, 33)], ["far"])
    return rgp.screen([*spoiled("other units"), *far])


def test_what_is_said_about_each(found):
    assert found.flagged == NAMES
    assert found.unchecked == ["far"]
    assert list(found.verdicts) == [*(f"o{k}" for k in range(cases.K)), "far"]
    table = {row["name"]: row for row in found.table}
    assert list(table) == list(found.verdicts)
    assert set(table["o0"]) == {"name", "rows", "standing", "reason", "proposal"}
    assert table["o0"] == {"name": "o0", "rows": cases.ROWS, "standing": "trusted", "reason": "", "proposal": ""}
    assert table["far"]["standing"] == "cannot be checked"
    assert table["o1"]["standing"] == "flagged"
    assert cases.explains("other units", table["o1"]["reason"])


def test_the_proposal_can_be_called(found):
    """It is the call that turns a module back."""
    row = next(r for r in found.table if r["name"] == "o1")
    turned = eval(f"module.{row['proposal']}", {"module": spoiled("other units")[1]})
    assert np.abs(turned.predict(cases.X)[0] - honest()[1].predict(cases.X)[0]).mean() < 0.15


def test_in_words(found):
    first, *rest = str(found).splitlines()
    assert first == "3 of 13 modules contradict the others; 1 cannot be checked"
    assert [line.split(":")[0].strip() for line in rest] == [*NAMES, "far"]
    assert "flagged: in other units: about 1." in rest[0]
    assert "; try transform(output_scale=0.5" in rest[0]
    assert "try" not in rest[-1]


@pytest.mark.slow
def test_files_folders_and_iterators(tmp_path):
    modules = [m for k, m in enumerate(spoiled("sign-flipped")[:5]) if k != 3]
    for m in modules:
        m.save(tmp_path / f"{m.name}.safetensors")
    expected = rgp.screen(modules)
    assert expected.flagged == ["o1"]
    paths = sorted(tmp_path.iterdir())
    for source in (str(tmp_path), iter([paths[0], *modules[1:]])):
        assert rgp.screen(source) == expected


@pytest.mark.slow
def test_it_is_what_merge_does(found):
    with pytest.warns(rgp.RecycleGPWarning, match="contradict"):
        e = rgp.merge(spoiled("other units"))
    assert [row["name"] for row in e.report() if row["weight"] == 0] == found.flagged


@pytest.mark.slow
def test_owners_that_may_differ_are_no_contradiction():
    """The same six modules: with offsets of their own, or without."""
    rng = np.random.default_rng(3)
    data = [(x, y + offset) for (x, y), offset in zip(map(cases.rows, range(6)), rng.normal(0, 1, 6), strict=True)]
    modules = cases.fitted(data, list("abcdef"))
    assert rgp.screen(modules, owners="offset").flagged == []
    without = rgp.screen(modules, owners=None)
    assert any(v.standing.value != "trusted" for v in without.verdicts.values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"owners": "some"}, "use 'auto', 'offset', 'smooth' or None"),
        ({"owners": 3}, "use 'auto', 'offset', 'smooth' or None"),
        ({"noise": "loud"}, "use 'pool' or 'keep'"),
    ],
)
def test_nonsense_is_refused(options, message):
    with pytest.raises(rgp.RecycleGPError, match=message):
        rgp.screen(honest(), **options)


def test_sources_that_are_none(tmp_path):
    with pytest.raises(rgp.RecycleGPError, match="modules is empty"):
        rgp.screen([])
    with pytest.raises(rgp.RecycleGPError, match="the folder holds no"):
        rgp.screen(tmp_path)
    with pytest.raises(TypeError, match="Module objects or paths, not int"):
        rgp.screen([3])
    with pytest.raises(rgp.RecycleGPError, match="two modules are named 'o0'"):
        rgp.screen([honest()[0], honest()[0]])


# --- several functions ---


def joint_modules(wrong=None):
    """Five owners of two outputs; one may have the second with the opposite sign."""
    made = []
    for seed, name in enumerate("abcde"):
        rng = np.random.default_rng(seed)
        x = rng.uniform(0, 6, 60)
        Y = np.stack([np.sin(x), 2 * np.cos(x)], 1) + 0.1 * rng.standard_normal((60, 2))
        if name == wrong:
            Y[:, 1] *= -1
        made.append(rgp.fit(x[:, None], Y, name=name, target=["heat", "salt"]))
    return made


def test_each_function_is_judged_and_the_worst_is_said():
    modules = joint_modules(wrong="c")
    found = rgp.screen(modules)
    assert found.flagged == ["c"]
    alone = rgp.screen([m.part("salt") for m in modules]).verdicts["c"]
    assert found.verdicts["c"].reason.startswith(f"salt: {alone.reason}")
    assert rgp.screen([m.part("heat") for m in modules]).flagged == []
    assert alone.proposal == f"transform(output_scale={alone.remedy.scale:.6g})"
    assert found.table[2]["proposal"] == f"transform(output_scale={{'salt': {alone.remedy.scale:.6g}}})"
    put_right = [found.remedies["c"].on(m) if m.name == "c" else m for m in modules]
    assert rgp.screen(put_right).flagged == []
    assert "c: flagged: salt" in str(found)


def test_a_function_that_only_one_module_has_cannot_be_checked():
    modules = joint_modules()
    lonely = rgp.Module.of_outputs([modules[3].part("salt").rename("f")])
    only_heat = [rgp.Module.of_outputs([m.part("heat")]) for m in modules[:3]]
    found = rgp.screen([*only_heat, lonely])
    assert found.verdicts["f"].standing.value == "cannot be checked"
    assert found.verdicts["f"].reason.startswith("salt: ")
    assert found.flagged == []
    unchecked = len(found.unchecked)
    assert str(found).splitlines()[0] == f"0 of 4 modules flagged, {unchecked} cannot be checked"
