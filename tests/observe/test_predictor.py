"""The predictor, the loss and the distance, in every shape of labels."""

import numpy as np
import pytest

import gradbias as gb

rng = np.random.default_rng(5)
X = rng.standard_normal((4, 6))
NETS = [gb.Rank1(6, 3, 2), gb.Rank1(6, 1, 2), gb.Deep([6, 1]), gb.Deep([6, 3, 2, 1])]
NETS += [gb.TwoLayer(6, 1, 1), gb.Diagonal(6)]


@pytest.mark.parametrize("net", NETS, ids=repr)
@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_theta_and_distance_have_the_labels_shape(net, shape, measure, draw, numpy_loss):
    problem = gb.Regression.half_mean(X, rng.standard_normal(shape))
    params = draw(net)
    theta = measure(gb.observe.theta, problem, net, params)
    assert theta.shape == ((6,) if len(shape) == 1 else (6, 1))
    dims = gb.observe.theta.dims(problem, net)
    assert dims == (("feature",) if len(shape) == 1 else ("feature", "output"))
    np.testing.assert_allclose(problem.loss(theta), numpy_loss(problem, net, params), rtol=1e-13)
    target = rng.standard_normal(theta.shape)
    distance = measure(gb.observe.distance_to(target), problem, net, params)
    np.testing.assert_allclose(distance, np.linalg.norm(theta - target), rtol=1e-14)


def test_loss_of_every_kind_of_problem_and_net(measure, draw, numpy_loss, log_cosh_loss):
    Y = rng.standard_normal((4, 2))
    population = gb.Population(np.diag(np.arange(6.0)), rng.standard_normal((2, 6)), np.eye(2))
    nets = [gb.TwoLayer(6, 2, 3), gb.MLP([6, 4, 2], "tanh"), gb.NormalisedA(6, 2, 3)]
    for problem in (gb.Regression.mean(X, Y), gb.Samples(log_cosh_loss, X, Y)):
        for net in nets:
            params = draw(net)
            value = measure(gb.observe.loss, problem, net, params)
            np.testing.assert_allclose(value, numpy_loss(problem, net, params), rtol=1e-13)
    params = draw(nets[0])
    value = measure(gb.observe.loss, population, nets[0], params)
    np.testing.assert_allclose(value, numpy_loss(population, nets[0], params), rtol=1e-13)


def test_params_are_all_of_them(measure, draw):
    problem, net = gb.Regression.mean(X, np.ones(4)), gb.MLP([6, 2, 1])
    params = draw(net)
    value = measure(gb.observe.params, problem, net, params)
    assert sorted(value) == ["W1", "W2", "b1", "b2"]
    for name, array in params.items():
        np.testing.assert_array_equal(value[name], array)


@pytest.mark.parametrize("make", [lambda: gb.observe.theta, lambda: gb.observe.distance_to([1.0])])
def test_no_predictor_no_theta(make):
    problem = gb.Regression.mean(X, np.ones(4))
    with pytest.raises(ValueError, match=r"(theta|distance_to).*linear net.*MLP"):
        make().bind(problem, gb.MLP([6, 2, 1]))


@pytest.mark.parametrize("name", ["loss", "sharpness", "hessian_trace", "interpolator_dimension"])
def test_no_expectation_over_a_non_linear_net(name):
    population = gb.Population(np.eye(3), np.ones((2, 3)), np.eye(2))
    with pytest.raises(ValueError, match=f"{name}.*MLP"):
        getattr(gb.observe, name).bind(population, gb.MLP([3, 2, 2]))


@pytest.mark.parametrize(
    "theta", [np.zeros(3), np.zeros((6, 2)), np.zeros((2, 2, 2)), "x", [np.nan]]
)
def test_a_target_must_fit(theta):
    problem = gb.Regression.mean(X, np.ones(4))
    with pytest.raises(ValueError, match="theta"):
        gb.observe.distance_to(theta).bind(problem, gb.Diagonal(6))
