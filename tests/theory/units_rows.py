"""Rows of the table of units: limits, fields, steps and noise of deep, rank-1 and spectral nets."""

import numpy as np

from gradbias import theory
from gradbias.problems import Population, Regression

RNG = np.random.default_rng(7)
X = RNG.normal(size=(3, 4))
Y1 = RNG.normal(size=3)
Y2 = RNG.normal(size=(3, 2))
THETA = RNG.normal(size=4)
BETA = RNG.normal(size=(4, 2))
GAMMA = 0.7
WHITE = np.linalg.qr(RNG.normal(size=(4, 4)))[0]
RANK1 = {"v1": RNG.normal(size=4), "u": RNG.normal(size=(2, 3)), "v": RNG.normal(size=(2, 3))}
TWO = {"W1": RNG.normal(size=(4, 5)), "W2": RNG.normal(size=(5, 2))}
TIMES = np.array([0.1, 0.7, 2.0])
PATH = RNG.normal(size=(3, 4))

ROWS = {}


def regression(u, Y=Y1, inputs=X):
    return Regression(u(inputs, u.x), u(Y, u.y), u(0.3, u.w))


def population(u, k=1):
    A = X.T @ X
    V = Y2.T @ X if k == 2 else [Y1 @ X]
    return Population(u(A, 2 * u.x), u(V, u.b), u(0.4 * np.eye(k), 2 * u.y), u(0.3, u.w))


# By name, so that a test may put another problem in their place.
ONE_OUTPUT = (lambda u: regression(u), lambda u: population(u))
TWO_OUTPUTS = (lambda u: regression(u, Y2), lambda u: population(u, 2))


def row(name, factors=2, of=None):
    """Enter a function of the units into the table, or one of them and each problem of `of`."""

    def enter(function):
        calls = [function] if of is None else [_on(function, problem) for problem in of]
        ROWS[name] = (factors, calls)
        return function

    return enter


def _on(function, problem):
    return lambda u: function(u, problem(u))


# -- what every mechanism reads from a problem ------------------------------------------------


@row("singular_basis", 2, ONE_OUTPUT)
def singular_basis(u, problem):
    view = theory.singular_basis(problem)
    return [
        (view.s, u.x),
        (view.curvature, u.w + 2 * u.x),
        (view.labels, u.y),
        (view.minimiser, u.b),
    ]


# -- limits of deep and rank-1 nets -----------------------------------------------------------


@row("balanced_limit", 3, ONE_OUTPUT)
def balanced_limit(u, problem):
    out = []
    for gap in (0.0, 0.4):
        end = theory.balanced_limit(problem, u(THETA, u.b), 3, u(gap, 2 * u.p))
        out += [(end.theta, u.b), (end.s, u.p), (end.distance, u.b), (end.gap, 2 * u.p)]
    return out


@row("rank1_limit", 5, ONE_OUTPUT)
def rank1_limit(u, problem):
    end = theory.rank1_limit(problem, u.params(**RANK1))
    return [(end.theta, u.b), (end.square, 2 * u.p), (end.sign, 0), (end.distance, u.b)]


@row("deep_from_rank1", 5)
def deep_from_rank1(u):
    return [(W, u.p) for W in theory.deep_from_rank1(u.params(**RANK1)).values()]


@row("rank1_from_deep", 5)
def rank1_from_deep(u):
    deep = theory.deep_from_rank1(RANK1)
    return [(W, u.p) for W in theory.rank1_from_deep(u.params(**deep)).values()]


@row("rank1_overlaps", 5)
def rank1_overlaps(u):
    found = theory.rank1_overlaps(u.params(**RANK1))
    powers = np.array([0, 2])
    return [
        (found.omega, 2 * u.p),
        (found.xi, 4 * u.p),
        (found.before, powers * u.p),
        (found.after, powers[::-1] * u.p),
        (found.phi, 6 * u.p),
    ]


@row("theta_velocity", 5)
def theta_velocity(u):
    return [(theory.theta_velocity(regression(u), u.params(**RANK1)), u.b - u.t)]


@row("rank1_loss_rate", 5)
def rank1_loss_rate(u):
    return [(theory.rank1_loss_rate(regression(u), u.params(**RANK1)), u.loss - u.t)]


@row("balanced_velocity", 3)
def balanced_velocity(u):
    return [(theory.balanced_velocity(regression(u), u(THETA, u.b), 3), u.b - u.t)]


@row("loss_rate", 3)
def loss_rate(u):
    return [(theory.loss_rate(regression(u), u(THETA, u.b), 3), u.loss - u.t)]


@row("time_warp", 3)
def time_warp(u):
    return [(theory.time_warp(u(PATH, u.b), 3), 2 * u.p)]


@row("warped_time", 3)
def warped_time(u):
    return [(theory.warped_time(u(TIMES, u.t), u(PATH, u.b), 3), 2 * u.p + u.t)]


@row("gd_gap", 3)
def gd_gap(u):
    return [(theory.gd_gap(regression(u), u(THETA, u.b), 3, u(1e-3, u.t)), 2 * u.p)]


