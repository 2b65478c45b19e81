"""The noise-equilibrium paper: theorems hold on fresh instances, break by controls, show errata."""

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest

import gradbias as gb
from gradbias._verdicts.predict import Prediction
from gradbias.theorems.equilibrium import THEOREMS
from gradbias.theorems.equilibrium._factorisation_end import read_sides
from gradbias.theorems.equilibrium._measurements import late
from gradbias.theory import symmetry as theory
from theorem_cases import each_theorem

BY_ID = {theorem.id: theorem for theorem in THEOREMS}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("theorem", each_theorem(THEOREMS))
def test_theorem(theorem):
    found = gb.verify(theorem, instances=1, key=7)
    assert found.exit_code == 0, str(found)
    assert theorem.controls
    assert "\\" not in gb.theorems.to_unicode(theorem.statement)
    assert len(theorem.title) <= 48


@pytest.mark.slow
@pytest.mark.parametrize(
    "theorem", [t for t in THEOREMS if t.paper_size is not None], ids=lambda t: t.id
)
def test_holds_at_the_size_of_the_paper(theorem):
    at_size = dataclasses.replace(theorem, instances=theorem.paper_size, controls=(), errata=())
    found = gb.verify(at_size, instances=1)
    assert found.exit_code == 0, str(found)


def sgd(width=4, decay=0.05, noise=None, problem=None, **more):
    """A net of a user's own sizes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(7, 5))
    Y = X @ rng.normal(size=(5, 3)) + rng.normal(size=(7, 3))
    net = gb.TwoLayer(d=5, k=3, width=width)
    moves = gb.Descent(0.01, noise or gb.Minibatch(3), weight_decay=decay, **more)
    start, until = gb.init.xavier(net, key=1), gb.Until(steps=20)
    given = gb.Regression.half_mean(X, Y) if problem is None else problem
    return gb.Setup(given, net, start, moves, until, save_at=[0, 20])


POINTWISE = "eq98", "thm4.3.1", "thm4.3.2", "prop5.1", "prop5.3"


def test_any_sizes_losses_and_batches_without_replacement():
    """Half the mean of squares is no paper's loss here; its weight is in every formula."""
    chosen, setup = [BY_ID[f"equilibrium.{name}"] for name in POINTWISE], sgd()
    record = {name: f for theorem in chosen for name, f in theorem.observables.items()}
    run = gb.simulate(setup.replace(record=record))
    for theorem in chosen:
        prediction = Prediction(theorem, setup, theorem.check(setup))
        assert all(checked.met for checked in prediction.hypotheses), theorem
        assert {v.verdict for v in gb.compare(run, prediction)} == {"holds"}, theorem


def last(name, setup):
    return str(BY_ID[f"equilibrium.{name}"].check(setup)[-1])


def test_seams_of_different_widths():
    """Theorem E.1 on a net that no instance looks like."""
    theorem, net = BY_ID["equilibrium.thmE.1"], gb.Deep([5, 4, 1, 3])
    params, until = gb.init.gaussian(net, 0.7, key=2), gb.Until(steps=1)
    setup = sgd().replace(net=net, params=params, until=until, save_at=[0])
    runs = {"run": gb.simulate(setup.replace(record=theorem.observables))}
    told, seen = (
        theorem.tell(setup, runs).claims["noise"].value,
        theorem.measure_on(runs)["noise"],
    )
    assert told.shape == (1, 17)
    np.testing.assert_allclose(seen, told, rtol=1e-10, atol=1e-12 * np.abs(told).max())


def test_near_misses_say_why():
    assert "needs: there is no momentum" in last("prop5.1", sgd(momentum=0.5))
    whole = sgd(noise=gb.Minibatch(7))
    assert "needs: the noise is that of minibatches" in last("prop5.1", whole)
    assert "needs: there is no weight decay" in last("lemmaB.2", sgd())
    fresh = gb.Population(np.eye(5), np.ones((3, 5)), np.eye(3))
    assert "needs: the run is long" in last("eq14", sgd(decay=0.0, problem=fresh))
    # Without label noise there is no equilibrium to go to.
    silent = gb.Population(np.eye(5), np.ones((3, 5)), np.zeros((3, 3)))
    assert "needs: " in last("eq14", sgd(decay=0.0, problem=silent))
    dead = sgd().replace(params={"W1": np.zeros((5, 4)), "W2": np.zeros((4, 3))})
    assert "needs: every unit is pulled both ways" in last("thm4.3.2", dead)
    flat = sgd(problem=fresh).replace(net=gb.Deep([5, 3]), params={"W1": np.ones((5, 3))})
    assert "needs: there is a hidden layer" in last("thmE.1", flat)
    printed = BY_ID["equilibrium.thm5.2"].controls[0].setup(3)
    assert "needs: the start is at equilibrium" in last("thm5.2", printed)


