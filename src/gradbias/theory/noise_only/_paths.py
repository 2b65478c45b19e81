r"""Paths of the noise-only process: boosts of Minkowski space, or plain Euler steps.

As one array, S = (W; a) with d + 1 rows, the process is $dS = K(X^TdB)S$ where K(y) exchanges W
and a along y: the generator of a boost of ℝ^{d,1}. In Stratonovich form it has the further drift
$-\tfrac12\mathrm{diag}(A, \mathrm{tr}A)$, A = XᵀX.
"""

from typing import Literal, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.host_rng import generator

Scheme = Literal["boost", "euler"]
SCHEMES = ("boost", "euler")


class NoisePaths(NamedTuple):
    """W, (paths, times, d, width), and a, (paths, times, width)."""

    W: np.ndarray
    a: np.ndarray


def noise_only_paths(
    X: ArrayLike,
    W0: ArrayLike,
    a0: ArrayLike,
    t: ArrayLike,
    paths: int,
    step: float,
    key: int = 0,
    scheme: Scheme = "boost",
) -> NoisePaths:
    r"""Independent paths of $dW = X^TdB\,a^T$, $da = W^TX^TdB$ at given times.

    "boost" takes half of the drift, a boost along $X^T\Delta B$ and the other half. It keeps what
    the process keeps, whatever the step: $W^TW - aa^T$ has no Brownian part, every volume of
    d + 1 columns shrinks by exactly $e^{-t\,\mathrm{tr}A}$, and with one input it is the solution
    itself. "euler" is the method of Euler and Maruyama, which is a step of label-noise descent
    without its gradient: second moments are its strength, exponents its weakness. Both have
    strong order ½ and weak order 1. For Lyapunov exponents step · d ≤ 0.0075 is small enough.

    Args:
        X: (n, d) data.
        W0: (d, width).
        a0: (width,).
        t: (times,) increasing, at least 0.
        paths: how many.
        step: the longest step.
        key: decides the Brownian motion.
        scheme: "boost" or "euler".
    """
    inputs, state = _start(X, W0, a0)
    ends = checks.array("t", t, shape=(None,))
    if np.any(np.diff(ends, prepend=0.0) < 0):
        raise ValueError(f"t must increase from 0 or more, got {ends!r:.80}")
    count = checks.integer("paths", paths, at_least=1)
    step = checks.number("step", step, above=0)
    rng = generator(key, "noise_only_paths")
    now = 0.0
    states = np.tile(state, (count, 1, 1))
    found = []
    for end in ends:
        steps = int(np.ceil((end - now) / step * (1 - 1e-12)))
        if steps:
            move = _stepper(inputs, (end - now) / steps, scheme)
            root = np.sqrt((end - now) / steps)
            for _ in range(steps):
                states = move(states, root * rng.standard_normal((count, len(inputs))))
        now = end
        found.append(states)
    whole = np.stack(found, axis=1) if found else np.empty((count, 0, *state.shape))
    return NoisePaths(whole[..., :-1, :], whole[..., -1, :])


def noise_only_step(
    X: ArrayLike, W: ArrayLike, a: ArrayLike, dB: ArrayLike, h: float, scheme: Scheme = "boost"
) -> tuple[np.ndarray, np.ndarray]:
    """One step of `noise_only_paths` along a given increment of the Brownian motion.

    Args:
        X: (n, d) data.
        W: (d, width).
        a: (width,).
        dB: (n,) the increment, of variance h.
        h: the length of the step.
        scheme: "boost" or "euler".

    Returns:
        W and a after it.
    """
    inputs, state = _start(X, W, a)
    move = checks.array("dB", dB, shape=(len(inputs),))
    step = _stepper(inputs, checks.number("h", h, at_least=0), scheme)
    after = step(state[None], move[None])[0]
    return after[:-1], after[-1]


def _start(X: ArrayLike, W: ArrayLike, a: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    inputs = checks.array("X", X, ndim=(2,))
    first = checks.array("W", W, shape=(inputs.shape[1], None))
    second = checks.array("a", a, shape=(first.shape[1],))
    return inputs, np.vstack([first, second])


def _stepper(X: np.ndarray, h: float, scheme: str):
    """(states, increments) → states, for a step of length h."""
    if checks.one_of("scheme", scheme, SCHEMES) == "euler":
        return lambda S, dB: _euler(S, dB @ X)
    A = X.T @ X
    half = scipy.linalg.expm(-h / 4 * A)
    last = np.exp(-h / 4 * np.trace(A))

    def drifted(S: np.ndarray) -> np.ndarray:
        return np.concatenate([half @ S[:, :-1], last * S[:, -1:]], axis=1)

    return lambda S, dB: drifted(_boost(drifted(S), dB @ X))


def _euler(S: np.ndarray, y: np.ndarray) -> np.ndarray:
    first = S[:, :-1] + y[:, :, None] * S[:, -1:]
    second = S[:, -1:] + y[:, None, :] @ S[:, :-1]
    return np.concatenate([first, second], axis=1)


def _boost(S: np.ndarray, y: np.ndarray) -> np.ndarray:
    """e^{K(y)}S: by cosh and sinh of |y| in the plane of y and a, nothing across."""
    size = np.linalg.norm(y, axis=1)[:, None, None]
    unit = y[:, :, None] / np.where(size > 0, size, 1.0)
    along = np.sum(unit * S[:, :-1], axis=1, keepdims=True)
    a = S[:, -1:]
    # cosh − 1 without cancellation.
    bend = 2 * np.sinh(size / 2) ** 2
    sinh = np.sinh(size)
    first = S[:, :-1] + unit * (bend * along + sinh * a)
    return np.concatenate([first, a + sinh * along + bend * a], axis=1)
