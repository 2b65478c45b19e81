"""Adam, Lion, Muon, Nesterov and SAM against plain NumPy loops."""

import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
import optimisers as by_hand
from cases import LR, case, data, label_noise, minibatches
from gradbias.dynamics._muon import newton_schulz

STEPS = 200
HALVED = gb.dynamics.piecewise({0: LR, 100: LR / 3})
SCHEDULE = {"gradbias": HALVED, "by hand": lambda k: LR if k < 100 else LR / 3}

# name -> (dynamics of a noise law, the same by hand, its learning rate, what becomes of gradients)
OPTIMISERS = {
    "nesterov": (
        lambda noise: gb.Descent(LR / 5, noise, 0.9, 0.05, nesterov=True),
        by_hand.nesterov(0.9, 0.05),
        LR / 5,
    ),
    "adam": (lambda noise: gb.Adam(LR, noise=noise), by_hand.adam((0.9, 0.999), 1e-8), LR),
    "adamw": (
        lambda noise: gb.Adam(HALVED, (0.8, 0.95), 1e-2, 0.1, noise=noise),
        by_hand.adam((0.8, 0.95), 1e-2, 0.1),
        SCHEDULE["by hand"],
    ),
    "adam with decay in the gradient": (
        lambda noise: gb.Adam(LR / 3, (0.5, 0.9), 0.1, 0.1, decoupled=False, noise=noise),
        by_hand.adam((0.5, 0.9), 0.1, 0.1, decoupled=False),
        LR / 3,
    ),
    "adam with eps inside": (
        lambda noise: gb.Adam(LR / 3, (0.9, 0.95), 1e-2, noise=noise, eps_inside=True),
        by_hand.adam((0.9, 0.95), 1e-2, inside=True),
        LR / 3,
    ),
    "lion": (
        lambda noise: gb.Lion(LR / 30, weight_decay=0.1, noise=noise),
        by_hand.lion((0.9, 0.99), 0.1),
        LR / 30,
    ),
}
NETS = {"two layers": "TwoLayer", "deep": "Deep", "rank one": "Rank1"}
LAWS = ("full batch", "minibatch and label noise")


def law(name, k):
    if name == "full batch":
        return None, {}
    noise = label_noise(2, k)
    return gb.Replay(minibatches(), noise), {"indices": minibatches(), "noise": noise}


def ends(problem, net, params, dynamics, steps=STEPS, **how):
    setup = gb.Setup(problem, net, params, dynamics, gb.Until(steps=steps))
    return gb.simulate(setup, **how)


def assert_close(run, wanted, atol=1e-12):
    for name, value in wanted.items():
        np.testing.assert_allclose(run.final[name], value, rtol=0, atol=atol)


@pytest.mark.one_in(17)
@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("net", [*NETS, "diagonal", "mlp"])
@pytest.mark.parametrize("seen", LAWS)
def test_steps_are_those_of_the_loop(name, net, seen):
    if net in NETS:
        kind = NETS[net]
        problem, net, params = case(net)
    else:
        kind = {"diagonal": "Diagonal", "mlp": "MLP"}[net]
        net = gb.Diagonal(9) if kind == "Diagonal" else gb.MLP([9, 5, 2], "tanh")
        problem = gb.Regression.half_mean(*data(k=1 if kind == "Diagonal" else 2))
        params = gb.init.gaussian(net, 0.3, key=4)
    noise, same = law(seen, problem.k)
    dynamics, step, lr = OPTIMISERS[name]
    gradient = by_hand.gradient_of(kind, problem, **same)
    wanted = by_hand.walk(step, gradient, params, STEPS, lr)
    assert_close(ends(problem, net, params, dynamics(noise)), wanted)


