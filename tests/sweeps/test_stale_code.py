"""What a user's code refers to is part of what is run: in one process, with a store, in a pool."""

import concurrent.futures
import copy
import functools
import subprocess
import sys
import types
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias._sweeps import worker
from gradbias._sweeps.chunking import chunks_of
from gradbias._sweeps.grid import Grid
from gradbias._sweeps.job import Job
from gradbias._sweeps.members import Members
from gradbias._sweeps.pickling import pack, unpack
from gradbias.numerics import program_keys, source_version
from gradbias.numerics.fingerprint import imported_parts
from gradbias.theorems import fact

TARGET = np.array([1.0, 2.0])
PROBLEM = gb.Regression.half_mean(np.eye(2), TARGET)
START = np.full(2, 0.5)


def reference(scale, start=START, lr=0.1, shift=0.0):
    """Three steps of gradient descent on the net θ = scale·a, in NumPy."""
    a = start
    for _ in range(3):
        a = a - lr * scale * (scale * a - TARGET - shift) / 2
    return scale * a


def setup(net, record=None, dynamics=None, problem=PROBLEM, start=START):
    dynamics = gb.Descent(0.1) if dynamics is None else dynamics
    return gb.Setup(problem, net, {"a": start}, dynamics, gb.Until(steps=3), record, [3])


def simulated(*args, **kwargs):
    return gb.simulate(setup(*args, **kwargs), progress=False)


def cell(text, **names):
    """What a cell of a notebook defines."""
    space = {"__name__": "__main__", "gb": gb, "jax": jax, "jnp": jnp, "np": np, **names}
    exec(compile(text, "<cell>", "exec"), space)
    return space


NETS = {
    "a global": ("C = 2.0\ndef f(p): return C * p['a']", "C = 3.0"),
    "an array in place": ("A = np.full(2, 2.0)\ndef f(p): return A * p['a']", "A *= 1.5"),
    "a closure": ("c = [2.0]\nf = (lambda c: lambda p: c[0] * p['a'])(c)", "c[0] = 3.0"),
    "a helper run again": (
        "def g(a): return 2.0 * a\ndef f(p): return g(p['a'])",
        "def g(a): return 3.0 * a",
    ),
    "a jitted helper": (
        "C = 2.0\n@jax.jit\ndef g(a): return C * a\ndef f(p): return g(p['a'])",
        "C = 3.0",
    ),
    "a default": ("def f(p, c=2.0): return c * p['a']", "f.__defaults__ = (3.0,)"),
    "what cannot be seen": ("C = 2.0\ndef f(p): return globals()['C'] * p['a']", "C = 3.0"),
}


QUICK = ("a global", "an array in place", "a jitted helper", "what cannot be seen")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in NETS if name not in QUICK]


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_a_net_means_what_it_refers_to_now(name):
    first, second = NETS[name]
    space = cell(first)
    net = gb.nets.linear(space["f"])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="f looks names up")
        np.testing.assert_allclose(simulated(net).theta, reference(2.0), rtol=1e-12)
        exec(second, space)
        np.testing.assert_allclose(simulated(net).theta, reference(3.0), rtol=1e-12)


def test_classes_and_methods_that_change():
    class Scaled(gb.LinearNet):
        scale = 2.0

        def predictor(self, p):
            return self.scale * p["a"]

    assert np.allclose(simulated(Scaled()).theta, reference(2.0))
    Scaled.scale = 3.0
    assert np.allclose(simulated(Scaled()).theta, reference(3.0))
    Scaled.predictor = lambda self, p: 4.0 * p["a"]
    assert np.allclose(simulated(Scaled()).theta, reference(4.0))


