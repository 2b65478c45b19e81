"""The limit of gradient flow from I_γ, its certificate, its curvature and the rates of descent."""

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import gradbias as gb
from gradbias.theory.spectral import (
    exponential_rate,
    hessian_trace_at_interpolation,
    interpolator_dimensions,
    kkt_residual,
    mirror_rate_bound,
    sharpness_at_interpolation,
    spectral_limit,
)
from theory.spectral.spectral_oracle import CASES, Case, data, flow, integrate, relative

ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
LONG = 400.0


def problem_of(case):
    X, Y = data(case)
    return gb.Regression(X, Y, case.weight)


def end_of(case):
    """The layers where the flow has converged (times are in units of 1/(2·weight))."""
    path = flow(case, end=LONG, points=2)
    return {"W1": path.W1[-1], "W2": path.W2[-1]}


def potential(W1, W2, gamma):
    _, logdet = np.linalg.slogdet(W1 @ W1.T)
    return 0.5 * np.sum(W1**2) + 0.5 * np.sum(W2**2) - gamma * logdet


@ALL
def test_the_flow_of_both_layers_ends_there(case):
    limit, end = spectral_limit(problem_of(case), case.gamma), end_of(case)
    W1, W2 = end["W1"], end["W2"]
    assert limit.residual < 1e-13
    assert limit.theta.shape == (case.d, case.k)
    assert relative(limit.theta, W1 @ W2) < 1e-8
    assert relative(limit.gram.M, W1 @ W1.T) < 1e-8
    assert relative(limit.gram.N, W2.T @ W2) < 1e-8
    s = np.linalg.svd(W1, compute_uv=False)
    np.testing.assert_allclose(limit.singular_values.W1, s, atol=1e-8 * s[0])
    assert abs(limit.potential - potential(W1, W2, case.gamma)) < 1e-8 * (1 + abs(limit.potential))
    assert max(kkt_residual(problem_of(case), end, case.gamma)) < 1e-7 / np.sqrt(case.gamma)


@ALL
def test_the_representative_net_is_at_the_limit(case):
    problem = problem_of(case)
    limit = spectral_limit(problem, case.gamma)
    params = limit.params()
    np.testing.assert_allclose(params["W1"] @ params["W2"], limit.theta, atol=1e-13)
    assert max(kkt_residual(problem, params, case.gamma)) < 1e-12
    drift = params["W1"].T @ params["W1"] - params["W2"] @ params["W2"].T
    np.testing.assert_allclose(drift, 2 * case.gamma * np.eye(case.d), atol=1e-13)


def test_the_potential_is_least_there_among_all_interpolators():
    """The value by a foreign optimiser over (W1, W2) with Xβ = Y built in, from several starts."""
    case = CASES["generic"]
    (X, _), problem = data(case), problem_of(case)
    limit = spectral_limit(problem, case.gamma)
    free = np.linalg.svd(X)[2][case.n :].T
    rng, found = np.random.default_rng(0), []
    for _ in range(3):

        def objective(z):
            # For a given W1 the best W2 is W1⁺β: what is left is a function of W1 and β.
            W1 = z[: case.d * case.width].reshape(case.d, case.width)
            beta = limit.theta + free @ z[case.d * case.width :].reshape(-1, case.k)
            return potential(W1, np.linalg.pinv(W1) @ beta, case.gamma)

        start = rng.standard_normal(case.d * case.width + free.shape[1] * case.k)
        done = scipy.optimize.minimize(objective, start, method="BFGS", options={"gtol": 1e-7})
        found.append(done.fun)
        assert objective(start) > limit.potential
    np.testing.assert_allclose(found, limit.potential, rtol=1e-10)
    np.testing.assert_allclose(limit.potential, limit_value_by_hand(limit.theta, case), rtol=1e-14)


def limit_value_by_hand(beta, case):
    s = np.zeros(case.d)
    s[: min(beta.shape)] = np.linalg.svd(beta, compute_uv=False)
    root = np.sqrt(s**2 + case.gamma**2)
    return np.sum(root - case.gamma * np.log(case.gamma + root))


