"""What one stranger sends keeps nobody waiting: limits of time and memory, silent connections, load."""

import asyncio
import multiprocessing
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

import cases_serve as cases
import recyclegp as rgp

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from recyclegp.serve import connections, state
from recyclegp.serve.server import page
from recyclegp.serve.worker import Limits, Line, Question, Worker

LARGE = 2**34


@pytest.fixture(scope="module")
def modules():
    return cases.modules()[:2]


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    path = tmp_path_factory.mktemp("late") / "late.safetensors"
    cases.fitted(cases.table(4, 0, 6), "late").save(path)
    return path.read_bytes()


def with_owners(modules, owners):
    return cases.serve_state(modules, settings=state.Settings(owners=owners))


@pytest.mark.slow
def test_a_file_that_takes_for_ever_is_given_up_and_blocks_nobody(modules, late):
    slow = with_owners(modules, cases.Slow("auto"))
    with cases.running(slow, uploads=Limits(3.0, LARGE)) as address:
        client = cases.Client(address)
        assert client.get("api/about").status == 200
        with ThreadPoolExecutor(1) as pool:
            upload = pool.submit(client.upload, late, "late.safetensors")
            start = time.perf_counter()
            while not upload.done():
                assert client.get("api/about").status == 200  # meanwhile
                time.sleep(0.2)
            assert time.perf_counter() - start > 3
            answer = upload.result()
        assert answer.status == 422
        assert answer.json()["error"].startswith("late.safetensors: given up: it took more than the 3 s")
        assert len(client.get("api/about").json()["modules"]) == 2


def test_a_question_that_takes_for_ever_is_given_up(modules):
    with cases.running(with_owners(modules, cases.Slow("auto")), questions=Limits(1.0, LARGE)) as address:
        client = cases.Client(address)
        assert "given up" in client.post("api/view", {}).json()["error"]
        assert client.get("api/about").status == 200  # by another process


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="memory is limited where there is /proc")
def test_memory_is_limited(modules, late):
    hungry = with_owners(modules, cases.Hungry("auto"))
    with cases.running(hungry, uploads=Limits(60.0, 2**31)) as address:
        answer = cases.Client(address).upload(late, "late.safetensors")
    assert answer.status == 422
    assert answer.json()["error"] == "late.safetensors: it needs more than the 2 GiB of memory that this page allows"


def test_it_ends_at_once_whatever_it_is_doing(modules):
    with page(with_owners(modules, cases.Slow("auto"))) as running:
        thread = threading.Thread(target=running.run)
        thread.start()
        client = cases.Client(running.address)
        assert client.get("api/about").status == 200
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(client.post, "api/view", {})
            time.sleep(1)
            start = time.perf_counter()
            running.stop()
            thread.join(60)
            assert time.perf_counter() - start < 5
            answer = asked.result()  # whoever waits is told so
    assert "load it again" in answer.json()["error"]
    assert not [p for p in multiprocessing.active_children() if p.is_alive()]


def test_who_waits_for_a_line_that_ends_is_told_to_load_the_page_again():
    """One is being answered, and one waits for its turn."""

    class Busy:
        def __init__(self):
            self.over = threading.Event()

        def ask(self, question):
            self.over.wait(30)
            raise rgp.RecycleGPError("given up: the process that computes it has ended")

        def end(self):
            self.over.set()

    async def here():
        return False

    async def asked():
        line = Line(Busy())
        waiting = [asyncio.create_task(line.ask(Question("about"), here)) for _ in range(2)]
        await asyncio.sleep(0.05)
        line.end()
        return await asyncio.gather(*waiting, return_exceptions=True)

    for refused in asyncio.run(asked()):
        assert isinstance(refused, rgp.RecycleGPError)
        assert "load it again" in str(refused)


def test_a_process_that_dies_is_started_again(modules):
    worker = Worker(partial(state.ServeState, cases.snapshot(modules)), 1, Limits(60.0, LARGE))
    try:
        assert len(worker.ask(Question("about"))["modules"]) == 2
        worker.process.kill()
        with pytest.raises(ValueError, match="given up: the process"):
            worker.ask(Question("about"))
        assert len(worker.ask(Question("about"))["modules"]) == 2
    finally:
        worker.end()


# --- connections ----------------------------------------------------------------------------------


def half_open(client, sent):
    host, _, port = client.host.partition(":")
    found = socket.create_connection((host, int(port)), timeout=30)
    found.sendall(sent)
    return found


def test_silent_connections_are_closed_and_keep_no_place(modules, monkeypatch):
    monkeypatch.setattr(connections, "SLOWEST", 1.0)
    with cases.running(cases.serve_state(modules)) as address:
        client = cases.Client(address)
        silent = [
            half_open(client, part) for part in (b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n") for _ in range(40)
        ]
        assert client.get("").status == 200
        try:
            assert all(s.recv(1) == b"" for s in silent)
        except ConnectionResetError:
            pass
        finally:
            for s in silent:
                s.close()
        assert client.get("").status == 200


def test_a_second_question_that_never_ends(modules, monkeypatch):
    monkeypatch.setattr(connections, "SLOWEST", 1.0)
    with cases.running(cases.serve_state(modules)) as address:
        client = cases.Client(address)
        asked = f"GET {client.base}page.css HTTP/1.1\r\nHost: {client.host}\r\n\r\n".encode()
        with half_open(client, asked) as connection:
            assert connection.recv(12) == b"HTTP/1.1 200"
            while connection.recv(2**16).find(b"}") < 0:
                pass
            connection.sendall(b"GET /")
            while connection.recv(2**16):
                pass


def test_a_hundred_questions_at_once_are_answered(modules, monkeypatch):
    def counted(client):
        with ThreadPoolExecutor(100) as pool:
            return Counter(answer.status for answer in pool.map(lambda i: client.get("api/about"), range(100)))

    with cases.running(cases.serve_state(modules)) as address:
        client = cases.Client(address)
        assert counted(client) == {200: 100}
        monkeypatch.setattr(Line, "MOST_WAITING", 10)
        found = counted(client)
        assert sum(found.values()) == 100
        assert set(found) <= {200, 503}
        assert found[200] >= 10