@pytest.mark.one_in(7)
@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize("net", ["two layers", "deep", "two narrow layers"])
@pytest.mark.parametrize("method", ["exact", "newton_schulz"])
def test_muon(method, net, reduce):
    """For twenty steps: where a singular value nearly vanishes, its direction is rounding."""
    problem, net, params = case(net)
    noise, same = law("minibatch and label noise", problem.k)
    dynamics = gb.Muon(LR, 0.9, method == "exact", method, 0.1, 0.7, noise)
    factor = by_hand.polar if method == "exact" else by_hand.newton_schulz
    step = by_hand.muon(factor, 0.9, method == "exact", 0.1, 0.7)
    gradient = by_hand.gradient_of(type(net).__name__, problem, **same)
    wanted = by_hand.walk(step, gradient, params, 20, LR)
    run = ends(problem, net, params, dynamics, 20, reduce=reduce)
    assert (run.stats["reason"] == "exact closure") == reduce
    assert_close(run, wanted, 1e-10)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("reduce", [True, False])
@pytest.mark.parametrize("net", ["two layers", "rank one"])
def test_sam(net, reduce):
    kind = NETS[net]
    problem, net, params = case(net)
    noise, same = law("minibatch and label noise", problem.k)
    gradient = by_hand.uphill(by_hand.gradient_of(kind, problem, **same), 0.1)
    wanted = by_hand.walk(by_hand.nesterov(0.5, 0.01), gradient, params, STEPS, LR)
    sam = gb.SAM(0.1, gb.Descent(LR, noise, 0.5, 0.01, nesterov=True))
    run = ends(problem, net, params, sam, reduce=reduce)
    assert (run.stats["reason"] == "exact closure") == reduce
    assert_close(run, wanted)


@pytest.mark.slow
def test_sam_of_adam():
    """Not for long: such a path makes 1e-2 of 1e-15 in a few hundred steps."""
    problem, net, params = case("two layers")
    gradient = by_hand.uphill(by_hand.gradient_of("TwoLayer", problem), 0.1)
    wanted = by_hand.walk(by_hand.adam((0.9, 0.999), 1e-8), gradient, params, 40, LR)
    run = ends(problem, net, params, gb.SAM(0.1, gb.Adam(LR)), 40)
    assert run.stats["reason"] == "Adam is not invariant under rotations"
    assert_close(run, wanted)


def test_parameter_noise_is_seen_by_every_optimiser():
    """Two runs of one key see the same noise: without memory, Lion's steps are its signs."""
    problem, net, params = case("two layers")
    noise = gb.Isotropic(10.0)  # so large that signs are its own
    plain = ends(problem, net, params, gb.Descent(1e-9, noise), 1)
    signs = ends(problem, net, params, gb.Lion(1e-3, (0.0, 0.0), noise=noise), 1)
    for name, start in params.items():
        kick = np.sign(plain.final[name] - start)
        np.testing.assert_allclose(signs.final[name] - start, 1e-3 * kick, rtol=0, atol=1e-15)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("net", ["two layers", "deep"])
def test_nesterov_is_reduced_exactly(net):
    problem, net, params = case(net)
    dynamics = gb.Descent(LR, momentum=0.9, nesterov=True, weight_decay=0.01)
    reduced = ends(problem, net, params, dynamics)
    assert reduced.stats["reason"] == "exact closure"
    full = ends(problem, net, params, dynamics, reduce=False)
    assert_close(reduced, full.final, 1e-12)


@pytest.mark.slow
def test_where_rounding_may_grow_runs_are_in_full():
    """Balanced layers: the closure leaves directions out that are rounding."""
    problem, net, _ = case("two layers")
    params = gb.init.balanced(net, np.full((9, 2), 1e-3))
    assert ends(problem, net, params, gb.Descent(0.01), 5).stats["reason"] == "exact closure"
    run = ends(problem, net, params, gb.Muon(0.01), 5)
    assert "how fast it does is not known of the steps of Muon" in run.stats["reason"]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    "dynamics",
    [
        gb.Adam(0.1, eps=0.0),
        gb.Lion(0.1),
        gb.Muon(0.1, orthogonalise="newton_schulz"),
        gb.SAM(0.1, gb.Descent(0.1)),
        gb.Muon(0.1),
    ],
)
def test_a_gradient_of_zero_moves_nothing(dynamics):
    """sign(0) = 0, 0/0 = 0, and zero has no polar factor: decay alone is left."""
    problem, net, params = case("two layers")
    zeros = {name: np.zeros_like(value) for name, value in params.items()}
    assert_close(ends(problem, net, zeros, dynamics, 3), zeros, 0.0)


