"""Rounds over Flower, with real SuperLink and SuperNode processes: `make test-flower`.

North and South are honest. East is killed in the second exchange, West comes after the first, and Odd sends first what
is no file at all, then sums that no rows can have.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import recyclegp as rgp

pytest.importorskip("flwr")

BIN = Path(sys.executable).parent
WAIT = int(os.environ.get("FLOWER_WAIT", "100"))  # seconds that answers are waited for, East's in vain; busy machines
T = np.random.default_rng(5).uniform(-2, 2, (7, 2))

PROJECT = """
[project]
name = "city"
version = "1.0.0"
dependencies = []

[tool.flwr.app]
publisher = "city"

[tool.flwr.app.components]
serverapp = "city.app:server"
clientapp = "city.app:client"
"""

# An app has 30 seconds from being started until its first sign of life, which a busy machine may not manage.
PATIENCE = """
import sys
import flwr.common.constant
for name, module in list(sys.modules.items()):
    if name.startswith("flwr.") and hasattr(module, "HEARTBEAT_DEFAULT_INTERVAL"):
        module.HEARTBEAT_DEFAULT_INTERVAL = 300
"""

CONNECTION = """
[superlink]
default = "here"

[superlink.here]
address = "127.0.0.1:{port}"
insecure = true
"""

APP = """
import logging
import os
import time
from pathlib import Path

import numpy as np
import torch
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

import recyclegp as rgp
from recyclegp.engines import flower

HERE = Path({folder!r})
logging.captureWarnings(True)
logging.getLogger("py.warnings").addHandler(logging.FileHandler(HERE / "warnings.log"))


def rows(context):
    rng = np.random.default_rng(int(context.node_config["seed"]))
    X = rng.uniform(-2, 2, (60, 2))
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.2 * rng.standard_normal(60)


plan = rgp.Plan(points=rgp.Plan.spread([-2, -2], [2, 2], 14), kernel="rbf", noise=0.05)
server = flower.server_app(HERE / "out", rounds=3, plan=plan, owners=4, timeout={wait})
honest = flower.client_app(rows, privacy="things")
client = ClientApp()


@client.query()
def answer(message, context):
    name, now = context.node_config["name"], flower.from_bytes(message.content["plan"]["file"])
    if name == "east" and now.round:
        (HERE / "east-was-asked").touch()
        time.sleep(3600)
    reply = honest(message, context)
    if name == "odd" and not now.round:
        return Message(RecordDict({{"answer": ConfigRecord({{"file": os.urandom(1000)}})}}), reply_to=message)
    if name == "odd":
        facts = flower.from_bytes(reply.content["answer"]["file"]).facts
        wrong = facts.sums[0]._replace(c=torch.tensor(-1.0, dtype=torch.float64))
        said = rgp.Answer(facts._replace(sums=(wrong,)))
        return Message(RecordDict({{"answer": ConfigRecord({{"file": flower.to_bytes(said)}})}}), reply_to=message)
    return reply
"""


def test_the_apps_of_the_page(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "howto-flower.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.S)
    names = {}
    exec(code, names)
    assert type(names["client"]).__name__ == "ClientApp"
    assert type(names["server"]).__name__ == "ServerApp"
    assert re.findall(r"```toml\n(.*?)```", page, flags=re.S) == [PROJECT.lstrip()]


# --- secure sums: every message goes through the apps, and no process is started ----------------------

PLAN = rgp.Plan(points=rgp.Plan.spread([-2, -2], [2, 2], 14), kernel="rbf", noise=0.05)


def rows_of(context):
    rng = np.random.default_rng(int(context.node_config["seed"]))
    X = rng.uniform(-2, 2, (60, 2))
    return X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.2 * rng.standard_normal(60)


class Line:
    """A Grid whose nodes are app functions; between two messages a node's context is bytes, as a SuperNode holds it."""

    def __init__(self, apps, spoil=lambda node, stage, content: content):
        from flwr.app import Context, RecordDict

        self.apps, self.spoil, self.stage = apps, spoil, -1
        self.held = {
            node: self.put(Context(1, node, {"name": f"ward-{node}", "seed": node}, RecordDict(), {})) for node in apps
        }

    @staticmethod
    def put(context):
        from flwr.common.serde import context_to_proto

        return context_to_proto(context).SerializeToString()

    @staticmethod
    def get(held):
        from flwr.common.serde import context_from_proto
        from flwr.proto.message_pb2 import Context

        return context_from_proto(Context.FromString(held))

    def get_node_ids(self):
        return list(self.apps)

    def send_and_receive(self, messages, timeout):
        from flwr.app import Error, Message

        self.stage += 1
        for message in messages:
            node = message.metadata.dst_node_id
            message.metadata._message_id = f"{self.stage}-{node}"
            context = self.get(self.held[node])
            try:
                reply = self.apps[node](message, context)
                self.held[node] = self.put(context)
                reply.content = self.spoil(node, self.stage, reply.content)
            except Exception as failed:
                reply = Message(Error(code=0, reason=str(failed)), reply_to=message)
            yield reply


