"""Problems that are degenerate: an answer or a ValueError, never a raw error or a warning."""

import numpy as np
import pytest

from gradbias.problems import Regression
from theory import units_rows, units_rows_imbalance, units_rows_noise
from theory.units_table import Units

MODULES = (units_rows, units_rows_imbalance, units_rows_noise)
SLOW = {"infinite_width_limit", "infinite_width_trace"}
X, Y1, Y2 = units_rows.X, units_rows.Y1, units_rows.Y2

CASES = {
    "zero labels": (X, 0 * Y1, 0 * Y2),
    "zero data": (0 * X, Y1, Y2),
    "rank one": (np.outer(Y1, X[0]), Y1, Y2),
    "equal singular values": (2 * units_rows.WHITE[:3], Y1, Y2),
    "one sample": (X[:1], Y1[:1], Y2[:1]),
}


QUICK = {"zero data", "rank one"}


@pytest.mark.parametrize(
    "case", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in CASES]
)
def test_an_answer_or_a_sentence(case, monkeypatch):
    inputs, one, two = CASES[case]

    def degenerate(u, Y=Y1, inputs=inputs):
        return Regression(CASES[case][0], two if Y is Y2 else one, 0.3)

    for module in MODULES:
        monkeypatch.setattr(module, "regression", degenerate)
    rows = [
        (name, factors, call)
        for name, (factors, calls) in units_rows.ROWS.items()
        if name not in SLOW
        for call in calls
    ]
    for name, factors, call in rows:
        try:
            call(Units(0, 0, 0, factors))
        except AssertionError:  # a residual that the ordinary problem has to have small
            continue
        except ValueError as error:
            assert type(error) is ValueError, (name, error)  # no LinAlgError
        except Exception as error:
            pytest.fail(f"{name}: {type(error).__name__}: {error}")