def test_observables_losses_schedules_and_noise():
    space = cell(
        "C = 2.0\n"
        "def seen(problem, net, params): return C * jnp.sum(params['a'])\n"
        "def summed(problem, net, params, g, lr): return C * jnp.sum(params['a'])\n"
        "def loss(o, y): return C * (o - y) ** 2\n"
        "def rate(t): return C / 20 + 0 * t\n"
        "class Law(gb.noise.DataNoise):\n"
        "    def draw(self, key, n, k=1): return None, C * jnp.ones((n, k))\n"
        "    def moments(self, n): return None, 0.0\n"
    )
    net = gb.nets.linear(lambda p: p["a"])
    samples = gb.Samples(space["loss"], np.eye(2), TARGET)
    record = {"seen": space["seen"], "summed": gb.observe.running(space["summed"])}

    def values():
        run = simulated(net, record).data
        return [
            *(float(run[name][-1]) for name in ("seen", "summed")),
            simulated(net, problem=samples).final["a"],
            simulated(net, dynamics=gb.Descent(space["rate"])).theta,
            simulated(net, dynamics=gb.Descent(0.1, space["Law"]())).theta,
        ]

    two = values()
    space["C"] = 3.0
    three = values()
    assert three[:2] == [pytest.approx(1.5 * value) for value in two[:2]]
    for found, c in ((two, 2.0), (three, 3.0)):
        # C(o − y)² summed over both is the squared loss with 4C times the learning rate of Σ/2n.
        np.testing.assert_allclose(found[2], reference(1.0, lr=0.2 * c), rtol=1e-12)
        np.testing.assert_allclose(found[3], reference(1.0, lr=c / 20), rtol=1e-12)
        np.testing.assert_allclose(found[4], reference(1.0, shift=c), rtol=1e-12)


def test_facts_about_a_setup_are_forgotten_when_its_code_changes():
    space = cell("C = 2.0\ndef f(p): return C * p['a']")
    made, calls = setup(gb.nets.linear(space["f"])), []

    @fact
    def predictor(setup):
        calls.append(space["C"])
        return float(setup.net.predictor({"a": 1.0}))

    assert [predictor(made), predictor(made)] == [2.0, 2.0]
    space["C"] = 3.0
    assert [predictor(made), predictor(made)] == [3.0, 3.0]
    assert calls == [2.0, 3.0]


@pytest.mark.slow
def test_check_predicts_and_runs_with_what_code_refers_to_now():
    space = cell(
        "C = 1.0\n"
        "class Net(gb.LinearNet):\n"
        "    def shapes(self): return {'a': (2,), 'b': (2,)}\n"
        "    def predictor(self, p): return C * p['a'] * p['b']\n"
        "    def symmetries(self): return {'ab': gb.symmetry.neurons({'a': 0}, {'b': 0})}\n"
    )
    start = {"a": np.array([0.5, 0.6]), "b": np.array([0.4, 0.3])}
    made = gb.Setup(PROBLEM, space["Net"](), start, gb.Descent(0.05), gb.Until(steps=20),
                    {"params": gb.observe.params}, [0, 20])  # fmt: skip
    for c in (1.0, 3.0):
        space["C"] = c
        a, b = start["a"], start["b"]
        for _ in range(20):
            g = (c * a * b - TARGET) / 2
            a, b = a - 0.05 * c * b * g, b - 0.05 * c * a * g
        study = gb.check(made, "equilibrium.eq98", progress=False)
        np.testing.assert_allclose(study.run.final["a"], a, rtol=1e-12)


def scaled(c):
    def base(p):
        return p["a"]

    @functools.wraps(base)
    def wrapped(p):
        return c * base(p)

    return wrapped


def attribute_of_a_class(c):
    class Settings:
        scales = [c]  # noqa: RUF012

    return lambda p: Settings.scales[0] * p["a"]


def added_attribute(c):
    class Number(float):
        pass

    number = Number(1.0)
    number.c = c
    return lambda p: number.c * p["a"]


@pytest.mark.parametrize("make", [scaled, attribute_of_a_class, added_attribute])
def test_members_share_a_program_only_if_they_are_equal(make):
    data = gb.sweep(lambda c: setup(gb.nets.linear(make(c))), {"c": [2.0, 3.0]}, progress=False)
    expected = [reference(2.0), reference(3.0)]
    np.testing.assert_allclose(data["theta"].values[:, 0], expected, rtol=1e-12)


