"""The page of `serve` under a hub: of the modules that are there, and the model that the hub has made of them."""

import shutil

import numpy as np
import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

import cases_hub as cases
from cases_serve import EVIL, Client, curve, places
from recyclegp.hub import model_page, worker
from recyclegp.hub.folder import Folder
from recyclegp.hub.protocol import RefusedError
from recyclegp.serve import state, views

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
HONEST = ("east", f"north {EVIL}", "south", "west")


def sent(here, folder, names=HONEST, liar=True):
    """Modules of some owners, one of whom has the other sign."""
    signs = {name: 1 for name in names} | ({"liar": -1} if liar else {})
    for seed, (name, sign) in enumerate(signs.items()):
        here.owner(name).send("/module", cases.content(cases.module(name, seed, sign=sign), folder))
    here.merged(*signs)
    return signs


def test_it_shows_the_hubs_own_model(tmp_path):
    with cases.running(tmp_path / "hub", public_page=True) as here:
        page = Client(here.page)
        assert page.get("look/").status == 200  # the page; what it asks for is not there yet
        assert page.get("look/api/about").json()["error"].startswith("there is no merged model yet")
        sent(here, tmp_path)
        about = page.get("look/api/about").json()
        assert [m["name"] for m in about["modules"]] == sorted([*HONEST, "liar"])
        assert about["may"] == {"choose": True, "add": False, "download": True}
        (flagged,) = [i for i, m in enumerate(about["modules"]) if m["left_out"]]
        assert about["modules"][flagged]["name"] == "liar"
        asked = {"column": 0, "function": 0, "version": about["version"]}
        view = page.post("look/api/view", {**asked, "choice": {"off": [flagged]}}).json()
        model, drawn = cases.rgp.load(here.hub.model_file(None)), curve(view, "merged")
        np.testing.assert_allclose(drawn["mean"], model.predict(places(drawn))[0], rtol=1e-4, atol=1e-4)
        assert (
            page.post("look/api/file", {**asked, "choice": {"off": [flagged]}}).content
            == here.hub.model_file(None).read_bytes()
        )
        other = page.post("look/api/view", {**asked, "choice": {"off": [0]}}).json()  # merged here and now
        assert [entry["name"] for entry in other["curves"]["entries"]][-1] == model_page.COMPARED
        assert page.ask("POST", "look/api/upload?name=m", b"x").status == 404
        assert page.ask("POST", "look/api/table?name=t.csv", b"x").status == 404
        assert page.post("look/api/predictions", asked).status == 404
        assert not about["tables"]
        picture = page.post("look/api/picture", {**asked, "kind": "svg"})
        assert (picture.status, picture.headers["content-type"]) == (200, "image/svg+xml")
        for script in ("drawing.js", "maps.js", "owners.js", "modules.js", "files.js", "page.js"):
            assert page.get(f"look/{script}").status == 200, script
        # whoever only looks gets the hub's choice, whatever is asked
        reader = Client(here.address + here.owner("reader").ask("GET", "/page")["page"])
        for looking in (reader, Client(here.address + "/")):
            told = looking.get("look/api/about").json()
            assert told["may"] == {"choose": False, "add": False, "download": False}
            assert looking.post("look/api/view", {**asked, "choice": {"off": [0]}}).json()["curves"] == view["curves"]
            assert looking.post("look/api/file", asked).status in (404, 405)
            assert looking.get("audit.jsonl").status == 404
            assert looking.get("model.safetensors").status == 404
        # another model is another page
        here.owner("late").send("/module", cases.content(cases.module("late", 9), tmp_path))
        here.merged(*HONEST, "liar", "late")
        gone = page.post("look/api/view", asked)
        assert gone.status == 409
        assert len(page.get("look/api/about").json()["modules"]) == 6


