"""What a step of SGD with momentum does to a quadratic form: one law for arrays of any library."""

from typing import Any, Protocol, TypeVar, runtime_checkable

S = TypeVar("S")


@runtime_checkable
class Scalable(Protocol):
    """What can be added and multiplied by numbers: floats, arrays, tensors."""

    def __add__(self: S, other: S, /) -> S: ...
    def __sub__(self: S, other: S, /) -> S: ...
    def __rmul__(self: S, factor: float, /) -> S: ...


T = TypeVar("T", bound=Scalable)


def momentum_increment(
    form: T,
    cross: T,
    square: T,
    overlap: T,
    lr: Any,  # numbers, or arrays of the same library
    momentum: Any,
    decay: Any,
    nesterov: bool = False,
) -> tuple[T, T]:
    """C' − C, without the cancellation, and D', for C = θᵀAθ and D = θᵀAb.

    The step is b' = βb + g + wd·θ, θ' = θ − lr·p with p = b', for Nesterov p = g + wd·θ + βb'.

    Args:
        form: C before the step.
        cross: D before the step.
        square: pᵀAp.
        overlap: pᵀAb'.
        lr: learning rate.
        momentum: β.
        decay: wd.
        nesterov: is p Nesterov's?
    """
    a = momentum * cross + decay * form  # θᵀAb'
    s = decay * form + momentum * a if nesterov else a  # θᵀAp
    return lr * lr * square - 2 * lr * s, a - lr * overlap
