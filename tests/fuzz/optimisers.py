"""Random optimisers on random cases, and the same steps in NumPy."""

from typing import Any, NamedTuple

import numpy as np

import gradbias as gb
import optimisers as by_hand

from .draw import ALIKE, Case, case


class Choice(NamedTuple):
    """An optimiser, by the library and by hand.

    Attributes:
        case: the problem and the start, with the learning rate of this optimiser.
        dynamics: for gradbias.
        step: of one tensor, by hand.
        rho: how far uphill the gradient is taken.
        mixes: does a step mix the entries of a gradient?
    """

    case: Case
    dynamics: Any
    step: Any
    rho: float = 0.0
    mixes: bool = False


def choice(seed: int) -> Choice:
    """Neighbours have the same optimiser, and so the same program.

    Lion is not among them: where a gradient is zero, its step is the sign of a rounding error.
    """
    shared, rng = np.random.default_rng([seed // ALIKE, 7]), np.random.default_rng([seed, 8])
    one = case(seed)
    names = ["nesterov", "adam", "adamw", "sam"]
    if isinstance(one.net, (gb.TwoLayer, gb.Deep)):
        names += ["muon", "muon", "newton_schulz"]
    name = str(shared.choice(names))
    noise = None
    if one.indices is not None or one.noise is not None:
        noise = gb.Replay(one.indices, one.noise)
    if name in ("nesterov", "sam"):
        lr = one.lr * 0.2  # of a heavy ball with momentum 0.8
        dynamics = gb.Descent(lr, noise, 0.8, 0.01, nesterov=True)
        rho = float(10.0 ** rng.uniform(-4, -1)) if name == "sam" else 0.0
        if rho:
            dynamics = gb.SAM(rho, dynamics)
        return Choice(one._replace(lr=lr), dynamics, by_hand.nesterov(0.8, 0.01), rho)
    lr = float(10.0 ** rng.uniform(-4, -2))
    one = one._replace(lr=lr)
    if name in ("adam", "adamw"):
        betas, eps, decoupled = (0.9, 0.95), 1e-3, name == "adamw"
        dynamics = gb.Adam(lr, betas, eps, 0.1, decoupled, noise)
        return Choice(one, dynamics, by_hand.adam(betas, eps, 0.1, decoupled))
    method = "exact" if name == "muon" else "newton_schulz"
    factor = by_hand.polar if name == "muon" else by_hand.newton_schulz
    dynamics = gb.Muon(lr, 0.9, True, method, 0.1, noise=noise)
    return Choice(one, dynamics, by_hand.muon(factor, 0.9, True, 0.1), mixes=True)
