"""What a hostile user tries: odd sizes, extreme scales, strange inputs, broken files and hosts."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading

import equinox as eqx
import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from cases import case

PROBLEM, NET, PARAMS = case("two layers")
X, Y = PROBLEM.X, PROBLEM.Y


def setup(dynamics=None, **changes):
    given = {"problem": PROBLEM, "net": NET, "params": PARAMS, **changes}
    return gb.Setup(**given, dynamics=dynamics or gb.Descent(0.03))


def simulated(dynamics=None, reduce=True, **changes):
    changes = {"until": gb.Until(steps=20)} | changes
    return gb.simulate(setup(dynamics, **changes), reduce)


@contextlib.contextmanager
def within(seconds):
    """A run that never ends is a failure, not a session that never ends."""

    def late(*_):
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


# --- sizes and scales -------------------------------------------------------------------------

SIZES = {
    "one sample": (gb.TwoLayer(4, 1, 6), 1, 4, 1),
    "one of everything": (gb.TwoLayer(1, 1, 1), 1, 1, 1),
    "more outputs than inputs": (gb.Deep([4, 3, 8, 7]), 5, 4, 7),
    "pairs of width one": (gb.Rank1(4, 3, 1), 5, 4, 1),
}


@pytest.mark.parametrize("name", SIZES)
def test_odd_sizes(name):
    net, n, d, k = SIZES[name]
    rng = np.random.default_rng(3)
    problem = gb.Regression.mean(rng.normal(size=(n, d)), rng.normal(size=(n, k)))
    moves = gb.Descent(0.01, momentum=0.5, weight_decay=0.01)
    runs = [
        simulated(moves, reduce, problem=problem, net=net, params=gb.init.gaussian(net, 0.7))
        for reduce in (True, False)
    ]
    assert runs[0].stats["reduction"] != "none"
    for key, value in runs[1].final.items():
        np.testing.assert_allclose(runs[0].final[key], value, rtol=0, atol=1e-13)


@pytest.mark.parametrize("gamma", [1e-12, 1e-100, 1e-300])
def test_the_orthogonal_init_of_no_size_finds_the_min_norm_solution(gamma):
    net = gb.TwoLayer(9, 2, 12)
    params = gb.init.orthogonal(net, gamma)
    run = simulated(gb.Flow(), net=net, params=params, until=gb.Until(gap=1e-20, time=1e4))
    assert run.status == "converged"
    np.testing.assert_allclose(run.theta, PROBLEM.min_norm, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    "scale",
    [1e-30, 1e-100, 1e-200],
)
def test_gaussian_inits_of_no_size_leave_the_saddle(scale):
    params = {name: scale * value for name, value in PARAMS.items()}
    run = simulated(gb.Flow(), params=params, until=gb.Until(gap=1e-20, time=1e4))
    assert run.status == "converged"


def test_labels_of_zero_and_data_of_zero():
    zero = simulated(problem=gb.Regression.mean(X, 0 * Y), until=gb.Until(gap=1e-12))
    assert zero.status == "converged"
    np.testing.assert_allclose(X @ zero.theta, 0, atol=1e-5)
    nothing = simulated(problem=gb.Regression.mean(0 * X, Y), until=gb.Until(gap=1e-12))
    assert nothing.status.at == 0
    for name, value in PARAMS.items():
        np.testing.assert_array_equal(nothing.final[name], value)


def test_a_population_that_does_not_see_a_direction():
    problem = gb.Population(np.diag([1.0, 2.0, 0.0]), np.ones((2, 3)), 0.1 * np.eye(2))
    net = gb.TwoLayer(3, 2, 5)
    params = gb.init.gaussian(net, 0.3)
    for reduce in (True, False):
        run = simulated(gb.Flow(), reduce, problem=problem, net=net, params=params, until=None)
        assert run.status == "converged"
        np.testing.assert_allclose(run.theta[:2], 1.0, atol=1e-5)
        np.testing.assert_allclose(run.final["W1"][2], params["W1"][2], rtol=0, atol=1e-14)


# --- nets -------------------------------------------------------------------------------------

ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "leaky": lambda x: np.where(x > 0, x, 0.01 * x),
    "tanh": np.tanh,
    "swish": lambda x: x / (1 + np.exp(-x)),
    "linear": lambda x: x,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_in_numpy(name):
    net = gb.MLP([9, 5, 2], name)
    p = gb.init.gaussian(net, {"W1": 1.0, "b1": 1.0, "W2": 1.0, "b2": 1.0})
    wanted = ACTIVATIONS[name](X @ p["W1"] + p["b1"]) @ p["W2"] + p["b2"]
    with gb.float64():
        got = np.asarray(net(jax.tree.map(jnp.asarray, p), jnp.asarray(X)))
    np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("kind", [gb.NormalisedA, gb.NormalisedB])
def test_normalised_nets_term_by_term(kind):
    net = kind(9, 2, 4)
    p = gb.init.gaussian(net, 1.0)
    u, w = p["u"], p["w"]
    norms = np.linalg.norm(w), np.linalg.norm(u)
    outer, inner = norms if kind is gb.NormalisedA else norms[::-1]
    wanted = [sum(u[:, j] / outer * np.tanh(w[j] @ x / inner) for j in range(4)) for x in X]
    with gb.float64():
        got = np.asarray(net(jax.tree.map(jnp.asarray, p), jnp.asarray(X)))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-14)


def nested():
    net = gb.nets.linear(lambda p: p["a"]["b"] @ p["a"]["c"][0])
    rng = np.random.default_rng(0)
    return net, {"a": {"b": rng.normal(size=(9, 4)), "c": [rng.normal(size=(4, 2))]}}


def test_parameters_may_be_any_pytree():
    net, params = nested()
    run = simulated(net=net, params=params, record=[gb.observe.params])
    assert jax.tree.structure(run.final) == jax.tree.structure(params)
    assert list(run.data) == ["params_a_b", "params_a_c_0"]


def test_parameters_may_be_a_module():
    module = eqx.nn.Linear(9, 2, key=jax.random.key(0), use_bias=False)
    with pytest.warns(UserWarning, match="float32"):
        run = simulated(net=gb.nets.linear(lambda p: p.weight.T), params=module)
    assert isinstance(run.final, eqx.nn.Linear)
    assert run.final.weight.dtype == np.float64


def test_a_list_of_parameters_can_be_recorded():
    net = gb.nets.linear(lambda p: p[0] @ p[1])
    run = simulated(net=net, params=[PARAMS["W1"], PARAMS["W2"]], record=[gb.observe.params])
    assert list(run.data) == ["params_0", "params_1"]


def test_logistic_loss_with_everything_on_is_the_loop_that_people_write():
    rng = np.random.default_rng(0)
    labels, rows = np.sign(rng.normal(size=6)), rng.integers(0, 6, size=(60, 3))
    net = gb.Deep([9, 4, 1])
    p = gb.init.gaussian(net, 0.5)
    problem = gb.Samples(lambda f, y: jnp.logaddexp(0.0, -y * f), X, labels)
    moves = gb.Descent(0.1, gb.Replay(rows), momentum=0.9, weight_decay=0.01)
    run = simulated(moves, problem=problem, net=net, params=p, until=gb.Until(steps=60))
    v = {name: 0 * value for name, value in p.items()}
    for row in rows:
        f = (X[row] @ p["W1"] @ p["W2"])[:, 0]
        G = X[row].T @ (-labels[row] / (1 + np.exp(labels[row] * f)) / 3)[:, None]
        grads = {"W1": G @ p["W2"].T, "W2": p["W1"].T @ G}
        v = {name: 0.9 * v[name] + grads[name] + 0.02 * p[name] for name in p}
        p = {name: p[name] - 0.1 * v[name] for name in p}
    for name, value in p.items():
        np.testing.assert_allclose(run.final[name], value, rtol=0, atol=1e-13)


# --- where runs end ---------------------------------------------------------------------------

UNIT = gb.Regression.mean([[1.0]], [1.0])
LINE = {"problem": UNIT, "net": gb.Deep([1, 1]), "params": {"W1": [[0.0]]}}
SQUARE = {"problem": UNIT, "net": gb.Deep([1, 1, 1]), "params": {"W1": [[0.9]], "W2": [[0.9]]}}


@pytest.mark.parametrize(("given", "lr"), [(LINE, 1.0), (SQUARE, 0.55)])
def test_a_cycle_is_not_convergence(given, lr):
    run = simulated(gb.Descent(lr), **given, until=gb.Until(gap=1e-12, steps=3001), save_at=[3001])
    assert run.status == "reached steps"


@pytest.mark.parametrize(("given", "lr"), [(LINE, 1.0), (SQUARE, 0.55)])
def test_a_cycle_goes_on(given, lr):
    """Beyond 2/sharpness descent settles on orbits of period two, exactly so in floating point."""
    run = simulated(gb.Descent(lr), **given, until=gb.Until(steps=3001), save_at=[2999, 3000, 3001])
    theta = run.data["theta"].values[:, 0]
    assert theta[0] == theta[2] != theta[1]


def test_the_step_of_a_divergence_by_hand():
    """w = 1 − (−5)^k leaves float64 at k = 442; its update at 441, where nothing is fused."""
    run = simulated(gb.Descent(3.0), **LINE, until=gb.Until(steps=10_000))
    assert run.status == "diverged"
    assert run.status.at in (441, 442)
    assert np.isfinite(run.final["W1"]).all()


def test_a_run_that_ends_before_its_first_save_has_all_variables():
    run = simulated(gb.Descent(3.0), **LINE, until=gb.Until(steps=10_000), save_at=[9000, 10_000])
    assert np.isnan(run.data["loss"].values).all()
    assert run.data["theta"].shape == (2, 1)


def test_the_step_of_a_late_divergence_is_shown_in_full():
    from gradbias._engine.status import Ending, Status

    assert str(Status(Ending.DIVERGED, 1234567, "step")) == "diverged at step 1234567"


@pytest.mark.parametrize(("lr", "ending"), [(1e-9, "reached steps"), (1e-18, "steps too small")])
def test_a_short_run_is_not_stuck(lr, ending):
    """Nor is one at rest whose steps are lost in the rounding of the parameters."""
    assert simulated(gb.Descent(lr)).status == ending


@pytest.mark.parametrize("moves", [gb.Descent(0.1), gb.Flow()])
def test_one_layer_has_no_saddle(moves):
    net = gb.Deep([9, 2])
    until = gb.Until(time=100.0)
    slow = gb.Regression.half_mean(1e-8 * X, Y)
    run = simulated(moves, problem=slow, net=net, params={"W1": np.zeros((9, 2))}, until=until)
    assert run.status in ("reached steps", "reached time")


@pytest.mark.parametrize("moves", [gb.Descent(0.03), gb.Flow()])
def test_too_narrow_a_net_ends_at_its_own_minimum_even_without_a_limit(moves):
    net = gb.TwoLayer(9, 2, 1)
    params = gb.init.gaussian(net, 0.3)
    run = simulated(moves, net=net, params=params, until=gb.Until(gap=1e-12))
    assert run.status == "stationary"


def test_a_loss_may_be_negative():
    problem = gb.Samples(lambda f, y: -f * y, X, np.ones(6))
    given = {"problem": problem, "net": gb.Deep([9, 1]), "params": {"W1": np.zeros((9, 1))}}
    assert simulated(gb.Descent(0.1), **given, until=gb.Until(steps=500)).status == "reached steps"


def test_a_flow_that_only_a_gap_ends_goes_on_for_as_long_as_it_takes():
    """The logistic loss falls like 1/t: a gap of 1e-9 takes a time of some 1e9."""
    problem = gb.Samples(lambda f, y: jnp.logaddexp(0.0, -y * f), X, np.sign(Y[:, 0]))
    given = {"problem": problem, "net": gb.Deep([9, 1]), "params": {"W1": np.zeros((9, 1))}}
    run = simulated(gb.Flow(), **given, until=gb.Until(gap=1e-9))
    assert run.status == "converged"
    assert run.status.at > 1e8


def test_a_flow_without_a_gradient_ends():
    net = gb.NormalisedA(9, 2, 4)
    params = {"u": np.zeros((2, 4)), "w": np.ones((4, 9))}
    with within(100):
        run = simulated(gb.Flow(), net=net, params=params, until=gb.Until(time=1.0))
    assert run.status in ("diverged", "integrator failed")


def test_flow_of_a_relu_net_does_not_hover():
    net = gb.MLP([9, 7, 2], "relu")
    problem = gb.Regression.half_mean(*relu_data())
    with within(100):
        simulated(
            gb.Flow(), problem=problem, net=net, params=gb.init.kaiming(net),
            until=gb.Until(time=0.1),
        )  # fmt: skip


def relu_data():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(6, 9))
    return inputs, inputs @ rng.normal(size=(9, 2))


def test_the_sentence_is_about_what_was_asked():
    assert "gap" not in simulated(until=gb.Until(steps=20)).status.sentence


def test_saves_and_stops_at_the_edges():
    np.testing.assert_array_equal(simulated(save_at=[0]).data["step"], [0])
    last = simulated(save_at=[20])
    assert float(last.data["loss"][0]) == pytest.approx(PROBLEM.loss(last.theta))
    np.testing.assert_array_equal(simulated(until=gb.Until(steps=1)).data["step"], [0, 1])
    done = simulated(until=gb.Until(gap=1e3))
    assert done.status.at == 0
    assert np.isfinite(done.data["loss"].values).tolist() == [True] + [False] * 199
    flow = simulated(gb.Flow(), until=gb.Until(gap=1e3))
    assert np.ptp(flow.data["loss"].values) == 0
    never = simulated(until=gb.Until(steps=99, gap=1.0, check_every=1000))
    assert never.status == "reached steps"


# --- schedules, noise -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cosine", "line", "table"])
def test_a_schedule_needs_to_exist_only_while_it_runs(kind):
    rates = np.full(50, 0.02)
    schedule = {
        "cosine": lambda k: 0.02 * (1 + np.cos(np.pi * k / 50)),
        "line": lambda k: 0.02 * (1 - k / 50),
        "table": lambda k: rates[k],
    }[kind]
    assert simulated(gb.Descent(schedule), until=gb.Until(steps=50)).status.at == 50


def test_a_schedule_that_turns_negative_is_refused_before_the_run():
    with pytest.raises(ValueError, match="lr must be greater than 0"):
        setup(gb.Descent(lambda k: 0.01 if k < 5000 else -1.0), until=gb.Until(steps=6000))


def test_label_noise_on_fresh_samples():
    rng = np.random.default_rng(0)
    problem = gb.Population(np.eye(3), np.ones((2, 3)), np.eye(2))
    net = gb.TwoLayer(3, 2, 5)
    fresh = rng.normal(size=(20, 2, 3)), rng.normal(size=(20, 2, 2))
    moves = gb.Descent(0.05, gb.Replay(label_noise=rng.normal(size=(20, 2, 2)), samples=fresh))
    given = {"problem": problem, "net": net, "params": gb.init.gaussian(net, 0.3)}
    small, full = (simulated(moves, reduce, **given) for reduce in (True, False))
    np.testing.assert_allclose(small.theta, full.theta, rtol=0, atol=1e-10)


# --- what goes in -----------------------------------------------------------------------------


class Frame:
    """What numpy sees of a data frame."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return self.values


