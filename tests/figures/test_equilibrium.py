"""The figures of the noise-equilibrium paper: their parts, and claims that can fail."""

import numpy as np
import pytest
import xarray as xr

from gradbias import theory
from gradbias.figures import make
from gradbias.figures.equilibrium import FIGURES, _autoencoder, _circle, _deep, _deep_data, _latent
from gradbias.nets import Deep
from gradbias.problems import autoencoding

BY_ID = {figure.id: figure for figure in FIGURES}
IDS = ["1", "2a", "2b", "2c", "3a", "3b", "4", "5a", "5b", "6", "7", "8a", "8b", "8c", "9"]
DEFAULT = {"equilibrium.3a", "equilibrium.3b", "equilibrium.4"}


def test_every_panel_of_the_paper_is_there_in_order():
    assert list(BY_ID) == [f"equilibrium.{number}" for number in IDS]
    assert {figure.id for figure in FIGURES if figure.default} == DEFAULT


def test_the_circle_is_made_and_would_not_pass_under_another_prediction(tmp_path):
    made = make(BY_ID["equilibrium.1"], settings={"steps": 10_000})
    assert made.holds, made
    assert made.save(tmp_path, "svg").stat().st_size > 10_000
    louder = made.data.assign(noise=1.5 * made.data["noise"])
    failed = [seen.what for seen in _circle.seen(louder, made.settings) if not seen.holds]
    assert failed == ["SGD: growth of ‖θ‖⁴ in the last two thirds ÷ predicted"]


@pytest.mark.parametrize("phi", [0.2, 1.0, 1.7])
def test_the_equilibrium_of_figure_3_is_the_closed_form_of_its_caption(phi):
    roots = np.sqrt(phi), np.sqrt(2 - phi)
    share, trace = _autoencoder.told(phi, 6)
    assert share == pytest.approx(sum(roots) / sum(1 / root for root in roots), rel=1e-12)
    assert trace == pytest.approx(2 * 36 * sum(roots), rel=1e-12)


def test_another_sharpness_than_the_predicted_one_is_not_seen():
    """Every claim of 3(b) can fail: the data are made by hand, then spoilt one at a time."""
    s = BY_ID["equilibrium.3b"].settings()
    told = np.array([_autoencoder.told(phi, s.d)[1] for phi in s.phis])
    ends = told * (1 - s.lr * s.d / (2 * s.batch))
    alike = told[list(s.phis).index(1)] * np.array([2 / 3, 4 / 3])  # for every φ
    starts = np.broadcast_to(alike[None, :, None, None], (5, 2, 1, 1))
    values = np.concatenate([starts, np.broadcast_to(ends[:, None, None, None], (5, 2, 1, 3))], -1)
    axes = ("phi", "start", "seed", "step")
    data = xr.Dataset(
        {"trace": (axes, values), "told": (("what", "phi"), told[None])},
        {"start": ["Xavier", "Glorot"], "what": ["trace"]},
    )
    assert all(seen.holds for seen in _autoencoder.seen_trace(data, s))
    late = data["trace"].where(data["step"] > 0)
    spoilt = {
        "distance": data.assign(told=data["told"] / 2),  # the printed factor
        "deficit": data.assign(trace=late.fillna(0) * 1.05 + data["trace"] - late.fillna(0)),
        "φ = 1 ÷": data.assign(trace=data["trace"].where(data["step"] == 0, ends.mean())),
        "Xavier": data.assign_coords(start=["Glorot", "Xavier"]),
    }
    for words, wrong in spoilt.items():
        failed = [seen.what for seen in _autoencoder.seen_trace(wrong, s) if not seen.holds]
        assert any(words in what for what in failed), words


def test_deep_starts_have_the_norms_that_are_asked_for():
    net = Deep([12, 6, 6, 6])
    same, spread = ([np.sum(W * W) for W in _deep_data.start(net, kind, 6.0, 1).values()]
                    for kind in _deep.STARTS)  # fmt: skip
    np.testing.assert_allclose(same, 6.0)
    np.testing.assert_allclose(np.sort(spread), 6 * np.exp([-0.7, 0, 0.7]))


def test_the_digits_have_no_dead_direction():
    """Nine contrasts hold the centred classes: the width of nine is used up, the loss the same."""
    data = _deep_data.images(BY_ID["equilibrium.5a"].settings(changes={"images": 300}))
    assert np.linalg.matrix_rank(data.min_norm) == data.k == 9
    np.testing.assert_allclose(data.X.T @ data.X / data.n, np.eye(data.d), atol=1e-12)
    counts = np.bincount(np.unique(np.round(data.Y, 9), axis=0, return_inverse=True)[1].ravel())
    shares = counts / data.n
    assert np.sum(data.Y**2) / data.n == pytest.approx(1 - np.sum(shares**2))


def test_the_two_matrices_agree_at_the_equilibrium_of_a_linear_net():
    """Agreement is 1 with gap 0 there, and a change of one layer's scale is a gap alone."""
    s = BY_ID["equilibrium.6"].settings(changes={"d": 5})
    data = _latent.problem(s)
    frame = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
    U, W = theory.symmetry.factorisation_equilibrium(data, 5, frame=frame)
    pairs = [_latent.pair_of(data, scale * W.T, U.T) for scale in (1.0, 2.0)]
    axes = ("seed", "side", "i", "j")
    places = {"side": ["inputs", "outputs"], "i": range(5), "j": range(5)}
    told = _latent.agreement(xr.Dataset({"matrix": (axes, pairs)}, places))
    np.testing.assert_allclose(told["all"], 1.0)
    np.testing.assert_allclose(told["off"], 1.0)
    np.testing.assert_allclose(told["gap"], [0.0, 3 / 2], atol=1e-12)


def test_steps_follow_the_slowest_direction():
    s = BY_ID["equilibrium.3a"].settings()
    setup = _autoencoder.setup(s, 0.2, 0.02, 10, 20, 40, seed=0)
    assert setup.until.steps == int(10 * 10 / (4 * 0.02**2 * 20 * 0.2))
    np.testing.assert_allclose(setup.problem.sigma_x, autoencoding(20, 0.2).sigma_x)


def test_the_arms_of_figure_3_are_told_from_sgd_and_from_each_other():
    """Data made by hand: the claims hold, and fail where the arms are swapped."""
    s = BY_ID["equilibrium.3a"].settings()
    told = np.array([_autoencoder.told(phi, s.d)[0] for phi in s.phis])
    norms = np.stack([told, np.ones_like(told)], -1)[:, None, None, None, :]
    axes = ("phi", "start", "seed", "step", "norms_axis0")
    data = xr.Dataset(
        {
            "norms": (axes, np.broadcast_to(norms, (len(told), 2, 1, 2, 2))),
            "told": (("what", "phi"), told[None]),
            "SGD + WD": (("phi", "seed"), told[:, None]),
            "GD + WD": (("phi", "seed"), np.ones((len(told), 1))),
        },
        {"start": ["Xavier", "Glorot"], "what": ["ratio"]},
    )
    assert all(seen.holds for seen in _autoencoder.seen_arms(data, s))
    swapped = data.rename({"SGD + WD": "GD + WD", "GD + WD": "SGD + WD"})
    failed = [seen.what for seen in _autoencoder.seen_arms(swapped, s) if not seen.holds]
    assert [what[:8] for what in failed] == ["SGD + WD", "GD + WD:"]