@pytest.mark.slow
def test_dead_coordinates_decay():
    """An input that is always zero has no gradient: (1 − lr·λ)^k is what is left of its row."""
    X, Y = data()
    X[:, 3] = 0.0
    problem = gb.Regression.half_mean(X, Y)
    net = gb.TwoLayer(9, 2, 5)
    params = gb.init.gaussian(net, 0.3, key=2)
    for dynamics in (
        gb.Adam(0.01, eps=0.0, weight_decay=0.5),
        gb.Lion(0.01, weight_decay=0.5),
        gb.Muon(0.01, weight_decay=0.5),
    ):
        run = ends(problem, net, params, dynamics, 100)
        wanted = (1 - 0.005) ** 100 * params["W1"][3]
        np.testing.assert_allclose(run.final["W1"][3], wanted, rtol=0, atol=1e-13)


def test_muon_steps_have_the_size_that_is_asked_for():
    """All singular values of the first step are lr·scale, as many as outputs."""
    problem, net, params = case("two layers")
    run = ends(problem, net, params, gb.Muon(0.01, scale=0.2), 1)
    for name in params:
        sizes = np.linalg.svd(run.final[name] - params[name], compute_uv=False)
        np.testing.assert_allclose(sizes[:2], 0.002, rtol=1e-9)
        assert np.all(sizes[2:] < 1e-14)


@pytest.mark.slow
def test_newton_schulz_is_not_the_polar_factor():
    problem, net, params = case("two layers")
    run = ends(problem, net, params, gb.Muon(0.01, orthogonalise="newton_schulz"), 1)
    sizes = np.linalg.svd(run.final["W1"] - params["W1"], compute_uv=False)[:2] / 0.01
    assert np.all((sizes > 0.6) & (sizes < 1.25))
    assert np.abs(sizes - 1).max() > 0.02


@pytest.mark.slow
def test_runs_are_the_same_however_they_are_cut():
    problem, net, params = case("two layers")
    dynamics = gb.Adam(gb.dynamics.piecewise({0: 0.01, 70: 0.02}), noise=gb.Minibatch(2))
    runs = [
        gb.simulate(gb.Setup(problem, net, params, dynamics, gb.Until(steps=300), save_at=saves))
        for saves in ([300], [0, 1, 7, 150, 299, 300])
    ]
    assert_close(runs[0], runs[1].final, 0.0)


def test_members_of_a_sweep_are_runs():
    problem, net, params = case("two layers")

    def build(lr, wd):
        dynamics = gb.Adam(lr, weight_decay=wd, noise=gb.Minibatch(2))
        until = gb.Until(steps=50)
        return gb.Setup(problem, net, params, dynamics, until, save_at=[50], key=round(100 * wd))

    grid = gb.sweep(build, {"lr": [0.01, 0.02], "wd": [0.1, 0.3]})
    for lr in (0.01, 0.02):
        for wd in (0.1, 0.3):
            alone = gb.simulate(build(lr, wd))
            found = grid["theta"].sel(lr=lr, wd=wd).values[-1]
            np.testing.assert_allclose(found, alone.theta, rtol=0, atol=1e-13)


