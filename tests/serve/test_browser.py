"""The page in a real browser: it is looked at, switched, changed and downloaded from; and nobody gets in by a name."""

import re

import numpy as np
import pandas as pd
import pytest

import cases_serve as cases
import recyclegp as rgp
from cases_browser import CHROMIUM, overflow
from cases_joint import outputs
from recyclegp.serve import state

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("playwright.sync_api")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")]


@pytest.fixture(scope="module")
def modules():
    return cases.modules()


@pytest.fixture(scope="module")
def address(modules):
    test = cases.table(9, 0, 10, 50)
    rows = state.Test(test[["hour"]], test["level"].to_numpy(), None, "test.csv")
    with cases.running(cases.serve_state(modules, test=rows)) as found:
        yield found


def test_it_loads_without_complaints_and_asks_nobody_else(visit, address):
    v = visit(address)
    assert v.page.title() == "level · recyclegp"
    assert v.page.locator("h1").inner_text() == "level by hour"
    assert (
        "3 of 4 modules count · 180 rows of data · 1 contradicts the others" in v.page.locator("#summary").inner_text()
    )
    assert v.page.locator("#curves svg path").count() > 5
    assert v.page.locator("#map g[role=switch]").count() == 4
    assert v.page.locator("#modules tbody tr").count() == 4
    assert v.row("north").get_by_text("trusted").count() == 1
    assert v.row("west").get_by_text("scaled by about 10").count() == 1
    assert all(url.startswith(address) for url in v.requests)
    assert v.complaints == []


def test_switching_an_owner_changes_curves_and_scores(visit, address, modules):
    v = visit(address)
    before, score = v.curve(), v.score()
    v.switch("north")
    after = v.curve()
    assert len(before) == len(after)
    assert not np.allclose(before, after, rtol=1e-3)
    with pytest.warns(rgp.RecycleGPWarning):
        e = rgp.merge(modules[1:])
    drawn = v.page.evaluate(
        "(c => [c.from, c.to])(data.panels[0].curves.find(c => data.entries[c.entry].name === 'merged'))"
    )
    np.testing.assert_allclose(after, e.predict(np.linspace(*drawn, len(after))[:, None])[0], rtol=1e-4)
    assert v.score() > score  # nobody else has seen the first hours
    assert v.row("north").get_by_text("switched off").count() == 1
    assert "2 of 4 modules count" in v.page.locator("#summary").inner_text()
    v.page.locator("#map g[role=switch] circle").first.click()  # the dot of the same owner
    v.settle()
    assert v.curve() == before
    assert v.row("north").get_by_role("switch").is_checked()
    assert v.complaints == []


def test_switches_work_by_keyboard(visit, address):
    v = visit(address)
    v.page.locator("#map g[role=switch]").nth(1).focus()
    v.page.keyboard.press("Space")
    v.settle()
    assert not v.row("south").get_by_role("switch").is_checked()
    assert v.page.evaluate("document.activeElement.getAttribute('aria-label')") == "south counts"


def test_nobody_is_said(visit, address):
    v = visit(address)
    v.page.get_by_role("button", name="None").click()
    v.settle()
    assert "nobody is switched on" in v.page.locator("#notices").inner_text()
    assert v.page.locator("#download").is_disabled()
    v.page.get_by_role("button", name="As sent").click()
    v.settle()
    assert v.page.locator("#notices").inner_text() == ""
    assert len(v.curve()) > 100


def test_a_proposal_is_one_press(visit, address):
    v = visit(address)
    v.row("west").get_by_role("button", name=re.compile("^Try")).click()
    v.settle()
    assert "4 of 4 modules count" in v.page.locator("#summary").inner_text()
    assert v.row("west").get_by_text("units: y × 0.").count() == 1
    assert v.row("west").get_by_text("trusted").count() == 1