def context_of_server():
    from flwr.app import Context, RecordDict

    return Context(1, 0, {}, RecordDict(), {})


@pytest.fixture
def run_of_flower(monkeypatch):
    """Messages can be made only where a run is."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.mark.usefixtures("run_of_flower")
def test_a_secure_sum_through_the_apps(tmp_path):
    from recyclegp.engines import flower

    apps = {node: flower.client_app(rows_of, secure=True) for node in range(1, 6)}

    def spoil(node, stage, content):
        if node == 2 and stage == 3:  # it drops out with its shares sent
            raise RuntimeError("gone")
        if node == 4 and stage == 1:
            content["sum"]["file"] = os.urandom(100)
        return content

    line = Line(apps, spoil)
    server = flower.server_app(tmp_path / "out", plan=PLAN, secure=True, owners=5, threshold=3)
    with pytest.warns(rgp.RecycleGPWarning) as warned:
        server(line, context_of_server())
    said = [str(w.message) for w in warned]
    assert any("ward-2 (node 2) does not answer: gone" in text for text in said)
    assert any("ward-4 (node 4): what it says is left out" in text for text in said)
    stayed = [rows_of(line.get(line.held[node])) for node in (1, 3, 5)]
    alone = PLAN.contribute(*map(np.concatenate, zip(*stayed, strict=True)), name="all", privacy="things")
    e = rgp.load(tmp_path / "out" / "ensemble.safetensors")
    for found, expected in zip(e.predict(T), PLAN.combine([alone])[0].predict(T), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-6)
    for node in (1, 3, 5):  # secrets are gone, and nothing more is answered
        assert "held" not in line.get(line.held[node]).state["sum"]
    server(line, context_of_server())  # what is in the folder is not asked for again
    assert line.stage == 4
    again = flower.server_app(tmp_path / "again", plan=PLAN, secure=True, owners=5)
    with pytest.warns(rgp.RecycleGPWarning) as warned, pytest.raises(rgp.RecycleGPError, match="only 0 owners"):
        again(line, context_of_server())
    assert sum("the secure sum of this run is done" in str(w.message) for w in warned) == 3
    for node in apps:  # another run of the series, with what the nodes held before
        context = line.get(line.held[node])
        context.run_id = 2
        line.held[node] = line.put(context)
    line.spoil = lambda node, stage, content: content
    again(line, context_of_server())
    assert rgp.load(tmp_path / "again" / "ensemble.safetensors").rows == 300


@pytest.mark.usefixtures("run_of_flower")
def test_an_owner_in_secure_sums_answers_nothing_else(tmp_path):
    from recyclegp.engines import flower

    line = Line({node: flower.client_app(rows_of, secure=True) for node in (1, 2)})
    with pytest.warns(rgp.RecycleGPWarning, match="secure sums only"), pytest.raises(rgp.RecycleGPError):
        flower.server_app(tmp_path / "plain", plan=PLAN)(line, context_of_server())
    other = rgp.Privacy(epsilon=1, delta=1e-6, bound=3.0)  # than the owners', who have none
    with pytest.warns(rgp.RecycleGPWarning, match="another privacy"), pytest.raises(rgp.RecycleGPError):
        flower.server_app(tmp_path / "private", plan=PLAN, secure=True, privacy=other)(line, context_of_server())
    for wrong in ({"plan": PLAN, "threshold": 2}, {"secure": True}):
        with pytest.raises(rgp.RecycleGPError, match="secure"):
            flower.server_app(tmp_path, **wrong)
    for wrong in ({"privacy": "things"}, {"kernel": "rbf"}):
        with pytest.raises(rgp.RecycleGPError, match=next(iter(wrong))):
            flower.client_app(rows_of, secure=True, **wrong)


# --- real processes -----------------------------------------------------------------------------------


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Federation:
    """Processes of one SuperLink and its SuperNodes, each the head of a group of its own."""

    def __init__(self, folder):
        self.folder, self.port, self.processes = folder, free_port(), {}
        (folder / "home").mkdir()
        address = (
            f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\ninsecure = true\n'
        )
        (folder / "home" / "config.toml").write_text(address)
        (folder / "home" / "sitecustomize.py").write_text(PATIENCE)
        self.environment = os.environ | {
            "FLWR_HOME": str(folder / "home"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "OMP_NUM_THREADS": "1",
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(folder / "home"),
        }
        link = ["flower-superlink", "--insecure", "--port", str(self.port), "--disable-runtime-dependency-installation"]
        self.start("link", link)

    def start(self, name, command):
        with open(self.folder / f"{name}.log", "wb") as log:
            self.processes[name] = subprocess.Popen(
                [BIN / command[0], *command[1:]],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,
            )

    def node(self, name, seed):
        known = ["--superlink", f"127.0.0.1:{self.port}", "--port", str(free_port())]
        config = f'name="{name}" seed={seed}'
        self.start(name, ["flower-supernode", "--insecure", *known, "--node-config", config])

    def run(self):
        """Hand the app in, as soon as the SuperLink answers."""
        command = [BIN / "flwr", "run", str(self.folder / "app"), "here"]
        for _ in range(20):
            done = subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True)
            if "Successfully started run" in done.stdout:
                return
            time.sleep(1)
        pytest.fail(done.stdout + done.stderr + self.log("link"))

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def wait_for(self, *parts, seconds=3 * WAIT):
        path, end = self.folder.joinpath(*parts), time.monotonic() + seconds
        while not path.exists():
            assert time.monotonic() < end, f"{path.name} has not come:\n{self.log('link')[-8000:]}"
            assert self.processes["link"].poll() is None, self.log("link")
            time.sleep(0.2)

    def kill(self, name):
        os.killpg(self.processes[name].pid, signal.SIGKILL)
        self.processes.pop(name).wait()

    def close(self):
        for name in list(self.processes):
            self.kill(name)


@pytest.fixture
def federation(tmp_path):
    app = tmp_path / "app"
    (app / "city").mkdir(parents=True)
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "city" / "__init__.py").touch()
    (app / "city" / "app.py").write_text(APP.format(folder=str(tmp_path), wait=WAIT))
    found = Federation(tmp_path)
    yield found
    found.close()


@pytest.mark.timeout(8 * WAIT)
def test_one_dies_one_is_late_and_one_sends_rubbish(federation):
    for seed, name in enumerate(("north", "south", "east", "odd")):
        federation.node(name, seed)
    federation.run()
    federation.wait_for("east-was-asked")
    federation.kill("east")
    federation.node("west", 4)
    federation.wait_for("out", "ensemble.safetensors", seconds=4 * WAIT)
    out = federation.folder / "out"
    e = rgp.load(out / "ensemble.safetensors")
    assert sorted(e.names) == ["east", "north", "south", "west"]
    last = rgp.load(max(out.glob("plan-*.safetensors")))
    first, second, *_ = last.history
    assert first["owners"] == 3
    assert "cannot be read, and is left out: not a complete recyclegp file" in federation.log("warnings")
    assert "east" in second["missing"]
    assert "odd" in second["left_out"]
    # what travelled is what these files hold: whoever combines them has the same plan
    now = rgp.load(out / "plan-0000.safetensors")
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for r in range(last.round):
            model, now = now.combine(sorted(out.glob(f"answer-{r:04d}-*.safetensors")))
    assert now.digest == last.digest
    assert any("no answer to this plan from east" in str(w.message) for w in warned)
    np.testing.assert_allclose(model.predict(T), e.predict(T), atol=1e-10)
