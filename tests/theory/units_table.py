"""How a quantity scales with the units of its problem, and how to compare two of them.

A row of the table is a function of the units `u` that calls one function of `gb.theory` on a
problem in these units and returns pairs (value, exponent): the value must be 2^exponent times the
one in units of 1. All units are powers of two, so that the two problems have the same digits.
"""

import numpy as np

RTOL = 1e-8


class Unrepresentable(Exception):
    """In these units an argument is beyond float64: there is no such call."""


class Units:
    """Exponents of two: x of inputs, p of parameters, b = N·p of predictors, w of the weight.

    Labels have x + b, and time t follows from p/t = ∂L/∂p.
    """

    def __init__(self, x, b, w, factors):
        self.x, self.p, self.w = x, int(b / factors), w
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
    """The values `found` are those of `base`, each times its own power of two."""
    assert len(found) == len(base)
    for i, ((value, exponent), (one, _)) in enumerate(zip(found, base, strict=True)):
        value, one = np.asarray(value, float), np.asarray(one, float)
        assert value.shape == one.shape, i
        with np.errstate(all="ignore"):
            expected = np.ldexp(one, exponent)
        assert not np.any(np.isnan(value) & ~np.isnan(one)), (i, "NaN without a word")
        finite = np.isfinite(expected)
        size = float(np.max(np.abs(expected[finite]), initial=0.0))
        np.testing.assert_allclose(
            value[finite], expected[finite], rtol=0, atol=RTOL * size + 1e-290, err_msg=str(i)
        )
        over = ~finite & np.isfinite(one)
        assert np.all(np.abs(value[over]) > 1e290), (i, "beyond float64, but not infinite")