@row("sgd_limit", 3)
def sgd_limit(u):
    end = theory.sgd_limit(regression(u), u(THETA, u.b), 3, u(1e-3, u.t), 1)
    return [(end.theta, u.b), (end.s, u.p), (end.gap, 2 * u.p)]


@row("modified_loss", 5)
def modified_loss(u):
    lr = u(0.01, u.t)
    return [(theory.modified_loss(regression(u), u.params(**RANK1), lr), u.loss)]


@row("modified_velocity", 5)
def modified_velocity(u):
    found = theory.modified_velocity(regression(u), u.params(**RANK1), u(0.01, u.t))
    return [(value, u.p - u.t) for value in found.values()]


@row("sde_coefficients", 5)
def sde_coefficients(u):
    out = []
    for noise in ("isotropic", "sampling"):
        found = theory.sde_coefficients(regression(u), u.params(**RANK1), u(0.01, u.t), 2, noise)
        out += [(found.drift_gradient, u.b - u.t), (found.drift_ito, u.b - u.t)]
        out += [(found.diffusion, u.b - u.t // 2), (found.gap_drift, 2 * u.p - u.t)]
    return out


@row("balanced_sde", 3)
def balanced_sde(u):
    found = theory.balanced_sde(regression(u), u(THETA, u.b), 3, u(0.01, u.t))
    return [
        (found.drift_gradient, u.b - u.t),
        (found.drift_ito, u.b - u.t),
        (found.diffusion, u.b - u.t // 2),
        (found.gap_drift, 2 * u.p - u.t),
    ]


@row("alleviation_terms", 3)
def alleviation_terms(u):
    found = theory.alleviation_terms(regression(u), u(TIMES, u.t), u(PATH, u.b), 3, u(0.01, u.t))
    return [(found.p, u.b + u.p), (found.q, u.b + u.p), (found.g, u.p)]


# -- spectral: two layers from I_γ --------------------------------------------------------------


@row("limit_singular_values")
def limit_singular_values(u):
    found = theory.limit_singular_values(u(BETA, u.b), u(GAMMA, u.b), 4)
    return [(found.W1, u.p), (found.W2, u.p)]


@row("limit_gram")
def limit_gram(u):
    return [(part, u.b) for part in theory.limit_gram(u(BETA, u.b), u(GAMMA, u.b))]


@row("alpha_of")
def alpha_of(u):
    return [(theory.alpha_of(u(BETA, u.b), u(GAMMA, u.b)), 0)]


@row("beta_of")
def beta_of(u):
    return [(theory.beta_of(0.2 * BETA, u(GAMMA, u.b)), u.b)]


@row("beta_velocity")
def beta_velocity(u):
    problem = regression(u, Y2)
    return [(theory.beta_velocity(problem, u(BETA, u.b), u(GAMMA, u.b)), u.b - u.t)]


@row("alpha_velocity")
def alpha_velocity(u):
    return [(theory.alpha_velocity(regression(u, Y2), 0.2 * BETA, u(GAMMA, u.b)), -u.t)]


@row("singular_value_velocity")
def singular_value_velocity(u):
    found = theory.singular_value_velocity(regression(u, Y2), u(BETA, u.b), u(GAMMA, u.b))
    return [(found.sigma, u.b), (found.velocity, u.b - u.t)]


@row("spectral_limit", of=TWO_OUTPUTS)
def spectral_limit(u, problem):
    end = theory.spectral_limit(problem, u(GAMMA, u.b))
    assert end.residual < 1e-10
    layers = end.params()
    out = [(end.theta, u.b), (end.alpha, 0), (layers["W1"], u.p), (layers["W2"], u.p)]
    out += [(end.sharpness, -u.t), (end.hessian_trace, -u.t), (end.gram.M, u.b)]
    # Σs − γ log det M: the logarithm has the unit of M in it, which is taken out.
    return [*out, (end.potential + 4 * end.gamma * u.b * np.log(2), u.b)]


@row("kkt_residual")
def kkt_residual(u):
    return [
        (part, 0) for part in theory.kkt_residual(regression(u, Y2), u.params(**TWO), u(GAMMA, u.b))
    ]


@row("interpolator_dimensions")
def interpolator_dimensions(u):
    return [(theory.interpolator_dimensions(regression(u, Y2), 5), 0)]


@row("exponential_rate")
def exponential_rate(u):
    return [(theory.exponential_rate(regression(u), u(GAMMA, u.b)), -u.t)]


@row("mirror_rate_bound")
def mirror_rate_bound(u):
    out = []
    for form, norms in (("improved", None), ("printed", None), ("warped", u([1.0, 2, 3], u.b))):
        found = theory.mirror_rate_bound(regression(u), u(GAMMA, u.b), u(TIMES, u.t), form, norms)
        out.append((found, u.loss))
    return out


@row("whitened_trajectory")
def whitened_trajectory(u):
    scale = 2 * u.x + u.w
    t = -scale - u.b
    found = theory.whitened_trajectory(u([2.0, 0.3], u.b), u(0.01, u.b), u(TIMES, t), u(1.5, scale))
    return [(found, u.b)]


@row("activation_time")
def activation_time(u):
    scale = 2 * u.x + u.w
    found = theory.activation_time(u([2.0, 0.3], u.b), u(0.01, u.b), 0.4, u(1.5, scale))
    return [(found, -scale - u.b)]


@row("half_time")
def half_time(u):
    scale = 2 * u.x + u.w
    return [(theory.half_time(u([2.0, 0.3], u.b), u(0.01, u.b), u(1.5, scale)), -scale - u.b)]


@row("gd_step")
def gd_step(u):
    found = theory.gd_step(regression(u, Y2), u.params(**TWO), u(0.01, u.t))
    return [(part, u.p) for part in found]


@row("gd_force_step")
def gd_force_step(u):
    found = theory.gd_force_step(regression(u, Y2), u.params(**TWO), u(0.01, u.t))
    return [(found, u.loss - u.b)]


@row("gd_imbalance_drift")
def gd_imbalance_drift(u):
    found = theory.gd_imbalance_drift(regression(u, Y2), u.params(**TWO), u(0.01, u.t))
    return [(found, 2 * u.p)]


@row("whitened_descent")
def whitened_descent(u):
    scale = 2 * u.x + u.w
    found = theory.whitened_descent(
        u([2.0, 0.3], u.b), u(0.01, u.b), u(0.05, -scale - u.b), 9, u(1.5, scale)
    )
    return [(found.z1, u.p), (found.z2, u.p)]


@row("effective_gamma")
def effective_gamma(u):
    scale = 2 * u.x + u.w
    found = theory.effective_gamma(
        u([2.0, 0.3], u.b), u(0.01, u.b), u(0.05, -scale - u.b), u(1.5, scale)
    )
    return [(found, u.b)]


@row("sharpness_at_interpolation")
def sharpness_at_interpolation(u):
    return [(theory.sharpness_at_interpolation(regression(u, Y2), u.params(**TWO)), -u.t)]


@row("hessian_trace_at_interpolation")
def hessian_trace_at_interpolation(u):
    return [(theory.hessian_trace_at_interpolation(regression(u, Y2), u.params(**TWO)), -u.t)]


@row("symmetric_products")
def symmetric_products(u):
    found = theory.symmetric_products(regression(u, Y2, X), u.params(**TWO))
    return [
        (found.outputs, -u.t),
        (found.inputs, -u.t),
        (found.hidden, 2 * u.p - u.t),
    ]


@row("product_velocity")
def product_velocity(u):
    scale = 2 * u.x + u.w
    found = theory.product_velocity(
        0.2 * BETA, u(BETA[::-1], scale + u.b), u(GAMMA, u.b), u(1.5, scale)
    )
    return [(found, 2 * (scale + u.b))]


# -- label noise alone --------------------------------------------------------------------------


@row("noise_only_moments")
def noise_only_moments(u):
    found = theory.noise_only_moments(
        u(X, u.x), u(TWO["W1"], u.p), u(TWO["W2"][:, 0], u.p), u(TIMES, -2 * u.x)
    )
    return [(found.WWt, 2 * u.p), (found.a2, 2 * u.p)]


@row("commutator_size")
def commutator_size(u):
    size = theory.noise_only.commutator_size
    return [(size(u(TWO["W1"], u.p), u(TWO["W2"][:, 0], u.p), 0.7), 2 * u.p)]


@row("commutator_moments")
def commutator_moments(u):
    found = theory.commutator_moments(u(TWO["W1"], u.p), u(TWO["W2"][:, 0], u.p), TIMES)
    return [(found.P, 4 * u.p), (found.Q, 4 * u.p)]


@row("label_noise_rank_one_limit")
def label_noise_rank_one_limit(u):
    found = theory.label_noise_rank_one_limit(u(BETA, u.b), u(X, u.x))
    return [
        (found.W1, u.p),
        (found.W2, u.p),
        (found.M, u.b),
        (found.N, u.b),
        (found.trace, 2 * u.x + u.b),
    ]


@row("label_noise_sde_scale")
def label_noise_sde_scale(u):
    lr, std = 2 * (u.t // 2), u.y
    found = theory.label_noise_sde_scale(u(0.01, lr), u(0.3, std))
    return [(found.flow, lr // 2 + std), (found.step, lr + std), (found.unit_time, 2 * (lr + std))]


@row("noise_only_paths")
def noise_only_paths(u):
    out = []
    for scheme in ("boost", "euler"):
        layers = u(TWO["W1"], u.p), u(TWO["W2"][:, 0], u.p)
        times, step = u([0.01, 0.03], -2 * u.x), u(0.01, -2 * u.x)
        found = theory.noise_only_paths(u(X, u.x), *layers, times, 2, step, scheme=scheme)
        out += [(found.W, u.p), (found.a, u.p)]
    return out


@row("noise_only_step")
def noise_only_step(u):
    layers = u(TWO["W1"], u.p), u(TWO["W2"][:, 0], u.p)
    after = theory.noise_only_step(u(X, u.x), *layers, u(0.1 * Y1, -u.x), u(0.01, -2 * u.x))
    return [(part, u.p) for part in after]
