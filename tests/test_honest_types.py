"""The session's type checker: it speaks after the function, and it does speak."""

import jaxtyping
import numpy as np
import pytest
from jaxtyping import Float64

from _honest_types import after_the_call


@jaxtyping.jaxtyped(typechecker=after_the_call)
def half(number: float) -> float:
    if isinstance(number, str):
        raise ValueError("number must be a number")
    return "wrong" if number == 13 else number / 2


@jaxtyping.jaxtyped(typechecker=after_the_call)
def outer(a: Float64[np.ndarray, " n"], b: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, "n n"]:
    return a[:, None] * b


def test_the_functions_own_sentence_comes_first():
    with pytest.raises(ValueError, match="number must be a number"):
        half("1")


def test_an_int_is_a_float():
    assert half(1) == 0.5


def test_a_wrong_argument_that_works_is_reported():
    with pytest.raises(jaxtyping.TypeCheckError):
        half(1j)


def test_a_wrong_result_is_reported():
    with pytest.raises(jaxtyping.TypeCheckError):
        half(13)


def test_shapes_and_dtypes_are_compared():
    assert outer(np.ones(2), np.ones(2)).shape == (2, 2)
    with pytest.raises(jaxtyping.TypeCheckError):
        outer(np.ones(2), np.ones(3))
    with pytest.raises(jaxtyping.TypeCheckError):
        outer(np.ones(2, np.float32), np.ones(2, np.float32))


def test_the_hook_is_on_for_the_package():
    import gradbias

    with pytest.raises(ValueError, match="d must be a whole number"):
        gradbias.TwoLayer("3", 1, 2)
    with pytest.raises(jaxtyping.TypeCheckError):
        gradbias.numerics.checks.array(3, [1.0])