def test_anything_that_numpy_takes():
    for inputs, labels in ((X.tolist(), Y.tolist()), (Frame(X), Frame(Y))):
        problem = gb.Regression.half_mean(inputs, labels)
        np.testing.assert_array_equal(simulated(problem=problem).theta, simulated().theta)
    with pytest.warns(UserWarning, match="X is float32"):
        assert gb.Regression.mean(jnp.asarray(X), Y).X.dtype == np.float64


def test_masked_data_are_refused():
    with pytest.raises(ValueError, match="X"):
        gb.Regression.mean(np.ma.array(X, mask=X > 0), Y)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: gb.Regression.mean(x * np.ones((6, 9)), Y),
        lambda x: gb.init.gaussian(NET, x),
        lambda x: gb.init.balanced(NET, x * np.ones((9, 2))),
        lambda x: gb.Population(np.eye(3), x * np.ones((2, 3)), np.eye(2)),
        lambda x: setup(params={**PARAMS, "W1": x * np.ones((9, 30))}),
        lambda x: gb.Replay(label_noise=x * np.ones((3, 2))),
    ],
)
def test_tracers_are_refused_everywhere(function):
    with pytest.raises(ValueError, match="traced"):
        jax.jit(lambda x: function(x) and x)(1.0)


def test_a_run_inside_jit_is_refused_with_a_sentence():
    problem = gb.Regression.half_mean(X, Y)  # its own: jax remembers constants
    with pytest.raises(ValueError, match="jit"):
        jax.jit(lambda x: x + simulated(problem=problem).theta.sum())(1.0)


