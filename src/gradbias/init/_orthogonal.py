"""The orthogonal init of spectral bias, and the random frames that others use."""

import numpy as np

from ..nets import Net
from ..numerics import checks
from ..numerics.host_rng import generator
from ._params import Params, two_layers


def orthogonal(net: Net, gamma: float, key: int = 0) -> Params:
    r"""$I_\gamma$: $W_1 = \sqrt{2\gamma}\,P$ with $PP^T = I_d$, and $W_2 = 0$.

    The imbalance $W_1^T W_1 - W_2 W_2^T = 2\gamma P^T P$ is isotropic, so gradient flow has a
    potential; gamma tunes it from rich (small) to lazy (large).

    Args:
        net: TwoLayer, or Deep with two layers; its width must be at least d.
        gamma: the scale, above 0; 1e-100 works.
        key: an integer; the same key gives the same P.
    """
    d, width, k = two_layers("orthogonal", net)
    scale = np.sqrt(2) * np.sqrt(checks.number("gamma", gamma, above=0))
    if width < d:
        raise ValueError(
            f"net must have a width of at least d = {d} for init.orthogonal, got {width}: "
            "P Pᵀ = I needs d orthonormal rows"
        )
    P = random_frame(generator(key, "init.orthogonal"), width, d).T
    return {"W1": np.ascontiguousarray(scale * P), "W2": np.zeros((width, k))}


def random_frame(rng: np.random.Generator, size: int, count: int) -> np.ndarray:
    """(size, count) orthonormal columns, uniform among all such frames."""
    Q, R = np.linalg.qr(rng.standard_normal((size, count)))
    # LAPACK's Q alone is not uniform: its signs follow its own convention.
    return Q * np.copysign(1.0, np.diag(R))
