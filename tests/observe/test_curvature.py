"""Sharpness and trace of the Hessian against dense Hessians made without autodiff."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.numerics import lanczos

rng = np.random.default_rng(13)
X = rng.standard_normal((4, 5))
X[-1] = X[0] + X[1]
ONE, TWO = rng.standard_normal(4), rng.standard_normal((4, 2))
FACTOR = rng.standard_normal((5, 3))
POPULATION = gb.Population(FACTOR @ FACTOR.T, rng.standard_normal((2, 5)), np.eye(2), weight=0.7)

NETS = [
    gb.TwoLayer(5, 2, 3),
    gb.TwoLayer(5, 2, 11),  # wide: its Hessian is that of a narrower net
    gb.TwoLayer(5, 2, 1),
    gb.Deep([5, 3, 4, 2]),
    gb.Deep([5, 2]),
    gb.MLP([5, 4, 2], "tanh"),
    gb.NormalisedA(5, 2, 3),
]


def cases(log_cosh):
    for net in NETS:
        yield gb.Regression.half_mean(X, TWO), net
    for net in (NETS[1], NETS[-2]):
        yield gb.Samples(log_cosh, X, TWO), net
    for net in (NETS[1], gb.Deep([5, 3, 4, 2])):
        yield POPULATION, net
    for net in (gb.Rank1(5, 3, 3), gb.Rank1(5, 1, 3), gb.Diagonal(5)):
        yield gb.Regression.mean(X, ONE), net


@pytest.mark.slow
def test_against_dense_hessians(measure, draw, numpy_hessian, log_cosh_loss):
    for problem, net in cases(log_cosh_loss):
        params = draw(net, scale=0.7)
        H = numpy_hessian(problem, net, params)
        note = f"{type(problem).__name__} {net}"
        top = np.linalg.eigvalsh(H)[-1]
        value = measure(gb.observe.sharpness, problem, net, params)
        np.testing.assert_allclose(value, top, rtol=1e-7, err_msg=note)
        value = measure(gb.observe.hessian_trace, problem, net, params)
        np.testing.assert_allclose(value, np.trace(H), rtol=1e-7, err_msg=note)


@pytest.mark.parametrize("scale", [0.0, 0.3, 1.0])
def test_wide_nets_with_a_concave_loss(scale, measure, draw, numpy_hessian, log_cosh_loss):
    # no positive curvature but that of ∂L/∂Θ: what leaving out hidden units could lose
    net = gb.TwoLayer(3, 3, 9)
    params = draw(net, scale=scale)
    params["W1"][:, 2:] = 0  # and some hidden units see nothing
    X = np.eye(3)
    Y = params["W1"] @ params["W2"] + 0.3 * rng.standard_normal((3, 3))
    H = numpy_hessian(gb.Samples(log_cosh_loss, X, Y), net, params)
    concave = gb.Samples(lambda output, y: -log_cosh_loss(output, y), X, Y)
    value = measure(gb.observe.sharpness, concave, net, params)
    np.testing.assert_allclose(value, -np.linalg.eigvalsh(H)[0], rtol=1e-7)


@pytest.mark.parametrize("d, k, width", [(5, 2, 6), (3, 7, 8), (6, 1, 1), (5, 2, 40), (30, 4, 60)])
@pytest.mark.parametrize("weight", [0.5, 0.125])
def test_sharpness_at_interpolation(d, k, width, weight, measure, draw):
    # spectral bias, 1.6: the Hessian has the spectrum of K, the tangent kernel
    net = gb.TwoLayer(d, k, width)
    params = draw(net)
    W1, W2 = params["W1"], params["W2"]
    X = rng.standard_normal((3, d))
    problem = gb.Regression(X, X @ W1 @ W2, weight)
    K = np.kron(X @ W1 @ W1.T @ X.T, np.eye(k)) + np.kron(X @ X.T, W2.T @ W2)
    value = measure(gb.observe.sharpness, problem, net, params)
    np.testing.assert_allclose(value, 2 * weight * np.linalg.eigvalsh(K)[-1], rtol=1e-12)
    trace = k * np.trace(X.T @ X @ W1 @ W1.T) + np.trace(X.T @ X) * np.sum(W2**2)
    value = measure(gb.observe.hessian_trace, problem, net, params)
    np.testing.assert_allclose(value, 2 * weight * trace, rtol=1e-12)


def test_population_trace_of_the_noise_sheet(measure, draw):
    # noise equilibrium, Prop 5.3 corrected: 2(dy‖W Σ^½‖² + ‖U‖² tr Σ), weight 1
    net = gb.TwoLayer(5, 2, 4)
    params = draw(net)
    problem = gb.Population(POPULATION.sigma_x, POPULATION.V, POPULATION.sigma_eps)
    S = problem.sigma_x
    want = 2 * np.trace(params["W1"].T @ S @ params["W1"]) * 2
    want += 2 * np.sum(params["W2"] ** 2) * np.trace(S)
    value = measure(gb.observe.hessian_trace, problem, net, params)
    np.testing.assert_allclose(value, want, rtol=1e-13)


@pytest.mark.parametrize("width", [30, 100])
def test_zero_parameters_leave_the_saddle(width, measure, draw):
    # at zero the Hessian couples W1 and W2 through the gradient alone
    net = gb.TwoLayer(20, 2, width)
    X, Y = rng.standard_normal((4, 20)), rng.standard_normal((4, 2))
    problem = gb.Regression.half_mean(X, Y)
    value = measure(gb.observe.sharpness, problem, net, draw(net, scale=0.0))
    np.testing.assert_allclose(value, np.linalg.norm(X.T @ Y / 4, 2), rtol=1e-9)
    assert measure(gb.observe.hessian_trace, problem, net, draw(net, scale=0.0)) == 0


@pytest.mark.parametrize("depth", [3, 4])
def test_a_hessian_that_is_zero(depth, measure, draw):
    net = gb.Deep([12] * depth + [2])  # more than 400 parameters at depth 4
    problem = gb.Regression.mean(rng.standard_normal((3, 12)), rng.standard_normal((3, 2)))
    assert measure(gb.observe.sharpness, problem, net, draw(net, scale=0.0)) == 0


@pytest.mark.slow
def test_more_than_400_parameters_against_a_dense_solver(measure, draw, monkeypatch):
    X, Y = rng.standard_normal((15, 10)), rng.standard_normal((15, 3))
    problem = gb.Regression.mean(X, Y)
    for net in (gb.MLP([10, 40, 3], "tanh"), gb.Deep([10, 16, 16, 3]), gb.TwoLayer(10, 3, 60)):
        params = draw(net, scale=0.4)
        size = sum(a.size for a in params.values())
        assert size > lanczos.DENSE
        iterated = measure(gb.observe.sharpness, problem, net, params)
        with monkeypatch.context() as patch:
            patch.setattr(lanczos, "DENSE", size)
            dense = measure(gb.observe.sharpness, problem, net, params)
        np.testing.assert_allclose(iterated, dense, rtol=1e-9)


def test_a_chain_of_ones_own_is_not_given_the_closed_form(measure):
    class Tied(gb.nets.ChainNet):
        @property
        def chain(self):
            return (3, 2, 3)

        def factors(self, params):
            return [params["W"], params["W"].T]

        def from_factors(self, factors):
            return {"W": factors[0]}

    W = rng.standard_normal((3, 2))
    problem = gb.Regression.half_sum(np.eye(3), np.zeros((3, 3)))
    value = measure(gb.observe.hessian_trace, problem, Tied(), {"W": W})
    # ½‖WWᵀ‖² has the Hessian trace 2(d + width + 1)·‖W‖²
    np.testing.assert_allclose(value, 2 * (3 + 2 + 1) * np.sum(W * W), rtol=1e-12)
