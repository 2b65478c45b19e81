"""Norms against NumPy, duals and steepest directions against random points of the unit ball."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb
from gradbias.geometry import as_geometry

G = gb.geometry
RNG = np.random.default_rng(5)
VECTORS = [G.L1(), G.L2(), G.Linf(), G.Lp(4), G.Lp(1.5), G.Lp(1.01), G.Fourier()]
EVERY = [*VECTORS, G.Spectral(), G.Nuclear()]
NAMES = [type(g).__name__ + str(getattr(g, "p", "")) for g in EVERY]


def by_numpy(geometry, x):
    """The norm, in NumPy's own words."""
    singular = np.linalg.svd(x.reshape(len(x), -1), compute_uv=False)
    return {
        "L1": lambda: np.linalg.norm(x.ravel(), 1),
        "L2": lambda: np.linalg.norm(x.ravel()),
        "Linf": lambda: np.linalg.norm(x.ravel(), np.inf),
        "Lp": lambda: np.linalg.norm(x.ravel(), getattr(geometry, "p", None)),
        "Fourier": lambda: np.abs(np.fft.fft(x, axis=0, norm="ortho")).sum(),
        "Spectral": lambda: singular[0],
        "Nuclear": singular.sum,
    }[type(geometry).__name__]()


@pytest.mark.parametrize("shape", [(1,), (2,), (6,), (7,), (1, 1), (4, 3), (3, 5)])
@pytest.mark.parametrize("geometry", EVERY, ids=NAMES)
def test_the_steepest_direction_is_the_best_of_the_unit_ball(geometry, shape):
    g = RNG.standard_normal(shape)
    step = geometry.steepest(g)
    assert step.shape == shape
    np.testing.assert_allclose(by_numpy(geometry, step), 1, rtol=1e-12)
    np.testing.assert_allclose(geometry.norm(step), 1, rtol=1e-12)
    np.testing.assert_allclose((step * g).sum(), geometry.dual_norm(g), rtol=1e-12)
    for x in RNG.standard_normal((200, *shape)):
        size = by_numpy(geometry, x)
        np.testing.assert_allclose(geometry.norm(x), size, rtol=1e-12)
        assert (x * g).sum() / size <= geometry.dual_norm(g) * (1 + 1e-12)


@pytest.mark.parametrize("geometry", EVERY, ids=NAMES)
def test_inside_of_compiled_code_it_is_the_same(geometry):
    g = RNG.standard_normal((5, 3))
    with gb.float64():
        found = jax.jit(lambda x: (geometry.norm(x), geometry.dual_norm(x), geometry.steepest(x)))(
            jnp.asarray(g)
        )
        many = jax.vmap(geometry.steepest)(jnp.stack([jnp.asarray(g), jnp.asarray(-g)]))
    for value, host in zip(found, (geometry.norm(g), geometry.dual_norm(g)), strict=False):
        np.testing.assert_allclose(value, host, rtol=1e-13)
    np.testing.assert_allclose(found[2], geometry.steepest(g), rtol=0, atol=1e-13)
    np.testing.assert_allclose(many[1], -geometry.steepest(g), rtol=0, atol=1e-13)


@pytest.mark.parametrize("geometry", EVERY, ids=NAMES)
def test_a_zero_gradient_has_no_direction(geometry):
    zero = np.zeros((4, 2))
    assert not geometry.steepest(zero).any()
    assert geometry.norm(zero) == geometry.dual_norm(zero) == 0
    with gb.float64():
        assert not np.asarray(geometry.steepest(jnp.asarray(zero))).any()


@pytest.mark.parametrize("scale", [1e-250, 1e250])
@pytest.mark.parametrize("geometry", EVERY, ids=NAMES)
def test_no_power_of_a_gradient_leaves_the_range_of_doubles(geometry, scale):
    g = RNG.standard_normal((4, 3))
    np.testing.assert_allclose(geometry.steepest(scale * g), geometry.steepest(g), atol=1e-12)
    np.testing.assert_allclose(geometry.norm(scale * g), scale * geometry.norm(g), rtol=1e-12)
    np.testing.assert_allclose(
        geometry.dual_norm(scale * g), scale * geometry.dual_norm(g), rtol=1e-12
    )


def test_of_equal_coordinates_the_first_is_taken():
    np.testing.assert_array_equal(G.L1().steepest([1.0, -2.0, 2.0, 2.0]), [0, -1, 0, 0])
    params = {"a": np.array([1.0, -2.0]), "b": np.array([[2.0, 0.0]])}
    step = G.L1().steepest(params)
    np.testing.assert_array_equal(step["a"], [0, -1])
    np.testing.assert_array_equal(step["b"], [[0, 0]])
    wave = G.Fourier().steepest([1.0, 0, 0, 0])  # all frequencies are equal
    np.testing.assert_allclose(wave, np.full(4, 0.5), atol=1e-15)