def test_an_anisotropic_start_ends_elsewhere():
    """The control: W1ᵀW1 − W2W2ᵀ must be a multiple of PᵀP."""
    case = CASES["generic"]
    X, Y = data(case)
    rng = np.random.default_rng(5)
    W1 = rng.standard_normal((case.d, case.width)) / 3
    path = integrate(X, Y, W1, np.zeros((case.width, case.k)), [0, 200], case.weight)
    end = {"W1": path.W1[-1], "W2": path.W2[-1]}
    kkt = kkt_residual(problem_of(case), end, case.gamma)
    assert kkt.feasibility < 1e-8
    assert kkt.P1 < 1e-12  # α stays in span Xᵀ, but the potential is another one, or none
    assert kkt.P2 > 0.1
    assert relative(path.beta[-1], spectral_limit(problem_of(case), case.gamma).theta) > 1e-2


def test_gamma_shapes_the_layers_and_not_the_predictor():
    problem = problem_of(CASES["generic"])
    nuclear = np.linalg.svd(problem.min_norm, compute_uv=False).sum()
    for gamma in (1e2, 1.0, 1e-8, 1e-100):
        limit = spectral_limit(problem, gamma)
        np.testing.assert_array_equal(limit.theta, problem.min_norm)
        assert limit.residual < 1e-13
    assert abs(spectral_limit(problem, 1e-100).potential - nuclear) < 1e-12


def test_vector_labels_populations_and_zero_data():
    X, Y = data(CASES["one output"])
    flat = spectral_limit(gb.Regression(X, Y[:, 0], 0.5), 0.1)
    assert flat.theta.shape == (6,) and flat.gram.N.shape == (1, 1) and flat.residual < 1e-13
    sigma = np.diag([2.0, 1.0, 0.0])
    population = gb.Population(sigma, np.ones((2, 3)), np.eye(2))
    limit = spectral_limit(population, 0.3)
    np.testing.assert_allclose(limit.theta, [[1, 1], [1, 1], [0, 0]], atol=1e-15)
    np.testing.assert_allclose(exponential_rate(population, 0.3), 4 * 0.3 * 2, rtol=1e-15)
    nothing = gb.Regression(np.zeros((2, 3)), np.ones((2, 2)), 0.5)
    still = spectral_limit(nothing, 0.5)
    np.testing.assert_array_equal(still.theta, 0)
    np.testing.assert_allclose(still.gram.M, np.eye(3))
    assert (still.residual, still.sharpness, still.hessian_trace) == (0, 0, 0)
    assert exponential_rate(nothing, 0.5) == np.inf


# -- curvature ---------------------------------------------------------------------------------


def hessian(problem, params):
    """Dense, by central differences of the analytic gradient (exact up to 1e-9: it is cubic)."""
    shapes = params["W1"].shape, params["W2"].shape
    split = np.prod(shapes[0])

    def gradient(z):
        W1, W2 = z[:split].reshape(shapes[0]), z[split:].reshape(shapes[1])
        G = 2 * problem.weight * problem.X.T @ (problem.X @ W1 @ W2 - problem.labels)
        return np.concatenate([(G @ W2.T).ravel(), (W1.T @ G).ravel()])

    z, h = np.concatenate([params["W1"].ravel(), params["W2"].ravel()]), 1e-3
    rows = []
    for e in h * np.eye(len(z)):
        wide, narrow = gradient(z + 2 * e) - gradient(z - 2 * e), gradient(z + e) - gradient(z - e)
        rows.append((8 * narrow - wide) / (12 * h))
    return np.array(rows)


