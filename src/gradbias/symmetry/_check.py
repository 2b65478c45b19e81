"""How well a claimed symmetry holds, sample by sample."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._generators.symmetry import Symmetry
from ..nets import Net
from ..numerics import checks
from ..numerics.host_rng import generator
from ..numerics.precision import host
from ..numerics.types import Number, PyTree
from ..problems import Batch, Population, Problem
from ._charge_tracker import named
from ._sample_gradients import Data

POINTS = 6  # random points besides the given one: directions that hide at one θ show at another
FRESH = 32  # samples drawn from a Population
HOLDS = 1e-8  # the largest cosine of a symmetry that holds


class SampleLoss(eqx.Module):
    """A problem's loss of one sample, which is a row number or fresh (x, y)."""

    problem: Problem
    net: Net

    def __call__(self, params, *sample) -> Number:
        if len(sample) == 1:
            batch = Batch(indices=sample[0][None])
        else:
            batch = Batch(x=sample[0][None], y=sample[1][None])
        return self.problem.net_loss(self.net, params, batch)


@host
def check(
    loss: Callable[..., Any], params: PyTree, data: Data, symmetry: Symmetry, key: int = 0
) -> float:
    r"""How far a claimed symmetry is from true: 0 if it holds, up to rounding.

    The largest cosine $|g_i \cdot A\theta| / (\|g_i\|\,\|A\theta\|)$ over all samples, all
    generators of a family, the given point and six random ones. One point alone can hide a false
    symmetry. Between 1e-8 and 1e-4 it is an approximate one, such as a normalisation with an
    epsilon.

    Args:
        loss: `loss(params, *sample)` of one sample, written with jax.numpy; with
            data (X, Y) it is called as loss(params, x, y).
        params: a point θ.
        data: an array, or a tuple of arrays whose first axis counts samples.
        symmetry: what is claimed.
        key: an integer; decides the random points.
    """
    if not callable(loss):
        raise ValueError(f"loss must be a function of (params, *sample), got {loss!r:.80}")
    if not isinstance(symmetry, Symmetry):
        raise ValueError(
            "symmetry must be made by gradbias.symmetry.pair or another of its functions, got "
            f"{type(symmetry).__name__} {symmetry!r:.80}"
        )
    return _checked(loss, params, data, (symmetry,), key)[0]


@host
def check_all(
    problem: Problem,
    net: Net,
    params: PyTree,
    symmetries: Mapping[str, Symmetry] | None = None,
    key: int = 0,
) -> dict[str, float]:
    """`check` for every symmetry of a net, on the samples of a problem.

    Args:
        problem: what is fitted; fresh samples are drawn of a Population.
        net: how parameters make outputs.
        params: a point θ.
        symmetries: what is claimed, by name; the net's own if None.
        key: an integer; decides the random points and samples.
    """
    claimed = named(net.symmetries() if symmetries is None else symmetries)
    data = problem.sample(FRESH, key) if isinstance(problem, Population) else _rows(problem)
    worst = _checked(SampleLoss(problem, net), params, data, tuple(claimed.values()), key)
    return dict(zip(claimed, worst, strict=True))


def require(problem: Problem, net: Net, params: PyTree, symmetries: Mapping[str, Symmetry]) -> None:
    """Refuse symmetries that do not hold."""
    for name, cosine in check_all(problem, net, params, symmetries).items():
        if not cosine <= HOLDS:
            raise ValueError(
                f"symmetries[{name!r}] does not hold for this net: the gradient of some sample has "
                f"a cosine of {cosine:.2g} with Aθ, and needs one of 0 (at most {HOLDS:.0e})"
            )


def _checked(
    loss: Callable[..., Any], params: PyTree, data: Data, symmetries: tuple[Symmetry, ...], key: int
) -> list[float]:
    samples = data if isinstance(data, tuple) else (data,)
    samples = tuple(np.asarray(array) for array in samples)
    lengths = [array.shape[0] if array.ndim else 0 for array in samples]
    if len(set(lengths)) != 1 or lengths[0] == 0:
        raise ValueError(f"data must hold the same number of samples, at least 1, got {lengths}")
    params = jax.tree.map(lambda leaf: checks.array("params", leaf), params)
    for symmetry in symmetries:
        symmetry.charge(params)  # unknown names are refused here, with a sentence
    if not symmetries:
        return []
    points = [params, *_random_points(params, key)]
    cosines = [_cosines(loss, symmetries, point, samples) for point in points]
    return np.max(cosines, axis=0).tolist()


def _rows(problem: Any) -> tuple[np.ndarray, ...]:
    return (np.arange(problem.n),)


def _random_points(params: PyTree, key: int) -> list[Any]:
    """Half of them with every parameter of its own scale, half with all of one.

    Where one layer is 1e9 times another, a gradient has no visible part in one of them.
    """
    rng = generator(key, "symmetry.check")

    def own(leaf: np.ndarray) -> float:
        return float(np.abs(leaf).max(initial=0.0)) or 1.0  # zeros start to move

    def common(leaf: np.ndarray) -> float:
        return max(leaf.shape, default=1) ** -0.5

    def draw(scale: Callable[[np.ndarray], float]) -> PyTree:
        return jax.tree.map(
            lambda leaf: np.asarray(scale(leaf) * rng.standard_normal(leaf.shape)), params
        )

    return [draw(own if i % 2 else common) for i in range(POINTS)]


@eqx.filter_jit
def _cosines(loss, symmetries: tuple[Symmetry, ...], params, samples) -> jax.Array:
    """The largest cosine of every symmetry over all samples."""
    # Both sides are linear in θ and in g: with the scales taken out, nothing underflows.
    theta = _scaled(params)

    def of_sample(sample):
        g = _scaled(jax.grad(loss)(params, *sample))
        norm = jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(g)))
        sizes = [norm * symmetry.lengths(theta) for symmetry in symmetries]
        forms = [jnp.abs(symmetry.form(g, theta)) for symmetry in symmetries]
        cosines = [f / jnp.where(s > 0, s, 1.0) for f, s in zip(forms, sizes, strict=True)]
        return jnp.stack([jnp.max(cosine) for cosine in cosines])

    return jnp.max(jax.lax.map(of_sample, samples, batch_size=64), axis=0)


def _scaled(tree) -> PyTree:
    top = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(tree)]))
    return jax.tree.map(lambda leaf: leaf / jnp.where(top > 0, top, 1.0), tree)
