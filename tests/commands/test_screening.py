"""recyclegp screen, merge --trust, and what inspect and compare say about whom nobody trusts."""

import json

import pytest

import cases_trust as cases
import recyclegp as rgp
from cases_bad import one_line
from cases_cli import answer, call, ok
from cases_trust import BAD, spoiled
from hostile_files import rebuilt, taken_apart

NAMES = [f"o{k}" for k in BAD]


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strangers")
    for m in spoiled("other units"):
        m.save(folder / f"{m.name}.safetensors")
    return folder


@pytest.fixture(scope="module")
def city(parts, tmp_path_factory):
    """The file of a merge, and what was said while it was made."""
    file = tmp_path_factory.mktemp("merged") / "city.safetensors"
    return file, call("merge", parts, "-o", file, "--json")


@pytest.mark.slow
def test_screen_to_a_machine(parts):
    facts, found = answer("screen", parts), rgp.screen(parts)
    commands = [row.pop("command") for row in facts["modules"]]
    assert facts == {"flagged": found.flagged, "unchecked": [], "modules": found.table}
    assert [c.startswith("recyclegp transform ") for c in commands] == [name in NAMES for name in found.verdicts]
    assert facts["flagged"] == NAMES


def test_screen_of_two(owners):
    facts = answer("screen", owners / "parts")
    assert facts["flagged"] == []
    assert [row["name"] for row in facts["modules"]] == ["north", "south"]


def test_screen_to_a_person(parts):
    lines = ok("screen", parts, "--owners", "none").stdout.splitlines()
    assert lines[-1] == "3 of 12 modules contradict the others"
    names = [line.split()[0] for line in lines if line.split() and line.split()[0][:1] == "o"]
    assert names[:3] == NAMES  # those come first
    assert len(names) == cases.K
    text = " ".join(" ".join(lines).split())
    assert "in other units: about 1." in text
    assert "transform(output_scale=0.5" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing/*"], "nothing/*: no file matches"),
        (["PARTS", "--owners", "some"], "--owners some: use auto, offset, smooth or none"),
    ],
)
def test_screenings_that_cannot_be(parts, arguments, message):
    arguments = [parts if a == "PARTS" else a for a in arguments]
    assert message in one_line(call("screen", *arguments))


def test_merge_leaves_them_out_and_warns(city):
    file, result = city
    assert result.exit_code == 0
    assert "3 of 12 modules contradict the others and do not count" in result.stderr
    facts = json.loads(result.stdout)
    assert list(facts["not_trusted"]) == NAMES
    assert all(cases.explains("other units", why.removeprefix("flagged: ")) for why in facts["not_trusted"].values())
    assert [m.name for m in rgp.load(file)._members if m.weight == 0] == NAMES


@pytest.mark.slow
def test_merge_may_report_or_not_look(parts, out):
    for trust, named in (("report", NAMES), ("none", [])):
        facts = json.loads(call("merge", parts, "--trust", trust, "-o", out, "--json").stdout)
        assert list(facts["not_trusted"]) == named
        assert {row["weight"] for row in rgp.load(out).report()} == {1.0}
        assert [config.trust.value for config in rgp.load(out).how.configs] == [trust]


def test_merge_refuses_nonsense(parts, out):
    assert "--trust blindly: use learn, report or none" in one_line(
        call("merge", parts, "--trust", "blindly", "-o", out)
    )
    assert not out.exists()


def test_inspect_says_who_is_not_trusted(city, owners):
    file, _ = city
    words = " ".join(ok("inspect", file).stdout.split())
    assert "not trusted o1 (in other units: about 1." in words
    assert list(answer("inspect", file)["not_trusted"]) == NAMES
    assert "not trusted" not in ok("inspect", owners / "city.safetensors").stdout


HOSTILE = "a\u202eb\n\x1b[31mc[bold]d"


@pytest.mark.parametrize(
    "command",
    [
        "inspect",
        "compare",
    ],
)
def test_reasons_from_files_reach_no_terminal(city, command, out):
    parts = taken_apart(city[0].read_bytes())
    parts.header["groups"][0]["members"][0]["verdict"] = {"standing": "flagged", "reason": HOSTILE}
    out.write_bytes(rebuilt(parts.outer, parts.header, parts.body))
    result = call(command, out)  # it may be refused
    assert not {"\x1b", "\u202e"} & set(result.output)


def test_compare_has_a_column_where_somebody_is_not_trusted(city, owners, out):
    file, _ = city
    lines = ok("compare", file).stdout.splitlines()
    assert lines[0].split()[-1] == "trust"
    text = " ".join(" ".join(lines).split())
    assert text.count("flagged: in other units") == 3
    rows = {row["name"]: row for row in answer("compare", file)}
    assert rows["o1"]["trust"].startswith("flagged: in other units")
    assert rows["o0"]["trust"] == "trusted"
    ok("merge", owners / "parts", "--no-learn", "-o", out)  # where nobody has looked
    assert "trust" not in ok("compare", out).stdout