def test_running_sums_see_gradient_and_rate():
    problem, net, params = case("two layers")
    lr = gb.dynamics.piecewise({0: 0.01, 20: 0.03})
    total = gb.observe.running(lambda problem, net, params, gradient, lr: lr)
    setup = gb.Setup(
        problem, net, params, gb.Muon(lr), gb.Until(steps=30), {"sum": total}, save_at=[30]
    )
    assert float(gb.simulate(setup).data["sum"][-1]) == pytest.approx(0.2 + 0.3, rel=1e-12)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: gb.Adam(0.1, (0.9, 1.0)), r"betas\[1\] must be less than 1, got 1.0"),
        (lambda: gb.Adam(0.1, (-0.1, 0.9)), r"betas\[0\] must be at least 0, got -0.1"),
        (lambda: gb.Adam(0.1, 0.9), r"betas must be two numbers \(β₁, β₂\), got 0.9"),
        (lambda: gb.Adam(0.1, gb.Minibatch(2)), r"betas must be two numbers"),
        (lambda: gb.Adam(0.1, eps=-1e-8), r"eps must be at least 0, got -1e-08"),
        (lambda: gb.Adam(0.1, eps=np.nan), r"eps must be at least 0, got nan"),
        (lambda: gb.Adam(0.1, weight_decay=11), r"weight_decay must be at most 1/lr = 10, got 11"),
        (lambda: gb.Adam(0.1, decoupled=1), r"decoupled must be True or False, got 1"),
        (lambda: gb.Adam(-0.1), r"lr must be greater than 0, got -0.1"),
        (lambda: gb.Adam(0.1, noise=2), r"noise must be None or a noise law"),
        (lambda: gb.Lion(0.1, (0.9,)), r"betas must be two numbers"),
        (lambda: gb.Lion(0.1, weight_decay=-1), r"weight_decay must be at least 0"),
        (lambda: gb.Muon(0.1, momentum=1), r"momentum must be less than 1, got 1.0"),
        (lambda: gb.Muon(0.1, orthogonalise="ns5"), r"orthogonalise must be one of 'exact', "),
        (lambda: gb.Muon(0.1, scale=0), r"scale must be greater than 0, got 0.0"),
        (lambda: gb.SAM(0, gb.Descent(0.1)), r"rho must be greater than 0, got 0.0"),
        (lambda: gb.SAM(0.1, gb.Flow()), r"base must be an optimiser such as gb.Descent"),
        (lambda: gb.SAM(0.1, gb.SAM(0.1, gb.Descent(1))), r"base must be an optimiser"),
        (lambda: gb.Descent(0.1, nesterov=True), r"nesterov=True needs momentum above 0"),
        (lambda: gb.Descent(0.1, momentum=0.9, nesterov="yes"), r"nesterov must be True or False"),
    ],
)
def test_refusals(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


def test_muon_refuses_vectors_before_anything_is_compiled():
    problem, net, params = case("rank one")
    with pytest.raises(ValueError, match=r"Muon moves matrices, got params\['v1'\] of shape"):
        gb.Setup(problem, net, params, gb.Muon(0.1))


def test_adam_in_expectation_needs_a_linear_net():
    problem = gb.Population(np.eye(3), np.ones((1, 3)), np.eye(1))
    net = gb.MLP([3, 4, 1], "tanh")
    params = gb.init.gaussian(net, 0.3)
    with pytest.raises(ValueError, match="Adam without data noise on Population"):
        gb.Setup(problem, net, params, gb.Adam(0.1))


def signs(p, g, m, lr, k):
    """Signum with decoupled decay."""
    m = g + (0 if m is None else 0.9 * m)
    return p - lr * (np.sign(m) + 0.1 * p), m


def in_l4(params, grads, lr):
    """Steepest in ℓ4, all parameters one vector; its dual is ℓ_{4/3}."""
    g = np.concatenate([grad.ravel() for grad in grads.values()])
    total = np.sum(np.abs(g) ** (4 / 3)) ** 0.75
    return {
        n: p - lr * np.sign(grads[n]) * (np.abs(grads[n]) / total) ** (1 / 3)
        for n, p in params.items()
    }


def test_sign_descent_with_momentum():
    problem, net, params = case("two layers")
    gradient = by_hand.gradient_of("TwoLayer", problem)
    wanted = by_hand.walk(signs, gradient, params, STEPS, 1e-3)
    run = ends(problem, net, params, gb.Steepest(1e-3, gb.geometry.Linf, 0.9, 0.1))
    assert run.stats["reason"] == "steepest descent in Linf is not invariant under rotations"
    assert_close(run, wanted)


@pytest.mark.slow
def test_steepest_in_lp_takes_all_parameters_as_one_vector():
    problem, net, params = case("two layers")
    gradient = by_hand.gradient_of("TwoLayer", problem)
    wanted = dict(params)
    for k in range(50):
        wanted = in_l4(wanted, gradient(wanted, k), 0.01)
    assert_close(ends(problem, net, params, gb.Steepest(0.01, gb.geometry.Lp(4)), 50), wanted)


def test_steepest_in_l2_is_gradient_descent():
    """Not normalised, with decay in the gradient; torch's λ is twice the γ of Descent."""
    for name in ("two layers", "rank one"):
        problem, net, params = case(name)
        steepest = gb.Steepest(
            LR, gb.geometry.L2, 0.5, 0.1, decoupled=False, normalised=False, noise=None
        )
        run = ends(problem, net, params, steepest)
        assert run.stats["reason"] == "exact closure"
        wanted = ends(problem, net, params, gb.Descent(LR, None, 0.5, 0.05)).final
        assert_close(run, wanted)


def test_spectral_steps_layer_by_layer_are_muons():
    problem, net, params = case("two layers")
    layers = gb.geometry.Product(gb.geometry.Spectral)
    steepest = gb.Steepest(LR, layers, weight_decay=0.1)
    wanted = ends(problem, net, params, gb.Muon(LR, 0.0, weight_decay=0.1), 30).final
    for reduce in (True, False):
        run = ends(problem, net, params, steepest, 30, reduce=reduce)
        assert (run.stats["reason"] == "exact closure") == reduce
        assert_close(run, wanted, 1e-11)


def test_a_geometry_of_one_matrix_is_refused_for_a_net_of_several():
    problem, net, params = case("two layers")
    with pytest.raises(ValueError, match=r"gb.geometry.Product\(gb.geometry.Spectral\) takes"):
        gb.Setup(problem, net, params, gb.Steepest(0.1, gb.geometry.Spectral))
    with pytest.raises(ValueError, match="geometry must be a geometry such as gb.geometry.L2"):
        gb.Steepest(0.1, "sign")


def test_a_run_says_how_it_was_made():
    problem, net, params = case("one layer")
    run = ends(problem, net, params, gb.SAM(0.1, gb.Adam(0.01, weight_decay=0.1)), 1)
    assert "SAM(rho=0.1, base=Adam(lr=0.01, weight_decay=0.1))" in str(run)
    other = ends(problem, net, params, gb.Adam(0.01, (0.8, 0.9), decoupled=False), 1)
    assert "Adam(lr=0.01, betas=(0.8, 0.9), decoupled=False)" in str(other)


def test_newton_schulz_at_any_size():
    """Squares of 1e200 are infinite; below a norm of 1e-7 it is torch's own, which shrinks."""
    G = np.random.default_rng(1).normal(size=(5, 3))
    with gb.float64():
        large = np.asarray(newton_schulz(jnp.asarray(1e200 * G)))
        small = np.asarray(newton_schulz(jnp.asarray(1e-9 * G)))
        zero = np.asarray(newton_schulz(jnp.zeros((5, 3))))
    np.testing.assert_allclose(large, by_hand.newton_schulz(G), rtol=0, atol=1e-14)
    np.testing.assert_allclose(small, by_hand.newton_schulz(1e-9 * G), rtol=0, atol=1e-14)
    assert not zero.any()


def test_a_velocity_must_fit():
    problem, net, params = case("two layers")
    with pytest.raises(ValueError, match="velocity needs momentum above 0"):
        gb.Descent(0.1, velocity=params)
    with pytest.raises(ValueError, match="velocity must be a dict like the parameters"):
        gb.Descent(0.1, momentum=0.9, velocity=1.0)
    with pytest.raises(ValueError, match="it differs in 'W2'"):
        some = gb.Descent(0.1, momentum=0.9, velocity={"W1": params["W1"]})
        gb.Setup(problem, net, params, some)
    with pytest.raises(ValueError, match=r"velocity\['W1'\] must have shape"):
        bent = {**params, "W1": params["W1"].T}
        gb.Setup(problem, net, params, gb.Descent(0.1, momentum=0.9, velocity=bent))
