"""The iterative eigenvalue on spectra chosen to be hard."""

import jax
import numpy as np
import pytest

from gradbias.numerics import lanczos, linalg

D = 500
rng = np.random.default_rng(17)
BASIS, _ = np.linalg.qr(rng.standard_normal((D, D)))

SPECTRA = {
    "generic": rng.standard_normal(D),
    "close second": np.r_[1, np.linspace(-1, 1 - 1e-3, D - 1)],
    "degenerate top": np.r_[np.ones(3), np.linspace(-1, 0.9, D - 3)],
    "cluster": np.r_[1 - 1e-6 * np.arange(10), np.linspace(-1, 0.9, D - 10)],
    "crowd": np.r_[1 - 1e-5 * np.arange(20), np.linspace(-1, 0.99, D - 20)],
    "low rank": np.r_[3, 2, 1, np.zeros(D - 3)],
    "identity": np.ones(D),
    "negative definite": -np.linspace(1, 5, D),
    "negative semi-definite": np.r_[np.zeros(5), -np.linspace(1, 5, D - 5)],
    "tiny": 1e-170 * np.linspace(-1, 1, D),
    "huge": 1e150 * np.linspace(-1, 1, D),
    "fifteen decades": np.logspace(-12, 3, D),
}


@jax.jit
def largest(matrix):
    return lanczos.lanczos(lambda v: matrix @ v, D)


@pytest.mark.parametrize("name", SPECTRA)
def test_hard_spectra(name):
    values = SPECTRA[name]
    matrix = (BASIS * values) @ BASIS.T
    with jax.enable_x64(True):
        got = float(largest((matrix + matrix.T) / 2))
    assert abs(got - values.max()) <= 1e-12 * np.abs(values).max()


@pytest.mark.parametrize(
    "diagonal", [np.zeros(D), np.ones(D), np.r_[np.arange(5.0), np.zeros(D - 5)]]
)
def test_krylov_spaces_that_close_exactly(diagonal):
    with jax.enable_x64(True):
        np.testing.assert_allclose(float(largest(np.diag(diagonal))), diagonal.max(), atol=1e-13)


def test_no_digits_that_nobody_can_vouch_for():
    lost = np.r_[1e-6, -np.logspace(-8, 3, D - 1)]  # nine decades below the norm, in a crowd
    with jax.enable_x64(True):
        assert np.isnan(float(largest((BASIS * lost) @ BASIS.T)))
        assert np.isnan(float(largest(np.full((D, D), np.nan))))


@pytest.mark.parametrize("shape", [(3, 8), (8, 3), (1, 1), (0, 4)])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e-200, 1e200])
def test_one_rank_threshold(shape, scale):
    s = scale * np.array([1.0, 1e-3, 8.0000001 * 2.0**-52, 8 * 2.0**-52, 0.0])[: min(shape)]
    with jax.enable_x64(True):
        rank = int(lanczos.numerical_rank(jax.numpy.asarray(s), shape))
    assert rank == int(np.sum(s > linalg.rank_threshold(s, shape)))
