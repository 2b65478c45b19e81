"""Rows of the table of units: diagonal nets, and the equilibrium of charges under noise."""

import numpy as np

from gradbias.theory import diagonal, symmetry
from theory.units_rows import (
    BETA,
    ONE_OUTPUT,
    ROWS,
    THETA,
    TIMES,
    Y1,
    X,
    population,
    regression,
    row,
)

U0, V0 = np.array([0.5, 0.7, 1.1, 0.9]), np.array([0.6, 0.4, 1.0, 1.2])
MU = np.array([1.0, -1.0, 0.5])
SIGMA2, THETA2 = np.array([0.3, 0.8, 0.2]), np.array([1.2, 0.4, 0.7])
U, W = BETA.T[:, :3], X[:, :4]
KAPPA, DECAY = 0.1, 0.02


def halves(u):
    return u.params(u=U0, v=V0)


__all__ = ["ROWS"]

# -- diagonal nets --------------------------------------------------------------------------------


@row("diagonal.limit", of=ONE_OUTPUT)
def limit(u, problem):
    end = diagonal.limit(problem, halves(u))
    assert end.residual < 1e-10
    return [(end.u, u.p), (end.v, u.p), (end.theta, u.b)]


@row("diagonal.limiting_flow")
def limiting_flow(u):
    c = u(1.0, 2 * u.p - u.t)
    found = diagonal.limiting_flow(regression(u), halves(u), u(TIMES, 2 * u.t), c)
    return [(part, u.p) for part in found]


@row("diagonal.decay_rates")
def decay_rates(u):
    return [(diagonal.decay_rates(regression(u)), u.w + 2 * u.x)]


@row("diagonal.kernel_solution")
def kernel_solution(u):
    problem = regression(u)
    return [
        (diagonal.kernel_solution(problem), u.b),
        (diagonal.kernel_solution(problem, halves(u)), u.b),
    ]


@row("diagonal.kernel_error")
def kernel_error(u):
    return [(diagonal.kernel_error(u(THETA, u.b), 2), 2 * u.b)]


@row("diagonal.canonical")
def canonical(u):
    return [(part, u.p) for part in diagonal.canonical(u(THETA, u.b))]


@row("diagonal.distance_to_canonical")
def distance_to_canonical(u):
    return [(diagonal.distance_to_canonical(halves(u), u(THETA, u.b)), u.p)]


@row("diagonal.weighted_l1")
def weighted_l1(u):
    return [(diagonal.weighted_l1(regression(u)), u.b)]


@row("diagonal.l1_certificate")
def l1_certificate(u):
    found = diagonal.l1_certificate(regression(u))
    rate = u.w + 2 * u.x
    return [(found.w, u.b), (found.dual, rate), (found.rate, rate), (found.optimal, 0)]


@row("diagonal.l1_rate")
def l1_rate(u):
    return [(diagonal.l1_rate(regression(u)), u.w + 2 * u.x)]


@row("diagonal.pl_constant")
def pl_constant(u):
    return [(diagonal.pl_constant(regression(u), halves(u)), -u.t)]


@row("diagonal.length_bound")
def length_bound(u):
    return [(diagonal.length_bound(regression(u), halves(u)), u.p)]


@row("diagonal.hessian")
def hessian(u):
    return [(diagonal.hessian(regression(u), halves(u)), -u.t)]


@row("diagonal.regulariser")
def regulariser(u):
    return [(diagonal.regulariser(regression(u), halves(u)), -u.t)]


@row("diagonal.projected_gradient")
def projected_gradient(u):
    return [(part, -u.t - u.p) for part in diagonal.projected_gradient(regression(u), halves(u))]


@row("diagonal.limiting_field")
def limiting_field(u):
    found = diagonal.limiting_field(regression(u), halves(u), u(1.0, 2 * u.p - u.t))
    return [(part, u.p - 2 * u.t) for part in found]


@row("diagonal.tangent_kernel")
def tangent_kernel(u):
    return [(diagonal.tangent_kernel(regression(u), halves(u)), 2 * (u.x + u.p))]


@row("diagonal.manifold_dimension")
def manifold_dimension(u):
    return [(diagonal.manifold_dimension(regression(u), halves(u)), 0)]


@row("diagonal.product_law")
def product_law(u):
    gradients = u(np.array([THETA, THETA[::-1]]), -u.t)
    return [(diagonal.product_law(u(U0 * V0, u.b), gradients, u(0.1, u.t)), u.b)]