def test_a_net_that_ran_in_single_precision_before():
    scale = np.linspace(0.5, 1.5, 18).reshape(9, 2)

    def predictor(params):
        return params["w"] * scale

    with jax.enable_x64(False):
        jax.jit(predictor)({"w": jnp.ones((9, 2))})
    with pytest.warns(UserWarning, match="use a copy"):
        setup(net=gb.nets.linear(predictor), params={"w": np.ones((9, 2))})


def test_data_that_a_program_in_single_precision_saw_before():
    problem = gb.Regression.half_mean(X, Y)
    with jax.enable_x64(False):
        program = jax.jit(lambda theta: jnp.sum((problem.X @ theta) ** 2))
        program(jnp.ones((9, 2)))
    simulated(problem=problem)  # no warning about single precision


def test_reduce_is_true_or_false():
    with pytest.raises(ValueError, match="reduce"):
        simulated(reduce="no")


@pytest.mark.parametrize("until", [{"steps": 10**20}, {"time": 1e300}])
def test_a_limit_beyond_all_counting_is_refused(until):
    with pytest.raises(ValueError, match="until"):
        setup(until=gb.Until(**until))


def test_a_whole_number_as_gap_compiles_nothing_new():
    given = {"save_at": [0, 1, 2]}
    simulated(**given, until=gb.Until(gap=0.5, steps=7))
    assert simulated(**given, until=gb.Until(gap=1, steps=7)).stats["compilations"] == 0


