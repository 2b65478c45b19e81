"""The orthogonal init I_γ."""

import numpy as np
import pytest

import gradbias as gb
from gradbias.init._orthogonal import random_frame
from gradbias.numerics.host_rng import generator


@pytest.mark.parametrize(
    "net",
    [gb.TwoLayer(10, 3, 200), gb.TwoLayer(4, 9, 4), gb.TwoLayer(1, 1, 1), gb.Deep([5, 8, 2])],
    ids=str,
)
@pytest.mark.parametrize("gamma", [1e-300, 1e-100, 1e-4, 1.0, 1e300])
def test_definition(net, gamma):
    params = gb.init.orthogonal(net, gamma, key=2)
    d, width, k = net.chain
    unit = params["W1"] / np.sqrt(2 * gamma)
    assert np.abs(unit @ unit.T - np.eye(d)).max() < 1e-12
    assert params["W1"].shape == (d, width)
    assert params["W2"].shape == (width, k) and not params["W2"].any()


def test_imbalance_spectrum():
    # an independent route: W1ᵀW1 − W2W2ᵀ is 2γ on d directions of the hidden space, 0 elsewhere
    params = gb.init.orthogonal(gb.TwoLayer(4, 2, 11), 0.3)
    spectrum = np.linalg.eigvalsh(params["W1"].T @ params["W1"] - params["W2"] @ params["W2"].T)
    np.testing.assert_allclose(spectrum, [0.0] * 7 + [0.6] * 4, atol=1e-12)


def test_frames_are_uniform():
    # Haar: entries have mean 0 and variance 1/size; a bare QR has a negative mean of its diagonal
    rng = generator(0, "tests.frames")
    frames = np.stack([random_frame(rng, 4, 3) for _ in range(4000)])
    entries = frames[:, range(3), range(3)].ravel()
    assert abs(entries.mean()) / np.sqrt(1 / 4 / entries.size) < 4
    squares = frames.reshape(4000, -1) ** 2
    z = (squares.mean(axis=0) - 1 / 4) / (squares.std(axis=0) / np.sqrt(4000))
    assert np.abs(z).max() < 4


@pytest.mark.parametrize(
    ("net", "gamma", "message"),
    [
        (gb.TwoLayer(5, 2, 4), 1.0, "width of at least d = 5 .* got 4"),
        (
            gb.Deep([5, 6, 6, 1]),
            1.0,
            r"two layers, for init.orthogonal, got Deep\(\[5, 6, 6, 1\]\)",
        ),
        (gb.Rank1(5, 2, 6), 1.0, "TwoLayer, or Deep with two layers.* got Rank1"),
        (None, 1.0, "net must be a net of gradbias"),
        (gb.TwoLayer(2, 2, 4), 0.0, "gamma must be greater than 0.*got 0.0"),
        (gb.TwoLayer(2, 2, 4), -1.0, "gamma must be greater than 0"),
        (gb.TwoLayer(2, 2, 4), np.inf, "gamma must be finite"),
        (gb.TwoLayer(2, 2, 4), [1.0], "gamma must be a number"),
    ],
)
def test_bad_input(net, gamma, message):
    with pytest.raises(ValueError, match=message):
        gb.init.orthogonal(net, gamma)