@row("diagonal.noise_level")
def noise_level(u):
    return [(diagonal.noise_level(regression(u), u(0.3, u.y), 2), u.w + 2 * u.y)]


@row("diagonal.stability_bound")
def stability_bound(u):
    return [(diagonal.stability_bound(regression(u), halves(u)), u.t)]


# -- charges under noise --------------------------------------------------------------------------


def squares(u):
    """Gradient noise (p/t)², squares of parameters p², κ of unit t and γ of unit 1/t."""
    return (MU, u(SIGMA2, 2 * (u.p - u.t)), u(THETA2, 2 * u.p), u(KAPPA, u.t), u(DECAY, -u.t))


@row("symmetry.fixed_point")
def fixed_point(u):
    found = symmetry.fixed_point(*squares(u))
    return [(float(found), 0), (found.d_theta2, -2 * u.p), (found.d_kappa, -u.t)]


@row("symmetry.fixed_points")
def fixed_points(u):
    found = symmetry.fixed_points(*squares(u))
    return [(found.value, 0), (found.d_sigma2, -2 * (u.p - u.t)), (found.d_weight_decay, u.t)]


@row("symmetry.noether_flow")
def noether_flow(u):
    found = symmetry.noether_flow(*squares(u))
    return [(float(found), 2 * u.p - u.t), (found.charge, 2 * u.p), (found.noise, 2 * u.p - u.t)]


@row("symmetry.flow_by_method")
def flow_by_method(u):
    mu, sigma2, theta2, _, decay = squares(u)
    mean2 = u(0.5 * SIGMA2, 2 * (u.p - u.t))
    found = symmetry.flow_by_method(mu, sigma2, theta2, mean2, u(KAPPA, u.t), 2, decay)
    return [(float(flow), 2 * u.p - u.t) for flow in found.values()]


@row("symmetry.orbit_charge")
def orbit_charge(u):
    return [(symmetry.orbit_charge([0.1, -0.3], MU, u(THETA2, 2 * u.p)), 2 * u.p)]


@row("symmetry.orbit_flow")
def orbit_flow(u):
    return [(symmetry.orbit_flow([0.1, -0.3], *squares(u)), 2 * u.p - u.t)]


@row("symmetry.orbit_potential")
def orbit_potential(u):
    return [(symmetry.orbit_potential([0.1, -0.3], *squares(u)), 2 * u.p - u.t)]


@row("symmetry.local_rate")
def local_rate(u):
    return [(symmetry.local_rate(*squares(u)), -u.t)]


@row("symmetry.rescaling_rates")
def rescaling_rates(u):
    noise = (u(v, 2 * (u.p - u.t)) for v in (0.3, 0.8))
    theta2 = (u(v, 2 * u.p) for v in (1.2, 0.4))
    return [(rate, -u.t) for rate in symmetry.rescaling_rates(*noise, *theta2, u(KAPPA, u.t))]


@row("symmetry.pull_bound")
def pull_bound(u):
    found = symmetry.pull_bound(MU, u(SIGMA2, 2 * (u.p - u.t)), u(KAPPA, u.t))
    return [(part, 2 * u.p - u.t) for part in found]


@row("symmetry.joint_equilibrium")
def joint_equilibrium(u):
    mu, sigma2, theta2, kappa, decay = squares(u)
    found = symmetry.joint_equilibrium([mu, mu[::-1]], sigma2, theta2, kappa, decay)
    return [(found.lam, 0), (found.potential, 2 * u.p - u.t)]


@row("symmetry.equilibrium_norm")
def equilibrium_norm(u):
    args = u(0.3, 2 * (u.p - u.t)), u(1.2, 2 * u.p), u(KAPPA, u.t), u(DECAY, -u.t)
    return [(symmetry.equilibrium_norm(*args), u.p)]


