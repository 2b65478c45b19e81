"""The invariant subspaces themselves."""

import numpy as np
import pytest
import scipy.stats

import gradbias as gb
from gradbias.reductions import reduce
from gradbias.reductions._closure import invariance_residual, invariant_bases, unit


def problem(n=10, d=30):
    rng = np.random.default_rng(0)
    return gb.Regression.mean(rng.normal(size=(n, d)), rng.normal(size=n))


def test_balanced_layers_shrink_to_one_dimension():
    net = gb.Deep([30, 30, 30, 1])
    params = gb.init.balanced(net, problem().min_norm)
    assert reduce(problem(), net, params).net.dims == (10, 1, 1, 1)


def test_orthogonal_hidden_layers_shrink_to_n_plus_one():
    rotations = [scipy.stats.ortho_group.rvs(30, random_state=i) for i in range(3)]
    params = {f"W{i + 1}": Q for i, Q in enumerate(rotations)}
    params["W4"] = np.random.default_rng(1).normal(size=(30, 1))
    found = reduce(problem(), gb.Deep([30, 30, 30, 30, 1]), params)
    assert found.net.dims == (10, 11, 11, 11, 1)
    assert found.certificate <= 1e-14


def test_the_certificate_sees_a_subspace_that_is_not_invariant():
    rng = np.random.default_rng(0)
    factors = [unit(rng.normal(size=(8, 20))), unit(rng.normal(size=(20, 1)))]
    bases = invariant_bases(factors, np.eye(8)[:, :3])
    assert invariance_residual(factors, bases) <= 1e-14
    bases[1] = bases[1][:, 1:]
    assert invariance_residual(factors, bases) > 1e-3


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e8])
def test_scale_does_not_matter(scale):
    net = gb.TwoLayer(30, 1, 200)
    rng = np.random.default_rng(0)
    params = {"W1": scale * rng.normal(size=(30, 200)), "W2": rng.normal(size=(200, 1)) / scale}
    found = reduce(problem(), net, params)
    assert found.net.dims == (10, 11, 1)


def test_what_cannot_be_reduced_is_a_sentence():
    zero = {"W1": np.zeros((30, 4)), "W2": np.zeros((4, 1))}
    assert "cut off" in reduce(problem(), gb.TwoLayer(30, 1, 4), zero)
    nothing = gb.Regression.mean(np.zeros((2, 30)), np.ones(2))
    assert "zero" in reduce(nothing, gb.TwoLayer(30, 1, 4), zero)