@ALL
def test_sharpness_and_trace_are_those_of_the_dense_hessian(case):
    problem = problem_of(case)
    limit = spectral_limit(problem, case.gamma)
    H = hessian(problem, limit.params())
    top = np.linalg.eigvalsh((H + H.T) / 2)[-1]
    assert abs(limit.sharpness / top - 1) < 1e-9
    assert abs(limit.hessian_trace / np.trace(H) - 1) < 1e-9
    X, (M, N) = problem.X, limit.gram
    K = np.kron(X @ M @ X.T, np.eye(case.k)) + np.kron(X @ X.T, N)
    np.testing.assert_allclose(
        limit.sharpness, 2 * case.weight * np.linalg.eigvalsh(K)[-1], rtol=1e-12
    )
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((case.d + 3, case.d)))[0].T
    W1, W2 = limit.params().values()
    wide = {"W1": W1 @ rotation, "W2": rotation.T @ W2}
    np.testing.assert_allclose(
        sharpness_at_interpolation(problem, wide), limit.sharpness, rtol=1e-12
    )
    np.testing.assert_allclose(
        hessian_trace_at_interpolation(problem, wide), limit.hessian_trace, rtol=1e-12
    )


def test_the_trace_holds_everywhere_and_the_sharpness_only_at_minima():
    problem = problem_of(CASES["generic"])
    rng = np.random.default_rng(1)
    params = {"W1": rng.standard_normal((5, 4)) / 2, "W2": rng.standard_normal((4, 2)) / 2}
    H = hessian(problem, params)
    assert abs(hessian_trace_at_interpolation(problem, params) / np.trace(H) - 1) < 1e-9
    top = np.linalg.eigvalsh((H + H.T) / 2)[-1]
    assert abs(sharpness_at_interpolation(problem, params) / top - 1) > 1e-2


@pytest.mark.parametrize("name", ["generic", "rank deficient", "more outputs than inputs"])
def test_dimensions_of_the_sets_of_minimisers(name):
    """The null space of the dense Hessian at a minimum, where it is the tangent space."""
    case = CASES[name]
    problem = problem_of(case)
    params = spectral_limit(problem, case.gamma).params()
    eigenvalues = np.linalg.eigvalsh(hessian(problem, params))
    flat = int(np.sum(np.abs(eigenvalues) < 1e-7 * eigenvalues[-1]))
    predictors, parameters = interpolator_dimensions(problem, case.d)
    assert parameters == flat
    assert predictors == (case.d - np.linalg.matrix_rank(problem.X)) * case.k
    with pytest.raises(ValueError, match="width must be a whole number of at least [23]"):
        interpolator_dimensions(problem, 1)


# -- rates -------------------------------------------------------------------------------------


def losses(case, path):
    X, Y = data(case)
    least = case.weight * np.sum((X @ np.linalg.pinv(X) @ Y - Y) ** 2)
    return np.array([case.weight * np.sum((X @ b - Y) ** 2) - least for b in path.beta])


@ALL
def test_the_loss_falls_at_least_at_the_exponential_rate(case):
    path = flow(case)
    excess = losses(case, path)
    bound = excess[0] * np.exp(-exponential_rate(problem_of(case), case.gamma) * path.t)
    assert np.all(excess <= bound * (1 + 1e-9))


def test_the_exponential_rate_is_reached_by_a_lazy_net():
    """γ ≫ |β*| and one eigenvalue: the factor 4 is sharp, so 5 would be violated."""
    case = Case(1, 3, 1, 3, 50.0, weight=0.3)
    problem, (X, Y) = problem_of(case), data(case)
    t = np.linspace(0, 0.05, 6)
    W1 = np.sqrt(2 * case.gamma) * np.eye(3)
    path = integrate(X, Y, W1, np.zeros((3, 1)), t, case.weight)
    excess = losses(case, path)
    rate = exponential_rate(problem, case.gamma)
    slope = -np.diff(np.log(excess)) / np.diff(t)
    assert np.all(slope >= rate * (1 - 1e-9)) and np.all(slope < 1.02 * rate)


