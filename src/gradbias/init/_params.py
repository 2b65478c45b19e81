"""What every init shares: the shapes of a net, a number for each parameter, given parameters."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..nets import MLP, Deep, Net, TwoLayer
from ..numerics import checks

Params = dict[str, np.ndarray]
Shapes = dict[str, tuple[int, ...]]


def is_net(net: object) -> None:
    """Refuse what is not a net."""
    if not isinstance(net, Net):
        raise ValueError(f"net must be a net of gradbias, got {type(net).__name__} {net!r:.80}")


def shapes_of(net: Net) -> Shapes:
    """The shape of every parameter, or a ValueError if the net does not say."""
    is_net(net)
    shapes = net.shapes()
    if shapes is None:
        raise ValueError(
            f"net must know the shapes of its parameters, {type(net).__name__} does not: give "
            "`shapes` to gradbias.nets.linear or general, or define the method shapes()"
        )
    return dict(shapes)


def biases_of(net: Net) -> frozenset[str]:
    """The parameters that start at zero unless they are named."""
    if not (isinstance(net, MLP) and net.bias):
        return frozenset()
    return frozenset(f"b{i}" for i in range(1, len(net.dims)))


def each(
    what: str,
    value: float | Mapping[str, float],
    shapes: Shapes,
    optional: frozenset[str],
    at_least: float | None = None,
) -> dict[str, float]:
    """One number for each parameter, from a number or a {name: number}.

    Args:
        what: the argument's name, for the message.
        value: a number for all but the optional parameters, or one for each by name.
        shapes: the net's parameters.
        optional: names that may be left out and are then 0.
        at_least: the least value that is allowed.
    """
    numbers = dict.fromkeys(shapes, 0.0)
    if isinstance(value, Mapping):
        known_names(what, value, shapes, optional)
        for name, number in value.items():
            numbers[name] = checks.number(f"{what}[{name!r}]", number, at_least=at_least)
        return numbers
    number = checks.number(what, value, at_least=at_least)
    return numbers | dict.fromkeys(set(shapes) - optional, number)


def known_names(
    what: str, given: Mapping[str, Any], shapes: Shapes, optional: frozenset[str] = frozenset()
) -> None:
    """Refuse names that the net does not have, and missing ones that it needs."""
    unknown = [name for name in given if name not in shapes]
    missing = [name for name in shapes if name not in given and name not in optional]
    for wrong, words in ((unknown, "has unknown"), (missing, "lacks")):
        if wrong:
            raise ValueError(
                f"{what} {words} parameters {', '.join(map(repr, wrong))}: "
                f"the net's are {', '.join(map(repr, shapes))}"
            )


def given(net: Net, params: Mapping[str, Any]) -> Params:
    """Parameters that the caller already has, checked against the net and copied."""
    if not isinstance(params, Mapping):
        raise ValueError(
            f"params must be a dict of arrays by name, got {type(params).__name__} {params!r:.80}"
        )
    shapes = shapes_of(net)
    known_names("params", params, shapes)
    return {
        name: checks.array(f"params[{name!r}]", params[name], shape=shape)
        for name, shape in shapes.items()
    }


def two_layers(what: str, net: Net) -> tuple[int, int, int]:
    """The sizes (d, width, k) of a net with exactly one hidden layer."""
    is_net(net)
    if isinstance(net, (TwoLayer, Deep)) and len(net.chain) == 3:
        d, width, k = net.chain
        return d, width, k
    got = f"Deep({list(net.dims)})" if isinstance(net, Deep) else type(net).__name__
    raise ValueError(f"net must be TwoLayer, or Deep with two layers, for init.{what}, got {got}")
