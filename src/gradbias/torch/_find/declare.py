"""Symmetries of your own: declared by parameter names, checked like all others."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from ...numerics import checks
from .._measure.undisturbed import autocast_off
from .._measure.unwrap import refuse_meta, unwrap_model
from .check import measured, random_scalar
from .family import Family, ParameterPart
from .parameters import DoubleByDefault, as_in_training, call_arguments, double

Where = int | None | Any  # an axis, None for the whole tensor, or the unit of every entry


def declare(
    model: nn.Module,
    name: str,
    into: Mapping[str, Where],
    out: Mapping[str, Where] | None = None,
    *,
    degree: float = 1.0,
) -> Family:
    """A symmetry that the search does not know: unit u's `into` times e^λ, its `out` times e^(−pλ).

    Args:
        model: whose parameters these are.
        name: how it is called in tables.
        into: parameter names, each with the axis along which units are counted, None where the
            whole tensor belongs to the one unit, or an array like the parameter with the unit of
            every entry (−1 for none).
        out: the same for what comes out; none for a scale that is normalised away.
        degree: p, how the output of a unit grows with its input: 1 for ReLU, 2 for its square.

    Returns:
        A family to hand to `balance`, `equilibrate`, `Monitor` and `gradient_noise`. It has not
        been checked: see `check`.
    """
    params = dict(unwrap_model(model).model.named_parameters())
    degree = checks.number("degree", degree, above=0)
    parts = [_part("into", params, n, where, 1.0) for n, where in into.items()]
    parts += [_part("out", params, n, where, -degree) for n, where in (out or {}).items()]
    if not into:
        raise ValueError("into must name at least one parameter, got none")
    sizes = {part.parameter: int(part.unit.max()) + 1 for part in parts}
    if len(set(sizes.values())) != 1 or 0 in sizes.values():
        raise ValueError(f"into and out must agree on the number of units, got {sizes}")
    return Family(name, "declared", next(iter(sizes.values())), tuple(parts))


def _part(
    side: str, params: Mapping[str, Any], name: str, where: Where, mu: float
) -> ParameterPart:
    if name not in params:
        known = ", ".join(list(params)[:6])
        raise ValueError(f"{side} must name parameters of the model ({known}, …), got {name!r:.80}")
    shape = tuple(params[name].shape)
    if where is None:
        return ParameterPart(name, (), torch.tensor(0), mu)
    if isinstance(where, int) and not isinstance(where, bool):
        if not -len(shape) <= where < len(shape):
            raise ValueError(f"{side}[{name!r}] must be an axis of shape {shape}, got {where}")
        axis = where % len(shape)
        return ParameterPart(name, (axis,), torch.arange(shape[axis]), mu)
    unit = np.asarray(where)
    if unit.shape != shape or unit.dtype.kind not in "iu" or np.any(unit < -1):
        raise ValueError(
            f"{side}[{name!r}] must be an axis, None, or whole numbers of shape {shape} from −1, "
            f"got {unit.dtype} of shape {unit.shape}"
        )
    return ParameterPart(
        name, tuple(range(len(shape))), torch.from_numpy(unit.astype(np.int64)), mu
    )


def check(model: nn.Module, family: Family, example_input: object, *, key: int = 0) -> Family:
    """How well a family holds on a model: the same family with `holds` measured.

    `holds` is the largest |g·Aθ|/‖g‖‖Aθ‖ of its units, in float64, for a random combination of
    the outputs, at the model's parameters and at three random points.

    Args:
        model: any module; not changed.
        family: of `declare` or `symmetries`.
        example_input: a tensor, a tuple of arguments or a dict of named ones.
        key: an integer; decides the random points.
    """
    if not isinstance(family, Family):
        raise ValueError(f"family must be a gradbias.torch.Family, got {type(family).__name__}")
    plain = unwrap_model(model).model
    refuse_meta(plain)
    with DoubleByDefault(), autocast_off():
        twin, call = double(plain, call_arguments(example_input))
        return measured(as_in_training(twin), [random_scalar(call, key)], [family], key)[0]
