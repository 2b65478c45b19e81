"""How a quantity scales with the units of its problem, and how to compare two of them.

A row of the table is a function of the units `u` that calls one function of `gb.theory` on a
problem in these units and returns pairs (value, exponent): the value must be 2^exponent times the
one in units of 1. All units are powers of two, so that the two problems have the same digits.
"""

import functools

import numpy as np

RTOL = 1e-8
TINY, LARGEST = float(np.finfo(float).tiny), float(np.finfo(float).max)


class Unrepresentable(Exception):
    """In these units an argument is beyond float64: there is no such call."""


class Units:
    """Exponents of two: x of inputs, p of parameters, b = N·p of predictors, w of the weight.

    Labels have x + b, and time t follows from p/t = ∂L/∂p.
    """

    def __init__(self, x, b, w, factors):
        self.x, self.p, self.w, self.factors = x, int(b / factors), w, factors
        self.b = factors * self.p
        self.y = self.x + self.b
        self.loss = self.w + 2 * self.y
        self.t = 2 * self.p - self.loss

    def __call__(self, value, exponent):
        """A value of this unit."""
        value = np.asarray(value, float)
        with np.errstate(all="ignore"):
            scaled = np.ldexp(value, exponent)
        size = np.abs(scaled[value != 0])
        if np.any(size > 1e305) or np.any(size < 1e-300):
            raise Unrepresentable
        return scaled if scaled.ndim else float(scaled)

    def params(self, **arrays):
        """A dict of parameters."""
        return {name: self(array, self.p) for name, array in arrays.items()}


def expect_same(found, base):
    """The values `found` are those of `base`, each times its own power of two.

    Two allowances. Digits: the two calls may take different ways (one in units of order one, one
    as it is), so RTOL of the largest number of an array, far above rounding and far below any
    power of a unit. Range: what is below 2^−1022 has lost digits, and what is beyond 2^1024 must
    be infinite or the largest number, to these digits.
    """
    assert len(found) == len(base)
    for i, ((value, exponent), (one, _)) in enumerate(zip(found, base, strict=True)):
        value, one = np.asarray(value, float), np.asarray(one, float)
        assert value.shape == one.shape, i
        with np.errstate(all="ignore"):
            expected = np.ldexp(one, exponent)
        known, beyond = np.isfinite(expected), np.isfinite(one) & ~np.isfinite(expected)
        size = float(np.max(np.abs(expected[known]), initial=0.0))
        np.testing.assert_allclose(
            value[known], expected[known], rtol=0, atol=RTOL * size + TINY, err_msg=str(i)
        )
        np.testing.assert_array_equal(value[~np.isfinite(one)], one[~np.isfinite(one)], str(i))
        assert np.all(value[beyond] * np.sign(one[beyond]) >= (1 - RTOL) * LARGEST), (i, value)


@functools.cache
def _degrees(call, factors):
    """The values of a row in units of 1, and their exponents there and in three other units."""
    at = [Units(*u, factors) for u in ((0, 0, 0), (2, 0, 0), (0, 2 * factors, 0), (0, 0, 4))]
    values, *others = (call(units) for units in at)
    return values, [[exponent for _, exponent in found] for found in (values, *others)]


def some_number_overflows(call, units):
    """Is one of the single numbers that a row asks for beyond float64 in these units?

    Its exponent is linear in x, p and w, and so known without a call in these units. (It is
    measured in even ones, because some rows halve an exponent.)
    """
    values, (start, *steps) = _degrees(call, units.factors)
    many = (units.x / 2, units.p / 2, units.w / 4)
    for i, (value, _) in enumerate(values):
        power = start[i] + sum(n * (s[i] - start[i]) for n, s in zip(many, steps, strict=True))
        if np.ndim(value) == 0 and value != 0 and np.log2(abs(float(value))) + power >= 1024:
            return True
    return False