def test_backward_rules_that_differ():
    def build(c):
        @jax.custom_vjp
        def passed(a):
            return 1.0 * a

        passed.defvjp(lambda a: (1.0 * a, None), lambda _, g: (c * g,))
        return setup(gb.nets.linear(lambda p: passed(p["a"])))

    data = gb.sweep(build, {"c": [2.0, 3.0]}, progress=False)
    expected = [reference(1.0, lr=0.1 * c) for c in (2.0, 3.0)]
    np.testing.assert_allclose(data["theta"].values[:, 0], expected, rtol=1e-12)


@pytest.mark.parametrize("threads", [False, True])
def test_a_sweep_and_its_store_mean_what_code_refers_to_now(tmp_path, threads):
    space = cell("C = 2.0\ndef f(p): return C * p['a']")
    net = gb.nets.linear(space["f"])

    def swept(store):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            return gb.sweep(lambda s: setup(net, start=START + s), {"s": [0, 1]}, store=store,
                            executor=pool if threads else None, progress=False)  # fmt: skip

    for c in (2.0, 3.0):
        space["C"] = c
        data = swept(tmp_path / f"store {c}")
        expected = [reference(c, START + s) for s in (0, 1)]
        np.testing.assert_allclose(data["theta"].values[:, 0], expected, rtol=1e-12)
        data.close()
    with pytest.raises(ValueError, match=r"net.function.C: stored 2.0, now 3.0"):
        swept(tmp_path / "store 2.0")


def test_a_module_of_the_users_own_is_part_of_a_store(tmp_path):
    helpers = types.ModuleType("helpers")
    helpers.measure = lambda params: params["a"].sum()
    seen = cell("def f(problem, net, params): return helpers.measure(params)", helpers=helpers)
    net = gb.nets.linear(lambda p: p["a"])

    def swept():
        return gb.sweep(lambda s: setup(net, {"x": seen["f"]}), {"s": [0]}, store=tmp_path / "s")

    swept().close()
    swept().close()
    helpers.measure = lambda params: 100 * params["a"].max()
    with pytest.raises(ValueError, match=r"record.x.function.helpers.measure: stored"):
        swept()


def test_what_cannot_be_seen_is_said_once_and_refused_by_a_store(tmp_path):
    space = cell("C = 2.0\ndef looked_up(p): return globals()['C'] * p['a']")
    net = gb.nets.linear(space["looked_up"])
    with pytest.warns(UserWarning, match="looked_up looks names up while it runs: gradbias cannot"):
        simulated(net)
    simulated(net)
    with pytest.raises(ValueError, match="store: net.function.builtins.globals looks names up"):
        gb.sweep(lambda s: setup(net), {"s": [0]}, store=tmp_path / "store")


def test_a_build_that_changes_what_members_refer_to_is_refused():
    """All members run after all are built: they would see the last value."""
    scale = [0.0]
    net = gb.nets.linear(lambda p: scale[0] * p["a"])

    def build(c):
        scale[0] = c
        return setup(net)

    with pytest.raises(ValueError, match=r"build changes what .*scale.0 was 2.0 .* is 3.0"):
        gb.sweep(build, {"c": [2.0, 3.0]}, progress=False)


def test_a_worker_with_another_module_refuses(tmp_path, monkeypatch):
    (tmp_path / "own_module.py").write_text("K = 2.0\ndef g(a): return K * a\n")
    monkeypatch.syspath_prepend(tmp_path)
    own_module = __import__("own_module")
    space = cell("def f(p): return own_module.K * p['a']", own_module=own_module)
    made = setup(gb.nets.linear(space["f"]))
    parts = imported_parts(program_keys.code_in(made).values())
    assert list(parts) == ["own_module:K"]
    roster = Members(lambda s: made, Grid.of({"s": [0]}), None, False)
    (chunk,) = chunks_of(roster, None)
    job = Job(chunk.starts(roster), 1, chunk.group.own, "", None, tuple(parts.items()))
    content = pack(job)
    assert not isinstance(worker.work(content), worker.Failure)
    monkeypatch.setattr(own_module, "K", 3.0)
    failed = worker.work(content)
    assert isinstance(failed, worker.Failure)
    assert "own_module.K is not the same on the worker" in str(failed.error())
    monkeypatch.delitem(sys.modules, "own_module")