# --- what is recorded -------------------------------------------------------------------------


def first(problem, net, params):
    return params["W1"][0]


def total(problem, net, params):
    return jnp.sum(params["W1"])


def parts(problem, net, params):
    return {"b": jnp.sum(params["W1"])}


@pytest.mark.parametrize(
    "record",
    [
        {"a": parts, "a_b": first},
        {"x": first, "x_0": total},
        {"theta": gb.observe.theta, "feature": total},
    ],
)
def test_names_that_collide_are_refused_or_kept_apart(record):
    try:
        run = simulated(record=record)
    except ValueError as error:
        assert "record" in str(error)
    else:
        assert len(run.data.data_vars) == 2


@pytest.mark.parametrize(
    "function",
    [
        lambda problem, net, params: jnp.sum(params["W1"]) * 1j,
        lambda problem, net, params: np.zeros(int(50 * abs(np.sum(np.asarray(params["W1"]))))),
    ],
    ids=["complex", "ragged"],
)
@pytest.mark.filterwarnings("ignore")
def test_what_cannot_be_recorded_is_named(function):
    with pytest.raises(ValueError, match="mine"):
        simulated(record={"mine": function})


def test_keys_of_a_dict_can_be_saved(tmp_path):
    def slashed(problem, net, params):
        return {"b/c": jnp.sum(params["W1"])}

    with pytest.raises(ValueError, match="record"):
        simulated(record={"a": slashed})


