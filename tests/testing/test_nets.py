"""check_net: nothing to say about our nets, and every defect of a broken one found."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias.testing import check_net

D = 3


def normal(*shape, key=0):
    return np.random.default_rng(key).normal(size=shape)


PROBLEM = gb.Regression.half_mean(normal(5, D), normal(5, key=1))
PARAMS = {"a": normal(D, key=2), "b": normal(D, key=3)}


class Product(gb.LinearNet):
    """Θ = a·b: a sound net, broken in one way by each of the classes below."""

    def shapes(self):
        return {"a": (D,), "b": (D,)}

    def predictor(self, params):
        return params["a"] * params["b"]

    def symmetries(self):
        return {"a-b": gb.symmetry.neurons({"a": 0}, {"b": 0})}


class Wave(gb.Net):
    """Non-linear, and sound."""

    def __call__(self, params, X):
        return jnp.sin(X @ params["a"]) + X @ params["b"]


def broken(base, **methods):
    return type("Broken", (base,), methods)()


NETS = [
    gb.TwoLayer(D, 1, 4),
    gb.TwoLayer(D, 1, 1),
    gb.Deep([D, 1]),
    gb.Deep([D, 2, 2, 1]),
    gb.Rank1(D, 3, 2),
    gb.Rank1(D, 1, 2),
    gb.Diagonal(D),
    gb.MLP([D, 4, 1]),
    gb.MLP([D, 4, 1], "tanh", bias=False),
    gb.MLP([D, 2, 2, 1], "linear"),
    gb.NormalisedA(D, 1, 2),
    gb.NormalisedB(D, 1, 2),
]


@pytest.mark.one_in(5)
@pytest.mark.parametrize("net", NETS, ids=repr)
def test_our_nets_pass(net):
    params = {name: normal(*s, key=i) for i, (name, s) in enumerate(net.shapes().items())}
    report = check_net(net, params, PROBLEM)
    assert report.ok
    assert report.findings == ()
    assert str(report).startswith(f"{net!r:.80}: nothing wrong in fields, parameters")
    assert check_net(net, params).ok


def test_own_nets_pass():
    assert check_net(Product(), PARAMS, PROBLEM).ok
    assert check_net(Wave(), PARAMS, PROBLEM).ok
    assert check_net(gb.nets.linear(lambda p: p["a"] * p["b"]), PARAMS).ok
    nested = [PARAMS["a"], {"b": PARAMS["b"]}]
    assert check_net(gb.nets.linear(lambda p: p[0] * p[1]["b"]), nested).ok


@pytest.mark.parametrize(
    "problem",
    [
        gb.Regression.half_mean(normal(5, D), normal(5, 1)),
        gb.Regression.half_mean(normal(1, D), normal(1)),
        gb.Regression.half_mean(np.outer(normal(5), normal(D)), normal(5)),
        gb.Samples(lambda out, y: jnp.logaddexp(0.0, -y * out), normal(5, D), normal(5)),
        gb.Population(np.eye(D), normal(1, D), [[0.1]]),
    ],
    ids=["matrix labels", "one sample", "rank one data", "any loss", "population"],
)
def test_problems(problem):
    assert check_net(Product(), PARAMS, problem).ok
    assert check_net(Wave(), PARAMS, problem).ok


@pytest.mark.parametrize("scale", [1e-8, 1e6])
def test_scales(scale):
    params = {name: scale * value for name, value in PARAMS.items()}
    assert check_net(Product(), params, PROBLEM).ok


def np_code(self, params):
    return np.exp(params["a"])


def branch(self, params):
    return params["a"] if params["a"].sum() > 0 else params["b"]


def changes(self, params, X):
    params["a"] = params["a"] * 2
    return X @ params["a"] + X @ params["b"]


def rows_together(self, params, X):
    out = X @ (params["a"] * params["b"])
    return out - out.mean()


class Chain(gb.nets.ChainNet):
    """Θ = a bᵀ as a chain, broken or not by its fields."""

    order: tuple[int, ...] = eqx.field(static=True, default=(D, 1, 1))
    factor: float = eqx.field(static=True, default=1.0)

    @property
    def chain(self):
        return self.order

    def factors(self, params):
        return [params["a"][:, None], params["c"][None, :]]

    def from_factors(self, factors):
        return {"a": self.factor * factors[0][:, 0], "c": factors[1][0]}


class Doubled(Chain):
    def predictor(self, params):
        return 2 * params["a"][:, None] @ params["c"][None, :]


CHAINED = {"a": PARAMS["a"], "c": np.array([0.7])}


class Jump(gb.symmetry.Symmetry):
    """An own symmetry whose parts do not agree."""

    def form(self, x, y):
        return (x["a"] * y["a"] - x["b"] * y["b"]).sum()

    def apply(self, params, weights=1.0):
        return {"a": params["a"], "b": -params["b"]}

    def move(self, params, lam):
        return {"a": params["a"] * np.exp(lam), "b": params["b"]}

    def lengths(self, params):
        return jnp.sqrt((params["a"] ** 2).sum() + (params["b"] ** 2).sum())


@jax.custom_jvp
def half_right(x):
    return x * x


half_right.defjvp(lambda x, dx: (half_right(x[0]), x[0] * dx[0]))


class Single(Product):
    scale: jax.Array

    def predictor(self, params):
        return self.scale * params["a"] * params["b"]


def single():
    with jax.enable_x64(False):
        return Single(jnp.ones(D))


DEFECTS = {
    "other shape": (
        lambda: broken(Product, shapes=lambda self: {"a": (D,), "b": (D, 1)}),
        r"declares \(3, 1\) for 'b', but params have \(3,\)",
    ),
    "not declared": (
        lambda: broken(Product, shapes=lambda self: {"a": (D,)}),
        "params have 'b', which shapes does not declare",
    ),
    "declared and missing": (
        lambda: broken(Product, shapes=lambda self: {"a": (D,), "b": (D,), "c": ()}),
        "declares 'c', which params do not have",
    ),
    "shapes of another kind": (
        lambda: broken(Product, shapes=lambda self: {"a": D, "b": D}),
        "shapes must return {name: ",
    ),
    "shapes fails": (
        lambda: broken(Product, shapes=lambda self: self.nothing),
        "shapes fails: AttributeError",
    ),
    "single precision field": (single, r"field \.scale is float32"),
    "single precision inside": (
        lambda: broken(
            Product, predictor=lambda self, p: jnp.ones(D, jnp.float32) * p["a"] * p["b"]
        ),
        "predictor computes in float32",
    ),
    "single precision in a loop": (
        lambda: broken(
            Product,
            predictor=lambda self, p: jax.lax.fori_loop(
                0, 1, lambda i, x: x * p["b"].astype(jnp.float32).astype(jnp.float64), p["a"]
            ),
            symmetries=lambda self: {},
        ),
        "predictor computes in float32",
    ),
    "single precision result": (
        lambda: broken(Product, predictor=lambda self, p: (p["a"] * p["b"]).astype(jnp.float32)),
        "predictor must return float64, got float32",
    ),
    "whole numbers": (
        lambda: broken(Product, predictor=lambda self, p: jnp.arange(D)),
        "predictor must return float64, got int64",
    ),
    "numpy": (lambda: broken(Product, predictor=np_code), "predictor cannot be compiled.*jax.num"),
    "if": (lambda: broken(Product, predictor=branch), "predictor cannot be compiled.*jnp.where"),
    "an error": (
        lambda: broken(Product, predictor=lambda self, p: p["c"]),
        "predictor fails: KeyError: 'c'",
    ),
    "predictor of another size": (
        lambda: broken(Product, predictor=lambda self, p: p["a"][:2]),
        r"predictor must have shape \(3, 1\) to fit the problem, got \(2,\)",
    ),
    "predictor with three axes": (
        lambda: broken(Product, predictor=lambda self, p: p["a"][:, None, None]),
        r"predictor must return an array \(d, k\) or \(d,\), got shape \(3, 1, 1\)",
    ),
    "not an array": (
        lambda: broken(Product, predictor=lambda self, p: (p["a"], p["b"])),
        "predictor must return an array.*got tuple",
    ),
    "call against predictor": (
        lambda: broken(Product, __call__=lambda self, p, X: X @ p["a"]),
        "must return X @ predictor",
    ),
    "outputs transposed": (
        lambda: broken(Wave, __call__=lambda self, p, X: (X @ p["a"])[None, :]),
        r"outputs \(5, 1\) or \(5,\) on 5 rows of X, got shape \(1, 5\)",
    ),
    "a number": (
        lambda: broken(Wave, __call__=lambda self, p, X: (X @ p["a"]).sum()),
        r"got shape \(\)",
    ),
    "changes params": (lambda: broken(Wave, __call__=changes), "changes the params"),
    "random": (
        lambda: broken(Wave, __call__=lambda self, p, X: X @ p["a"] + np.random.normal()),
        "other outputs the second time",
    ),
    "rows together": (lambda: broken(Wave, __call__=rows_together), "when other rows are left"),
    "five rows": (
        lambda: broken(Wave, __call__=lambda self, p, X: (X @ p["a"]).reshape(5)),
        "fails on a single row",
    ),
    "not a number": (
        lambda: broken(Wave, __call__=lambda self, p, X: jnp.log(X @ p["a"])),
        "returns nan at these params",
    ),
    "gradient not finite": (
        lambda: broken(
            Wave, __call__=lambda self, p, X: X @ p["a"] + jnp.sqrt(jnp.sum(p["b"] - p["b"]))
        ),
        r"gradient is not finite in params\['b'\]",
    ),
    "gradient stopped": (
        lambda: broken(
            Product, predictor=lambda self, p: p["a"] * jax.lax.stop_gradient(p["b"]) + p["b"]
        ),
        "gradient is not that of the loss",
    ),
    "gradient by hand": (
        lambda: broken(Product, predictor=lambda self, p: half_right(p["a"]) + p["b"]),
        "gradient is not that of the loss",
    ),
    "without influence": (
        lambda: broken(Product, predictor=lambda self, p: p["a"], symmetries=lambda self: {}),
        r"no output depends on params\['b'\]",
    ),
    "false symmetry": (
        lambda: broken(Product, symmetries=lambda self: {"a": gb.symmetry.scaling("a")}),
        r"symmetries\(\)\['a'\] does not hold: .*cosine of",
    ),
    "symmetry of another net": (
        lambda: broken(Product, symmetries=lambda self: {"x": gb.symmetry.pair("W1", "W2")}),
        r"symmetries\(\)\['x'\] does not fit the parameters.*'W1'",
    ),
    "symmetries in a list": (
        lambda: broken(Product, symmetries=lambda self: [gb.symmetry.scaling("a")]),
        "symmetries must return a dict",
    ),
    "a name for a symmetry": (
        lambda: broken(Product, symmetries=lambda self: {"a": "scaling"}),
        "must be made by gradbias.symmetry",
    ),
    "symmetries fails": (
        lambda: broken(Product, symmetries=lambda self: self.nothing),
        "symmetries fails: AttributeError",
    ),
    "move that is none": (
        lambda: broken(Product, symmetries=lambda self: {"own": Jump()}),
        r"\['own'\].move\(0.3\) changes the outputs",
    ),
}


@pytest.mark.parametrize("name", DEFECTS)
def test_defects_are_found(name):
    make, words = DEFECTS[name]
    report = check_net(make(), PARAMS, PROBLEM, raise_on_error=False)
    assert not report.ok
    with pytest.raises(AssertionError, match=words):
        raise AssertionError("\n".join(report.findings))
    assert len(report.findings) <= 2, report  # one defect, no avalanche


@pytest.mark.parametrize(
    ("net", "words"),
    [
        (Chain((D, 1, 2)), "factors must have the shapes"),
        (Chain(factor=2.0), "must be params again"),
        (Doubled(), "product of `factors` is not the predictor"),
    ],
)
def test_chains(net, words):
    assert check_net(Chain(), CHAINED, PROBLEM).ok
    with pytest.raises(ValueError, match=words):
        check_net(net, CHAINED, PROBLEM)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({**PARAMS, "b": np.float32(PARAMS["b"])}, r"params\['b'\] is float32"),
        ({**PARAMS, "b": np.full(D, np.inf)}, r"params\['b'\] must be finite, got inf"),
        ({**PARAMS, "b": "abc"}, r"params\['b'\] must be an array of real numbers, got str"),
        ({}, "at least one array"),
        ([PARAMS["a"], PARAMS["b"]], "params are a list"),
    ],
)
def test_parameters(params, words):
    with pytest.raises(ValueError, match=words):
        check_net(Product(), params, PROBLEM)


def test_all_findings_are_raised_at_once():
    net = broken(Product, shapes=lambda self: {"a": (D, 1), "b": (D, 2)})
    with pytest.raises(ValueError, match=r"2 found\n  1\. shapes declares.*\n  2\. shapes"):
        check_net(net, PARAMS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((Product, PARAMS), "net must be an instance, got the class Product itself"),
        ((lambda p: p, PARAMS), "net must be a Net, got function"),
        ((Product(), PARAMS, 3), "problem must be a Problem, got int"),
        ((Wave(), PARAMS), "problem must be given: nothing else says how many inputs"),
    ],
)
def test_bad_arguments(arguments, words):
    with pytest.raises(ValueError, match=words):
        check_net(*arguments)
