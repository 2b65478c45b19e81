"""Two ways to one gradient: by the predictor, or data through a first layer of one number."""

import jax
import numpy as np
import pytest

import gradbias as gb
from gradbias.dynamics import gradient
from gradbias.nets.base import as_matrix
from gradbias.problems import Batch
from gradbias.reductions import reduce

BATCHES = {
    "rows": Batch(indices=np.array([3, 0])),
    "label noise": Batch(indices=np.array([1, 2, 1]), label_noise=np.array([[0.3], [-1.0], [2.0]])),
    "weights": Batch(indices=np.array([4, 1]), weights=np.array([0.5, 2.0])),
    "everything": Batch(label_noise=np.linspace(-1, 1, 5)[:, None]),
}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("net", [gb.Rank1(7, 3, 4), gb.Deep([7, 1, 3, 1])], ids=["rank-1", "deep"])
def test_both_ways_agree(net, batch):
    rng = np.random.default_rng(0)
    problem = gb.Regression.mean(rng.normal(size=(5, 7)), rng.normal(size=5))
    found = reduce(problem, net, gb.init.gaussian(net, 0.5, key=1))
    assert found.net.chain[1] == 1
    with gb.float64():
        theta, pull = jax.vjp(lambda p: as_matrix(found.net.predictor(p)), found.params)
        by_theta = pull(found.problem.theta_gradient(theta, BATCHES[batch]))[0]
        got = gradient(found.problem, found.net, found.params, BATCHES[batch])
    for name, value in by_theta.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-12, atol=1e-14)