def test_rows_that_were_not_reached_are_not_measured():
    seen = []

    def counted(problem, net, params):
        shape = jax.ShapeDtypeStruct((), np.float64)
        return jax.pure_callback(lambda x: seen.append(1) or x, shape, jnp.sum(params["W1"]))

    run = simulated(record={"counted": counted}, until=gb.Until(gap=1e3, steps=150))
    assert np.isfinite(run.data["counted"]).sum() == 1
    assert len(seen) < 20


# --- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moves", "until"),
    [
        (gb.Descent(0.03), {"steps": np.int64(20)}),
        (gb.Flow(), {"time": np.float32(1.0)}),
    ],
)
def test_numpy_numbers_can_be_saved(moves, until, tmp_path):
    simulated(moves, until=gb.Until(**until)).save(tmp_path / "run.nc")


def test_a_limit_that_is_a_jax_array_can_be_saved(tmp_path):
    simulated(until=gb.Until(gap=jnp.asarray(1e-3), steps=50)).save(tmp_path / "run.nc")
    assert gb.load(tmp_path / "run.nc").setup is not None


def test_a_loaded_setup_is_replaced_like_the_original(tmp_path):
    simulated(until=None).save(tmp_path / "run.nc")
    assert gb.load(tmp_path / "run.nc").setup.replace(dynamics=gb.Flow()).until.time == 1e4


