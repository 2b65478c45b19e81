"""The predictor's own equations of motion, at every point of a path."""

from collections.abc import Callable, Mapping

import numpy as np

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
from ..prelude import (
    Claims,
    Control,
    Erratum,
    Evidence,
    Measurements,
    Run,
    Setup,
    Theorem,
    common,
    equals,
    setup_of,
)
from . import _instances as cases
from ._facts import depth_of
from ._paper import OF_PATHS

GIVEN = ("path",)
ROUNDED = 1e-5


Params = Mapping[str, np.ndarray]
Field = Callable[[Setup, Params], np.ndarray | float]


def predict_field(field: Field, name: str) -> Callable[[Setup, Run], Claims]:
    """A prediction: `field(setup, params)` at every saved point of the run."""

    def predict(setup: Setup, run: Run) -> Claims:
        value = np.asarray([field(setup, params) for params in cases.path(run)])
        size = np.abs(value).reshape(len(value), -1).max(axis=1)
        # The loss falls by many decades on the way: every instant counts by its own size, down
        # to where the residual is a difference of rounded numbers.
        shape = (len(value),) + (1,) * (value.ndim - 1)
        return {name: equals(value, scale=size.reshape(shape) + ROUNDED * size.max())}

    return predict


def predictor(setup: Setup, params: Params) -> np.ndarray:
    """θ of these parameters."""
    assert isinstance(setup.net, ChainNet)
    product = np.eye(setup.problem.d)
    for factor in setup.net.factors(params):
        product = product @ np.asarray(factor)
    return np.ravel(product)


def velocity_35(setup: Setup, params: Params) -> np.ndarray:
    """(35)."""
    return np.ravel(theta_velocity(common.regression(setup), params))


def velocity_balanced(setup: Setup, params: Params) -> np.ndarray:
    """(43) and (55)."""
    return np.ravel(
        balanced_velocity(common.regression(setup), predictor(setup, params), depth_of(setup))
    )


def slope_any(setup: Setup, params: Params) -> float:
    """dL/dt of C.2.1."""
    return rank1_loss_rate(common.regression(setup), params)


def slope_balanced(setup: Setup, params: Params) -> float:
    """dL/dt of C.3."""
    return loss_rate(common.regression(setup), predictor(setup, params), depth_of(setup))


def pulled(setup: Setup, params: Params) -> tuple[np.ndarray, float]:
    """∇L in θ, and ξ² (‖θ‖^{2−2/N} where balanced): the terms that turn nothing."""
    theta = predictor(setup, params)
    g = np.ravel(common.regression(setup).gradient(theta))
    if isinstance(setup.net, Rank1):
        return g, float(np.prod(np.sum(params["u"] * params["v"], axis=1))) ** 2
    return g, float(np.linalg.norm(theta)) ** (2 - 2 / depth_of(setup))


def straight(setup: Setup, params: Params) -> np.ndarray:
    """dθ/dt without its second term."""
    g, size = pulled(setup, params)
    return -size * g


def straight_slope(setup: Setup, params: Params) -> float:
    """dL/dt without its second term."""
    g, size = pulled(setup, params)
    return -size * float(g @ g)


def as_printed_55(setup: Setup, params: Params) -> np.ndarray:
    """Without the factor 2/n."""
    return velocity_balanced(setup, params) * common.regression(setup).n / 2


def as_printed_c3(setup: Setup, params: Params) -> float:
    """With the exponent 2(1 − N)/N, one factor 2/n, and no 1/‖θ‖²."""
    problem = common.regression(setup)
    theta = predictor(setup, params)
    N = depth_of(setup)
    g = np.ravel(problem.gradient(theta)) * problem.n / 2
    size = float(np.linalg.norm(theta)) ** (2 * (1 - N) / N)
    return -2 / problem.n * size * float(g @ g + (N - 1) * (theta @ g) ** 2)


def measure_field(name: str) -> Callable[[Run], Measurements]:
    """What the chain rule gives at the same points."""
    return lambda run: {name: cases.recorded(run, name)}


def _theorem(
    name: str,
    statement: str,
    title: str,
    quantity: str,
    field: Field,
    net: str,
    any_start: bool,
    errata: tuple[Erratum, ...] = (),
) -> Theorem:
    balanced = {"rank1": cases.rank1, "deep": cases.deep}[net]
    out = {"rank1": cases.unbalanced, "deep": cases.unbalanced_deep}[net]
    first = straight if quantity == "velocity" else straight_slope
    of_balanced = velocity_balanced if quantity == "velocity" else slope_balanced
    return Theorem(
        name,
        statement,
        hypotheses=[common.one_output(), *([] if any_start else [common.balanced()])],
        predict=predict_field(field, quantity),
        measure=measure_field(quantity),
        tolerance=1e-8,
        instances=out if any_start else balanced,
        controls=[
            Control(
                "the formula of balanced nets" if any_start else "init is balanced",
                out,
                predict_field(of_balanced, quantity),
                formula=any_start,
            )
        ],
        nets=(Rank1,) if net == "rank1" else (Deep, TwoLayer),
        given=GIVEN,
        dynamics=(Flow,),
        errata=errata,
        terms={"the part along v1": predict_field(first, quantity)},
        paper=OF_PATHS,
        title=title,
    )


def _point(key: int) -> tuple[Regression, np.ndarray, int]:
    """Data and a predictor to look at formulas at."""
    setup = cases.deep(key)
    return common.regression(setup), np.ravel(common.start(setup)), depth_of(setup)


