"""What the user's process, and jax's settings in it, do to a run: nothing, or a sentence."""

import contextlib
import os
import pickle
import signal
import warnings

import jax
import numpy as np
import pytest

import gradbias as gb
from gradbias.theorems import known

PROBLEM = gb.Regression.half_sum(np.eye(1), np.ones(1))
NET = gb.nets.linear(lambda p: p["a"])


def build(lr=0.1, **changes):
    given = {"until": gb.Until(steps=30), "save_at": [0, 30]} | changes
    return gb.Setup(PROBLEM, NET, {"a": np.zeros(1)}, gb.Descent(lr), **given)


RULES = {
    "debug_nans": lambda: jax.debug_nans(True),
    "debug_infs": lambda: jax.debug_infs(True),
    "transfer_guard": lambda: jax.transfer_guard("disallow"),
    "host_to_device": lambda: jax.transfer_guard_host_to_device("disallow_explicit"),
    "device_to_host": lambda: jax.transfer_guard_device_to_host("disallow_explicit"),
}


@pytest.mark.parametrize("rule", RULES)
def test_jax_may_be_strict_with_the_users_own_code(rule):
    usual = gb.simulate(build(), progress=False)
    with RULES[rule]():
        assert gb.simulate(build(), progress=False).data.equals(usual.data)
        assert gb.simulate(build(300.0), progress=False).status in ("diverged", "reached steps")
        found = gb.sweep(build, {"lr": [0.1, 0.2]}, progress=False)
    np.testing.assert_array_equal(found["loss"][0], usual.data["loss"])


@pytest.mark.parametrize("name", [".", "..", "x\0y", "", "a/b", "step"])
def test_names_that_a_file_cannot_hold_are_refused(name):
    with pytest.raises(ValueError, match="record must have names"):
        build(record={name: gb.observe.loss})


def test_theorems_of_papers_travel_by_their_id():
    for theorem in known().values():
        assert pickle.loads(pickle.dumps(theorem)) is theorem


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_a_fork_after_jax_has_started_is_refused():
    setup = build()
    gb.simulate(setup, progress=False)
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jax and Python warn of forks, too
        child = os.fork()
    if child == 0:
        signal.alarm(20)  # it used to wait for ever
        said = b"nothing"
        with contextlib.suppress(BaseException):
            try:
                gb.simulate(setup, progress=False)
            except RuntimeError as error:
                said = str(error).encode()
            os.write(writer, said)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        words = pipe.read().decode()
    assert os.waitpid(child, 0)[1] == 0
    assert "forked" in words and "spawn" in words
    assert gb.simulate(setup, progress=False).status == "reached steps"  # the parent goes on