@pytest.mark.parametrize("kind", ["nested", "colliding"])
def test_own_parameters_survive_with_their_structure(kind, tmp_path):
    net, params = nested()
    if kind == "colliding":
        net = gb.nets.linear(lambda p: p["a"]["b_c"] + p["a_b"]["c"])
        params = {"a": {"b_c": np.ones((9, 2))}, "a_b": {"c": np.ones((9, 2))}}
    run = simulated(net=net, params=params)
    run.save(tmp_path / "run.nc")
    back = gb.load(tmp_path / "run.nc").final
    assert jax.tree.structure(back) == jax.tree.structure(run.final)


def test_a_file_has_the_permissions_of_other_files(tmp_path):
    simulated().save(tmp_path / "run.nc")
    (tmp_path / "other").touch()
    assert (tmp_path / "run.nc").stat().st_mode == (tmp_path / "other").stat().st_mode


CHANGES = {
    "no format": lambda about: about.pop("format"),
    "unknown ending": lambda about: about.update(ending="EXPLODED"),
    "unknown field": lambda about: about["setup"]["fields"].update(colour="red"),
    "missing array": lambda about: about["setup"]["fields"].update(save_at={"array": 99}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_was_tampered_with_is_refused_with_a_sentence(change, tmp_path):
    path = tmp_path / "run.nc"
    simulated().save(path)
    with h5py.File(path, "a") as file:
        about = json.loads(file["about"].attrs["about"])
        CHANGES[change](about)
        file["about"].attrs["about"] = json.dumps(about)
    with pytest.raises(ValueError, match="path"):
        gb.load(path)


@pytest.mark.parametrize("kept", [1, 100, 5000])
def test_half_a_file_is_not_a_run(kept, tmp_path):
    path = tmp_path / "run.nc"
    simulated().save(path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match="not a run"):
        gb.load(path)


FULL_DISK = """
import os, resource, signal, sys
import numpy as np, gradbias as gb
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
net = gb.TwoLayer(9, 2, 30)
problem = gb.Regression.mean(np.ones((6, 9)), np.ones((6, 2)))
run = gb.simulate(gb.Setup(problem, net, gb.init.gaussian(net, .3), gb.Descent(.01),
                           gb.Until(steps=400), record=[gb.observe.params]))
resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
try:
    run.save(sys.argv[1] + "/run.nc")
except OSError:
    print("refused", os.listdir(sys.argv[1]), flush=True)
del run
print("alive", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no file size limits")
def test_a_full_disk_is_an_error_and_not_a_crash(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        capture_output=True, text=True, env={**os.environ}, check=False,
    )  # fmt: skip
    assert done.stdout.split("\n")[:2] == ["refused []", "alive"]
    assert done.returncode == 0


# --- the host ---------------------------------------------------------------------------------


def test_threads_do_not_see_each_other():
    wanted = [simulated(until=gb.Until(steps=s)).theta for s in (50, 60, 70)]
    got = {}

    def work(steps):
        got[steps] = simulated(until=gb.Until(steps=steps)).theta

    threads = [threading.Thread(target=work, args=(s,)) for s in (50, 60, 70)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for steps, theta in zip((50, 60, 70), wanted, strict=True):
        np.testing.assert_array_equal(got[steps], theta)


def test_a_user_who_hunts_nans():
    with jax.debug_nans(True):
        assert simulated(until=gb.Until(steps=150)).status == "reached steps"


def test_a_process_without_stderr(monkeypatch):
    monkeypatch.setattr("gradbias.numerics.progress.PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", None)
    assert simulated().status == "reached steps"
