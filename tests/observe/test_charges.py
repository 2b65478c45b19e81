"""Charges along a run: conserved by flow, moved by steps by exactly what each step adds."""

import numpy as np
import pytest

import gradbias as gb
from cases import case, data

NETS = {
    "two layers": lambda: case("two layers")[1:],
    "rank one": lambda: case("rank one")[1:],
    "deep": lambda: case("deep")[1:],
    "diagonal": lambda: started(gb.Diagonal(9)),
    "relu": lambda: started(gb.MLP([9, 5, 2], "relu")),
}


def started(net):
    return net, gb.init.gaussian(net, 0.4, key=3)


def problem_for(net):
    k = 1 if isinstance(net, gb.Rank1 | gb.Diagonal) else 2
    X, Y = data(k=k)
    return gb.Regression.half_mean(X, Y)


def charges(run):
    return {n: run.data[n].values for n in run.data if n.startswith("charges_")}


@pytest.mark.parametrize("name", [name for name in NETS if name != "relu"])
def test_conserved_by_flow(name):
    """Not on relu: an adaptive method of order eight grinds on its kinks."""
    net, params = NETS[name]()
    setup = gb.Setup(
        problem_for(net), net, params, gb.Flow(), gb.Until(time=20.0),
        record=[gb.observe.charges], save_at=[0.0, 1.0, 20.0],
    )  # fmt: skip
    for value in charges(gb.simulate(setup)).values():
        np.testing.assert_allclose(value, np.broadcast_to(value[0], value.shape), atol=1e-9, rtol=0)


@pytest.mark.one_in(5)
@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize("name", NETS)
def test_the_drift_is_the_sum_of_the_increments(name, reduce):
    net, params = NETS[name]()
    if reduce and name in ("diagonal", "relu"):
        pytest.skip("it has no closure")
    setup = gb.Setup(
        problem_for(net), net, params, gb.Descent(0.01, gb.Minibatch(2)), gb.Until(steps=20_000),
        record={"charges": gb.observe.charges, "drift": gb.observe.charge_drift},
        save_at=[0, 10_000, 20_000],
    )  # fmt: skip
    run = gb.simulate(setup, reduce=reduce)
    moved = 0.0
    for full, value in charges(run).items():
        drift = run.data[full.replace("charges_", "drift_")].values
        np.testing.assert_allclose(value - value[0], drift, rtol=0, atol=1e-10)
        moved = max(moved, np.abs(drift[-1]).max())
    assert moved > 1e-6


def test_a_net_without_symmetries_is_refused():
    net, params = started(gb.MLP([9, 5, 2], "tanh"))
    with pytest.raises(ValueError, match="charges"):
        gb.simulate(
            gb.Setup(problem_for(net), net, params, gb.Descent(0.01), gb.Until(steps=3),
                     record=[gb.observe.charges])
        )  # fmt: skip