def test_whoever_has_left_is_not_shown_and_sees_nothing(tmp_path):
    """The model is the same without a module that did not count; the page is not."""
    with cases.running(tmp_path / "hub") as here:
        sent(here, tmp_path)
        page, liar = Client(here.page), here.client("liar", here.keys["liar"])
        own = Client(here.address + liar.ask("GET", "/page")["page"])
        assert {m["name"] for m in own.get("look/api/about").json()["modules"]} == {*HONEST, "liar"}
        model = here.hub.current["model"]
        liar.ask("DELETE", "/module")
        here.merged(*HONEST)
        assert here.hub.current["model"] == model
        assert {m["name"] for m in page.get("look/api/about").json()["modules"]} == set(HONEST)
        for path in ("", "state.json", "look/", "look/api/about"):
            assert own.get(path).status == 404, path


def test_it_shows_the_model_of_rounds_and_of_answers_alone(tmp_path):
    with cases.running(tmp_path / "hub", expect=2, rounds=1, points=7) as here:
        clients = {name: here.owner(name) for name in ("north", "south")}
        for seed, (name, client) in enumerate(clients.items()):
            client.send("/module", cases.content(cases.module(name, seed), tmp_path))
        here.until(lambda: here.hub.run() is not None)
        plan = cases.rgp.load(here.hub.run().plan_file)
        for seed, (name, client) in enumerate(clients.items()):
            rows = cases.table(seed)
            answer = plan.contribute(rows[["hour"]], rows["level"], name=name, privacy="things")
            client.send("/answer", cases.content(answer, tmp_path))
        here.until(lambda: here.hub.current["kind"] == "rounds")
        page = Client(here.page)
        view = page.post("look/api/view", {}).json()
        model, drawn = cases.rgp.load(here.hub.model_file(None)), curve(view, "merged")
        x = places(drawn)
        np.testing.assert_allclose(drawn["mean"], model.predict(x)[0], rtol=1e-4, atol=1e-4)
        state = model_page.opened(str(here.hub.folder.root), {**here.hub.current, "modules": {}}, "city")
        (only,) = state.snapshot.modules
        np.testing.assert_allclose(only.predict(x)[0], model.predict(x)[0], rtol=0, atol=1e-3)
        assert state.usual() is not None


def of_other_inputs(name, **columns):
    rows = cases.table(4).assign(**columns)
    return cases.rgp.fit(rows[list(columns)], rows["level"], name=name, publish=7, learn=False, noise=0.04)


def test_a_module_that_cannot_be_drawn_leaves_the_page_to_the_others(tmp_path, monkeypatch):
    """Of other inputs, of categories alone, or of too many points, although it counts."""
    folder = Folder(tmp_path)
    folder.make()
    dictionary = cases.rgp.Dictionary(folder.modules)
    dictionary.add(of_other_inputs("aaa", hour=np.arange(60.0), day=np.arange(60.0) % 7))
    dictionary.add(of_other_inputs("city", hour=np.array(["a", "b", "c"])[np.arange(60) % 3]))
    for seed, name in enumerate(("east", "north", "south")):
        dictionary.add(cases.module(name, seed))
    dictionary.add(cases.module("wide", 5, publish=12))
    monkeypatch.setattr(state, "MOST_POINTS", 11)
    facts = worker.merge(str(tmp_path), {entry.name: entry.digest for entry in dictionary.list()}, False, {})
    assert facts["counted"] == ["east", "north", "south", "wide"]
    shown = model_page.opened(str(tmp_path), facts, "city")
    choice = shown.snapshot.usual
    assert [m["name"] for m in views.about(shown.snapshot)["modules"]] == ["east", "north", "south"]
    view = views.view(shown, choice)
    assert [note.split(":")[0] for note in view["notes"]] == [
        f"{name} is not on this page" for name in ("wide", "aaa", "city")
    ]
    assert view["facts"]["modules"] == 4
    drawn = curve(view, "merged")
    model = cases.rgp.load(folder.model(facts["model"]))
    np.testing.assert_allclose(drawn["mean"], model.predict(places(drawn))[0], rtol=1e-4, atol=1e-4)
    assert len(views.owners(shown, choice)["places"]) == 3
    assert views.picture(shown, choice, views.LOOKING, "png").startswith(b"\x89PNG")
    monkeypatch.setattr(state, "MOST_MODULES", 2)
    few = model_page.opened(str(tmp_path), facts, "city")
    assert len(views.about(few.snapshot)["modules"]) == 2
    assert len(few.snapshot.missing) == 4
    monkeypatch.setattr(state, "MOST_MODULES", 0)
    monkeypatch.setattr(state, "MOST_POINTS", 4096)
    alone = model_page.opened(str(tmp_path), facts, "city")
    np.testing.assert_allclose(
        alone.snapshot.modules[0].predict(places(drawn))[0], model.predict(places(drawn))[0], rtol=0, atol=1e-3
    )
    assert len(views.view(alone, alone.snapshot.usual)["notes"]) >= 6