def _error(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def printed_55(key: int) -> Evidence:
    """(55) as printed lacks the factor 2/n."""
    problem, theta, N = _point(key)
    truth = _pushed(problem, theta, key)
    corrected = np.ravel(balanced_velocity(problem, theta, N))
    printed = corrected * problem.n / 2
    return Evidence(_error(printed, truth), _error(corrected, truth))


def _pushed(problem: Regression, theta: np.ndarray, key: int) -> np.ndarray:
    """dθ/dt of a balanced net by the product rule, layer by layer."""
    layers = common.factors(cases.deep(key))
    g = np.asarray(problem.gradient(theta)).reshape(-1, 1)
    moved = np.zeros_like(g)
    for k in range(len(layers)):
        P = np.linalg.multi_dot([np.eye(problem.d), np.eye(problem.d), *layers[:k]])
        Q = np.linalg.multi_dot([*layers[k + 1 :], np.eye(1), np.eye(1)])
        moved -= P @ (P.T @ g @ Q.T) @ Q
    return np.ravel(moved)


def printed_c3(key: int) -> Evidence:
    """dL/dt of C.3 as printed: exponent 2(1−N)/N, one factor 2/n, no 1/‖θ‖²."""
    problem, theta, N = _point(key)
    truth = float(np.ravel(problem.gradient(theta)) @ _pushed(problem, theta, key))
    g = np.ravel(problem.gradient(theta)) * problem.n / 2
    size = float(np.linalg.norm(theta))
    printed = -(2 / problem.n) * size ** (2 * (1 - N) / N) * (g @ g + (N - 1) * (theta @ g) ** 2)
    return Evidence(abs(printed / truth - 1), abs(loss_rate(problem, theta, N) / truth - 1))


def printed_46(key: int) -> Evidence:
    """d∇V/dt = −|ξ|∇L; printed without |ξ|."""
    problem, theta, N = _point(key)
    lam = depth_exponents(N).lam
    size = float(np.linalg.norm(theta))
    speed = np.ravel(balanced_velocity(problem, theta, N))
    unit = theta / size
    moved = size**-lam * (speed - lam * unit * (unit @ speed))
    g = np.ravel(problem.gradient(theta))
    return Evidence(_error(-g, moved), _error(-float(time_warp(theta, N)) * g, moved))


def predict_mirror(setup: Setup, run: Run) -> Claims:
    """∇V(θ(t)) along the path."""
    potential = rank1_potential(np.ravel(common.start(setup)), depth_of(setup))
    duals = [potential.gradient(predictor(setup, p)) for p in cases.path(run)]
    value = np.asarray(duals)
    return {"dual": equals(value, scale=float(np.max(np.abs(value))))}


def measure_mirror(run: Run) -> Measurements:
    """sign(ξ)(v1(t) − v1(0)) along the path."""
    setup = setup_of(run)
    duals = []
    for params in cases.path(run):
        sign = np.sign(predictor(setup, params) @ params["v1"])
        duals.append(sign * (params["v1"] - setup.params["v1"]))
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
            "misprint",
            evidence=printed_55,
            quote=r"\frac{d\theta}{dt} = -\|\theta\|^{\frac{2(L-1)}{L}} \left[I + (L-1) "
            r"\frac{\theta\theta^T}{\|\theta\|^2} \right] X^T r. \quad (55)",
            note="The line of the paper and (57), (62) lack the factor, (61) has it; it "
            "changes the clock only.",
            predict=predict_field(as_printed_55, "velocity"),
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
            "App. C.3, after (67)",
            r"$\dot L = -\frac{2}{n}\|\theta\|^{2(1-N)/N}"
            r"[\|X^\top r\|^2 + (N-1)(\theta\cdot X^\top r)^2]$",
            r"$\dot L = -\frac{4}{n^2}\|\theta\|^{2(N-1)/N}"
            r"[\|X^\top r\|^2 + (N-1)(\theta\cdot X^\top r)^2/\|\theta\|^2]$",
            "misprint",
            evidence=printed_c3,
            quote=r"-\frac{2\|\theta\|^{\frac{2(1-L)}{L}}}{n} \left[\|r^T X\|^2 + (L-1) "
            r"(\theta^T X^T r)^2 \right].",
            note=r"(55) has the exponent right, and the line before it has $\|\theta\|^2$ "
            "below.",
            predict=predict_field(as_printed_c3, "slope"),
        ),
    ),
)
EQ46 = Theorem(
    "rank1.eq46",
    r"In the time $d\tau = |\xi|\,dt$ a balanced net is a mirror flow, "
    r"$d\nabla V/d\tau = -\nabla L$: at every instant $\nabla V(\theta) = \pm(v_1 - v_1(0))$.",
    hypotheses=[common.one_output(), common.no_decay(), common.balanced()],
    predict=predict_mirror,
    measure=measure_mirror,
    tolerance=1e-9,
    instances=cases.rank1,
    controls=[Control("init is balanced", cases.unbalanced)],
    given=GIVEN,
    dynamics=(Flow,),
    errata=(
        Erratum(
            "Eq (46)",
            r"$\frac{d}{dt}\nabla V = -\frac{2}{n}X^\top r$",
            r"$\frac{d}{dt}\nabla V = -|\xi|\frac{2}{n}X^\top r$",
            "misprint",
            evidence=printed_46,
            quote=r"\frac{d}{dt} (\nabla_{\theta} V(\theta)) = -\frac{2}{n} X^T r \quad (46)",
            note="(43) before it and (47) after it have |ξ|; so rank-1 nets follow the mirror "
            "flow in warped time only.",
        ),
    ),
    paper=OF_PATHS,
    title="mirror flow in warped time",
)

THEOREMS = (EQ35, EQ43, EQ46, C21, EQ55, C3)
