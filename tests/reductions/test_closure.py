"""The invariant subspaces themselves."""

import numpy as np
import pytest
import scipy.stats

import gradbias as gb
from gradbias.reductions import PaddedSize, reduce, rounded
from gradbias.reductions._closure import _extended, _span, closed, invariant_bases


def problem(n=10, d=30):
    rng = np.random.default_rng(0)
    return gb.Regression.mean(rng.normal(size=(n, d)), rng.normal(size=n))


def test_balanced_layers_shrink_to_one_dimension():
    net = gb.Deep([30, 30, 30, 1])
    params = gb.init.balanced(net, problem().min_norm)
    assert reduce(problem(), net, params).net.dims == (10, 1, 1, 1)


def test_orthogonal_hidden_layers_shrink_to_n_plus_one():
    rotations = [scipy.stats.ortho_group.rvs(30, random_state=i) for i in range(3)]
    params = {f"W{i + 1}": Q for i, Q in enumerate(rotations)}
    params["W4"] = np.random.default_rng(1).normal(size=(30, 1))
    found = reduce(problem(), gb.Deep([30, 30, 30, 30, 1]), params)
    assert found.net.dims == (10, 11, 11, 11, 1)
    assert found.certificate <= 1e-14


def test_the_certificate_sees_a_subspace_that_is_not_invariant():
    rng = np.random.default_rng(0)
    factors = [rng.normal(size=(8, 20)) / 7, rng.normal(size=(20, 1)) / 4]
    bases = invariant_bases(factors, np.eye(8)[:, :3])
    assert closed(factors, bases).residual <= 1e-14
    bases[1] = bases[1][:, 1:]
    assert closed(factors, bases).residual > 1e-3


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1.0, 1e8])
def test_scale_does_not_matter(scale):
    net = gb.TwoLayer(30, 1, 200)
    rng = np.random.default_rng(0)
    params = {"W1": scale * rng.normal(size=(30, 200)), "W2": rng.normal(size=(200, 1)) / scale}
    found = reduce(problem(), net, params)
    assert found.net.dims == (10, 11, 1)


def test_what_cannot_be_reduced_is_a_sentence():
    zero = {"W1": np.zeros((30, 4)), "W2": np.zeros((4, 1))}
    assert "cut off" in reduce(problem(), gb.TwoLayer(30, 1, 4), zero)
    nothing = gb.Regression.mean(np.zeros((2, 30)), np.ones(2))
    assert "zero" in reduce(nothing, gb.TwoLayer(30, 1, 4), zero)


@pytest.mark.parametrize("smallest", [1.0, 1e-3, 1e-6, 1e-12])
def test_tall_columns_span_the_same_space_however_close_to_dependent(smallest):
    """The quick way is taken down to 1e-4; the angles between the spaces say whether it may."""
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(size, 12)))[0] for size in (200, 12))
    basis = _span((left * np.geomspace(1, smallest, 12)) @ right.T)
    assert basis is not None and basis.shape == (200, 12)
    np.testing.assert_allclose(basis.T @ basis, np.eye(12), atol=4e-15)
    lost = np.linalg.norm(left - basis @ (basis.T @ left), 2)
    assert lost < 2e-16 * 20 / smallest


def test_a_column_that_depends_on_the_others_adds_no_direction():
    columns = np.random.default_rng(1).normal(size=(200, 12))
    columns[:, -1] = columns[:, :-1].sum(axis=1)
    basis = _span(columns)
    assert basis is not None and basis.shape == (200, 11)


@pytest.mark.parametrize("seen", [1.0, 1e-2, 1e-5, 1e-11])
def test_a_subspace_grows_by_what_is_new(seen):
    """The old directions again, and one new one of which the columns show this much."""
    rng = np.random.default_rng(2)
    frame = np.linalg.qr(rng.normal(size=(60, 5)))[0]
    basis, new = frame[:, :4], frame[:, 4:]
    columns = np.concatenate([basis @ rng.normal(size=(4, 6)), basis[:, :1] + seen * new], axis=1)
    grown = _extended(basis, columns)
    assert grown is not None and grown.shape == (60, 5)
    np.testing.assert_allclose(grown.T @ grown, np.eye(5), atol=4e-15)
    assert np.linalg.norm(frame - grown @ (grown.T @ frame), 2) < 1e-14 / seen


def test_a_subspace_does_not_grow_by_rounding():
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(rng.normal(size=(60, 4)))[0]
    again = _extended(basis, basis @ rng.normal(size=(4, 9)) + 1e-16 * rng.normal(size=(60, 9)))
    assert again is basis
    whole = _extended(basis, rng.normal(size=(60, 56)))
    assert whole is None


def test_hidden_sizes_are_rounded_up_and_lifted_to_the_same_parameters():
    problem = gb.problems.gaussian(n=9, d=30, key=0)
    net = gb.TwoLayer(30, 2, 25)
    start = gb.init.gaussian(net, 0.3, key=1)
    found = reduce(problem, net, start)
    assert not isinstance(found, str)
    larger = rounded(found)
    assert found.net.dims == (9, 11, 2) and larger.net.dims == (9, 12, 2)
    for each in (found, larger):
        with gb.float64():
            lifted = each.lift(each.params)
        for name, value in start.items():
            np.testing.assert_allclose(np.asarray(lifted[name]), value, atol=1e-14)


def test_a_whole_space_is_not_rounded():
    frame = PaddedSize((9, 13, 15, 2), (True, True, False, False), (True, True, False))
    assert frame.rounded().dims == (9, 16, 15, 2)
