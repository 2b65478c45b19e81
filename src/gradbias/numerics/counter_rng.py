"""Randomness in the loop: draws are a function of a key, a step and a name, and of nothing else.

A counter goes through the splitmix64 hash; there is no state to carry or to split. The same lines
run in NumPy and in jax and give the same bits; only normals differ, by rounding (1e-14). It costs
2 ns a number inside a compiled loop, where jax.random costs a hundred.

All draws take a `key` first: an integer, or what `stream` and `fold` return. Every function folds
its own name into the key, so that the signs and the rows of one key are independent. Two calls of
the *same* function need two keys: `fold(key, "first")` and `fold(key, "second")`.
"""

import functools
import math
import zlib
from typing import Any

import numpy as np

from . import checks

Shape = int | tuple[int, ...]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2⁶⁴ over the golden ratio: multiples spread evenly
LARGEST = 2**32  # of `integers`: products of two halves then fit in 64 bits
FENCED = 2048  # pairs of normal numbers that are worth a separate loop
UNROLLED = 16  # larger subsets are drawn in a loop: 5 × slower, but it compiles at any size

# Taylor series: on the short intervals where they are used, the next term is below 1e-17.
SINE = [(-1) ** j / math.factorial(2 * j + 1) for j in range(9)]
COSINE = [(-1) ** j / math.factorial(2 * j) for j in range(9)]
ARTANH = [1 / (2 * j + 1) for j in range(11)]


def seed(key: int) -> np.uint64:
    """The state of an integer key; every digit of a key of any size counts."""
    rest = checks.integer("key", key)
    state = np.uint64(0)
    while True:
        state = fold(state ^ np.uint64(rest % 2**64), 0)
        rest //= 2**64
        if rest == 0:
            return state


def stream(key: Any, step: Any, salt: str) -> Any:
    """The key of one step of one law.

    Args:
        key: of the run: an integer, or `seed` of it (which may be traced).
        step: a whole number; may be traced.
        salt: the name of the law.
    """
    return fold(fold(key, salt), step)


@np.errstate(over="ignore")  # the hash counts modulo 2⁶⁴
def fold(key: Any, salt: Any) -> Any:
    """A new key, independent of `key` and of what other salts give.

    Args:
        key: an integer, or a key.
        salt: a name, or whole numbers (which may be traced).
    """
    return _mix(_state(key) + (_word(salt) + np.uint64(1)) * GOLDEN)


def uniform(key: Any, shape: Shape = ()) -> Any:
    """Uniform numbers in [0, 1), multiples of 2⁻⁵³."""
    return _unit(_bits(key, _sizes(shape), "uniform"))


def sign(key: Any, shape: Shape = ()) -> Any:
    """+1.0 or −1.0, each with probability one half."""
    bits = _bits(key, _sizes(shape), "sign")
    return 1.0 - 2.0 * _float(bits >> np.uint64(63))


def normal(key: Any, shape: Shape = ()) -> Any:
    """Standard normal numbers, by Box and Muller's transform.

    A smaller shape is the corner of a larger one, as for `uniform` and `sign`. The logarithm and
    the sine are written out: XLA calls the ones of libm number by number, which costs five times
    as much as everything here.
    """
    shape = _sizes(shape)
    rows, columns = _grid(shape)
    pairs = (columns + 1) // 2
    state = fold(key, "normal")
    xp = _module(state)
    fenced = xp is not np and rows * pairs >= FENCED
    both = (_fenced if fenced else _normal_pairs)(state, rows, pairs)
    return xp.stack(both, axis=-1).reshape(rows, 2 * pairs)[:, :columns].reshape(shape)


def _normal_pairs(state: Any, rows: int, pairs: int) -> tuple[Any, Any]:
    """The normal numbers of the even and of the odd columns."""
    first, second = (_words(state, rows, pairs, 2, odd) for odd in (0, 1))
    angle = (_unit(second) - 0.5) * (np.pi / 2)  # a quarter of the circle, then a quadrant
    radius = (-2.0 * _log(1.0 - _unit(first))) ** 0.5
    cosine = radius * _series(COSINE, angle * angle)
    sine = radius * angle * _series(SINE, angle * angle)
    xp = _module(second)
    turned = (second & np.uint64(1)) == np.uint64(1)
    half = 1.0 - 2.0 * _float((second >> np.uint64(1)) & np.uint64(1))
    return half * xp.where(turned, -sine, cosine), half * xp.where(turned, cosine, sine)


def _fenced(state: Any, rows: int, pairs: int) -> tuple[Any, Any]:
    """The same pairs (jax-level), finished before they are used.

    Else the compiler draws inside the loop that puts even and odd columns together, where no two
    neighbours are alike: number by number, at twice the time. It does not see that the condition
    always holds.
    """
    import jax
    import jax.numpy as jnp

    draw = functools.partial(_normal_pairs, rows=rows, pairs=pairs)
    zeros = jnp.zeros((rows, pairs), np.float64)
    always = (state >> np.uint64(1)) < np.uint64(2**63)
    return jax.lax.cond(always, draw, lambda state: (zeros, zeros), state)


