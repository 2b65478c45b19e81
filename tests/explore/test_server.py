"""The server: to this machine alone, and every refusal is a sentence."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import gradbias
from gradbias.cli import main
from gradbias.explore import SCENES, Server


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asked(server, path, host=None, method="GET"):
    """Status, headers and body of an answer."""
    port = server.server_address[1]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, headers={"Host": host or f"127.0.0.1:{port}"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, dict(answer.headers), body


def test_it_listens_to_this_machine_alone(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.address == f"http://127.0.0.1:{server.server_address[1]}/"


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/page.css", "text/css"),
        ("/page.js", "text/javascript"),
        ("/drawing.js", "text/javascript"),
        ("/scenes", "application/json"),
    ],
)
def test_what_the_page_needs_is_there_and_asks_for_nothing_else(server, path, kind):
    status, headers, body = asked(server, path)
    assert status == 200
    assert headers["Content-Type"] == f"{kind}; charset=utf-8"
    assert headers["Content-Security-Policy"].startswith("default-src 'self'")
    assert "Server" not in headers or "Python" not in headers["Server"]
    assert body.replace(b"http://www.w3.org/2000/svg", b"").count(b"http") == 0
    assert len(body) < 20_000


def test_scenes_are_listed_with_their_sliders(server):
    listed = json.loads(asked(server, "/scenes")[2])["scenes"]
    assert [one["id"] for one in listed] == [scene.id for scene in SCENES]
    assert all(one["controls"] and one["look"].endswith(".") for one in listed)


def test_a_state_is_taken_from_the_address(server):
    scene = SCENES[0]
    for what in ("predicted", "theorems"):
        status, _, body = asked(server, f"/{what}/{scene.id}?alpha=0.3&depth=3")
        assert status == 200
        state = scene.state({"alpha": 0.3, "depth": 3})
        content = json.loads(body)
        if what == "predicted":
            assert content == json.loads(json.dumps(scene.predicted(state)))
        else:
            assert content["code"] == scene.code(state)
            assert "alpha = 0.3" in content["code"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/predicted/which_minimum?alpha=7", 400, "alpha must be a number from 0.01 to 2, got '7'"),
        ("/predicted/which_minimum?alpha=", 400, "alpha must be a number from 0.01 to 2, got ''"),
        ("/predicted/which_minimum?beta=7", 400, "which_minimum has no control 'beta'"),
        ("/simulated/which_minimum?x1=0&x2=0", 400, "the data point (x1, x2) must be"),
        ("/predicted/nothing", 400, "scene must be one of which_minimum"),
        ("/../../etc/passwd", 404, "there is nothing at '/../../etc/passwd'"),
        ("/predicted/which_minimum?" + "a" * 3000, 414, "at most 2000 characters"),
    ],
)
def test_a_refusal_is_a_sentence(server, path, status, words):
    found, _, body = asked(server, path)
    assert found == status
    assert json.loads(body)["error"].startswith(words)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1:1", "evil.example:80"])
def test_other_names_are_refused(server, host):
    """A site elsewhere that lets its own name point to this machine gets nothing."""
    status, _, body = asked(server, "/scenes", host)
    assert status == 403
    assert "this server answers to 127.0.0.1 and localhost only" in json.loads(body)["error"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_there_is_nothing_but_get(server, method):
    assert asked(server, "/scenes", method=method)[0] == 501


def test_warming_up_compiles_what_sliders_ask_for(monkeypatch):
    called = []
    for scene in SCENES:
        monkeypatch.setitem(vars(scene), "simulated", lambda s, scene=scene: called.append(scene))
        monkeypatch.setattr(type(scene), "theorems", lambda self, state: [])
    with Server() as server:
        server._compile()
    assert len(called) == sum(len(scene.warm) for scene in SCENES)
    assert called[: len(SCENES)] == list(SCENES)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["explore", "nothing"], "scene must be one of which_minimum"),
        (["explore", "--port", "70000", "--no-browser"], "port must be at most 65535, got 70000"),
        (
            ["explore", "--port", "-1", "--no-browser"],
            "port must be a whole number of at least 0, got -1",
        ),
    ],
)
def test_the_command_refuses_with_a_sentence(words, said, capsys):
    assert main(words) == 3
    assert said in capsys.readouterr().err


def test_the_command_opens_the_page_and_ends_with_ctrl_c(monkeypatch, capsys):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr(Server, "warm_up", lambda self: None)

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "serve_forever", interrupted)
    assert main(["explore", "label_noise"]) == 0
    assert opened == [next(w for w in capsys.readouterr().out.split() if "http" in w).rstrip(";")]
    assert opened[0].endswith("/#label_noise")


def test_ctrl_c_while_something_is_compiled_is_a_quiet_end():
    """A thread that jax compiles in must not outlive the interpreter."""
    source = str(Path(gradbias.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "JAX_COMPILATION_CACHE_DIR": ""}
    # Shells ignore the signal for background jobs, and what they start inherits that.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from gradbias.cli import main; sys.exit(main(['explore', '--no-browser']))"
    )
    command = [sys.executable, "-c", code]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, env=environment, **pipes) as process:
        assert process.stdout.readline().startswith("the explorer is at http://127.0.0.1:")
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        try:
            out, said = process.communicate(timeout=60)
        finally:
            process.kill()  # or leaving the block would wait for ever
    assert (process.returncode, out, said) == (0, "ended\n", "")
