"""W6: tangent projector and label-noise drift of a tanh net, against the dense Hessian."""

import functools
import statistics
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

import gradbias as gb
from gradbias._manifold.target import target_at
from gradbias._manifold.third_derivative import pulled
from gradbias.theory import manifold

from .protocol import Check, seconds

SAMPLES, INPUTS = 100, 10


@functools.cache
def at(width: int, samples: int = SAMPLES) -> tuple[Any, dict[str, np.ndarray]]:
    """The residual of a net with 12·width + 1 parameters, and a point where it vanishes."""
    net = gb.MLP([INPUTS, width, 1], "tanh")
    params = gb.init.gaussian(net, INPUTS**-0.5, key=0)
    X = np.random.default_rng(0).normal(size=(samples, INPUTS))
    with gb.float64():
        labels = np.asarray(net(params, X))  # the net's own outputs: it is on the manifold
    return manifold.residuals(gb.Regression.half_mean(X, labels), net), params


def projected(width: int, samples: int = SAMPLES) -> np.ndarray:
    """Pv of one vector."""
    residual, params = at(width, samples)
    return manifold.tangent_projector(params, residual=residual) @ _probe(width)


def drift(width: int, samples: int = SAMPLES) -> np.ndarray:
    """−¼ P∇tr H."""
    residual, params = at(width, samples)
    return _flat(manifold.label_noise_drift(params, 1.0, residual=residual))


def dense_projected(width: int) -> np.ndarray:
    """The same from a Hessian with all of its entries."""
    normal, probe = _dense_normal(width), _probe(width)
    return probe - normal @ (normal.T @ probe)


def dense_drift(width: int) -> np.ndarray:
    """The same by the definition: a third derivative along every parameter."""
    normal = _dense_normal(width)
    with gb.float64():
        slope = np.asarray(_dense(width)[1](_flat(at(width)[1])))
    return -0.25 * (slope - normal @ (normal.T @ slope))


def _dense_normal(width: int) -> np.ndarray:
    with gb.float64():
        H = np.asarray(_dense(width)[0](_flat(at(width)[1])))
    values, vectors = np.linalg.eigh(H)
    return vectors[:, values > 1e-9 * values[-1]]


def workloads(quick: bool) -> list[Check]:
    """Time, memory, growth with the number of parameters at fixed n, and whether both agree."""
    width = 40 if quick else 166  # 1993 parameters
    widths = (8, 83, 833) if quick else (8, 83, 833, 8333)
    both = functools.partial(_time, projected, dense_projected, width)
    moved = functools.partial(_time, drift, dense_drift, width)
    return [
        Check("W6 agreement", functools.partial(_agreement, width), 1e-8, "relative"),
        Check("W6 projector", both, 1 / 500, "of dense"),
        Check("W6 drift", moved, 1 / 500, "of dense"),
        Check("W6 memory", functools.partial(_memory, width), 1 / 200, "of dense"),
        Check("W6 with D", functools.partial(_growth, widths), 1.1, "exponent"),
    ]


@functools.cache
def _probe(width: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=12 * width + 1)


def _flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def _loss(residual: Any, shaped: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda flat: 0.5 * (residual(shaped(flat)) ** 2).sum()


@functools.cache
def _dense(width: int) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The Hessian, and ∇tr H."""
    residual, params = at(width)
    with gb.float64():
        _, shaped = ravel_pytree(params)
    loss = _loss(residual, shaped)

    def along(flat, unit):
        twice = jax.jvp(lambda x: jax.jvp(jax.grad(loss), (x,), (unit,))[1], (flat,), (unit,))
        return twice[1]

    def slope(flat):
        units = np.eye(flat.size)
        return jax.lax.map(lambda unit: along(flat, unit), units, batch_size=16).sum(0)

    return jax.jit(jax.hessian(loss)), jax.jit(slope)


def _agreement(width: int) -> tuple[float, dict[str, Any]]:
    pairs = [(projected(width), dense_projected(width)), (drift(width), dense_drift(width))]
    errors = [float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in pairs]
    return max(*errors, 1e-17), {"errors": errors}


def _time(
    fast: Callable[[int], Any], slow: Callable[[int], Any], width: int
) -> tuple[float, dict[str, Any]]:
    """CPU time of one over that of the other."""
    fast(width), slow(width)
    dense = [seconds(lambda: slow(width))[0] for _ in range(2)]
    ours = [seconds(lambda: fast(width))[0] for _ in range(9)]
    value = statistics.median(ours) / statistics.median(dense)
    return value, {"gradbias_seconds": ours, "dense_seconds": dense}


def _memory(width: int) -> tuple[float, dict[str, Any]]:
    """What compiled code asks for: the Hessian alone, and all that our two results take."""
    residual, params = at(width)
    with gb.float64():
        shaped = ravel_pytree(params)[1]
        target, flat = target_at(params, None, residual)

    def needed(function: Callable[..., Any], *given: Any) -> int:
        with gb.float64():
            analysis: Any = jax.jit(function).lower(flat, *given).compile().memory_analysis()
        return analysis.temp_size_in_bytes + analysis.output_size_in_bytes

    n = SAMPLES
    # J, JJᵀ and its factor; then also what the gradient of ‖J‖² takes.
    projector = needed(lambda flat: target.jacobian(flat)) + 2 * 8 * n**2
    slope = needed(lambda flat, J: pulled(target, flat, J), np.zeros((n, len(flat))))
    hessian = needed(jax.hessian(_loss(residual, shaped)))
    raw = {"projector_bytes": projector, "drift_bytes": projector + slope, "hessian_bytes": hessian}
    return (projector + slope) / hessian, raw


def _growth(widths: tuple[int, ...]) -> tuple[float, dict[str, Any]]:
    """CPU time of both at n = 50 and D = 12·width + 1."""
    costs = []
    for width in widths:

        def job(width: int = width) -> None:
            projected(width, 50), drift(width, 50)

        job()
        costs.append(min(seconds(job)[0] for _ in range(5)))
    sizes = [12 * width + 1 for width in widths]
    exponent = float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])
    return max(exponent, 1e-3), {"D": sizes, "seconds": costs}