def test_the_gradient_can_rise_while_the_loss_falls():
    """The counter-example to the paper's inequality C.13."""
    X, star = np.diag([1.0, 20.0]), np.array([[20.0], [1.0]])
    W1 = np.sqrt(0.02) * np.eye(2)
    path = integrate(X, X @ star, W1, np.zeros((2, 1)), np.array([0, 0.0139, 0.0401]))
    R = [np.sum((X.T @ X @ (star - b)) ** 2) for b in path.beta]
    np.testing.assert_allclose(R[1:], [392.84, 399.88], atol=0.01)
    loss = [np.sum((X @ (star - b)) ** 2) for b in path.beta]
    assert loss[0] > loss[1] > loss[2]


@pytest.mark.parametrize("gamma", [1e-3, 0.05, 5.0])
@pytest.mark.parametrize("weight", [0.5, 0.1])
def test_mirror_bounds_hold_and_are_not_vacuous(gamma, weight):
    case = CASES["one output"]._replace(gamma=gamma, weight=weight)
    problem, path = problem_of(case), flow(case, end=12.0, points=2001)
    excess, norms = losses(case, path)[1:], np.linalg.norm(path.beta, axis=(1, 2))
    improved = mirror_rate_bound(problem, gamma, path.t)
    printed = mirror_rate_bound(problem, gamma, path.t, form="printed")
    warped = mirror_rate_bound(problem, gamma, path.t, form="warped", norms=norms)
    assert improved[0] == printed[0] == warped[0] == np.inf
    np.testing.assert_allclose(printed, 2 * improved)
    assert np.all(excess <= warped[1:]) and np.all(warped[1:] <= improved[1:] * (1 + 1e-12))
    assert np.max(excess / warped[1:]) > 0.2


def test_the_reach_of_the_mirror_bound():
    """D_ψ(β*, 0) = ∫ ⟨∇ψ(sβ*), β*⟩ ds by quadrature, where the difference has lost its digits."""
    for norm, gamma in [(2.0, 1e-8), (1.0, 1.0), (1e-9, 3.0), (1e-3, 1e100)]:

        def slope(s, b=norm, g=gamma):
            return s * b * b / np.sqrt(g + np.hypot(s * b, g))

        want = scipy.integrate.quad(slope, 0, 1, epsabs=0, epsrel=1e-13, limit=200)[0]
        problem = gb.Regression([[1.0, 0.0]], [norm], 0.5)
        got = mirror_rate_bound(problem, gamma, 3.0) * 2 * np.sqrt(2 * gamma) * 3.0
        assert abs(got / want - 1) < 1e-11


def test_wrong_arguments_are_named():
    many, one = problem_of(CASES["generic"]), problem_of(CASES["one output"])
    with pytest.raises(ValueError, match="problem must have one output"):
        mirror_rate_bound(many, 1, 1)
    with pytest.raises(ValueError, match="t must be at least 0"):
        mirror_rate_bound(one, 1, [-1.0])
    with pytest.raises(ValueError, match="form must be one of"):
        mirror_rate_bound(one, 1, 1, form="sharp")
    with pytest.raises(ValueError, match="norms must be given for form 'warped' and only then"):
        mirror_rate_bound(one, 1, 1, form="warped")
    with pytest.raises(ValueError, match="t must be increasing"):
        mirror_rate_bound(one, 1, [1.0, 0.5], form="warped", norms=[1.0, 1.0])
    with pytest.raises(ValueError, match="gamma must be greater than 0"):
        spectral_limit(many, 0.0)
    with pytest.raises(ValueError, match="params must be a dict with W1 and W2"):
        kkt_residual(many, {"W1": np.eye(5)}, 1)
    with pytest.raises(ValueError, match="W1 must have independent rows, rank d = 5"):
        kkt_residual(many, {"W1": np.ones((5, 2)), "W2": np.ones((2, 2))}, 1)
    with pytest.raises(ValueError, match=r"params\['W2'\] must have shape \(3, 2\)"):
        sharpness_at_interpolation(many, {"W1": np.ones((5, 3)), "W2": np.ones((2, 2))})
