"""Rows of the table of units: potentials, and two-layer nets with imbalance."""

import numpy as np

from gradbias import theory
from gradbias.problems import Regression
from theory.units_rows import (
    BETA,
    GAMMA,
    ROWS,
    THETA,
    TIMES,
    TWO,
    TWO_OUTPUTS,
    WHITE,
    Y1,
    Y2,
    X,
    population,
    regression,
    row,
)

SCALAR = {"W1": np.sqrt(1.4) * np.eye(4, 6), "W2": np.zeros((6, 2))}


__all__ = ["ROWS"]

# -- potentials ---------------------------------------------------------------------------------


def mirror(u, potential, theta, dual, value, degree=None):
    """value, gradient, its inverse and a divergence of a potential; dual: the unit of ∇V."""
    degree = u.b + dual if degree is None else degree
    out = [] if value is None else [(potential.value(u(theta, u.b)) + value, degree)]
    out += [(potential.gradient(u(theta, u.b)), dual)]
    gradient = np.asarray(potential.gradient(u(theta, u.b)))
    out += [(potential.inverse_gradient(gradient), u.b)]
    out += [(potential.bregman(u(theta, u.b), u(0.8 * theta, u.b)), degree)]
    return out


@row("rank1_potential", 3)
def rank1_potential(u):
    out = []
    for gap in (0.0, 0.3):
        V = theory.rank1_potential(u(THETA, u.b), 3, u(gap, 2 * u.p))
        out += mirror(u, V, np.roll(THETA, 1), u.p, 0.0)
        for problem in (regression(u), population(u)):
            end = V.limit(problem)
            assert end.residual < 1e-9
            out.append((end.theta, u.b))
    return out


@row("hyperbolic_entropy")
def hyperbolic_entropy(u):
    out = []
    for start in (None, u(THETA, u.b)):
        V = theory.hyperbolic_entropy(u([0.3, 0.4, 1.0, 2.0], u.p), start)
        out += mirror(u, V, np.roll(THETA, 1), 0, 0.0)
        end = V.limit(regression(u))
        assert end.residual < 1e-9
        out.append((end.theta, u.b))
    return out


@row("spectral_scalar_potential")
def spectral_scalar_potential(u):
    V = theory.spectral_scalar_potential(u(GAMMA, u.b))
    end = V.limit(regression(u), u(THETA, u.b))
    assert end.residual < 1e-9
    return [*mirror(u, V, THETA, u.p, 0.0), (end.theta, u.b)]


@row("singular_value_potential")
def singular_value_potential(u):
    V = theory.singular_value_potential(u(GAMMA, u.b))
    return mirror(u, V, np.abs(THETA), 0, 0.0)


@row("reduced_spectral_potential")
def reduced_spectral_potential(u):
    V = theory.reduced_spectral_potential(u(GAMMA, u.b))
    shift = 4 * u(GAMMA, u.b) * u.b * np.log(2)  # a logarithm of γ for each of 4 inputs
    end = V.limit(regression(u, Y2))
    assert end.residual < 1e-9
    return [*mirror(u, V, BETA, 0, shift), (end.theta, u.b)]


@row("log_det_potential")
def log_det_potential(u):
    V = theory.log_det_potential(u(GAMMA, u.b))
    shift = 4 * u(GAMMA, u.b) * u.b * np.log(2)
    layers = u(TWO["W1"], u.p), u(TWO["W2"], u.p)
    gram = TWO["W1"] @ TWO["W1"].T
    return [
        (V.value(*layers) + shift, u.b),
        (V.gradient(*layers).W1, u.p),
        (V.gradient(*layers).W2, u.p),
        (V.of_gram(u(gram, u.b), u(BETA, u.b)) + shift, u.b),
        (V.limit(regression(u, Y2)).theta, u.b),
    ]


@row("Potential")
def own_potential(u):
    V = theory.Potential(
        lambda theta: float(np.sum(np.abs(theta) ** 1.5)) / 1.5,
        lambda theta: np.sign(theta) * np.abs(theta) ** 0.5,
        lambda dual: dual * np.abs(dual),
    )
    end = V.limit(regression(u), u(THETA, u.b))
    assert end.residual < 1e-6
    return [*mirror(u, V, THETA, u.p, 0.0), (end.theta, u.b)]


# -- imbalance ------------------------------------------------------------------------------------


def two(u):
    return u.params(**TWO)


@row("balanced_two_layer")
def balanced_two_layer(u):
    found = theory.balanced_two_layer(regression(u, Y2), u(BETA, u.b), 5)
    return [(found["W1"], u.p), (found["W2"], u.p)]


@row("balanced_whitened")
def balanced_whitened(u):
    problem = regression(u, Y1, 2 * WHITE[:3])
    return [(theory.balanced_whitened(problem, u(THETA, u.b), u(TIMES, u.t)), u.b)]


@row("bias_law")
def bias_law(u):
    law = theory.bias_law(regression(u, Y2), two(u), 0.5)
    out = [(law.weights, u.b), (law.mean, u.b), (law.variance, 2 * u.b)]
    out += [(law.quantile([0.001, 0.3, 0.999]), u.b), (law.sample(3), u.b)]
    return [*out, (law.cdf(u([0.1, 3.0], u.b)), 0), (law.sf(u([0.1, 30.0], u.b)), 0)]


@row("certificate", of=TWO_OUTPUTS)
def certificate(u, problem):
    told = theory.certificate(problem, two(u))
    errors = u([0.01, 1.0], u.y)
    out = [(told.c, 2 * u.p), (told.kA, -u.t), (told.k0, -u.t), (told.k_max, -u.t)]
    out += [(told.e0, u.y), (told.kB(errors), -u.t), (told.kC(errors), -u.t)]
    out += [(told.rate(errors), -u.t), (told.envelope(u(TIMES, u.t)), u.loss)]
    return [*out, (told.asymptotic_rate, -u.t), (told.ceiling, -u.t)]