def test_directions_that_a_gradient_lacks_are_not_taken():
    rank_one = np.outer([1.0, 2.0, 2.0], [3.0, 4.0])
    polar = G.Spectral().steepest(rank_one + 1e-14 * RNG.standard_normal((3, 2)))
    np.testing.assert_allclose(polar, rank_one / 15, atol=1e-13)
    kept = G.Spectral().steepest(np.diag([1.0, 1e-11, 1e-13]))
    np.testing.assert_allclose(kept, np.diag([1.0, 1.0, 0.0]), atol=1e-12)


def test_several_arrays_are_one_vector():
    params = {"a": RNG.standard_normal((2, 3)), "b": RNG.standard_normal(4)}
    both = np.concatenate([params["a"].ravel(), params["b"]])
    for geometry in (G.L1(), G.L2(), G.Linf(), G.Lp(3)):
        np.testing.assert_allclose(geometry.norm(params), by_numpy(geometry, both), rtol=1e-13)
        np.testing.assert_allclose(geometry.dual_norm(params), geometry.dual_norm(both))
        step = geometry.steepest(params)
        joined = np.concatenate([step["a"].ravel(), step["b"]])
        np.testing.assert_allclose(joined, geometry.steepest(both), atol=1e-15)


def test_a_product_steps_tensor_by_tensor():
    g = {"W": RNG.standard_normal((3, 2)), "b": RNG.standard_normal(4)}
    product = G.Product({"W": G.Spectral, "b": G.Linf()}, scales={"b": 0.5})
    step = product.steepest(g)
    np.testing.assert_allclose(step["W"], G.Spectral().steepest(g["W"]))
    np.testing.assert_allclose(step["b"], 0.5 * np.sign(g["b"]))
    value = (step["W"] * g["W"]).sum() + (step["b"] * g["b"]).sum()
    np.testing.assert_allclose(product.dual_norm(g), value, rtol=1e-13)
    np.testing.assert_allclose(product.norm(step), 1, rtol=1e-13)
    with gb.float64():
        np.testing.assert_allclose(jax.jit(product.norm)(jax.tree.map(jnp.asarray, step)), 1)
    assert G.Product(G.Spectral).rotates
    assert not product.rotates
    same = G.Product(G.Spectral).steepest(g)
    np.testing.assert_allclose(same["b"], g["b"] / np.linalg.norm(g["b"]), rtol=1e-13)


def test_what_a_flow_in_a_geometry_conserves():
    """|u|^q − |v|^q along small steps of w = u·v, for the q that the geometry names."""
    for geometry in (G.L2(), G.Linf(), G.Lp(4), G.Lp(1.5)):
        q = geometry.charge_power
        p = np.array([1.3, 0.4])
        start = p**q @ [1, -1]
        other = p ** (q + 1) @ [1, -1]
        for _ in range(2000):
            g = (p[0] * p[1] - 1) * p[::-1]
            p = p - 1e-4 * geometry.dual_norm(g) * geometry.steepest(g)
        assert abs(p**q @ [1, -1] - start) < 1e-3
        assert abs(p ** (q + 1) @ [1, -1] - other) > 0.02
    assert G.L1().charge_power is None


def test_a_class_does_as_well_as_an_instance():
    assert as_geometry("geometry", G.L2) == G.L2()
    assert as_geometry("geometry", G.Lp(3)) == G.Lp(3) != G.Lp(4)
    assert hash(G.Lp(3)) == hash(G.Lp(3))
    with pytest.raises(ValueError, match=r"geometry must be a geometry, got the class Lp, which"):
        as_geometry("geometry", G.Lp)
    with pytest.raises(ValueError, match=r"geometry must be a geometry such as .*, got 'l2'"):
        as_geometry("geometry", "l2")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: G.Lp(1), "p must be greater than 1"),
        (lambda: G.Lp(np.inf), "p must be finite"),
        (lambda: G.L2().norm([1.0, np.nan]), "x must be finite"),
        (lambda: G.Spectral().norm({"a": np.eye(2)}), r"norm of one matrix.*Product"),
        (lambda: G.Fourier().norm({"a": np.eye(2)}), r"norm of one array.*Product"),
        (lambda: G.Fourier().norm(3.0), "norm of vectors"),
        (lambda: G.Spectral().norm(np.ones((2, 2, 2))), "matrices and vectors, got shape"),
        (lambda: G.Product(G.L2).norm(np.eye(2)), "parameters by name"),
        (lambda: G.Product({}), "at least one tensor"),
        (lambda: G.Product({"a": G.L2}).norm({"b": np.ones(2)}), r"differs in \['a', 'b'\]"),
        (lambda: G.Product(G.L2, {"a": 0}), r"scales\['a'\] must be greater than 0"),
    ],
)
def test_what_does_not_fit_is_said(call, words):
    with pytest.raises(ValueError, match=words):
        call()