def test_a_question_may_overtake_another(visit, address):
    """The map is of the new units, although the first question about them was never answered."""
    v = visit(address)
    v.row("west").get_by_role("button", name=re.compile("^Try")).click()
    v.row("south").get_by_role("switch").click()
    v.settle()
    distances = v.page.evaluate("shown.owners.pairs.filter(p => p.a === 3).map(p => p.distance)")
    assert max(distances) < 3
    assert "3 of 4 modules count" in v.page.locator("#summary").inner_text()
    assert v.complaints == []


def test_units_can_be_typed(visit, address, modules):
    v = visit(address)
    v.row("west").get_by_role("button", name="Units").click()
    editor = v.page.locator("tr.editor")
    editor.get_by_label("y × (scale)").fill("0")
    editor.get_by_role("button", name="Apply").click()
    assert editor.count() == 1  # a scale of zero is refused where it is typed
    editor.get_by_label("y × (scale)").fill("0,1")
    editor.get_by_label("hour × (scale)").fill("2")
    editor.get_by_label("hour + (shift)").fill("0.5")
    editor.get_by_label("unit afterwards").fill("<b>kg</b>")
    editor.get_by_role("button", name="Apply").click()
    v.settle()
    assert v.row("west").get_by_text("units: y × 0.1, hour × 2 + 0.5, in <b>kg</b>").count() == 1
    change = {"output_scale": [0.1], "output_shift": [0], "unit": ["<b>kg</b>"]}
    change |= {"input_scale": [2], "input_shift": [0.5]}
    assert v.page.evaluate("choice()") == {"off": [], "units": {"3": change}}
    changed = modules[3].transform([0.5], 0.1, input_scale=[2])
    drawn = v.page.evaluate("data.panels[0].curves.find(c => data.entries[c.entry].name === 'west')")
    x = np.linspace(drawn["from"], drawn["to"], len(drawn["mean"]))[:, None]
    np.testing.assert_allclose(drawn["mean"], changed.predict(x)[0], rtol=1e-4)
    assert v.complaints == []


def test_the_download_is_what_merge_gives(visit, address, modules, tmp_path):
    v = visit(address)
    v.switch("west")
    with v.page.expect_download() as started:
        v.page.get_by_role("button", name="Download merged file").click()
    assert started.value.suggested_filename == "merged.safetensors"
    started.value.save_as(tmp_path / "got.safetensors")
    rgp.merge(modules[:3]).save(tmp_path / "made.safetensors")
    assert (tmp_path / "got.safetensors").read_bytes() == (tmp_path / "made.safetensors").read_bytes()


def test_files_can_be_added(visit, tmp_path):
    with cases.running(cases.serve_state(cases.modules()[:2])) as address:
        v = visit(address)
        cases.fitted(cases.table(3, 4, 9), "late").save(tmp_path / "late-1.safetensors")
        (tmp_path / "broken.safetensors").write_bytes(b"nothing")
        v.page.locator("#files").set_input_files([tmp_path / "late-1.safetensors", tmp_path / "broken.safetensors"])
        v.page.wait_for_selector("#modules tbody tr:nth-child(3)")
        v.page.wait_for_selector(".notice")
        assert "late-1.safetensors" in v.row("late").inner_text()
        assert "broken.safetensors: not a complete recyclegp file" in v.page.locator("#notices").inner_text()
        assert v.page.locator("#map g[role=switch]").count() == 3


def test_another_function_can_be_looked_at(visit):
    tables = [outputs(k, 0, 6, 60) for k in range(4)]
    modules = [rgp.fit(t[["day"]], t[["heat", "salt"]], name=f"m{k}", publish=7) for k, t in enumerate(tables)]
    modules[3] = modules[3].transform(output_scale={"salt": 10.0})
    with cases.running(cases.serve_state(modules)) as address:
        v = visit(address)
        assert v.page.locator("h1").inner_text() == "heat by day"
        assert v.page.locator("#function option").all_inner_texts() == ["heat", "salt (1 contradicts)"]
        v.page.locator("#function").select_option("1")
        v.settle()
        assert v.page.locator("h1").inner_text() == "salt by day"
        v.row("m3").get_by_role("button", name="Try").click()
        v.settle()
        (change,) = v.page.evaluate("choice()")["units"].values()
        assert change["output_scale"] == [1, pytest.approx(0.1, rel=0.05)]
        assert v.page.locator("#function option").all_inner_texts() == ["heat", "salt"]
        assert v.complaints == []


