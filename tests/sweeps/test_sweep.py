"""Ensembles: a member of a sweep is the run that it would have been alone."""

import numpy as np
import pytest

import gradbias as gb
from cases import case, data
from gradbias._engine.host_loop import drive
from gradbias.numerics.compilations import count_compilations

PROBLEM, NET, PARAMS = case("two layers")
RECORD = [gb.observe.loss, gb.observe.theta, gb.observe.singular_values("W1")]


def build(scale, seed, dynamics=None, **changes):
    params = {name: scale * value for name, value in gb.init.gaussian(NET, 0.3, key=seed).items()}
    changes = {"until": gb.Until(steps=200), "record": RECORD, "save_at": [0, 10, 200]} | changes
    return gb.Setup(PROBLEM, NET, params, dynamics or gb.Descent(0.02), key=seed, **changes)


OVER = {"scale": [0.5, 1.0], "seed": range(3)}


def assert_same_as_alone(ds, build, over, tolerance=1e-10):
    for scale in over["scale"]:
        for seed in over["seed"]:
            alone = gb.simulate(build(scale, seed))
            member = ds.sel(scale=scale, seed=seed)
            for name in alone.data:
                a, b = member[name].values, alone.data[name].values
                np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)
            assert int(member["status"]) == alone.status.ending
            assert float(member["stopped_at"]) == alone.status.at
            np.testing.assert_allclose(member["theta_end"], alone.theta, rtol=0, atol=tolerance)


@pytest.mark.smoke
@pytest.mark.parametrize(
    "dynamics",
    [
        gb.Descent(0.02),
        gb.Descent(0.02, gb.Minibatch(2), momentum=0.5, weight_decay=0.01),
        gb.Descent(lambda k: 0.02 / (1 + k / 100), gb.LabelNoise(0.1)),
    ],
    ids=["gd", "sgd", "schedule"],
)
def test_descent(dynamics):
    def at(scale, seed):
        return build(scale, seed, dynamics)

    assert_same_as_alone(gb.sweep(at, OVER), at, OVER)


def test_diffusion():
    def at(scale, seed):
        return build(scale, seed, gb.Diffusion(0.02, gb.Minibatch(2), 0.002),
                     until=gb.Until(time=0.2), save_at=[0.0, 0.1, 0.2])  # fmt: skip

    assert_same_as_alone(gb.sweep(at, OVER), at, OVER)


def test_flow_members_keep_their_own_pace():
    """Members converge at different times; each is filled with its own final state."""

    def at(scale, seed):
        until = gb.Until(gap=1e-10, time=1e3)
        return build(scale, seed, gb.Flow(), until=until, save_at=np.geomspace(0.01, 1e3, 30))

    ds = gb.sweep(at, OVER)
    assert len(np.unique(ds["stopped_at"])) == 6
    for scale in OVER["scale"]:
        for seed in OVER["seed"]:
            alone, member = gb.simulate(at(scale, seed)), ds.sel(scale=scale, seed=seed)
            assert int(member["status"]) == alone.status.ending
            assert float(member["stopped_at"]) == alone.status.at
            np.testing.assert_array_equal(member["theta"], alone.data["theta"])
            np.testing.assert_array_equal(member["loss"], alone.data["loss"])
            after = ds["time"].values > alone.status.at
            ends = [member["theta_end"].values] * after.sum()
            np.testing.assert_array_equal(member["theta"].values[after], ends)
    assert np.isfinite(ds["theta"]).all()


def test_members_stop_by_themselves():
    """Different gaps, limits and rates in one program; one of the members diverges."""
    ends = {"a": gb.Until(gap=1e-3, steps=900), "b": gb.Until(steps=130), "c": gb.Until(steps=900)}
    rates = {"a": 0.02, "b": 0.02, "c": 5.0}

    def at(scale, seed):
        return build(1.0, 0, gb.Descent(rates[scale]), until=ends[scale], save_at=[0, 100, 130])

    over = {"scale": ["a", "b", "c"], "seed": [0]}
    ds = gb.sweep(at, over)
    meanings = ds["status"].attrs["flag_meanings"].split()
    words = [meanings[code] for code in ds["status"].values[:, 0]]
    assert words == ["converged", "reached_steps", "diverged"]
    with np.errstate(over="ignore", invalid="ignore"):
        for name in over["scale"]:
            alone = gb.simulate(at(name, 0))
            member = ds.sel(scale=name, seed=0)
            assert float(member["stopped_at"]) == alone.status.at
            finite = np.isfinite(alone.data["loss"].values)
            np.testing.assert_array_equal(np.isfinite(member["loss"]), finite)


