"""What people see who type a name and press return."""

import html
import re

import jax.numpy as jnp
import numpy as np
import pytest

import gradbias as gb

PROBLEM = gb.problems.gaussian(n=5, d=10, k=3, key=1, loss="half_mean")
NET = gb.TwoLayer(10, 3, 20)


def setup(**changes):
    arguments = {"dynamics": gb.Descent(0.02, gb.Minibatch(2)), "until": gb.Until(steps=7)}
    start = gb.init.orthogonal(NET, 1e-4)
    return gb.Setup(PROBLEM, NET, start, **{**arguments, **changes})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (gb.Descent(0.02), "Descent(lr=0.02)"),
        (gb.Descent(0.1, gb.Minibatch(2), momentum=0.9),
         "Descent(lr=0.1, noise=Minibatch(batch_size=2), momentum=0.9)"),
        (gb.Descent(np.float64(1e-5)), "Descent(lr=1e-05)"),
        (gb.Flow(weight_decay=0.5), "Flow(weight_decay=0.5)"),
        (gb.LabelNoise(0.5), "LabelNoise(std=0.5)"),
        (gb.Limit(gb.LabelNoise(1.0)), "Limit(noise=LabelNoise(std=1))"),
        (gb.Until(gap=1e-12, steps=50), "Until(steps=50, gap=1e-12)"),
        (PROBLEM, "Regression(X=array 5×10, Y=array 5×3, weight=0.1)"),
        (NET, "TwoLayer(d=10, k=3, width=20)"),
    ],
)  # fmt: skip
def test_values_and_not_types_of_arrays(value, words):
    assert repr(value) == words


def test_what_is_shown_makes_the_same_again():
    for dynamics in (gb.Descent(0.02, gb.LabelNoise(0.5), weight_decay=0.25), gb.Flow(rtol=1e-6)):
        made = eval(repr(dynamics), vars(gb).copy() | {"Descent": gb.Descent, "Flow": gb.Flow,
                                                       "LabelNoise": gb.LabelNoise})  # fmt: skip
        assert repr(made) == repr(dynamics)


def test_functions_are_shown_by_name():
    def warm(step):
        return 0.1 * jnp.minimum(1.0, step / 10)

    assert repr(gb.Descent(warm)) == "Descent(lr=warm)"


def test_a_setup_shows_all_that_decides_a_run():
    text = repr(setup(key=3))
    for words in ("5 samples, 10 inputs, 3 outputs, rank 5", "TwoLayer(d=10, k=3, width=20)",
                  "W1 10×20, norm 0.0447; W2 20×3, norm 0",
                  "Descent(lr=0.02, noise=Minibatch(batch_size=2))", "7 steps",
                  "loss, theta, at 8 steps up to 7"):  # fmt: skip
        assert words in text
    assert re.search(r"key +3", text)
    assert "f64[" not in text


def test_setups_of_other_problems():
    few = gb.Samples(lambda out, y: (out - y) ** 2, np.eye(3), np.ones(3))
    net = gb.nets.general(lambda p, X: X @ p["w"])
    text = repr(gb.Setup(few, net, {"w": np.ones(3)}, gb.Descent(0.1)))
    assert "Samples: 3 samples, 3 inputs, 1 output" in text
    many = gb.Deep([3, 3, 3, 3, 3, 1])
    text = repr(gb.Setup(gb.Regression.mean(np.eye(3), np.ones(3)), many,
                         gb.init.gaussian(many, 0.1, key=0), gb.Flow()))  # fmt: skip
    assert "39 parameters in 5 arrays" in text
    assert "gap 1e-12 or time 10000" in text


def test_notebooks_get_html():
    one = setup()
    run = gb.simulate(one)
    for value in (one, one.dynamics, one.problem, run.status):
        page = value._repr_html_()
        assert page.startswith("<")
        assert len(re.findall(r"<(\w+)", page)) == len(re.findall(r"</(\w+)", page)) + (
            page.count("<br")
        )
    assert "<th>dynamics</th>" in one._repr_html_()
    assert html.escape("lr=<lambda>") in gb.Descent(lambda k: 0.1)._repr_html_()


def test_a_status_says_what_it_means():
    status = gb.simulate(setup()).status
    assert repr(status) == "reached steps at step 7. All steps were taken."
    assert str(status) == "reached steps"
    assert "at step 7" in status._repr_html_()


def test_a_run_says_how_it_was_reduced():
    text = str(gb.simulate(setup()))
    assert re.search(r"reduced exactly from 10-20-3 to 5-5-3, error bound \d", text)
    assert "noise=Minibatch(batch_size=2)" in text
