"""Theorem C.12 at small γ: when a singular value is learned, and the jump in the limit."""

import numpy as np

from ...dynamics import Flow
from ...theory.spectral import activation_time, jump_limit
from ..prelude import Control, Hypothesis, Measurements, Run, Setup, Theorem, Until, setup_of
from . import _instances as cases
from ._facts import I_GAMMA, PLAIN, WHITENED, gamma_of, scale_of, star
from ._measurements import betas
from ._paper import PAPER
from ._thms_c11_c12 import vectors, whitened


def _half_times(setup: Setup) -> np.ndarray:
    return activation_time(star(setup), gamma_of(setup), scale=scale_of(setup))


def _saved_at(setup: Setup, times: np.ndarray) -> dict[str, Setup]:
    """The same run, saved at given times among others; always as many, so that one compiles."""
    wanted = np.unique(times)
    rest = np.linspace(0, 1.07 * wanted[-1], max(cases.SAVES - len(wanted), 2))
    save_at = np.unique(np.concatenate([wanted, rest]))
    return {"run": setup.replace(save_at=save_at, until=Until(time=save_at[-1]))}


def _values_at(run: Run, times: np.ndarray) -> np.ndarray:
    """Singular values (times, k) along the vectors of β*."""
    U, _, Vt = vectors(setup_of(run))
    at = np.searchsorted(setup_of(run).save_at, times * (1 - 1e-12))
    return np.einsum("ji,tjk,ik->ti", U, betas(run)[at], Vt)


def measure_half_learned(run: Run) -> Measurements:
    values = np.diag(_values_at(run, _half_times(setup_of(run))))
    return {"learned": values / star(setup_of(run))}


FULL_RANK = Hypothesis(
    "no singular value of the solution is zero",
    lambda s: 0.0 if star(s)[-1] > 1e-9 * star(s)[0] else 1.0,
    0.5,
)


HALF_TIME = Theorem(
    "spectral.half_time",
    r"On whitened data half of $\sigma_i^\star$ is learned at a time that is known exactly; as "
    r"$\gamma \to 0$ it becomes $\ln(2\sigma_i^\star/\gamma)/(2c\sigma_i^\star)$, so large "
    r"singular values are learned first.",
    hypotheses=[PLAIN, WHITENED, I_GAMMA, FULL_RANK],
    predict=lambda setup: {"learned": np.full(star(setup).shape, 0.5)},
    measure=measure_half_learned,
    tolerance=1e-8,
    instances=whitened,
    paper_size=cases.paper_whitened,
    controls=[Control("the data are whitened", cases.flow)],
    runs=lambda setup: _saved_at(setup, _half_times(setup)),
    title="when half of a singular value is learned",
    dynamics=(Flow,),
    paper=PAPER,
    own=True,
)

PHASES = (0.5, 1.0, 1.5)


def _jump_times(setup: Setup) -> np.ndarray:
    """ln(1/γ) times one half, one and one and a half of 1/(2cσ*): (phases, k)."""
    each = 1 / (2 * scale_of(setup) * star(setup))
    return -np.log(gamma_of(setup)) * np.multiply.outer(PHASES, each)


def _jumped(setup: Setup) -> np.ndarray:
    """Each singular value at its own times, by phase: rounding must not decide on the jump."""
    sigma = star(setup)
    on = sigma / (1 + 2 * sigma)
    return np.stack([on if phase == 1 else jump_limit(1.0, phase / 2) * sigma for phase in PHASES])


def _blur(setup: Setup) -> float:
    """The next order, √γ: σ is about ½√γ half way to the jump, and 2σ*²√γ below σ* half after.

    Twice that, for the orders beyond.
    """
    sigma = star(setup)
    away = np.sqrt(gamma_of(setup)) * np.stack([np.full(sigma.shape, 0.5), 2 * sigma**2])
    return 2 * float(np.linalg.norm(away) / np.linalg.norm(_jumped(setup)))


def measure_at_phases(run: Run) -> Measurements:
    values = [_values_at(run, times).diagonal() for times in _jump_times(setup_of(run))]
    return {"sigma": np.stack(values)}


JUMP = Theorem(
    "spectral.jump",
    r"As $\gamma \to 0$ on whitened data, $\sigma_i(\ln(1/\gamma)t)$ becomes a jump at "
    r"$t = 1/(2c\sigma_i^\star)$ from 0 to $\sigma_i^\star$, and is "
    r"$\sigma_i^\star/(1+2\sigma_i^\star)$ at that very time.",
    hypotheses=[
        PLAIN,
        WHITENED,
        I_GAMMA,
        FULL_RANK,
        Hypothesis("the init is small", _blur, 0.05, True, "O(√γ)"),
    ],
    predict=lambda setup: {"sigma": _jumped(setup)},
    measure=measure_at_phases,
    tolerance=1e-8,
    instances=lambda key: cases.flow(key, whitened=True, gamma=1e-12),
    controls=[Control("the init is small", whitened)],
    runs=lambda setup: _saved_at(setup, _jump_times(setup).ravel()),
    title="whitened data: a jump process",
    dynamics=(Flow,),
    paper=PAPER,
)