@row("symmetry.tracking_error")
def tracking_error(u):
    args = u(0.3, -u.t), u(0.2, 2 * u.p - u.t), u(0.4, 2 * u.p - u.t // 2)
    return [(symmetry.tracking_error(*args, u(1.0, 2 * u.p), u(0.7, u.t)), 4 * u.p)]


@row("symmetry.tracking_bound")
def tracking_bound(u):
    args = u(0.3, -u.t), u(0.2, 2 * u.p - u.t), u(0.4, 2 * u.p - u.t // 2)
    return [(symmetry.tracking_bound(*args), 4 * u.p)]


@row("symmetry.time_scales")
def time_scales(u):
    found = symmetry.time_scales(u(2.0, -u.t), u(0.1, -u.t), u(DECAY, -u.t))
    return [(found.fit, u.t), (found.equilibrium, u.t), (found.decay, u.t), (found.slow, 0)]


def factor_pair(u):
    return u(U, u.p), u(W, u.p)


@row("symmetry.factorisation_noise")
def factorisation_noise(u):
    problem = population(u, 2)
    found = symmetry.factorisation_noise(problem, *factor_pair(u))
    return [(part, 2 * (u.p - u.t)) for part in found]


@row("symmetry.factorisation_flow")
def factorisation_flow(u):
    args = u(KAPPA, u.t), u(DECAY, -u.t), u(0.2, u.t)
    found = symmetry.factorisation_flow(population(u, 2), *factor_pair(u), *args)
    return [(found, 2 * u.p - u.t)]


@row("symmetry.factorisation_residual")
def factorisation_residual(u):
    args = u(KAPPA, u.t), u(DECAY, -u.t)
    return [(symmetry.factorisation_residual(population(u, 2), *factor_pair(u), *args), 0)]


@row("symmetry.factorisation_hessian_trace")
def factorisation_hessian_trace(u):
    found = symmetry.factorisation_hessian_trace(population(u, 2), *factor_pair(u), u(DECAY, -u.t))
    return [(found, -u.t)]


@row("symmetry.rank_one_rate")
def rank_one_rate(u):
    problem = regression(u, Y1, X[:, :1])
    pair = u(U[:1], u.p), u(W[:, :1], u.p)
    return [(symmetry.rank_one_rate(problem, *pair, u(KAPPA, u.t)), -u.t)]


@row("symmetry.seam_noise")
def seam_noise(u):
    sides = symmetry.seam_noise([u(W, u.p), u(U, u.p)], population(u, 2))
    return [(side, 2 * (u.p - u.t)) for pair in sides for side in pair]


@row("symmetry.equilibrium_residual")
def equilibrium_residual(u):
    args = u(KAPPA, u.t), u(DECAY, -u.t)
    layers = [u(W, u.p), u(U, u.p)]
    return [(symmetry.equilibrium_residual(layers, population(u, 2), *args), 0)]


@row("symmetry.factorisation_equilibrium")
def factorisation_equilibrium(u):
    args = u(BETA.T, u.b), u(KAPPA, u.t), u(DECAY, -u.t)
    found = symmetry.factorisation_equilibrium(population(u, 2), 3, *args)
    return [(np.abs(found.U @ found.U.T), u.b), (np.abs(found.W.T @ found.W), u.b)]


@row("diagonal.limiting_pl")
def limiting_pl(u):
    return [(diagonal.limiting_pl(regression(u), halves(u)), -u.t - 2 * u.p)]


@row("diagonal.limiting_length_bound")
def limiting_length_bound(u):
    constant = u(0.4, -u.t - 2 * u.p)
    return [(diagonal.limiting_length_bound(regression(u), halves(u), constant), u.p)]


@row("symmetry.deep_equilibrium", 3)
def deep_equilibrium(u):
    covariances = u(np.eye(4) + X.T @ X, 2 * u.x), u([[0.4, 0.1], [0.1, 0.5]], 2 * u.y)
    found = symmetry.deep_equilibrium(u(BETA.T, u.b), *covariances, [3, 3])
    return [(weight.T @ weight, 2 * u.p) for weight in found]


@row("symmetry.pair_equilibrium")
def pair_equilibrium(u):
    noises = (u(np.eye(3) + A @ A.T, 2 * (u.p - u.t)) for A in (X, X[::-1, ::2]))
    found = symmetry.pair_equilibrium(*factor_pair(u), *noises, u(KAPPA, u.t), u(DECAY, -u.t))
    return [(found.P, 0), (found.UUt, 2 * u.p), (found.WtW, 2 * u.p)]


@row("symmetry.equilibration_time")
def equilibration_time(u):
    args = u(np.eye(4) + X.T @ X, 2 * u.x), u([[0.4]], 2 * u.y), u(KAPPA, u.t)
    return [(symmetry.equilibration_time(*args), -u.t - 2 * (u.x + u.y))]