def integers(key: Any, n: int, count: int) -> Any:
    """`count` whole numbers below `n`, with replacement.

    Multiply-high: floor(n·bits/2⁶⁴), whose probabilities are within 2⁻⁶⁴ of 1/n.
    """
    n = _largest(n)
    count = checks.integer("count", count, at_least=1)
    return _below(_bits(key, (count,), "integers"), np.uint64(n))


def subset(key: Any, n: int, b: int) -> Any:
    """`b` different whole numbers below `n`: every subset is as likely as any other.

    Floyd's method: number i is drawn below n − b + i + 1 and, if it is there already, replaced by
    n − b + i, which cannot be. The order is not random.
    """
    n = _largest(n)
    b = checks.integer("b", b, at_least=1)
    if b > n:
        raise ValueError(f"b must be at most n={n} to draw without replacement, got {b}")
    bits = _bits(key, (b,), "subset")
    xp = _module(bits)
    first = n - b
    if b == n:
        return xp.arange(n, dtype=np.int64)
    drawn = _below(bits, xp.arange(first + 1, n + 1, dtype=np.uint64))
    if xp is not np and b > UNROLLED:
        return _in_a_loop(drawn, first)
    chosen: list[Any] = []
    for i in range(b):
        taken = functools.reduce(lambda hit, other, i=i: hit | (other == drawn[i]), chosen, False)
        chosen.append(xp.where(taken, first + i, drawn[i]))
    return xp.stack(chosen)


def _in_a_loop(drawn: Any, first: int) -> Any:
    import jax
    import jax.numpy as jnp

    def choose(i, chosen):
        taken = jnp.any(chosen == drawn[i])
        return chosen.at[i].set(jnp.where(taken, first + i, drawn[i]))

    size = drawn.shape[0]
    start = jnp.asarray(0, drawn.dtype)
    return jax.lax.fori_loop(start, start + size, choose, jnp.full((size,), -1, drawn.dtype))


def _mix(z: Any) -> Any:
    """The splitmix64 hash of 64 bits, one to one."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _bits(key: Any, shape: tuple[int, ...], name: str) -> Any:
    """64 random bits for every entry; rows and columns are counted apart.

    So the entries that two shapes share are equal, and padding a shape changes none of them.
    """
    return _words(fold(key, name), *_grid(shape)).reshape(shape)


def _words(state: Any, height: int, width: int, step: int = 1, first: int = 0) -> Any:
    """(height, width) words of a state, at every `step`-th column from the `first` on."""
    xp = _module(state)
    rows = xp.arange(height, dtype=np.uint64) << np.uint64(32)
    columns = xp.arange(first, first + step * width, step, dtype=np.uint64)
    return fold(state, rows[:, None] + columns[None, :])


def _grid(shape: tuple[int, ...]) -> tuple[int, int]:
    return math.prod(shape[:-1]), shape[-1] if shape else 1


def _below(bits: Any, n: Any) -> Any:
    """floor(n·bits/2⁶⁴) from the two halves of the bits; n < 2³²."""
    high = bits >> np.uint64(32)
    low = bits & np.uint64(2**32 - 1)
    return ((high * n + ((low * n) >> np.uint64(32))) >> np.uint64(32)).astype(np.int64)


def _unit(bits: Any) -> Any:
    return _float(bits >> np.uint64(11)) * 2.0**-53


def _float(words: Any) -> Any:
    """Words below 2⁶³ as floats; signed words convert four times faster."""
    return words.astype(np.int64).astype(np.float64)


def _log(x: Any) -> Any:
    """The natural logarithm of positive normal numbers: x = m·2ᵉ with m in [√½, √2)."""
    least = np.uint64(0x3FE6A09E667F3BCD)  # the bits of √½
    word = x.view(np.uint64) + (np.uint64(0x3FF0000000000000) - least)
    exponent = _float(word >> np.uint64(52)) - 1023.0
    m = ((word & np.uint64(2**52 - 1)) + least).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    return exponent * math.log(2) + 2.0 * s * _series(ARTANH, s * s)


def _series(coefficients: list[float], x: Any) -> Any:
    result = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


def _module(value: Any) -> Any:
    """jax.numpy for jax arrays and tracers, NumPy for the rest; imports jax only if it is used."""
    if not checks.is_jax(value):
        return np
    import jax.numpy as jnp

    return jnp


def _state(key: Any) -> Any:
    if isinstance(key, int) and not isinstance(key, bool):
        return seed(key)
    if getattr(key, "dtype", None) != np.uint64:
        raise ValueError(
            "key must be an integer, or what stream and fold return inside `with "
            f"gradbias.float64():`, got {type(key).__name__} {key!r:.80}"
        )
    return key


def _word(salt: Any) -> Any:
    if isinstance(salt, str):
        return np.uint64(zlib.crc32(salt.encode()))
    if isinstance(salt, int):
        return np.uint64(checks.integer("salt", salt))
    return salt.astype(np.uint64)


def _sizes(shape: Shape) -> tuple[int, ...]:
    sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    return tuple(checks.integer("shape", size) for size in sizes)


def _largest(n: int) -> int:
    n = checks.integer("n", n, at_least=1)
    if n >= LARGEST:
        raise ValueError(f"n must be below 2**32, got {n}")
    return n