@pytest.mark.parametrize("rate", [0.02, lambda k: 0.02 + 0 * k], ids=["number", "function"])
def test_a_member_that_stops_early_does_not_hold_back_the_others(rate):
    ends = {"short": gb.Until(steps=50), "long": gb.Until(steps=30_000)}

    def at(scale, seed):
        return build(1.0, seed, gb.Descent(rate), until=ends[scale], save_at=[0, 50])

    over = {"scale": ["short", "long"], "seed": [0]}
    assert_same_as_alone(gb.sweep(at, over), at, over)


def test_unequal_shapes_run_side_by_side():
    """Another width is another program, or after the closure the same; one Dataset either way."""

    def at(scale, seed):
        net = gb.TwoLayer(9, 2, int(scale))
        return gb.Setup(PROBLEM, net, gb.init.gaussian(net, 0.3, key=seed), gb.Descent(0.02),
                        gb.Until(steps=50))  # fmt: skip

    over = {"scale": [1, 20, 50], "seed": [0, 1]}
    assert_same_as_alone(gb.sweep(at, over), at, over)


def test_nonlinear_nets_and_running_sums():
    X, Y = data(k=2)
    net, problem = gb.MLP([9, 6, 2], "tanh"), gb.Regression.mean(X, Y)

    def energy(problem, net, params, gradient, lr):
        return lr * sum((g * g).sum() for g in gradient.values())

    def at(scale, seed):
        return gb.Setup(problem, net, gb.init.gaussian(net, scale, key=seed), gb.Descent(0.01),
                        gb.Until(steps=40), record=[gb.observe.loss, gb.observe.running(energy)],
                        save_at=[5, 40])  # fmt: skip

    ds = gb.sweep(at, OVER)
    for scale in OVER["scale"]:
        alone = gb.simulate(at(scale, 2))
        for name in ("loss", "energy"):
            np.testing.assert_allclose(
                ds[name].sel(scale=scale, seed=2), alone.data[name], rtol=0, atol=1e-10
            )


def test_one_program_for_all_points():
    gb.sweep(build, OVER)
    with count_compilations() as compiled:
        gb.sweep(build, {"scale": [0.1, 0.2], "seed": range(3, 6)})
    assert compiled.count == 0


def test_the_dataset():
    ds = gb.sweep(build, OVER)
    assert dict(ds.sizes) == {"scale": 2, "seed": 3, "step": 3, "feature": 9, "output": 2,
                              "mode_W1": 9}  # fmt: skip
    assert ds["theta_end"].dims == ("scale", "seed", "feature", "output")
    np.testing.assert_array_equal(ds["theta_end"], ds["theta"].isel(step=-1))
    np.testing.assert_allclose(ds["time"], [0, 0.2, 4.0])
    rates = gb.sweep(lambda lr: build(1.0, 0, gb.Descent(lr)), {"lr": [0.01, 0.02]})
    np.testing.assert_allclose(rates["time"], [[0, 0.1, 2.0], [0, 0.2, 4.0]])
    replaced = gb.sweep(build, OVER, record=[gb.observe.loss])
    assert "theta" not in replaced


@pytest.mark.parametrize(
    ("build", "over", "word"),
    [
        (build, {}, "over"),
        (build, [1, 2], "over"),
        (build, {"step": [1]}, "step"),
        (build, {"scale": []}, "scale"),
        (build, {"scale": [[1, 2]]}, "scale"),
        (build, {"scale": [object()]}, "scale"),
        (lambda seed: 3, {"seed": [0]}, "Setup"),
        (lambda n: build(1.0, 0, save_at=np.arange(n)), {"n": [2, 3]}, "number of saves"),
    ],
)
def test_bad_input(build, over, word):
    with pytest.raises(ValueError, match=word):
        gb.sweep(build, over)


def test_what_fills_up_a_chunk_does_not_run(monkeypatch):
    """Five members in chunks of two: the last one is alone, and its double takes no step."""
    clocks = []

    def watched(*args):
        stop = drive(*args)
        clocks.append(stop.states.clock.tolist())
        return stop

    monkeypatch.setattr("gradbias._engine.simulate.drive", watched)
    ds = gb.sweep(build, {"scale": [1.0], "seed": range(5)}, chunk=2)
    assert clocks == [[200, 200], [200, 200], [200, 0]]
    assert_same_as_alone(ds, build, {"scale": [1.0], "seed": range(5)})
