"""The noise equilibrium of deep linear nets, y = W_D … W_1 x, in column form."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ...numerics import checks
from ...numerics.linalg import thin_svd
from ...numerics.psd import power, rank
from .._units import NONE, PARAMETER, RATE, TIME, homogeneous
from ._factorisation import relative_gap
from ._moments import moments

if TYPE_CHECKING:
    from ...nets.base import ChainNet
    from ...problems import Problem


class Weights(list[np.ndarray]):
    """Weights of y = W_D … W_1 x, the first layer first, each (outputs, inputs)."""

    def as_params(self, net: "ChainNet") -> dict[str, np.ndarray]:
        """The parameters of a `Deep` or `TwoLayer` net of these sizes, in its row form.

        Args:
            net: the net; its outputs are XΘ with Θ = W_1ᵀ … W_Dᵀ.
        """
        sizes = (self[0].shape[1], *(W.shape[0] for W in self))
        shape = tuple(getattr(net, "chain", ()))
        if shape != sizes or len(net.shapes() or ()) != len(self):
            raise ValueError(
                f"net must be a chain of {len(self)} layers between {sizes}, got {net!r:.80}"
            )
        return net.from_factors([W.T.copy() for W in self])


def deep_equilibrium(
    V: ArrayLike, sigma_x: ArrayLike, sigma_eps: ArrayLike, widths: Sequence[int]
) -> Weights:
    r"""Column form y = W_D … W_1 x: Theorem 5.4, corrected, the weights at noise equilibrium.

    At the population minimum V, with x and ε independent and
    $\Sigma_\varepsilon^{1/2} V \Sigma_x^{1/2} = L S R^T$: singular values
    $c\sqrt{S\,\mathrm{Tr}\Sigma_x/\mathrm{Tr}S}$ in the first layer (in coordinates where Σx is
    I), $c\sqrt{S\,\mathrm{Tr}\Sigma_\varepsilon/\mathrm{Tr}S}$ in the last, and c in those
    between, $c = (\mathrm{Tr}S/\sqrt{\mathrm{Tr}\Sigma_x\mathrm{Tr}\Sigma_\varepsilon})^{1/D}$.
    So (Eq 19) the squared norms of their live blocks are c²TrΣx, c²TrΣε and c²·rank.

    Unique up to rotations between the layers, and up to dead blocks: with widths above the rank
    of V, what maps unused units to unused units has no gradient and no noise and stays as it is;
    it is 0 here. Convention: κ = lr/S, γ = 0; neither κ nor the factor of the loss matters.

    Args:
        V: (k, d), the end-to-end map.
        sigma_x: (d, d) second moment of the inputs, invertible.
        sigma_eps: (k, k) covariance of the label noise, invertible.
        widths: the hidden sizes, first to last, each at least the rank of V.

    Returns:
        A list of the D = len(widths) + 1 weights, the first layer first; `.as_params(net)`
        converts.
    """
    V = checks.array("V", V, ndim=(2,))
    S_x = _invertible("sigma_x", sigma_x, V.shape[1])
    S_eps = _invertible("sigma_eps", sigma_eps, V.shape[0])
    sizes = [checks.integer(f"widths[{i}]", w, at_least=1) for i, w in enumerate(widths)]
    if not sizes:
        return Weights([V])
    L, s, Rt = thin_svd(power(S_eps, 0.5) @ V @ power(S_x, 0.5))
    if len(s) > min(sizes):
        raise ValueError(f"widths must be at least the rank {len(s)} of V, got {min(sizes)}")
    depth = len(sizes) + 1
    total = s.sum()
    tr_x = np.trace(S_x)
    tr_eps = np.trace(S_eps)
    c = (total / (np.sqrt(tr_x) * np.sqrt(tr_eps))) ** (1 / depth)
    shape = c * np.sqrt(s / total) if total > 0 else s
    frames = [np.eye(size, len(s)) for size in sizes]
    first = frames[0] @ ((np.sqrt(tr_x) * shape)[:, None] * Rt) @ power(S_x, -0.5)
    last = power(S_eps, -0.5) @ (L * (np.sqrt(tr_eps) * shape)) @ frames[-1].T
    middle = [c * after @ before.T for before, after in itertools.pairwise(frames)]
    return Weights([first, *middle, last])


def _invertible(name: str, value: ArrayLike, size: int) -> np.ndarray:
    matrix = checks.array(name, value, shape=(size, size))
    if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-12 * np.abs(matrix).max(initial=0)):
        raise ValueError(f"{name} must be symmetric")
    if rank(matrix) < size:
        raise ValueError(
            f"{name} must be positive definite, got {rank(matrix)} positive eigenvalues of {size}"
        )
    return (matrix + matrix.T) / 2


@homogeneous(2 * (PARAMETER - TIME), by="weights")
def seam_noise(
    weights: Sequence[ArrayLike], problem: "Problem", centred: bool = True
) -> list[tuple[np.ndarray, np.ndarray]]:
    r"""Column form y = W_D … W_1 x: the noise on the two sides of every hidden layer.

    Between W_i and W_{i+1}, both (h_i, h_i): of the later layer
    $4 A E[(r^T M r) xx^T] A^T$ with A = W_i … W_1 and M = BBᵀ, B = W_D … W_{i+2}, and of the
    earlier one $4 B'^T E[(x^T K x) rr^T] B'$ with B' = W_D … W_{i+1} and K = A'ᵀA',
    A' = W_{i−1} … W_1. Loss without ½; one of c‖r‖² multiplies by c².

    Args:
        weights: the layers, first to last.
        problem: a Regression or a Population.
        centred: subtract the mean gradient, as noise needs it; second moments if not.

    Returns:
        For every hidden layer the noise of the later and of the earlier weight.
    """
    layers = _chain(weights)
    before = list(itertools.accumulate(layers, lambda A, W: W @ A))  # W_i … W_1
    after = list(itertools.accumulate(reversed(layers), lambda B, W: B @ W))[::-1]  # W_D … W_i
    found = moments(problem, before[-1])
    k, d = found.G.shape
    ends_in = [np.eye(d), *before]
    ends_out = [*after, np.eye(k)]
    sides = []
    for i in range(1, len(layers)):
        M = ends_out[i + 1] @ ends_out[i + 1].T
        K = ends_in[i - 1].T @ ends_in[i - 1]
        later = ends_in[i] @ found.inputs(M, centred) @ ends_in[i].T
        earlier = ends_out[i].T @ found.outputs(K, centred) @ ends_out[i]
        sides.append((4 * found.scale**2 * later, 4 * found.scale**2 * earlier))
    return sides


@homogeneous(NONE, by="weights", kappa=TIME, weight_decay=RATE)
def equilibrium_residual(
    weights: Sequence[ArrayLike],
    problem: "Problem",
    kappa: float = 1.0,
    weight_decay: float = 0.0,
) -> np.ndarray:
    r"""Column form y = W_D … W_1 x: Theorem E.1, how far each hidden layer is from balance.

    $\|N_{\mathrm{later}} - N_{\mathrm{earlier}}\|_F$ over the geometric mean of the two norms, at
    any point, with the centred noise of `seam_noise`; with decay $\kappa N_{\mathrm{later}} +
    4\gamma W_iW_i^T$ against $\kappa N_{\mathrm{earlier}} + 4\gamma W_{i+1}^TW_{i+1}$.
    Convention: κ = lr/S, objective L + γ‖θ‖², loss without ½.

    Args:
        weights: the layers, first to last.
        problem: a Regression or a Population.
        kappa: lr/S.
        weight_decay: γ ≥ 0.

    Returns:
        (D − 1,) one for every hidden layer; all 0 at equilibrium.
    """
    layers = _chain(weights)
    kappa = checks.number("kappa", kappa, at_least=0)
    four = 4 * checks.number("weight_decay", weight_decay, at_least=0)
    gaps = []
    for i, (later, earlier) in enumerate(seam_noise(layers, problem)):
        W = layers[i]
        after = layers[i + 1]
        one = kappa * later + four * W @ W.T
        gaps.append(relative_gap(one, kappa * earlier + four * after.T @ after))
    return np.array(gaps)


def _chain(weights: Sequence[ArrayLike]) -> list[np.ndarray]:
    layers = [checks.array(f"weights[{i}]", W, ndim=(2,)) for i, W in enumerate(weights)]
    if not layers:
        raise ValueError("weights must hold at least one layer")
    for i, (one, other) in enumerate(itertools.pairwise(layers)):
        if other.shape[1] != one.shape[0]:
            raise ValueError(
                "weights must fit, first layer first and each (outputs, inputs), got "
                f"weights[{i}] {one.shape} before weights[{i + 1}] {other.shape}"
            )
    return layers
