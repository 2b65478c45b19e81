"""Norms and SVDs at the edge of what float64 holds."""

import math

import numpy as np
import pytest

from gradbias.numerics.linalg import norm, thin_svd


@pytest.mark.parametrize("scale", [5e-324, 1e-200, 1.0, 1e200])
def test_a_norm_neither_under_nor_overflows(scale):
    assert norm(scale * np.asarray([[3.0, 0.0], [0.0, 4.0]])) == pytest.approx(5 * scale, rel=1e-15)


def test_norms_of_nothing_and_of_too_much():
    assert norm(np.zeros((3, 2))) == 0
    assert norm(np.zeros((0, 2))) == 0
    assert norm(np.full(100, 1e308)) == math.inf
    assert math.isnan(norm(np.asarray([1.0, math.nan])))
    assert norm(np.asarray([1.0, -math.inf])) == math.inf


def test_a_thin_svd_has_the_rank_of_its_matrix():
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(7, 3)) @ rng.normal(size=(3, 5))
    found = thin_svd(matrix)
    assert found.rank == 3
    np.testing.assert_allclose(found.U * found.s @ found.Vt, matrix, rtol=0, atol=1e-14)


def test_rows_and_columns_of_zeros_have_no_part_in_an_svd():
    """Small singular values carry rounding of 1e-15 into them, as on images with black pixels."""
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(30, 12)) @ np.diag(np.geomspace(1, 1e-8, 12))
    matrix = matrix @ np.linalg.qr(rng.normal(size=(12, 12))).Q
    matrix = np.insert(np.insert(matrix, [3, 7], 0.0, axis=1), [5, 20], 0.0, axis=0)
    U, s, Vt = thin_svd(matrix)
    np.testing.assert_array_equal(Vt[:, ~matrix.any(axis=0)], 0.0)
    np.testing.assert_array_equal(U[~matrix.any(axis=1)], 0.0)
    np.testing.assert_allclose((U * s) @ Vt, matrix, rtol=0, atol=1e-14)