def test_a_page_that_takes_long_keeps_no_upload_waiting(tmp_path, monkeypatch):
    """The process of the page is another one, and it is ended with its time."""
    monkeypatch.setattr(model_page, "LIMITS", model_page.Limits(0.001, 2**32))
    monkeypatch.setattr(model_page.ModelPage.__init__, "__defaults__", (model_page.LIMITS,))
    with cases.running(tmp_path / "hub") as here:
        sent(here, tmp_path, ("a", "b"), liar=False)
        assert "given up" in Client(here.page).post("look/api/view", {}).json()["error"]
        here.owner("c").send("/module", cases.content(cases.module("c", 3), tmp_path))
        here.merged("a", "b", "c")


def test_readers_are_told_where_to_look(tmp_path):
    with cases.running(tmp_path / "hub") as here:
        path = here.coordinator().ask("GET", "/page")["page"]
        assert here.address + path == here.page
        looking = here.owner("a").ask("GET", "/page")["page"]
        assert looking != path
        with pytest.raises(RefusedError, match="not registered"):
            here.client("stranger").ask("GET", "/page")


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_in_a_browser(tmp_path):
    playwright = pytest.importorskip("playwright.sync_api", reason="of [dev]")
    with playwright.sync_playwright() as started, cases.running(tmp_path / "hub", title=f"City {EVIL}") as here:
        sent(here, tmp_path)
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        for who, address in (("all", here.page), ("look", here.address + here.owner("r").ask("GET", "/page")["page"])):
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            page, complaints = context.new_page(), []
            page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)  # noqa: B023
            page.on("pageerror", lambda e: complaints.append(str(e)))  # noqa: B023
            page.goto(address)
            page.get_by_role("link", name="Look at the model").click()
            page.wait_for_selector("body[aria-busy=false]", timeout=60_000)
            assert "4 of 5 modules count" in page.locator("#summary").inner_text()
            row = page.get_by_role("row", name="liar")
            assert "opposite sign" in row.inner_text()
            assert f"City {EVIL}" in page.locator("footer").inner_text()
            if who == "all":
                page.get_by_role("row", name="south").get_by_role("switch").click()
                page.wait_for_selector("body[aria-busy=false]", timeout=60_000)
                assert "3 of 5 modules count" in page.locator("#summary").inner_text()
                assert model_page.COMPARED in page.locator("#legend").inner_text()
                page.reload()
                page.wait_for_selector("body[aria-busy=false]", timeout=60_000)
                assert "3 of 5 modules count" in page.locator("#summary").inner_text()
            else:
                assert row.get_by_role("switch").is_disabled()
                assert not page.locator("#download").is_visible()
            assert not page.locator("#add").is_visible()
            assert not page.locator("#tables").is_visible()
            assert page.locator("#picture").is_enabled()
            assert page.locator("#map .ring.flagged").count() == 1  # also while it does not count
            assert page.evaluate("window.hurt") is None
            for width in (360, 1280):
                page.set_viewport_size({"width": width, "height": 900})
                page.wait_for_timeout(100)
                wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                assert wide <= 0, width
                page.screenshot(path=tmp_path / f"{who}-{width}.png", full_page=True)
            assert complaints == []
            context.close()
        browser.close()
