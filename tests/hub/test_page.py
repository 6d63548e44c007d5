"""The coordinator's page: what it says, who may see it, and how it looks in a real browser."""

import http.client
import json
import shutil
from urllib.parse import urlsplit

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("cryptography")

import cases_hub as cases
from cases_serve import EVIL
from recyclegp.hub.page_tokens import Access, PageTokens
from recyclegp.hub.registry import Person, Registry, Role, Standing

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def got(url):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.request("GET", parts.path)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, dict(answer.getheaders()), content


def test_it_is_there_for_whoever_knows_the_token(tmp_path):
    with cases.running(tmp_path / "hub", public_page=True) as here:
        status, headers, content = got(here.page)
        assert status == 200
        assert b"<title>recyclegp hub</title>" in content
        assert "default-src 'none'" in headers["content-security-policy"]
        state = json.loads(got(here.page + "state.json")[2])
        assert state["downloads"] is True
        assert state["people"][0]["role"] == "coordinator"
        assert got(here.page + "audit.jsonl")[2] == (tmp_path / "hub" / "audit.jsonl").read_bytes()
        assert got(here.page + "model.safetensors")[0] == 404
        token = here.hub.page_tokens.coordinator
        wrong = here.page.replace(token, token[:-1] + ("y" if token.endswith("x") else "x"))
        for name in ("", "state.json", "audit.jsonl", "model.safetensors", "look/", "look/api/about", "page.js"):
            assert got(wrong + name)[0] == 404
        assert json.loads(got(here.address + "/state.json")[2])["downloads"] is False
        assert got(here.address + "/audit.jsonl")[0] == 404
        assert got(here.address + "/model.safetensors")[0] == 404


def test_each_person_has_a_token_that_ends_with_its_being_here(tmp_path):
    tokens = PageTokens(tmp_path / "tokens.json")
    registry = Registry(tmp_path, 10)
    people = [Person(bytes([i] * 32), f"p{i}", role, Standing.IN, 0.0) for i, role in enumerate(Role)]
    for person in people:
        registry.put(person)
    wanted = {Role.COORDINATOR: Access.EVERYTHING, Role.OWNER: Access.LOOK, Role.READER: Access.LOOK}
    again = PageTokens(tmp_path / "tokens.json")  # after a restart
    for person in people:
        assert again.access(tokens.of(person), registry) is wanted[person.role]
    (owner,) = [p for p in people if p.role is Role.OWNER]
    token = tokens.of(owner)
    changed = token[:-1] + ("B" if token[-1] == "A" else "A")
    strange = PageTokens(tmp_path / "others.json").of(owner)  # of another hub
    for wrong in ("", "x", "é", token[:-1], token + "A", changed, token.swapcase(), strange):
        assert tokens.access(wrong, registry) is None, wrong
    assert tokens.access(tokens.of(owner._replace(key=b"k" * 32)), registry) is None  # of nobody
    registry.change(owner.name, Standing.OUT)
    assert tokens.access(token, registry) is None


def test_without_a_public_page_the_address_shows_nothing(tmp_path):
    with cases.running(tmp_path / "hub") as here:
        assert got(here.address + "/")[0] == 404
        assert got(here.address + "/state.json")[0] == 404


def answered(here, clients, folder):
    """Everybody, to the plan of now."""
    plan = cases.rgp.load(here.hub.run().plan_file)
    for seed, (name, client) in enumerate(clients.items()):
        rows = cases.table(seed)
        answer = plan.contribute(rows[["hour"]], rows["level"], name=name, privacy="things")
        client.send("/answer", cases.content(answer, folder))


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium")
def test_in_a_browser(tmp_path):
    playwright = pytest.importorskip("playwright.sync_api")
    with (
        playwright.sync_playwright() as started,
        cases.running(tmp_path / "hub", expect=3, title=f"City {EVIL}", rounds=2, points=7) as here,
    ):
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        complaints = []
        context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
        page = context.new_page()
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: complaints.append(str(e)))
        page.goto(here.page)
        page.wait_for_selector("body[aria-busy=false]")
        assert "Nobody has joined yet." in page.locator("#owners").inner_text()
        clients = {name: here.owner(name) for name in ("north", "south", f"east {EVIL}")}
        assert here.owner("west") is not None  # who registers, and sends nothing
        for seed, (name, client) in enumerate(clients.items()):
            client.send("/module", cases.content(cases.module(name, seed), tmp_path))
        here.until(lambda: here.hub.run() is not None)
        page.locator("#rounds-words", has_text="waiting for").wait_for()
        answered(here, clients, tmp_path)
        page.wait_for_selector("#curve circle")
        text = page.locator("body").inner_text()
        assert f"City {EVIL}" in text
        assert f"east {EVIL}" in text
        assert "no module yet" in page.get_by_role("row", name="west").inner_text()
        assert "counts" in page.get_by_role("row", name="north").inner_text()
        assert page.evaluate("window.hurt") is None
        with page.expect_download() as download:
            page.locator("#model").click()
        download.value.save_as(tmp_path / "got.safetensors")
        assert (tmp_path / "got.safetensors").read_bytes() == here.hub.model_file(None).read_bytes()
        for width in (320, 390, 768, 1280):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_timeout(50)
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide <= 0, width
            letters = page.evaluate("document.querySelector('#curve text').getBoundingClientRect().height")
            assert letters > 9  # pixels
            page.screenshot(path=tmp_path / f"page-{width}.png", full_page=True)
        here.until(lambda: here.hub.run().round == 1)
        answered(here, clients, tmp_path)
        page.wait_for_selector("#curve circle:nth-of-type(2)")
        line = page.locator("#curve polyline").get_attribute("points").split()
        heights = [float(point.partition(",")[2]) for point in line]
        assert heights[1] <= heights[0]  # the best so far, whatever was tried
        for digest, epsilon in (("x", 0.1), ("y", 0.2)):
            here.hub.audit.append("answered", by="west", answer=digest, private={"epsilon": epsilon, "delta": 1e-6})
        page.get_by_role("row", name="west").get_by_text("private answers: ε = 0.3, δ = 0.000002 in all").wait_for()
        assert complaints == []
        context.close()
        browser.close()