@pytest.mark.parametrize("kind", ["jit", "custom_vjp", "custom_jvp"])
def test_functions_of_jax_travel_to_a_worker_and_are_read_there(kind):
    space = cell(
        "C = 2.0\n"
        "jit = jax.jit(lambda a: C * a)\n"
        "custom_vjp = jax.custom_vjp(lambda a: C * a)\n"
        "custom_vjp.defvjp(lambda a: (C * a, None), lambda _, g: (3.0 * g,))\n"
        "custom_jvp = jax.custom_jvp(lambda a: C * a)\n"
        "custom_jvp.defjvp(lambda a, t: (C * a[0], 3.0 * t[0]))\n"
    )
    there = unpack(pack(space[kind]))
    assert jax.value_and_grad(there)(1.5) == (3.0, 2.0 if kind == "jit" else 3.0)
    assert program_keys.code_key(there) == program_keys.code_key(there)


def test_own_nets_have_no_code_of_the_user_and_keep_their_programs():
    net = gb.TwoLayer(2, 1, 3)
    made = gb.Setup(PROBLEM, net, gb.init.gaussian(net, 0.4, key=0), gb.Descent(0.1))
    assert program_keys.code_in(made) == {}
    assert program_keys.code_key(made) == frozenset()


def test_a_setup_remembers_its_code_unless_other_code_can_be_put_into_it():
    class Layered(gb.LinearNet):
        layers: list

        def predictor(self, p):
            return self.layers[0](p["a"])

    plain = setup(gb.nets.linear(lambda p: p["a"]))
    assert program_keys.code_in(plain) is program_keys.code_in(plain)
    assert "own_code" not in vars(copy.copy(plain))
    layered = setup(Layered([lambda a: 2.0 * a]))
    before = program_keys.code_key(layered)
    layered.net.layers[0] = lambda a: 3.0 * a
    assert program_keys.code_key(layered) != before


def test_a_setup_that_code_refers_to_is_the_same_after_it_has_run():
    made = setup(gb.nets.linear(lambda p: p["a"]))
    before = program_keys.code_key(lambda: made.net)
    gb.simulate(made)
    assert program_keys.code_key(lambda: made.net) == before


def test_the_same_code_is_compiled_once():
    space = cell("C = 2.0\ndef f(p): return C * p['a']")
    net = gb.nets.linear(space["f"])
    simulated(net)
    assert simulated(net).stats["compilations"] == 0


def test_the_version_in_a_store_is_the_content_of_the_source(tmp_path):
    (tmp_path / "torch").mkdir()
    for name in ("a.py", "torch/b.py"):
        (tmp_path / name).write_text("x = 1\n")
    first = source_version._hash(tmp_path)
    (tmp_path / "torch" / "b.py").write_text("x = 2\n")  # computes no results
    assert source_version._hash(tmp_path) == first
    (tmp_path / "a.py").write_text("x = 2\n")
    assert source_version._hash(tmp_path) != first
    assert source_version.source_version().startswith(gb.__version__)


SCRIPT = """
import sys
import gradbias as gb, jax, jax.numpy as jnp, numpy as np
import own_helpers

problem = gb.Regression.half_mean(np.eye(2), np.array([1.0, 2.0]))
net = gb.nets.linear(lambda p: own_helpers.scale(p["a"]))

def build(s):
    return gb.Setup(problem, net, {"a": np.full(2, 0.5 + s)}, gb.Descent(0.1), gb.Until(steps=3),
                    save_at=[3])

try:
    data = gb.sweep(build, {"s": [0]}, store="store", executor=1, progress=False)
    print(data["theta"].values.ravel().tolist())
except ValueError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_module_edited_between_two_processes_is_noticed_in_a_pool(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    said = []
    for factor in (2.0, 2.0, 3.0):
        (tmp_path / "own_helpers.py").write_text(f"K = {factor}\ndef scale(a): return K * a\n")
        command = [sys.executable, "script.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        said.append(done.stdout.strip())
    assert said[0] == said[1] == str(reference(2.0).tolist())
    assert "net.function.own_helpers.scale.K: stored 2.0, now 3.0" in said[2]
