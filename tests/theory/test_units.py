"""Every public function of `gb.theory` is the same in other units, over 1e±100 and beyond."""

import functools
import types

import numpy as np
import pytest

from gradbias import theory
from gradbias.problems import Regression
from theory import units_rows, units_rows_imbalance, units_rows_noise
from theory.units_table import Units, Unrepresentable, expect_same, some_number_overflows

ROWS = {**units_rows.ROWS, **units_rows_imbalance.ROWS, **units_rows_noise.ROWS}
SLOW = {"infinite_width_limit", "infinite_width_trace"}  # seconds for one call
DEAR = {"bias_law", "gd_gap", "hyperbolic_entropy", "rank1_potential", "sgd_limit"}  # tenths of one

# Why a public function has no row.
SIZES = "a function of sizes, depths or probabilities, which have no unit"
OWN = "of a user's own loss, whose units nobody knows"
PRINTED = "as the paper prints it, for comparison only"
WITHOUT = {
    "least_squares": "returns the problem that it is given",
    "depth_exponents": SIZES,
    "noise_only_lyapunov": SIZES,
    "moment_exponent": SIZES,
    "WideNet": SIZES,
    "lemma1_bounds": SIZES,
    "singular_value_tail": SIZES,
    "jump_limit": "at the time of the jump it depends on units, as its docstring says",
    "diagonal_limit": "another name of diagonal.limit",
    "DepthPotential": "made by rank1_potential",
    "HyperbolicEntropy": "made by hyperbolic_entropy",
    "diagonal.boolean_recovery": SIZES,
    "diagonal.gaussian_recovery": SIZES,
    "diagonal.escape_potential": "a sum of logarithms with weights, whose zero has no meaning",
    "symmetry.initial_hessian_trace": "a product of its arguments",
    "symmetry.autoencoder_equilibrium": "for inputs of unit covariance",
    "symmetry.moved_noise": "linear in its argument",
    "symmetry.approximate_bias": OWN,
    "symmetry.approximate_flow": OWN,
}
WHOLE_ROOMS = {"manifold": OWN, "symmetry.printed": PRINTED}


def public_names():
    """The functions of `gb.theory`, those of its rooms with the room's name in front."""
    rooms = {"": theory, "diagonal": theory.diagonal, "symmetry": theory.symmetry}
    for room, module in rooms.items():
        for name in module.__all__:
            value, shown = getattr(module, name), f"{room}.{name}" if room else name
            if isinstance(value, types.ModuleType) or shown in WHOLE_ROOMS:
                continue
            if not isinstance(value, type) or name in theory.__all__:
                if room and name in theory.__all__:
                    continue
                yield shown
    for room in (theory.potentials, theory.imbalance, theory.noise_only):
        for name in room.__all__:
            if not isinstance(getattr(room, name), type):
                yield name


def test_every_public_function_has_a_row_or_a_reason():
    names = set(public_names())
    rows = set(ROWS)
    assert names - rows - set(WITHOUT) == set(), "add a row, or say why there is none"
    assert rows & set(WITHOUT) == set()
    assert (rows | set(WITHOUT)) - names == set(), "no longer public"


# Exponents of two, of inputs, predictors and the weight: 332 is 1e100.
QUICK = [(332, 0, 0), (-332, 0, 0), (0, 332, 0), (0, -332, 0), (332, -332, 0), (-332, 332, 0)]
GRID = [
    (x, b, w)
    for x in (-332, -150, 0, 60, 332)
    for b in (-664, -332, -60, 0, 150, 332, 664)
    for w in (-700, 0, 40, 700)
]


@functools.cache
def base(call, factors):
    return call(Units(0, 0, 0, factors))


def compare(name, units, planted=lambda found, units: found):
    """How many calls of a row give in these units what they give in units of 1.

    Left out are calls that do not exist, since an argument is beyond float64. A refusal is right
    only where a single number that is asked for is; infinite entries of arrays are no reason.
    """
    factors, calls = ROWS[name]
    point, count = Units(*units, factors), 0
    for call in calls:
        try:
            found = planted(call(point), point)
        except Unrepresentable:
            continue
        except ValueError as error:
            if type(error) is not ValueError:  # a raw LinAlgError
                raise
            if "float64" not in str(error) or not some_number_overflows(call, point):
                raise AssertionError(f"{name} at {units}: {error}") from None
            continue
        expect_same(found, base(call, factors))
        count += 1
    return count


@pytest.mark.parametrize("name", sorted(set(ROWS) - SLOW))
def test_the_same_in_other_units(name):
    points = QUICK[::3] if name in DEAR else QUICK
    assert sum(compare(name, units) for units in points) > 0  # else the row checks nothing


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_same_in_other_units_on_a_grid(name):
    assert (
        sum(compare(name, units) for units in GRID) > len(GRID) / 3
    )  # noise squared leaves float64 soon


def times_power(power):
    """A wrong degree: every value of a row is multiplied by this power of the units."""

    def planted(found, units):
        factor = 2.0 ** sum(
            p * unit for p, unit in zip(power, (units.x, units.b, units.w), strict=True)
        )
        return [(np.asarray(value, float) * factor, exponent) for value, exponent in found]

    return planted


@pytest.mark.parametrize("name", sorted(set(ROWS) - SLOW - DEAR))
def test_a_wrong_degree_is_found(name):
    for power in [(0.01, 0, 0), (0, 0.01, 0), (0, 0, -0.01)]:
        units = tuple(100 if p else 0 for p in power)
        assert compare(name, units) > 0
        with pytest.raises(AssertionError):
            compare(name, units, times_power(power))


SADDLES = [(0, -963, 0), (-600, -300, 0), (-332, -664, 0), (332, 332, 0), (0, -332, -900),
           (500, 400, 300), (0, 0, 1000)]  # fmt: skip


@pytest.mark.parametrize("units", SADDLES)
def test_saddles_in_any_units(units):
    """Down to 1e-290: a pull that underflowed was no pull, and the saddle was not seen."""
    u = Units(*units, 3)
    x, weight = np.array([[0.6, -1.1, 0.4]]), u(0.3, u.w)
    problem = Regression(u(x, u.x), u([1.7], u.y), weight)
    for side, ends_at_zero in ((-0.8, True), (0.8, False)):
        end = theory.balanced_limit(problem, u(side * x[0], u.b), 3)
        assert end.saddle == ends_at_zero
        assert np.any(end.theta) != ends_at_zero
        assert not theory.balanced_limit(problem, u(side * x[0], u.b), 1).saddle
        unit, length = x[0] / np.linalg.norm(x), (0.8 * np.linalg.norm(x)) ** (1 / 3)
        pair = {"u": [[length, 0.0]], "v": [[length, 0.0]]}
        start = u.params(v1=np.sign(side) * length * unit, **pair)
        assert theory.rank1_limit(problem, start).saddle == ends_at_zero


def test_a_start_or_a_step_that_is_lost_beside_the_labels_is_refused():
    """In units of the labels it would have no digits left."""
    problem = Regression(np.eye(2), [1e100, 2e100], 0.5)
    with pytest.raises(ValueError, match="theta0 is too small for this problem.*got 3e-250"):
        theory.gd_gap(problem, [1e-250, 3e-250], 3, 1e-140)
    with pytest.raises(ValueError, match="lr is too small for this problem.*got 1e-300"):
        theory.gd_gap(Regression(np.eye(2), [1e-100, 2e-100], 0.5), [1e-100, 1e-100], 3, 1e-300)