@pytest.mark.slow
def test_sgd_ends_where_decay_and_noise_agree():
    """Theorem 5.2 with weight decay: the two sides agree with γS/η in Γ, and not with 2γ."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 4))
    Y = X @ rng.normal(size=(4, 3)) + rng.normal(size=(60, 3))
    problem, net = gb.Regression.mean(X, Y), gb.TwoLayer(4, 3, 5)
    lr, batch, gamma, steps = 0.004, 1, 0.01, np.arange(0, 60_001, 2000)

    def build(member):
        params = {"W1": rng.normal(size=(4, 5)), "W2": 0.3 * rng.normal(size=(5, 3))}
        moves = gb.Descent(lr, gb.Minibatch(batch), weight_decay=gamma)
        until = gb.Until(steps=int(steps[-1]))
        return gb.Setup(problem, net, params, moves, until, [gb.observe.params], steps, member)

    found = gb.sweep(build, {"member": range(12)}, progress=False)
    W1, W2 = (found[f"params_{n}"].values[:, len(steps) // 2 :] for n in ("W1", "W2"))
    ratios = {"corrected": [], "printed": []}
    for member in range(12):
        sums = {"corrected": np.zeros(2), "printed": np.zeros(2)}
        for a, b in zip(W1[member], W2[member], strict=True):
            sides = traces(X, Y, a, b)
            sums["corrected"] += sides(lr / batch, gamma)
            sums["printed"] += sides(1.0, 2 * gamma)
        for name, (left, right) in sums.items():
            ratios[name].append(left / right)
    means = {name: np.mean(r) for name, r in ratios.items()}
    error = np.std(ratios["corrected"], ddof=1) / np.sqrt(12)
    assert abs(means["corrected"] - 1) < 0.01 + 3 * error, (means, error)
    assert abs(means["printed"] - 1) > 0.05, means


def traces(X, Y, W1, W2):
    """Tr WΓWᵀ and Tr UᵀΓU as functions of what stands before the moments and before I."""
    R = X @ W1 @ W2 - Y
    enter = np.einsum("n,ni,nj->ij", np.sum(R**2, axis=1), X, X) / len(X)
    leave = np.einsum("n,ni,nj->ij", np.sum(X**2, axis=1), R, R) / len(X)

    def sides(rate, decay):
        Gamma_W, Gamma_U = rate * enter + decay * np.eye(4), rate * leave + decay * np.eye(3)
        return np.array([np.trace(W1.T @ Gamma_W @ W1), np.trace(W2 @ Gamma_U @ W2.T)])

    return sides


@pytest.mark.slow
def test_the_bias_of_a_finite_step_is_linear_in_it():
    """Eq 14: SGD ends short of the equilibrium, by half as much at half the step."""
    theorem, short = BY_ID["equilibrium.eq14"], []
    for lr, factor in ((0.02, 1), (0.01, 4)):
        setup = theorem.instances(11)
        steps = 4000 * factor * np.linspace(0, 1, 81)[[0, *range(20, 81)]]
        until, moves = gb.Until(steps=4000 * factor), gb.Descent(lr, gb.Minibatch(1))
        setup = setup.replace(dynamics=moves, until=until, save_at=steps.astype(int))
        ensemble = theorem.runs_of(setup)["step"]
        found = gb.sweep(ensemble.build, {"member": range(96)}, progress=False)
        told, seen = theorem.tell(setup).claims["inner"], late(found, read_sides(found))
        short.append((np.mean(seen.value / told.value - 1), np.mean(seen.standard_error)))
    (large, _), (small, error) = short
    assert -0.1 < large < 0, short
    assert abs(small / large - 0.5) < 0.15 + 3 * error / abs(large), short


def warmup():
    path = Path(__file__).parents[2] / "examples" / "warmup.py"
    spec = importlib.util.spec_from_file_location("warmup", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_warm_up_jump_and_balance():
    """At lr 0.008 only the plain run diverges; the jump allows no larger step than balancing."""
    example = warmup()
    sharpest = {}
    for (arm, key), (status, trained, trace, _) in example.table(range(2)).items():
        assert trained == (arm != "plain"), (arm, key, status)
        assert ("diverged" in status) == (arm == "plain")
        sharpest[arm, key] = trace[0]
        if trained:
            assert abs(trace[-1] - 4 * example.SIZE) < 0.15 * 4 * example.SIZE
    for key in range(2):
        assert sharpest["balance", key] < sharpest["jump", key] < sharpest["plain", key]
    rates = {arm: example.largest(arm, 0) for arm in ("plain", "jump", "balance")}
    assert rates["plain"] < example.LR < rates["jump"] <= rates["balance"], rates
    scaled = {arm: example.largest(arm, 0, scaled=True) for arm in ("plain", "jump", "balance")}
    assert scaled["jump"] <= scaled["plain"] == scaled["balance"], scaled


def test_the_jump_of_the_example_changes_no_output():
    example = warmup()
    params = {arm: example.start(arm, 0) for arm in example.ARMS}
    theta = {arm: p["W1"] @ p["W2"] for arm, p in params.items()}
    for arm in example.ARMS:
        np.testing.assert_allclose(theta[arm], theta["plain"], atol=1e-13)
    norms = [np.linalg.norm(params["balance"][n]) for n in ("W1", "W2")]
    np.testing.assert_allclose(*norms, rtol=1e-12)
    problem = example.problem(0)
    jump, plain = (
        theory.factorisation_residual(problem, params[a]["W2"].T, params[a]["W1"].T)
        for a in ("jump", "plain")
    )
    assert jump < 0.1 < plain
