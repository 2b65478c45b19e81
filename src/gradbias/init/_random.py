"""Independent random entries: Gaussian, scaled by the width, Xavier, Kaiming.

All draw standard numbers and multiply: with one key, other standard deviations give the same
draws, rescaled. So (W1, W2) of stds (.1, .1) and (.5, .02) have the same product.
"""

import math
from collections.abc import Mapping

import numpy as np

from ..nets import MLP, Deep, Net, NormalisedA, NormalisedB, Rank1, TwoLayer
from ..numerics import checks
from ..numerics.host_rng import generator
from ._params import Params, biases_of, each, is_net, shapes_of, two_layers


def gaussian(net: Net, std: float | Mapping[str, float], key: int = 0) -> Params:
    """Independent N(0, std²) entries.

    Args:
        net: any net that knows its shapes.
        std: a standard deviation (not a variance), or {name: std} with one for every parameter.
            The biases of an MLP are 0 unless they are named.
        key: an integer; the same key gives the same draws, whatever the std.
    """
    stds = each("std", std, shapes_of(net), biases_of(net), at_least=0)
    return _scaled(net, stds, key, "init.gaussian")


def inverse_width(net: Net, alpha: float, key: int = 0) -> Params:
    r"""Independent entries of variance $h^{-2\alpha}$, i.e. std $h^{-\alpha}$, h the width.

    alpha = 1/2 keeps the imbalance of order one as the net gets wide; 1/4 is the edge below
    which the product $W_1 W_2$ no longer vanishes.

    Args:
        net: TwoLayer, or Deep with two layers.
        alpha: the exponent, at least 0.
        key: an integer; the same key gives the same draws, whatever alpha.
    """
    _, width, _ = two_layers("inverse_width", net)
    std = width ** -checks.number("alpha", alpha, at_least=0)
    stds = {"W1": std, "W2": std}
    return _scaled(net, stds, key, "init.inverse_width")


def xavier(net: Net, key: int = 0, uniform: bool = False, gain: float = 1.0) -> Params:
    """Xavier or Glorot: variance gain²·2/(fan_in + fan_out); biases 0.

    gain = 1 is Glorot's. Some papers, the noise-equilibrium one among them, call half of that
    variance Xavier, 1/(fan_in + fan_out): gain = √½.

    Args:
        net: a net with layers. A Rank1 net counts as the chain of its factors: v1 from d to 1,
            each u from 1 to width, each v from width to 1.
        key: an integer; the same key gives the same draws.
        uniform: draw uniformly, with the same variance, instead of Gaussian.
        gain: multiplies the standard deviation.
    """
    gain = checks.number("gain", gain, at_least=0)
    stds = {name: gain * math.sqrt(2 / (i + o)) for name, (i, o) in _fans("xavier", net).items()}
    return _scaled(net, stds, key, "init.xavier", uniform)


def kaiming(net: Net, key: int = 0, uniform: bool = False, gain: float = math.sqrt(2)) -> Params:
    """Kaiming or He: variance gain²/fan_in; biases 0.

    gain = √2 is He's, made for ReLU. gain = 1 gives 1/fan_in, which keeps the scale of a linear
    net and is what the noise-equilibrium paper calls Kaiming.

    Args:
        net: a net with layers; Rank1 as in `xavier`.
        key: an integer; the same key gives the same draws.
        uniform: draw uniformly, with the same variance, instead of Gaussian.
        gain: multiplies the standard deviation.
    """
    gain = checks.number("gain", gain, at_least=0)
    stds = {name: gain / math.sqrt(i) for name, (i, _) in _fans("kaiming", net).items()}
    return _scaled(net, stds, key, "init.kaiming", uniform)


def standard(net: Net, key: int, stream: str, uniform: bool = False) -> Params:
    """Entries of mean 0 and variance 1 for every parameter."""
    if not isinstance(uniform, bool):
        raise ValueError(f"uniform must be True or False, got {uniform!r:.80}")
    rng = generator(key, stream)
    shapes = shapes_of(net)
    biases = biases_of(net)
    root = math.sqrt(3)
    draws: Params = {}
    # Biases last: the weights are then the same draws with biases and without.
    for name in sorted(shapes, key=lambda name: name in biases):
        shape = shapes[name]
        draws[name] = rng.uniform(-root, root, shape) if uniform else rng.standard_normal(shape)
    return {name: draws[name] for name in shapes}


def _scaled(
    net: Net, stds: Mapping[str, float], key: int, stream: str, uniform: bool = False
) -> Params:
    draws = standard(net, key, stream, uniform)
    return {
        name: stds[name] * draw if stds.get(name) else np.zeros_like(draw)
        for name, draw in draws.items()
    }


def _fans(what: str, net: Net) -> dict[str, tuple[int, int]]:
    """(fan_in, fan_out) of every weight."""
    is_net(net)
    if isinstance(net, Rank1):
        return {"v1": (net.d, 1), "u": (1, net.width), "v": (net.width, 1)}
    if isinstance(net, (NormalisedA, NormalisedB)):  # column form: outputs come first
        return {"u": (net.width, net.k), "w": (net.d, net.width)}
    if isinstance(net, (TwoLayer, Deep, MLP)):
        weights = set(shapes_of(net)) - biases_of(net)
        return {name: (s[0], s[1]) for name, s in shapes_of(net).items() if name in weights}
    raise ValueError(
        f"net must have layers with a fan-in for init.{what}, got {type(net).__name__}: "
        "use init.gaussian with a std for each parameter"
    )
