"""Appendix D.3, Eq (91)-(110): the steps from Lemma 3 to Theorem 3, one by one, in τ = ∫|ξ|dt."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ...dynamics import Flow
from ...numerics.precision import host, to_numpy
from ...theory import depth_exponents
from ..prelude import (
    Claim,
    Claims,
    Control,
    Erratum,
    Evidence,
    Measurements,
    Run,
    Setup,
    Theorem,
    common,
    setup_of,
)
from . import _instances as cases
from ._facts import depth_of
from ._paper import OF_PATHS
from ._sde import (
    balanced_kinds,
    by_autodiff,
    first_difference,
    functions,
    ito_by_differences,
    scaled,
)


class Instant:
    """One instant of a balanced path, with η = b = 1.

    Args:
        setup: the net and the data.
        theta: the predictor.
    """

    def __init__(self, setup: Setup, theta: np.ndarray):
        problem = common.regression(setup)
        self.X = np.asarray(problem.X)
        self.L = (depth_of(setup) + 1) // 2
        self.lam = float(depth_exponents(depth_of(setup)).lam)
        self.theta = theta
        self.size = float(np.linalg.norm(theta))
        self.xi = self.size**self.lam
        self.Pi = np.outer(theta, theta) / self.size**2
        self.eye = np.eye(len(theta))
        residual = self.X @ theta - np.ravel(problem.labels)
        # ℒ/n is the sum of squares over n²; here for the problem's own weight
        self.noise = float(problem.weight) ** 2 * float(residual @ residual)

    @property
    def pushed(self) -> np.ndarray:
        """XᵀXθ."""
        return self.X.T @ (self.X @ self.theta)

    @property
    def k2(self) -> float:
        """The square of (100), in τ."""
        return 4 * self.xi**3 * self.noise

    def metric(self) -> np.ndarray:
        """(93), |ξ| times it: what multiplies dθ in τ."""
        return (self.eye - self.lam * self.Pi) / self.xi

    def ito(self, along: float | None = None, power: float = 2.0) -> np.ndarray:
        """4ηℒ𝒫/n of (94): the drift of (95) and of (96).

        Args:
            along: 2(L−1) times ½ in the last line of (94).
            power: of ξ.
        """
        along = self.L - 1 if along is None else along
        P = (2 * (self.L - 1) * self.eye - along * self.Pi) @ self.pushed
        return 4 * self.noise * self.xi**power / self.size**2 * P

    def second(self) -> np.ndarray:
        """(105), (d, d, d) with μ first."""
        t = self.theta
        lam = self.lam
        eye = self.eye
        pairs = np.einsum("mr,s->mrs", eye, t) + np.einsum("ms,r->mrs", eye, t)
        rest = np.einsum("m,rs->mrs", t, eye - (lam + 2) * self.Pi)
        return -lam / self.size ** (lam + 2) * (pairs + rest)

    def twice(self) -> np.ndarray:
        """BBᵀθ of (107)."""
        L = self.L
        return (2 * L - 1) * (self.eye + 2 * (L - 1) * self.Pi) @ self.pushed

    def trace(self) -> float:
        """The trace of (108)."""
        L = self.L
        along = float(self.theta @ self.pushed) / self.size**2
        return float(np.sum(self.X**2)) - (8 * L**2 - 10 * L + 4) * along

    def bend(self) -> np.ndarray:
        """(109)."""
        L = self.L
        P = 4 * (L - 1) * (self.eye - L / (2 * L - 1) * self.Pi) @ self.pushed
        whole = self.lam * np.sum(self.X**2) * self.theta + P
        return -self.k2 / (2 * self.size ** (self.lam + 2)) * whole

    def change(self) -> np.ndarray:
        """g′ of (110), with the right power of ‖θ‖."""
        across = float(np.sum(self.X**2)) - float(self.theta @ self.pushed) / self.size**2
        power = self.size ** (2 * self.lam - 2)
        return 2 * self.lam * self.noise * power * across * self.theta


def along_path(setup: Setup, run: Run, of: Callable[[Instant], object]) -> np.ndarray:
    """A function of every instant that was reached."""
    return np.asarray([of(Instant(setup, theta)) for theta in cases.recorded(run, "theta")])


def predict_steps(setup: Setup, run: Run) -> Claims:
    """Closed forms, from θ alone."""

    def told(of: Callable[[Instant], object]) -> np.ndarray:
        return along_path(setup, run, of)

    # g′ is what is left of two terms.
    parts = told(lambda now: np.abs(now.bend()) + np.abs(now.ito()))
    return {
        **scaled({"metric (93)": told(lambda now: now.metric())}),
        **scaled({"D′ (93)": told(lambda now: now.metric())}),
        **scaled({"drift (94)-(96)": told(lambda now: now.ito())}),
        **scaled({"k² (102)": told(lambda now: [now.k2])}),
        **scaled({"D″ (105)": told(lambda now: now.second())}),
        **scaled({"BBᵀθ (107)": told(lambda now: now.twice())}),
        **scaled({"tr BᵀPB (108)": told(lambda now: [now.trace()])}, told(_whole_trace)),
        **scaled({"Itô's term (109)": told(lambda now: now.bend())}),
        **scaled({"g′ (110)": told(lambda now: now.change())}, parts),
    }


def _whole_trace(now: Instant) -> list[float]:
    return [float(np.sum(now.X**2)) * (8 * now.L**2)]


def dual(theta, lam):
    """‖θ‖^{−λ}θ, the gradient of the potential."""
    return jnp.sum(theta**2) ** (-lam / 2) * theta


def derivatives(theta, lam):
    """First and second derivatives of the dual, and the matrix M that turns −∇L into dθ/dt."""
    first = jax.jacfwd(dual)
    return first(theta, lam), jax.jacfwd(first)(theta, lam)


def kernel(params):
    """JJᵀ of the predictor in the parameters."""
    jacobian = jax.jacrev(lambda p: functions(p)["theta"])(params)
    return sum(
        jnp.reshape(j, (len(j), -1)) @ jnp.reshape(j, (len(j), -1)).T
        for j in jax.tree.leaves(jacobian)
    )


_derivatives = jax.jit(jax.vmap(derivatives, in_axes=(0, None)))
_kernel = jax.jit(jax.vmap(kernel))


@host
def differentiated(run: Run) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """First and second derivative of the dual, and M, at every save."""
    path = cases.path(run)
    params = {name: np.stack([p[name] for p in path]) for name in path[0]}
    theta = np.asarray(cases.recorded(run, "theta"))
    lam = 1 - 1 / depth_of(setup_of(run))
    first, second = to_numpy(_derivatives(theta, np.asarray(lam)))
    return first, second, np.asarray(to_numpy(_kernel(params)))


def measure_steps(run: Run) -> Measurements:
    """By differentiating the net and the dual; the noise is that of the parameters' equation."""
    setup = setup_of(run)
    first, second, M = differentiated(run)
    moved = by_autodiff(run)
    # |ξ| from the parameters: θ = ξv1.
    path = cases.path(run)
    xi = np.array([abs(np.prod(np.sum(p["u"] * p["v"], axis=1))) for p in path])
    theta = cases.recorded(run, "theta")
    lam = 1 - 1 / depth_of(setup)
    kick = moved["theta_noise"] / np.sqrt(xi)[:, None, None]  # in τ
    X = np.asarray(common.regression(setup).X)
    unit = theta / np.linalg.norm(theta, axis=1, keepdims=True)
    # B of (101) from the kernel: M = ξ²(I + 2(L−1)Π), and B = M Xᵀ/ξ².
    B = M @ X.T / xi[:, None, None] ** 2
    k2 = np.sum(kick**2, axis=(1, 2)) / np.sum(B**2, axis=(1, 2))
    P = np.eye(len(unit[0])) - (lam + 2) * unit[:, :, None] * unit[:, None, :]
    inverse = np.linalg.inv(M)
    drift = np.einsum("tij,tj->ti", inverse, moved["theta_ito"])
    bend = np.einsum("tmrs,tri,tsi->tm", second, kick, kick) / 2
    return {
        "metric (93)": inverse * xi[:, None, None],
        "D′ (93)": first,
        "drift (94)-(96)": drift,
        "k² (102)": k2[:, None],
        "D″ (105)": second,
        "BBᵀθ (107)": np.einsum("tij,tkj,tk->ti", B, B, theta),
        "tr BᵀPB (108)": np.einsum("tij,tik,tkj->t", B, P, B)[:, None],
        "Itô's term (109)": bend,
        # The parameters' equation itself: Itô's drift of the dual, and g takes it away.
        "g′ (110)": -moved["mirror_ito"] / xi[:, None],
    }


