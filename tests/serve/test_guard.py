"""Who may ask: the browser of this machine that knows the address, and no other site in it."""

import asyncio

import pytest

import cases_serve as cases

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from recyclegp.serve.guard import Guard
from recyclegp.serve.server import page


@pytest.fixture(scope="module")
def serve_state():
    return cases.serve_state(cases.modules()[:1])


@pytest.fixture(scope="module")
def client(serve_state):
    with cases.running(serve_state) as address:
        yield cases.Client(address)


def post(client, **headers):
    return client.post("api/owners", {}, **{name.replace("_", "-"): value for name, value in headers.items()}).status


def test_the_page_may_ask(client):
    assert post(client) == 200
    here = client.host.replace("127.0.0.1", "localhost")
    assert post(client, host=here, origin=f"http://{here}") == 200
    assert post(client, sec_fetch_site=None) == 200  # of a browser that does not send it


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://127.0.0.1"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": None},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
    ],
)
def test_other_sites_may_not(client, headers):
    assert post(client, **headers) == 403


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8000",
        "0.0.0.0",
        "[::1]:80",
        "",
    ],
)
def test_other_names_of_this_machine_are_refused(client, host):
    """A site may let its own name point to this machine, and would then be of the same origin."""
    assert client.get("api/about", host=host).status == 421
    assert post(client, host=host, origin=f"http://{host}") == 421


@pytest.mark.parametrize("path", ["/", "/api/about", "//api/about", "/x/api/about", "/x/"])
def test_without_the_token_there_is_nothing(client, path):
    assert client.get(path).status == 404


def test_a_token_that_is_nearly_right_is_wrong(client):
    for path in (
        client.base[:-1],
        f"{client.base[:-1]}x/",
        f"{client.base[:-2]}/",
        client.base.upper(),
        f"/{client.base}",
    ):
        assert client.get(path).status == 404


def test_every_page_has_a_token_of_its_own(serve_state):
    with page(serve_state) as one, page(serve_state) as other:
        tokens = {p.address.split("/")[3] for p in (one, other)}
    assert len(tokens) == 2
    assert min(map(len, tokens)) >= 32
    assert one.address.startswith("http://127.0.0.1:")


def test_every_answer_has_its_headers(client):
    answers = [client.get("", host="evil.example"), client.get("/"), client.get("nothing")]
    answers += [client.get(""), client.get("api/about"), client.ask("POST", "api/view", b"{"), client.get("page.js")]
    assert [a.status for a in answers] == [421, 404, 404, 200, 200, 415, 200]
    for answer in answers:
        policy = dict(p.strip().split(" ", 1) for p in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert "unsafe" not in str(policy)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers


def test_no_websockets():
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(Guard(None, "token")({"type": "websocket", "path": "/token/"}, None, send))
    assert [m["type"] for m in sent] == ["websocket.close"]


def test_a_port_that_is_taken_is_said(serve_state):
    with page(serve_state) as one:
        port = int(one.address.split(":")[2].split("/")[0])
        with pytest.raises(ValueError, match=f"--port {port}: .*choose another"), page(serve_state, port):
            pass
