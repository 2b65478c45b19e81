"""Singular values and effective ranks."""

import numpy as np
import pytest

import gradbias as gb

rng = np.random.default_rng(7)
PROBLEM = gb.Regression.mean(rng.standard_normal((3, 4)), rng.standard_normal((3, 6)))
NET = gb.TwoLayer(4, 6, 9)  # more outputs than inputs


@pytest.mark.parametrize("name", ["W1", "W2", "theta"])
def test_singular_values_against_eigenvalues(name, measure, draw):
    params = draw(NET)
    matrix = params["W1"] @ params["W2"] if name == "theta" else params[name]
    small = matrix @ matrix.T if matrix.shape[0] < matrix.shape[1] else matrix.T @ matrix
    want = np.sqrt(np.linalg.eigvalsh(small)[::-1])
    value = measure(gb.observe.singular_values(name), PROBLEM, NET, params)
    np.testing.assert_allclose(value, want, rtol=1e-12)


def test_vectors_have_a_norm_and_empty_matrices_nothing(measure, draw):
    net, problem = gb.Rank1(4, 1, 3), gb.Regression.mean(np.eye(4), np.ones(4))
    params = draw(net)
    assert gb.observe.singular_values("v1").dims(problem, net) == ()
    value = measure(gb.observe.singular_values("v1"), problem, net, params)
    np.testing.assert_allclose(value, np.linalg.norm(params["v1"]), rtol=1e-14)
    assert measure(gb.observe.singular_values("u"), problem, net, params).shape == (0,)
    assert measure(gb.observe.effective_rank("u"), problem, net, params) == 0


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e300])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_equal_singular_values_have_their_rank(scale, rank, measure, draw):
    Q, _ = np.linalg.qr(rng.standard_normal((9, rank or 1)))
    W1 = scale * np.eye(4)[:, : rank or 1] @ Q.T * (rank > 0)
    params = {"W1": W1, "W2": np.zeros((9, 6))}
    value = measure(gb.observe.effective_rank("W1"), PROBLEM, NET, params)
    np.testing.assert_allclose(value, rank, rtol=1e-12)


def test_effective_rank_of_two_values(measure, draw):
    params = draw(NET) | {"W1": np.diag([3.0, 1.0, 0, 0]) @ np.eye(4, 9)}
    value = measure(gb.observe.effective_rank("W1"), PROBLEM, NET, params)
    np.testing.assert_allclose(value, (4 / 3) ** 0.75 * 4**0.25, rtol=1e-14)
    assert measure(gb.observe.effective_rank("theta"), PROBLEM, NET, params) <= 2 + 1e-12


def test_unknown_and_unfit_parameters_are_named():
    with pytest.raises(ValueError, match=r"singular_values_W3.*TwoLayer: 'W1', 'W2' or"):
        gb.observe.singular_values("W3").bind(PROBLEM, NET)
    with pytest.raises(ValueError, match=r"linear net.*MLP"):
        gb.observe.effective_rank("theta").bind(PROBLEM, gb.MLP([4, 6]))
    for bad in ("", None, 3):
        with pytest.raises(ValueError, match="name"):
            gb.observe.singular_values(bad)


def test_nets_that_do_not_tell_their_shapes(measure):
    net = gb.nets.general(lambda p, X: X @ p["theta"] + p["t"][0, 0])
    params = {"theta": np.ones((4, 6)), "t": np.ones((1, 2, 3))}
    value = measure(gb.observe.singular_values("theta"), PROBLEM, net, params)
    np.testing.assert_allclose(value[0], np.sqrt(24), rtol=1e-14)
    for name in ("missing", "t"):
        with pytest.raises(ValueError, match=f"singular_values_{name}"):
            measure(gb.observe.singular_values(name), PROBLEM, net, params)