def instead(name: str, of: Callable[[Instant], object]) -> Callable[[Setup, Run], Claims]:
    """The prediction with one quantity as printed."""

    def predict(setup: Setup, run: Run) -> Claims:
        told = dict(predict_steps(setup, run))
        claim = told[name]
        assert isinstance(claim, Claim)
        told[name] = dataclasses.replace(claim, value=along_path(setup, run, of))
        return told

    return predict


def slipped(now: Instant) -> np.ndarray:
    """The line before the last of (94)."""
    return now.ito(along=3 * (now.L - 1) / (2 * now.L - 1))


def squared(now: Instant) -> np.ndarray:
    """(95), (96), (98) and (99): ξ² twice."""
    return now.ito(power=4.0)


def in_training_time(now: Instant) -> list[float]:
    """(100) in (106), where the time is already τ."""
    return [4 * now.xi**4 * now.noise]


def weighted(now: Instant) -> np.ndarray:
    """(110) with ‖θ‖^{λ − 2}."""
    return now.change() * now.size**-now.lam


def of_three_layers_or_more(key: int) -> int:
    """A key of such an instance: for two layers the slips of (94) cancel."""
    deep = [i for i, sizes in enumerate(cases.SIZES) if sizes.layers > 2]
    return len(cases.SIZES) * (key // len(deep)) + deep[key % len(deep)]


def _instant(key: int) -> tuple[Instant, np.ndarray]:
    """A balanced point, and its predictor's Itô drift over the kernel, both by differences."""
    setup = cases.rank1(of_three_layers_or_more(key), scale=0.6)
    now = Instant(setup, np.ravel(common.start(setup)))
    M = np.stack([first_difference(setup, unit) for unit in np.eye(len(now.theta))])
    return now, np.linalg.solve(M, ito_by_differences(setup))


def _errors(truth: np.ndarray, *forms: np.ndarray) -> Evidence:
    size = float(np.linalg.norm(truth))
    return Evidence(*(float(np.linalg.norm(form - truth)) / size for form in forms))


def printed_94(key: int) -> Evidence:
    """The last two lines of (94) against second differences of θ."""
    now, truth = _instant(key)
    return _errors(truth, slipped(now), now.ito())


def printed_95(key: int) -> Evidence:
    """The drift of (95) against the same."""
    now, truth = _instant(key)
    return _errors(truth, squared(now), now.ito())


PROOF = Theorem(
    "rank1.thm3.proof",
    r"The steps from Lemma 3 to Theorem 3 at a balanced instant, in the rescaled time "
    r"$d\tau = |\xi|dt$, with $D = \|\theta\|^{-\lambda}\theta$, $\Pi = "
    r"\theta\theta^\top/\|\theta\|^2$, $B = [I+2(L-1)\Pi]X^\top$ and $k^2 = "
    r"4|\xi|^3\eta\mathcal{L}/n$: (93) $\partial D = \|\theta\|^{-\lambda}(I-\lambda\Pi)$ undoes "
    r"the kernel; (95) the further drift under it is "
    r"$\frac{8\eta\mathcal{L}(L-1)}{n}\frac{\xi^2}{\|\theta\|^2}(I-\frac{1}{2}\Pi)X^\top X\theta$; "
    r"(105)-(109) Itô's term of $D$ is $-\frac{k^2}{2\|\theta\|^{\lambda+2}}[\lambda\,"
    r"\mathrm{tr}(X^\top X)\theta+4(L-1)(I-\frac{L}{2L-1}\Pi)X^\top X\theta]$; (110) the two "
    r"together are $-g'$, all of it along $\theta$.",
    hypotheses=balanced_kinds(),
    predict=predict_steps,
    measure=measure_steps,
    tolerance=1e-8,
    instances=lambda key: cases.rank1(of_three_layers_or_more(key)),
    controls=[
        Control("init is balanced", lambda key: cases.unbalanced(of_three_layers_or_more(key)))
    ],
    terms={"Itô's term in g′": instead("g′ (110)", lambda now: -now.ito())},
    errata=(
        Erratum(
            "Eq (94)",
            r"$4(L-1)(L-2)$ and $\frac{3(L-1)}{2L-1}$ on the way",
            r"$2(L-1)(L-2)$ and $L-1$, which give the last line",
            "misprint",
            evidence=printed_94,
            quote=r"((L-1) + 4(L-1)(L-2))(1 - \lambda_L) - 2(L-1)\lambda_L",
            predict=instead("drift (94)-(96)", slipped),
        ),
        Erratum(
            "Eq (95), (96), (98), (99)",
            r"$\xi^2\cdot\xi^2/\|\theta\|^2$ in the drift",
            r"$\xi^2/\|\theta\|^2$",
            "misprint",
            evidence=printed_95,
            quote=r"\frac{8\eta\mathcal{L}(L-1)\xi^2}{n} \frac{\xi^2}{\|\theta\|^2} \left(I - "
            r"\frac{1}{2} \frac{\theta\theta^T}{\|\theta\|^2} \right) X^T X \theta dt",
            note="(94), and the lines after (109), have one factor ξ² only.",
            predict=instead("drift (94)-(96)", squared),
        ),
        Erratum(
            "Eq (102), and the line after (109)",
            r"$d\theta_\mu = O_\mu dt+\sum_iB_{\mu i}dW_i$; $k^2 = 4\xi^4\eta\mathcal{L}/n$",
            r"$kB$ in the place of $B$; in rescaled time $k^2 = 4|\xi|^3\eta\mathcal{L}/n$",
            "misprint",
            quote=r"d\theta_\mu = O_\mu dt + \sum_i B_{\mu i} d\mathcal{W}_{t,i}, \quad (102)",
            note="The line before (105) has k²; (96) has |ξ| under the root.",
            predict=instead("k² (102)", in_training_time),
        ),
    ),
    title="from Lemma 3 to Theorem 3, step by step",
    dynamics=(Flow,),
    given=("path",),
    paper=OF_PATHS,
)

THEOREMS = (PROOF,)