@row("least_gram")
def least_gram(u):
    own, other, product = (u(v, u.b) for v in ([1.0, 0.1], [0.2, 3.0], [0.5, 0.5]))
    return [(theory.least_gram(own, other, product), u.b)]


def closed_units(u):
    return (u.y, 2 * (u.x + u.p), 2 * u.p)


@row("closed_state")
def closed_state(u):
    found = theory.closed_state(regression(u, Y2), two(u))
    return list(zip(found, closed_units(u), strict=True))


def closed(u):
    now = theory.closed_state(Regression(X, Y2, 0.3), TWO)
    return type(now)(*(u(part, e) for part, e in zip(now, closed_units(u), strict=True)))


@row("closed_velocity")
def closed_velocity(u):
    found = theory.closed_velocity(regression(u, Y2), closed(u))
    return [(part, e - u.t) for part, e in zip(found, closed_units(u), strict=True)]


@row("closed_step")
def closed_step(u):
    found = theory.closed_step(regression(u, Y2), closed(u), u(0.01, u.t))
    return list(zip(found, closed_units(u), strict=True))


@row("rate_ceiling")
def rate_ceiling(u):
    return [(theory.rate_ceiling(regression(u, Y2), two(u)), -u.t)]


@row("rate_floor")
def rate_floor(u):
    return [(theory.rate_floor(regression(u, Y2), two(u)), -u.t)]


@row("step_rule")
def step_rule(u):
    found = theory.step_rule(regression(u, Y2), two(u), u(0.01, u.t))
    return [(found.step, 0), (found.largest, 0), (found.certified, 0), (found.level, 2 * u.p)]


def inputs_alone(u):
    """Entries of variance 1/h are of order one, so predictors have no unit of their own."""
    return Regression(u(X, u.x), u(Y2, u.x), u(0.3, u.w))


@row("infinite_width_limit")
def infinite_width_limit(u):
    found = theory.infinite_width_limit(inputs_alone(u))
    return [(found.trace, 0), (found.end.M, 2 * u.x), (found.end.N, 0), (found.distance(50), 0)]


@row("infinite_width_trace")
def infinite_width_trace(u):
    return [(theory.infinite_width_trace(inputs_alone(u)), 0)]


@row("bias_bound")
def bias_bound(u):
    found = theory.bias_bound(regression(u, Y2), two(u))
    shift = u.b * np.log(2)
    return [
        (found.growth, 0),
        (found.log_simple - shift, 0),
        (found.log_bound - shift, 0),
    ]


@row("invariant_projection")
def invariant_projection(u):
    found = theory.invariant_projection(regression(u, Y2), two(u))
    return [(found["W1"], u.p), (found["W2"], u.p)]


@row("invariant_residual")
def invariant_residual(u):
    return [(theory.invariant_residual(regression(u, Y2), two(u)), 2 * u.p)]


@row("imbalance_drift")
def imbalance_drift(u):
    return [(theory.imbalance_drift(regression(u, Y2), two(u), u(0.01, u.t)), 2 * u.p)]


@row("imbalance_level")
def imbalance_level(u):
    return [(theory.imbalance_level(regression(u, Y2), two(u)), 2 * u.p)]


@row("imbalance_signature")
def imbalance_signature(u):
    return [(theory.imbalance_signature(regression(u, Y2), two(u)), 0)]


@row("imbalance_spectrum")
def imbalance_spectrum(u):
    return [(theory.imbalance_spectrum(regression(u, Y2), two(u)), 2 * u.p)]


@row("growth_bound")
def growth_bound(u):
    return [(theory.growth_bound(regression(u, Y2), two(u)), 0)]


@row("log_norm_bound")
def log_norm_bound(u):
    found = theory.log_norm_bound(regression(u, Y2), two(u))
    return [(found - 2 * u.p * np.log(2), 0)]


@row("rate_bound")
def rate_bound(u):
    return [(theory.rate_bound(regression(u, Y2), two(u), u(TIMES, u.t)), u.loss)]


@row("flow_time")
def flow_time(u):
    found = theory.flow_time(regression(u), u(0.01, u.t), [1, 5])
    return [(found.own, u.t), (found.half_sum, u.t + u.w)]


@row("ntk_rescaling")
def ntk_rescaling(u):
    found = theory.ntk_rescaling(two(u), 0.5)
    return [
        (found.params["W1"], u.p),
        (found.params["W2"], u.p),
        (found.output, 0),
        (found.time, 0),
    ]


@row("riccati_solution")
def riccati_solution(u):
    problem = regression(u, Y2, 2 * WHITE[:3])
    found = theory.riccati_solution(problem, u.params(**SCALAR), u(TIMES, u.t))
    return [(part, 2 * u.p) for part in found]


@row("split")
def split(u):
    found = theory.split(regression(u, Y2))
    return [
        (np.abs(found.Phi1), 0),
        (found.sigma, u.x),
        (np.abs(found.B), u.y),
        (found.weight, u.w),
        (found.S, 2 * u.x),
        (found.speed, u.w),
    ]


@row("width_bound")
def width_bound(u):
    # Entries of the layers are of order one: labels have the unit of the inputs.
    net = theory.WideNet(2, 4, 3, 500, 0.4)
    found = theory.width_bound(net, 0.1, u(4.0, 2 * u.x), u(1.0, 2 * u.x), u(2.0, u.x))
    return [(found.log_bound, 0), (found.log_C, 0), (found.log_threshold, 0)]
