"""Scenes without a browser: what they predict, what is run, and the program that they show."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import gradbias as gb
from explore.scenes import CASES, error, values
from gradbias.explore import SCENES, find


def at(name, **changes):
    """A scene, its state there, and the numbers that it predicts."""
    scene = find(name)
    state = scene.state(changes)
    return state, values(scene.predicted(state))


@pytest.mark.parametrize(("name", "changes", "near"), CASES)
def test_runs_come_to_what_is_predicted(name, changes, near):
    scene = find(name)
    state = scene.state(changes)
    told = values(scene.predicted(state))
    found = values(scene.simulated(state))
    assert set(near) <= set(found) <= set(told)
    for key, allowed in near.items():
        assert error(found[key], told[key]) < allowed, key
        if allowed < 0.02:  # else noise, or what is of higher order, is as large as that
            assert error(found[key], 1.03 * told[key]) > allowed, key


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("name", "changes", "near"), CASES)
def test_the_program_makes_the_same_numbers(name, changes, near, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scene = find(name)
    state = scene.state(changes)
    space = {"__name__": "program"}
    exec(compile(scene.code(state), name, "exec"), space)
    plt.close("all")
    told = values(scene.predicted(state))
    found = values(scene.simulated(state))
    assert set(space["predicted"]) == set(told)
    assert set(space["simulated"]) == set(found)
    # Half times are read off by another interpolation, and a sweep may stack runs.
    for which, ours, rtol in (("predicted", told, 1e-9), ("simulated", found, 1e-6)):
        for key in ours:
            theirs = np.ravel(space[which][key])
            np.testing.assert_allclose(theirs, ours[key].ravel(), rtol, 1e-3 * rtol)
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000
    assert max(map(len, scene.code(state).splitlines())) <= 100


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.id)
def test_what_a_scene_says_can_be_sent_and_drawn(scene):
    state = scene.state()
    told = scene.predicted(state)
    found = scene.simulated(state)
    for content in (told, found, scene.about(), {"theorems": scene.theorems(state)}):
        json.dumps(content, allow_nan=False)
    assert len(found["marks"]) == len(told["panels"])
    names = {control.name for control in scene.controls}
    for panel in told["panels"]:
        assert panel["x"]["low"] < panel["x"]["high"]
        assert panel["y"]["low"] < panel["y"]["high"]
        handles = [mark for mark in panel["marks"] if mark["kind"] == "handle"]
        assert all(set(handle["moves"]) <= names for handle in handles)
    assert scene.look.count(".") == 1


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.id)
def test_every_end_of_every_slider_has_a_picture(scene):
    """At the far ends, too, there are numbers, or a sentence says why not."""
    for control in scene.controls:
        for value in (control.low, control.high):
            state = scene.state({control.name: value})
            try:
                told = values(scene.predicted(state))
            except ValueError as refusal:
                assert "data" in str(refusal)
                continue
            assert all(np.isfinite(one).all() for one in told.values()), (control.name, value)


def test_hypotheses_say_what_is_not_met():
    imbalance = find("imbalance")
    met = {one["id"]: one for one in imbalance.theorems(imbalance.state())}
    assert all(one["applies"] for one in met.values())
    small = find("label_noise")
    states = [small.theorems(small.state({"lr": lr}))[0] for lr in (0.01, 0.1)]
    margins = [one["expected_error"] or np.inf for one in states]
    assert margins[0] < margins[1]
    short = find("noise_balance")
    (eq14, eq7) = short.theorems(short.state({"batch": 8}))
    assert eq7["applies"]
    assert not eq14["applies"]
    assert [h["name"] for h in eq14["hypotheses"] if not h["met"]] == ["the run is long"]


# What is predicted, against formulas that are not the library's.


def test_the_linear_model_keeps_what_the_data_do_not_see():
    state, told = at("which_minimum", x1=-0.7, x2=1.4, y=0.9, start1=0.5, scale=1.3)
    x = np.array([state["x1"], state["x2"]])
    start = state["scale"] * np.array([state["start1"], state["start2"]])
    expected = start + x * (state["y"] - x @ start) / (x @ x)
    np.testing.assert_allclose(told["linear"], expected, rtol=1e-5)  # of digits in a link


def test_deep_ends_minimise_the_papers_potential_on_the_line():
    state, told = at("which_minimum", depth=3, layers=2)
    N = 3
    x = np.array([state["x1"], state["x2"]])
    start = np.array([state["start1"], state["start2"]])
    foot = x * state["y"] / (x @ x)
    along = np.array([-x[1], x[0]])

    def potential(t):
        theta = foot + t * along
        size = np.linalg.norm(start) ** (1 / N - 1)
        return N / (N + 1) * np.linalg.norm(theta) ** (1 + 1 / N) - theta @ start * size

    best = scipy.optimize.minimize_scalar(potential, bracket=(-1, 1), tol=1e-12).x
    np.testing.assert_allclose(told["deep"], foot + best * along, atol=1e-6)
    np.testing.assert_allclose(told["rank1"], told["deep"], rtol=1e-12)  # 2·2 − 1 = 3 factors


def test_diagonal_ends_are_those_of_the_flow_of_u_and_v():
    state, told = at("which_minimum", alpha=0.5)
    x = np.array([state["x1"], state["x2"]])
    start = np.array([state["start1"], state["start2"]])
    root = np.sqrt(start**2 + 4 * state["alpha"] ** 4)
    u, v = np.sqrt((root + start) / 2), np.sqrt((root - start) / 2)

    def velocity(_, both):
        u, v = both[:2], both[2:]
        slope = x * (x @ (u**2 - v**2) - state["y"])
        return np.concatenate([-2 * u * slope, 2 * v * slope])

    end = scipy.integrate.solve_ivp(velocity, (0, 100), [*u, *v], rtol=1e-10, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(told["diagonal"], end[:2] ** 2 - end[2:] ** 2, atol=1e-7)


def test_gaps_of_sgd_by_the_integral_along_the_flow():
    """dδ/dt = lr·E‖g‖²-part: three full layers as one equation for (v1, s), by hand."""
    state, told = at("sgd_against_gd", lr=0.01, batch=2)
    X = find("sgd_against_gd").setups(state)["rank1.sgd.limit"].problem.X
    n, b, N = len(X), 2, 5
    y = X @ np.array([0.6, 0.8])
    start = np.array([state["start1"], state["start2"]])
    s0 = np.linalg.norm(start) ** (1 / N)
    v0 = start / s0 ** (N - 1)

    def velocity(_, z, noisy):
        v, s = z[:2], z[2]
        xi = s ** (N - 1)
        r = X @ (xi * v) - y
        g = X.T @ r / n
        single = X * r[:, None]
        second = np.outer(g, g)
        if noisy:
            second = second + (single.T @ single / n - np.outer(g, g)) / b * (n - b) / (n - 1)
        gap = state["lr"] * xi**2 * (np.trace(second) - v @ second @ v / s**2)
        return [*(-xi * g), -(s ** (N - 2)) * (v @ g), gap]

    for how, noisy in (("GD", False), ("SGD", True)):
        found = scipy.integrate.solve_ivp(
            velocity, (0, 60), [*v0, s0, 0.0], args=(noisy,), rtol=1e-10, atol=1e-12
        )
        assert told[f"{how} gap"] == pytest.approx(found.y[3, -1], rel=1e-4)


def test_half_times_by_integrating_the_law_of_singular_values():
    state, told = at("singular_values", gamma=1e-3)
    for i in (1, 2, 3):
        star = state[f"sigma{i}"]

        def velocity(_, s, star=star):
            return 2 * np.hypot(s, state["gamma"]) * (star - s)

        def half(_, s, star=star):
            return s[0] - star / 2

        half.terminal = True
        found = scipy.integrate.solve_ivp(
            velocity, (0, 100), [0.0], events=half, rtol=1e-10, atol=1e-14
        )
        assert told[f"half{i}"] == pytest.approx(found.t_events[0][0], rel=1e-6)


def test_label_noise_shrinks_products_and_ends_sparse():
    state, told = at("label_noise")
    x = np.array([state["x1"], state["x2"]])
    t = 8000 * state["lr"] ** 2
    shrunk = state["alpha"] ** 2 * np.exp(-(state["std"] ** 2) * 4 * x**2 * t)
    # On the line of minima u² − v² = 2·uv·sinh(log(u/v)) with log(u/v) in the row space.
    root = scipy.optimize.brentq(lambda a: x @ (2 * shrunk * np.sinh(a * x)) - state["y"], 0, 60)
    np.testing.assert_allclose(told["last"], 2 * shrunk * np.sinh(root * x), rtol=1e-4, atol=1e-9)
    np.testing.assert_allclose(told["sparse"], sparse(x, state["y"]), atol=1e-9)


def sparse(x, y):
    """Of the two fits with one entry the one of less Σ x_j²|w_j|."""
    fits = [np.array([y / x[0], 0]), np.array([0, y / x[1]])]
    return min(fits, key=lambda w: x**2 @ np.abs(w))


def test_noise_balances_by_the_traces():
    """W Σx Wᵀ/TrΣx = Uᵀ Σε U/TrΣε with both along the first axis, and ‖U‖·‖W‖ = 1."""
    state, told = at("noise_balance", labels=0.5, inputs=3.0)
    ratio = (1 + state["labels"]) / (1 + state["inputs"])
    first = ratio**-0.25
    np.testing.assert_allclose(told["norms"], [first, 1 / first], rtol=1e-9)
    assert told["rest"] == pytest.approx(first**-2 - first**2)
    assert told["gd"] == pytest.approx(state["stretch"] ** 2 - state["stretch"] ** -2)


def test_the_charge_decays_to_its_rest_at_the_rate_of_its_noise():
    """With u² = e^c: ċ·(…) by hand, one equation for u² alone."""
    state, told = at("noise_balance", labels=2.0, inputs=0.5, lr=0.004)
    kappa = state["lr"] / state["batch"]
    a, b = 1 + state["inputs"], 1 + state["labels"]

    def velocity(_, z):  # of u², w² = 1/u²; noise of U is 4·w²·b, that of W 4·u²·a
        u2 = z[0]
        charge = 4 * kappa * (b / u2 - a * u2)
        return [charge / (1 + u2**-2)]

    time = 12_000 * state["lr"]
    u2 = scipy.integrate.solve_ivp(velocity, (0, time), [state["stretch"] ** 2], rtol=1e-9).y[0, -1]
    assert told["charge"] == pytest.approx(u2 - 1 / u2, rel=1e-4)


def test_sgd_moves_the_charge_as_predicted():
    """Up to what is of first order in the step: 2.6 % of the way here, 1.3 % at half the step."""
    scene = find("noise_balance")
    state = scene.state({"lr": 0.004, "stretch": 2.2, "batch": 8})
    told = values(scene.predicted(state))
    found = values(scene.simulated(state))["charge"]
    way = told["gd"] - told["charge"]
    assert 0 < told["charge"] - found < 0.04 * way  # sixteen runs are good to 0.3 % of the way
    wrong = values(scene.predicted({**state, "inputs": 0.8}))  # a tenth less noise in one layer
    assert abs(found - wrong["charge"]) > 0.1 * way


def test_the_level_of_imbalance_by_eigenvalues():
    state, told = at("imbalance", key=2)
    net = gb.TwoLayer(3, 1, 8)
    drawn = gb.init.gaussian(net, state["std"], key=2)
    W1, W2 = drawn["W1"] * state["factor"], drawn["W2"] / state["factor"]
    values_ = np.linalg.eigvalsh(W1.T @ W1 - W2 @ W2.T)[::-1]
    level = max(values_[2], 0) + max(-values_[-1], 0)  # r = 3 inputs, m = 1 output
    assert told["level"] == pytest.approx(level)
    theta = W1 @ W2
    teacher = np.array([[1.0], [-2.0], [2.0]]) / 3
    start = 0.5 * np.sum((theta - teacher) ** 2)
    assert told["imbalanced"] == pytest.approx(start * np.exp(-2 * level * state["time"]))
    assert told["certified"] <= told["imbalanced"]


@pytest.mark.parametrize("factor", [0.2, 0.5, 1.0, 3.0])
def test_no_run_is_above_its_bounds(factor):
    scene = find("imbalance")
    state = scene.state({"factor": factor})
    told = scene.predicted(state)["panels"][0]["marks"]
    found = scene.simulated(state)["marks"][0]
    bounds = [np.array(mark["y"]) for mark in told if mark["look"] == "bound"]
    loss = np.array(found[0]["y"])
    assert len(bounds) == 2
    for bound in bounds:
        assert np.all(loss <= bound * (1 + 1e-5) + 1e-18)
    assert np.any(loss > 0.97 * bounds[1])  # a bound that is 3 % lower would be broken


def test_margins_by_linear_programs_and_a_search():
    state, told = at("separators", x1=0.9, x2=0.4)
    Z = np.array([[0.9, 0.4], [-state["z1"], -state["z2"]], [1.6, 1.3], [1.7, 1.1], [1.2, 1.6]])
    angles = np.linspace(0, 2 * np.pi, 400_001)
    directions = np.stack([np.cos(angles), np.sin(angles)])
    margins = (Z @ directions).min(axis=0)
    for name, p in (("L1", 1), ("L2", 2), ("Linf", np.inf)):
        norms = np.linalg.norm(directions, ord=p, axis=0)
        assert told[f"{name} margin"] == pytest.approx(np.max(margins / norms), rel=1e-4)


# Refusals.


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("which_minimum", {"x3": 1}, "no control 'x3'; it has x1, x2"),
        ("which_minimum", {"depth": "2.5"}, "depth must be a whole number from 2 to 6, got '2.5'"),
        ("which_minimum", {"alpha": "nan"}, "alpha must be a number from 0.01 to 2, got 'nan'"),
        ("which_minimum", {"alpha": "one"}, "alpha must be a number from 0.01 to 2, got 'one'"),
        ("label_noise", {"lr": 7}, "lr must be a number from 0.01 to 0.1, got 7"),
    ],
)
def test_a_state_that_cannot_be_is_a_sentence(name, changes, words):
    with pytest.raises(ValueError, match=words):
        find(name).state(changes)


def test_data_that_say_nothing_are_a_sentence():
    scene = find("which_minimum")
    with pytest.raises(ValueError, match="data point .* at least 0.05 from zero"):
        scene.predicted(scene.state({"x1": 0, "x2": 0}))
    scene = find("separators")
    with pytest.raises(ValueError, match="separable|separate"):
        scene.predicted(scene.state({"x1": -1.7, "x2": -1.1}))


def test_there_is_no_other_scene():
    with pytest.raises(ValueError, match="scene must be one of which_minimum, .* got 'x'"):
        find("x")
