"""Every public function of `gb.theory` is the same in other units, over 1e±100 and beyond."""

import functools
import types

import pytest

from gradbias import theory
from theory import units_rows, units_rows_imbalance, units_rows_noise
from theory.units_table import Units, Unrepresentable, expect_same

ROWS = {**units_rows.ROWS, **units_rows_imbalance.ROWS, **units_rows_noise.ROWS}
SLOW = {"infinite_width_limit", "infinite_width_trace"}  # seconds for one call
DEAR = {"bias_law", "gd_gap", "hyperbolic_entropy", "rank1_potential", "sgd_limit"}  # tenths of one

# Why a public function has no row.
SIZES = "a function of sizes, depths or probabilities, which have no unit"
OWN = "of a user's own loss, whose units nobody knows"
PRINTED = "as the paper prints it, for comparison only"
WITHOUT = {
    "depth_exponents": SIZES,
    "noise_only_lyapunov": SIZES,
    "moment_exponent": SIZES,
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


# Of single numbers, whose degree may take them out of float64 alone.
DEGREES = {
    "loss_rate": lambda u: u.loss - u.t,
    "rank1_loss_rate": lambda u: u.loss - u.t,
    "diagonal.limiting_pl": lambda u: -u.t - 2 * u.p,
}
# Exponents of two, of inputs, predictors and the weight: 332 is 1e100.
QUICK = [(332, 0, 0), (-332, 0, 0), (0, 332, 0), (0, -332, 0), (332, -332, 0), (-332, 332, 0)]
GRID = [
    (x, b, w)
    for x in (-332, -150, 0, 60, 332)
    for b in (-664, -332, -60, 0, 150, 332, 664)
    for w in (-700, 0, 40, 700)
]


@functools.cache
def base(name):
    factors, call = ROWS[name]
    return call(Units(0, 0, 0, factors))


def compare(name, units):
    factors, call = ROWS[name]
    point = Units(*units, factors)
    try:
        found = call(point)
    except Unrepresentable:
        return
    except ValueError as error:
        if type(error) is not ValueError:  # a raw LinAlgError
            raise
        beyond = [point.t, point.loss, DEGREES[name](point) if name in DEGREES else 0]
        if "float64" in str(error) and max(map(abs, beyond)) > 900:
            return  # a rate or a loss that no number can hold, and a sentence that says so
        raise AssertionError(f"{name} at {units}: {error}") from None
    expect_same(found, base(name))


@pytest.mark.parametrize("name", sorted(set(ROWS) - SLOW))
def test_the_same_in_other_units(name):
    for units in QUICK[::3] if name in DEAR else QUICK:
        compare(name, units)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ROWS))
def test_the_same_in_other_units_on_a_grid(name):
    for units in GRID:
        compare(name, units)