def test_nothing_in_a_file_becomes_markup(visit):
    """Names, owners, columns, target and unit of a stranger are shown as they are, and nothing of them runs."""
    rng = np.random.default_rng(0)
    some = []
    for k in range(3):
        X = pd.DataFrame(rng.uniform(0, 6, (40, 2)), columns=[cases.EVIL, "<svg onload=window.hurt=1>"])
        y = np.sin(X[cases.EVIL]) + 0.1 * rng.standard_normal(40) + 9 * (k == 2)
        words = {"name": f"{k}{cases.EVIL}", "owner": f"of {k}{cases.EVIL}", "target": cases.EVIL, "unit": cases.EVIL}
        some.append(rgp.fit(X, y, publish=6, learn=False, **words))
    serve_state = cases.serve_state(some)
    with cases.running(serve_state) as address:
        v = visit(address)
        v.page.locator("#column").select_option("1")
        v.settle()
        v.page.locator("#curves svg").hover()  # the table beside the pointer
        v.page.get_by_role("button", name="Units of 0").click()
        v.page.locator("#map g[role=switch] circle").first.click()
        v.settle()
        body = v.page.locator("body").inner_text()
        for k in range(3):
            assert f"{k}{cases.EVIL}" in body
            assert f"of {k}{cases.EVIL}" in body
        assert cases.EVIL in v.page.locator("h1").inner_text()
        assert v.page.locator("tr.editor label").nth(3).inner_text().startswith(cases.EVIL)
        assert v.page.evaluate("window.hurt") is None
        assert v.page.evaluate("document.querySelectorAll('img, body script, iframe, [onerror], [onload]').length") == 0
        assert v.complaints == []


def test_the_policy_stops_what_the_page_would_never_do(visit, address):
    """Were there a mistake in the page, the browser would still refuse."""
    v = visit(address)
    tried = """() => new Promise(done => setTimeout(() => {  // later: what a test evaluates itself may do anything
        const script = document.createElement('script'), said = [];
        const attempts = [
            () => document.body.innerHTML = '<img src=x onerror=window.hurt=1>',
            () => eval('window.hurt = 1'),
            () => script.text = 'window.hurt = 1',
            () => document.body.setAttribute('onclick', 'window.hurt = 1'),
        ];
        for (const attempt of attempts) try { attempt(); said.push('done'); } catch (error) { said.push(error.name); }
        document.body.append(script);
        document.body.click();
        done([said, window.hurt === undefined]);
    }, 0))"""
    said, unhurt = v.page.evaluate(tried)
    assert said[:3] == ["TypeError", "EvalError", "TypeError"]
    assert unhurt


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_no_width_scrolls_sideways(visit, address, width):
    v = visit(address, width=width)
    assert overflow(v) <= 0
    v.row("west").get_by_role("button", name="Units").click()
    assert overflow(v) <= 0
    letters = v.page.evaluate("(t => t.getBoundingClientRect().height)(document.querySelector('#curves svg text'))")
    assert letters > 9  # pixels: curves are drawn as wide as the screen is, not made smaller
    assert v.complaints == []


def brightness(v, selector, what):
    rgb = v.page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{what}")
    parts = np.array([float(c) for c in re.findall(r"[\d.]+", rgb)][:3]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_are_legible(visit, address, dark):
    """The contrast that WCAG asks of text, 4.5 to 1."""
    v = visit(address, dark=dark)
    ground = brightness(v, "body", "backgroundColor")
    assert (ground < 0.05) == dark
    for selector in (
        "h1",
        "#summary",
        ".card h2",
        ".hint",
        ".pill.trusted",
        ".pill.flagged",
        "#modules tbody th",
        "button.primary",
    ):
        behind = selector if selector.startswith((".pill", "button")) else ".card"
        pair = sorted([brightness(v, selector, "color"), brightness(v, behind, "backgroundColor")])
        assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, selector
