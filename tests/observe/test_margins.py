"""Margins, certificates and dual weights along runs, against the definitions in NumPy."""

import numpy as np
import pytest

import gradbias as gb

G = gb.geometry
NORMS = {"L1": (1, np.inf), "L2": (2, 2), "Linf": (np.inf, 1)}


def problem_of(loss, n=6, d=8, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % (3 if loss == "cross_entropy" else 2)
    return gb.Classification(rng.normal(size=(n, d)), y, loss)


def shares_by_hand(problem, theta):
    """Weights of the rows of `constraints`, from derivatives of the loss as it is defined."""
    m = problem.constraints @ theta.ravel()
    if problem.loss_name == "exponential":
        p = np.exp(-m)
    elif problem.loss_name == "logistic":
        p = 1 / (1 + np.exp(m))
    else:
        F = problem.X @ theta
        S = np.exp(F) / np.exp(F).sum(axis=1, keepdims=True)
        p = S[problem.Y == 0]
    return p / p.sum()


@pytest.mark.parametrize("loss", ["logistic", "exponential", "cross_entropy"])
def test_along_a_run(loss):
    problem = problem_of(loss)
    net = gb.TwoLayer(problem.d, problem.k, 12)
    record = {
        "theta": gb.observe.theta,
        "log_loss": gb.observe.log_loss,
        "p": gb.observe.dual_weights,
        "gap": gb.observe.entropy_gap,
        "direction": gb.observe.direction,
        **{f"margin{name}": gb.observe.margin(getattr(G, name)) for name in NORMS},
        **{f"band{name}": gb.observe.certificate(getattr(G, name)) for name in NORMS},
    }
    start = gb.init.gaussian(net, 0.3)
    setup = gb.Setup(
        problem, net, start, gb.Descent(0.2), gb.Until(steps=3000), record, save_at=[0, 10, 3000]
    )
    data = gb.simulate(setup).data
    gammas = {name: problem.max_margin(getattr(G, name)).gamma for name in NORMS}
    for i in range(3):
        theta = data["theta"].values[i]
        flat = theta.ravel()
        p = shares_by_hand(problem, theta)
        seen = data["p"].values[i]
        np.testing.assert_allclose(seen if problem.vector else seen[problem.Y == 0], p, rtol=1e-12)
        gap = -np.sum(p * np.log(p)) + np.log(p.max())
        assert float(data["gap"][i]) == pytest.approx(gap, rel=1e-10)
        assert float(data["log_loss"][i]) == pytest.approx(np.log(problem.loss(theta)), rel=1e-12)
        unit = theta / np.linalg.norm(theta)
        np.testing.assert_allclose(data["direction"].values[i], unit, rtol=1e-12)
        for name, (norm, dual) in NORMS.items():
            lower = (problem.constraints @ flat).min() / np.linalg.norm(flat, norm)
            upper = np.linalg.norm(problem.constraints.T @ p, dual)
            assert float(data[f"margin{name}"][i]) == pytest.approx(lower, rel=1e-12)
            assert float(data[f"band{name}_lower"][i]) == pytest.approx(lower, rel=1e-12)
            assert float(data[f"band{name}_upper"][i]) == pytest.approx(upper, rel=1e-12)
            assert lower <= gammas[name] <= upper


def test_smoothed_margin_and_kkt_of_a_homogeneous_net():
    """Lyu and Li's quantities, from gradients by differences."""
    problem = problem_of("exponential", d=3)
    net = gb.nets.general(lambda p, X: ((X @ p["W"]) ** 2) @ p["a"], {"W": (3, 4), "a": (4, 1)})
    rng = np.random.default_rng(1)
    params = {"W": rng.normal(size=(3, 4)), "a": rng.normal(size=(4, 1))}
    record = [gb.observe.smoothed_margin(3), gb.observe.kkt]
    setup = gb.Setup(problem, net, params, gb.Descent(1e-3), gb.Until(steps=1), record)
    data = gb.simulate(setup).data

    def margins(flat):
        W, a = flat[:12].reshape(3, 4), flat[12:].reshape(4, 1)
        return problem.Y * (((problem.X @ W) ** 2) @ a)[:, 0]

    flat = np.concatenate([params["W"].ravel(), params["a"].ravel()])
    q = margins(flat)
    total = np.exp(-q).sum()
    assert float(data["smoothed_margin"][0]) == pytest.approx(
        -np.log(total) / np.linalg.norm(flat) ** 3, rel=1e-12
    )
    p = np.exp(-q) / total
    slope = [p @ (margins(flat + e) - margins(flat - e)) / 2e-6 for e in 1e-6 * np.eye(16)]
    cosine = flat @ slope / np.linalg.norm(flat) / np.linalg.norm(slope)
    assert float(data["kkt_misalignment"][0]) == pytest.approx(1 - cosine, abs=1e-8)
    slack = p @ (q - q.min()) / q.min()
    assert float(data["kkt_slackness"][0]) == pytest.approx(slack, rel=1e-10)


@pytest.mark.parametrize("loss", ["logistic", "cross_entropy"])
@pytest.mark.parametrize("scale", [0.1, 3.0, 300.0])
def test_the_smoothed_margin_of_other_losses(loss, scale):
    problem, net = problem_of(loss), gb.Deep([8, 3 if loss == "cross_entropy" else 1])
    theta = scale * problem.max_margin().w.reshape(8, -1)
    setup = gb.Setup(
        problem, net, {"W1": theta}, gb.Descent(1e-9), gb.Until(steps=1),
        gb.observe.smoothed_margin(1),
    )  # fmt: skip
    found = float(gb.simulate(setup).data["smoothed_margin"][0]) * np.linalg.norm(theta)
    log_total = float(problem.log_loss(theta)) + np.log(6)
    total = np.exp(log_total)
    expected = -np.log(np.expm1(total)) if scale < 100 else -log_total
    assert found == pytest.approx(expected, rel=1e-12)


def test_a_predictor_of_zero_has_no_margin():
    problem, net = problem_of("logistic"), gb.Deep([8, 1])
    record = [gb.observe.margin(), gb.observe.certificate(G.Linf()), gb.observe.direction]
    start = {"W1": np.zeros((8, 1))}
    data = gb.simulate(
        gb.Setup(problem, net, start, gb.Descent(0.1), gb.Until(steps=1), record)
    ).data
    assert float(data["margin"][0]) == float(data["certificate_lower"][0]) == 0
    mean = np.abs(problem.constraints.mean(axis=0)).sum()  # all samples weigh the same
    assert float(data["certificate_upper"][0]) == pytest.approx(mean, rel=1e-12)
    assert not data["direction"][0].values.any()


@pytest.mark.parametrize(
    ("observable", "words"),
    [
        (gb.observe.margin(), "'margin' needs a gb.Classification, got Regression"),
        (gb.observe.dual_weights, "'dual_weights' needs a gb.Classification"),
        (gb.observe.kkt, "'kkt' needs a gb.Classification"),
        (gb.observe.smoothed_margin(2), "'smoothed_margin' needs a gb.Classification"),
    ],
)
def test_a_regression_has_no_margins(observable, words):
    problem, net = gb.Regression.mean(np.eye(3), np.ones(3)), gb.Deep([3, 1])
    setup = gb.Setup(
        problem, net, {"W1": np.ones((3, 1))}, gb.Descent(0.1), gb.Until(steps=1), observable
    )
    with pytest.raises(ValueError, match=words):
        gb.simulate(setup)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="geometry must be a geometry"):
        gb.observe.margin("l2")
    with pytest.raises(ValueError, match="degree must be greater than 0"):
        gb.observe.smoothed_margin(0)
    net = gb.MLP([8, 4, 1])
    setup = gb.Setup(
        problem_of("logistic"), net, gb.init.gaussian(net, 0.1), gb.Descent(0.1),
        gb.Until(steps=1), gb.observe.margin(),
    )  # fmt: skip
    with pytest.raises(ValueError, match="'margin' needs a linear net"):
        gb.simulate(setup)


def test_a_run_with_these_observables_can_be_saved(tmp_path):
    problem, net = problem_of("cross_entropy"), gb.Deep([8, 3])
    setup = gb.Setup(
        problem, net, {"W1": np.zeros((8, 3))}, gb.Descent(0.1), gb.Until(steps=2),
        {"band": gb.observe.certificate(G.Lp(3))},
    )  # fmt: skip
    run = gb.simulate(setup)
    run.save(tmp_path / "run.nc")
    again = gb.load(tmp_path / "run.nc")
    assert again.setup.record == setup.record
    np.testing.assert_array_equal(again.setup.problem.y, problem.y)
    np.testing.assert_array_equal(again.data["band_upper"], run.data["band_upper"])
