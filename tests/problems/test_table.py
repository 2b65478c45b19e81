"""Regression.from_table: the same problem as from arrays, or a sentence."""

import io

import numpy as np
import pandas as pd
import pytest

import gradbias as gb

CSV = "age,height,weight\n1,2.5,3\n4,5,6.5\n7,8,1e1\n"
FRAME = pd.read_csv(io.StringIO(CSV))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text(CSV)
    return path


def test_a_file_and_a_frame_are_the_arrays_that_they_hold(file):
    X = np.array([[1, 2.5], [4, 5], [7, 8]])
    y = np.array([3, 6.5, 10])
    for table in (file, str(file), FRAME):
        made = gb.Regression.from_table(table, target="weight")
        np.testing.assert_array_equal(made.X, X)
        np.testing.assert_array_equal(made.Y, y)
        assert made.vector
        assert float(made.weight) == 0.5 / 3


@pytest.mark.parametrize(("loss", "weight"), [("mean", 1 / 3), ("half_sum", 0.5)])
def test_losses(loss, weight):
    assert float(gb.Regression.from_table(FRAME, "weight", loss=loss).weight) == weight


def test_columns_in_the_order_that_is_asked_for():
    made = gb.Regression.from_table(FRAME, target=["age", "weight"], features=["height"])
    np.testing.assert_array_equal(made.X, [[2.5], [5], [8]])
    np.testing.assert_array_equal(made.Y, [[1, 3], [4, 6.5], [7, 10]])
    turned = gb.Regression.from_table(FRAME, "age", features=["weight", "height"])
    np.testing.assert_array_equal(turned.X[0], [3, 2.5])


def test_numbers_of_other_types():
    frame = pd.DataFrame({"a": [True, False], "b": np.array([1, 2], np.int8), 3: [0.5, 1.5]})
    made = gb.Regression.from_table(frame, "3")
    np.testing.assert_array_equal(made.X, [[1, 1], [0, 2]])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"target": "wieght"}, "target: the table has no column 'wieght'; did you mean 'weight'"),
        ({"target": "x"}, "no column 'x'; there are age, height, weight"),
        ({"target": "age", "features": ["agee"]}, "features: .*did you mean 'age'"),
        ({"target": "age", "features": ["age"]}, "features must not hold the target, got 'age'"),
        ({"target": "age", "features": "height"}, "features must be a list of columns"),
        ({"target": []}, "target must name a column"),
        ({"target": "age", "features": []}, "features must name a column"),
        ({"target": "age", "loss": "mse"}, "loss must be one of mean, half_mean, half_sum"),
    ],
)
def test_sentences(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        gb.Regression.from_table(FRAME, **arguments)


@pytest.mark.parametrize("cell", ["tall", "", "inf", "nan"])
def test_a_cell_that_is_no_number_is_named(cell, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text(CSV.replace("4,5,", f"4,{cell},"))
    with pytest.raises(ValueError, match=r"column 'height' must hold finite numbers.* in row 1:"):
        gb.Regression.from_table(path, "weight")
    assert gb.Regression.from_table(path, "weight", features=["age"]).n == 3


def test_what_is_no_table(tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        gb.Regression.from_table(tmp_path / "nothing.csv", "y")
    with pytest.raises(ValueError, match="CSV file or a pandas.DataFrame"):
        gb.Regression.from_table(np.eye(3), "y")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match="CSV file"):
        gb.Regression.from_table(tmp_path / "empty.csv", "y")
    double = FRAME.set_axis(["a", "a", "b"], axis=1)
    with pytest.raises(ValueError, match="distinct columns, got 'a' twice"):
        gb.Regression.from_table(double, "b")
