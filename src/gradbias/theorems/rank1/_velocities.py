"""The predictor's own equations of motion, at every point of a path."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._engine.setup import Setup
from ...dynamics import Flow
from ...nets import ChainNet, Deep, Rank1, TwoLayer
from ...problems import Regression
from ...theory import (
    balanced_velocity,
    depth_exponents,
    loss_rate,
    rank1_loss_rate,
    rank1_potential,
    theta_velocity,
    time_warp,
)
from .. import _shared_hypotheses as common
from .._claims import equals
from .._erratum import Erratum, Evidence
from .._source import RANK1 as SOURCE
from .._theorem import Control, Theorem
from . import _instances as cases
from ._limits import depth_of

GIVEN = ("path",)
ROUNDED = 1e-5


def along(field: Callable[[Any, Any], Any], name: str) -> Callable[..., dict[str, Any]]:
    """A prediction: `field(setup, params)` at every saved point of the run."""

    def predict(setup: Setup, runs: Any) -> dict[str, Any]:
        value = np.asarray([field(setup, params) for params in cases.path(runs["run"])])
        size = np.abs(value).reshape(len(value), -1).max(axis=1)
        # The loss falls by many decades on the way: every instant counts by its own size, down
        # to where the residual is a difference of rounded numbers.
        shape = (len(value),) + (1,) * (value.ndim - 1)
        return {name: equals(value, scale=size.reshape(shape) + ROUNDED * size.max())}

    return predict


def predictor(setup: Setup, params: Any) -> np.ndarray:
    """θ of these parameters."""
    assert isinstance(setup.net, ChainNet)
    product = np.eye(setup.problem.d)
    for factor in setup.net.factors(params):
        product = product @ np.asarray(factor)
    return np.ravel(product)


def velocity_35(setup: Setup, params: Any) -> np.ndarray:
    """(35)."""
    return np.ravel(theta_velocity(common.problem(setup), params))


def velocity_balanced(setup: Setup, params: Any) -> np.ndarray:
    """(43) and (55)."""
    return np.ravel(
        balanced_velocity(common.problem(setup), predictor(setup, params), depth_of(setup))
    )


def slope_any(setup: Setup, params: Any) -> float:
    """dL/dt of C.2.1."""
    return rank1_loss_rate(common.problem(setup), params)


def slope_balanced(setup: Setup, params: Any) -> float:
    """dL/dt of C.3."""
    return loss_rate(common.problem(setup), predictor(setup, params), depth_of(setup))


def saw(name: str) -> Callable[[Any], dict[str, Any]]:
    """What the chain rule gives at the same points."""
    return lambda runs: {name: cases.recorded(runs["run"], name)}


def _theorem(
    name: str,
    statement: str,
    title: str,
    quantity: str,
    field: Callable[[Any, Any], Any],
    net: str,
    any_start: bool,
    errata: tuple[Erratum, ...] = (),
) -> Theorem:
    balanced = {"rank1": cases.rank1, "deep": cases.deep}[net]
    out = {"rank1": cases.unbalanced, "deep": cases.unbalanced_deep}[net]
    of_balanced = {"velocity": velocity_balanced, "slope": slope_balanced}[quantity]
    return Theorem(
        name,
        statement,
        [common.one_output(), *([] if any_start else [common.balanced()])],
        along(field, quantity),
        saw(quantity),
        1e-8,
        out if any_start else balanced,
        [Control("init is balanced", out, along(of_balanced, quantity))],
        nets=(Rank1,) if net == "rank1" else (Deep, TwoLayer),
        needs=cases.RECORD,
        given=GIVEN,
        problems=(Regression,),
        dynamics=(Flow,),
        errata=errata,
        source=SOURCE,
        title=title,
    )


def _point(key: int) -> tuple[Any, np.ndarray, int]:
    """Data and a predictor to look at formulas at."""
    setup = cases.deep(key)
    return setup.problem, np.ravel(common.start(setup)), depth_of(setup)


def _error(a: Any, b: Any) -> float:
    return float(np.linalg.norm(np.asarray(a) - b) / np.linalg.norm(b))


def printed_55(key: int) -> Evidence:
    """(55) as printed lacks the factor 2/n."""
    problem, theta, N = _point(key)
    truth = _pushed(problem, theta, key)
    corrected = np.ravel(balanced_velocity(problem, theta, N))
    printed = corrected * cases.N / 2
    return Evidence(_error(printed, truth), _error(corrected, truth))


def _pushed(problem: Any, theta: np.ndarray, key: int) -> np.ndarray:
    """dθ/dt of a balanced net of three layers by the product rule, layer by layer."""
    A, B, C = common.factors(cases.deep(key))
    g = np.asarray(problem.gradient(theta)).reshape(-1, 1)
    after = (B @ C, C, np.ones((1, 1)))
    before = (np.eye(len(A)), A, A @ B)
    parts = [P @ (P.T @ g @ Q.T) @ Q for P, Q in zip(before, after, strict=True)]
    return -np.ravel(sum(parts))


def printed_c3(key: int) -> Evidence:
    """dL/dt of C.3 as printed: exponent 2(1−N)/N, one factor 2/n, no 1/‖θ‖²."""
    problem, theta, N = _point(key)
    truth = float(np.ravel(problem.gradient(theta)) @ _pushed(problem, theta, key))
    g = np.ravel(problem.gradient(theta)) * cases.N / 2
    size = float(np.linalg.norm(theta))
    printed = -(2 / cases.N) * size ** (2 * (1 - N) / N) * (g @ g + (N - 1) * (theta @ g) ** 2)
    return Evidence(abs(printed / truth - 1), abs(loss_rate(problem, theta, N) / truth - 1))


def printed_46(key: int) -> Evidence:
    """d∇V/dt = −|ξ|∇L; printed without |ξ|."""
    problem, theta, N = _point(key)
    lam, size = depth_exponents(N).lam, float(np.linalg.norm(theta))
    speed = np.ravel(balanced_velocity(problem, theta, N))
    unit = theta / size
    moved = size**-lam * (speed - lam * unit * (unit @ speed))
    g = np.ravel(problem.gradient(theta))
    return Evidence(_error(-g, moved), _error(-float(time_warp(theta, N)) * g, moved))


def mirror(setup: Setup, runs: Any) -> dict[str, Any]:
    """∇V(θ(t)) along the path."""
    potential = rank1_potential(np.ravel(common.start(setup)), depth_of(setup))
    duals = [potential.gradient(predictor(setup, p)) for p in cases.path(runs["run"])]
    value = np.asarray(duals)
    return {"dual": equals(value, scale=float(np.max(np.abs(value))))}


def first_layer(runs: Any) -> dict[str, Any]:
    """sign(ξ)(v1(t) − v1(0)) along the path."""
    run = runs["run"]
    duals = []
    for params in cases.path(run):
        sign = np.sign(predictor(run.setup, params) @ params["v1"])
        duals.append(sign * (params["v1"] - run.setup.params["v1"]))
    return {"dual": np.asarray(duals)}


EQ35 = _theorem(
    "rank1.eq35",
    r"On a rank-1 net, from any start, $\dot\theta = -(\xi^2I + \Phi\,v_1v_1^\top)\nabla L$ with "
    r"$\Phi = \sum_k (\xi/\omega_k)^2(\|u_k\|^2+\|v_{k+1}\|^2)$.",
    "velocity of the predictor, any start",
    "velocity",
    velocity_35,
    "rank1",
    True,
)
EQ43 = _theorem(
    "rank1.eq43",
    r"On a balanced rank-1 net the predictor moves by itself: "
    r"$\dot\theta = -\|\theta\|^{2\lambda}(I + 2(L-1)\theta\theta^\top/\|\theta\|^2)\nabla L$.",
    "velocity of the predictor, balanced",
    "velocity",
    velocity_balanced,
    "rank1",
    False,
)
EQ55 = _theorem(
    "rank1.eq55",
    r"On a balanced net of $N$ full layers "
    r"$\dot\theta = -\|\theta\|^{2-2/N}(I + (N-1)\theta\theta^\top/\|\theta\|^2)\nabla L$.",
    "velocity of the predictor, full layers",
    "velocity",
    velocity_balanced,
    "deep",
    False,
    (
        Erratum(
            "Eq (55)",
            r"$\dot\theta = -\|\theta\|^{2-2/N}(I+(N-1)\theta\theta^\top/\|\theta\|^2)X^\top r$",
            r"with the factor $2/n$ of $\nabla L = (2/n)X^\top r$",
            "numeric",
            printed_55,
        ),
    ),
)
C21 = _theorem(
    "rank1.c2.1",
    r"On a rank-1 net, from any start, "
    r"$\dot L = -\xi^2\|\nabla L\|^2 - \Phi\,(v_1\cdot\nabla L)^2$.",
    "speed of the loss, any start",
    "slope",
    slope_any,
    "rank1",
    True,
)
C3 = _theorem(
    "rank1.c3",
    r"On a balanced net of $N$ full layers $\dot L = -\|\theta\|^{2-2/N}"
    r"[\|\nabla L\|^2 + (N-1)(\theta\cdot\nabla L)^2/\|\theta\|^2]$.",
    "speed of the loss, full layers",
    "slope",
    slope_balanced,
    "deep",
    False,
    (
        Erratum(
            "App. C.3",
            r"$\dot L = -\frac{2}{n}\|\theta\|^{2(1-N)/N}"
            r"[\|X^\top r\|^2 + (N-1)(\theta\cdot X^\top r)^2]$",
            r"$\dot L = -\frac{4}{n^2}\|\theta\|^{2(N-1)/N}"
            r"[\|X^\top r\|^2 + (N-1)(\theta\cdot X^\top r)^2/\|\theta\|^2]$",
            "numeric",
            printed_c3,
        ),
    ),
)
EQ46 = Theorem(
    "rank1.eq46",
    r"In the time $d\tau = |\xi|\,dt$ a balanced net is a mirror flow, "
    r"$d\nabla V/d\tau = -\nabla L$: at every instant $\nabla V(\theta) = \pm(v_1 - v_1(0))$.",
    [common.one_output(), common.no_decay(), common.balanced()],
    mirror,
    first_layer,
    1e-9,
    cases.rank1,
    [Control("init is balanced", cases.unbalanced)],
    nets=(Rank1,),
    needs=cases.RECORD,
    given=GIVEN,
    problems=(Regression,),
    dynamics=(Flow,),
    errata=(
        Erratum(
            "Eq (46)",
            r"$\frac{d}{dt}\nabla V = -\nabla L$, and rank-1 nets need no change of time",
            r"$\frac{d}{dt}\nabla V = -|\xi|\nabla L$",
            "numeric",
            printed_46,
        ),
    ),
    source=SOURCE,
    title="mirror flow in warped time",
)

THEOREMS = (EQ35, EQ43, EQ46, C21, EQ55, C3)
