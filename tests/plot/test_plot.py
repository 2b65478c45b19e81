"""Plots draw what they are given, on the axes they are given, and refuse the rest in words."""

import types

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

from gradbias import plot
from gradbias.problems import Regression

STEPS = np.array([0, 10, 20, 30])


def run(**variables):
    """What the plots need of a run, without one."""
    data = xr.Dataset(
        {name: (("step", *dims), values) for name, (dims, values) in variables.items()},
        {"step": STEPS},
    )
    return types.SimpleNamespace(data=data, theta=np.array([1.0, 2.0]))


LOSS = ((), np.array([1.0, 0.1, 0.01, 0.001]))


@pytest.fixture(autouse=True)
def no_windows_are_left():
    import matplotlib.pyplot as plt

    plt.close("all")
    yield
    plt.close("all")


def test_axes_are_the_current_ones():
    """Notebooks and plt.show() show the figures of pyplot and no others."""
    import matplotlib.pyplot as plt

    left, _ = plt.subplots(1, 2)[1]
    plt.sca(left)
    assert plot.loss(run(loss=LOSS)) is left
    plt.close("all")
    ax = plot.loss(run(loss=LOSS))
    assert [plt.figure(number) for number in plt.get_fignums()] == [ax.figure]


def test_given_axes_open_no_window():
    import matplotlib.pyplot as plt

    plot.loss(run(loss=LOSS), ax=Figure().subplots())
    assert plt.get_fignums() == []


def test_a_refusal_leaves_no_empty_figure():
    import matplotlib.pyplot as plt

    for draw in (plot.limit, plot.charges, plot.singular_values, plot.plane):
        with pytest.raises(ValueError):
            draw(run(loss=LOSS))
    with pytest.raises(ValueError):
        plot.loss(run(other=LOSS))
    assert plt.get_fignums() == []


def test_labels_make_a_legend():
    assert plot.loss(run(loss=LOSS), label="GD").get_legend() is not None
    assert plot.loss(run(loss=LOSS), ax=Figure().subplots()).get_legend() is None


def test_loss_draws_the_values_and_the_bound():
    ax = Figure().subplots()
    assert plot.loss(run(loss=LOSS), ax=ax, bound=2 * LOSS[1], label="GD") is ax
    line, bound = ax.lines
    np.testing.assert_array_equal(line.get_ydata(), LOSS[1])
    np.testing.assert_array_equal(bound.get_ydata(), 2 * LOSS[1])
    assert (ax.get_yscale(), ax.get_xlabel(), line.get_label()) == ("log", "step", "GD")


def test_members_are_a_median_and_a_band():
    values = np.exp(-np.outer(STEPS, [0.1, 0.2, 0.4]))
    values[2:, 2] = np.nan  # a member that diverged
    ax = plot.loss(run(loss=(("seed",), values)))
    np.testing.assert_allclose(ax.lines[0].get_ydata()[1], np.exp(-2.0))
    assert np.isfinite(ax.lines[0].get_ydata()).all()
    assert len(ax.collections) == 1


def test_charges_are_named_and_can_start_at_zero():
    values = np.outer([5.0, 6, 7, 8], [1.0, 2])
    ax = plot.charges(run(**{"charges_W1-W2": (("unit",), values)}), change=True)
    np.testing.assert_array_equal(ax.lines[1].get_ydata(), [0, 2, 4, 6])
    assert ax.get_legend_handles_labels()[1] == ["W1-W2 (2)"]


def test_singular_values_have_theory_over_them():
    values = np.outer([1.0, 2, 3, 4], [1.0, 0.5])
    result = run(singular_values_W1=(("mode",), values))
    rings = plot.singular_values(result, theory=[4.0, 2.0]).lines[-1]
    assert rings.get_marker() == "o"
    np.testing.assert_array_equal(rings.get_ydata(), [4.0, 2.0])
    dotted = plot.singular_values(result, theory=values).lines[-1]
    assert dotted.get_linestyle() == ":"


def test_limit_says_how_far_it_is():
    ax = plot.limit(run(), predicted=[1.0, 2.2])
    assert "8.3e-02" in ax.get_legend_handles_labels()[1][0]
    told = types.SimpleNamespace(value={"theta": np.array([1.0, 2.0])})
    study = types.SimpleNamespace(run=run(), predictions=[told])
    assert "0.0e+00" in plot.limit(study).get_legend_handles_labels()[1][-1]


def test_a_plane_has_the_line_of_minima_the_paths_and_rings_at_what_is_predicted():
    problem = Regression.mean(np.array([[1.0, 2.0]]), np.array([[4.0]]))
    paths = {
        "a": np.array([[0.0, 0.0], [0.5, 1.0], [0.8, 1.6]]),
        "b": np.array([[0.0, 0.0], [4, 0]]),
    }
    rings = {"a": [0.8, 1.6], "b": [4.0, 0.0]}
    ax = plot.plane(paths, problem=problem, predicted=rings)
    drawn = {line.get_label(): line.get_xydata() for line in ax.lines}
    for label, path in paths.items():
        np.testing.assert_array_equal(drawn[label], path)
    points = [data[0].tolist() for line in ax.lines if len(data := line.get_xydata()) == 1]
    assert points == [[0.8, 1.6], [4.0, 0.0], [0.0, 0.0]]  # the rings, then the common start
    (minima,) = (line for line in ax.lines if line.get_label() == "minima")
    np.testing.assert_allclose(
        [*map(np.dot, (minima.get_xy1(), minima.get_xy2()), [[1, 2]] * 2)], 4
    )
    with pytest.raises(ValueError, match="problem must be given"):
        plot.plane(paths)
    with pytest.raises(ValueError, match="2 entries, got 3"):
        plot.plane(np.ones((4, 3)), problem=problem)


def test_a_sweep_is_a_mean_with_its_standard_error():
    values = np.array([[1.0, 3.0], [2.0, 2.0], [5.0, 9.0]])
    data = xr.Dataset(
        {"loss_end": (("scale", "seed"), values)}, {"scale": [0.1, 1.0, 10.0], "seed": [0, 1]}
    )
    ax = plot.sweep(data, y="loss_end", theory=[2, 2, 7])
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [2, 2, 7])
    bars = ax.collections[0].get_segments()
    np.testing.assert_allclose([bar[1, 1] - bar[0, 1] for bar in bars], [2.0, 0.0, 4.0])
    assert ax.get_xscale() == "log"


def test_noise_balance_counts_the_dead():
    balance = types.SimpleNamespace(lam=np.array([0.1, np.nan, -0.2]))
    ax = plot.noise_balance({"layer 1": balance}, label="before")
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), [-0.2, 0.1])
    assert "(1 dead)" in ax.get_yticklabels()[0].get_text()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plot.loss(3), "result must be a gb.Run"),
        (lambda: plot.loss(run()), "'loss' was not recorded"),
        (lambda: plot.loss(run(loss=LOSS), ax="top"), "ax must be a matplotlib Axes, got str"),
        (lambda: plot.charges(run(loss=LOSS)), "no charges were recorded"),
        (lambda: plot.singular_values(run(loss=LOSS)), "no singular values were recorded"),
        (lambda: plot.limit(run()), "no predicted end point"),
        (lambda: plot.limit(run(), predicted=[1.0]), r"shape \(1,\), what was measured \(2,\)"),
        (lambda: plot.style("poster").__enter__(), "must be one of .*got 'poster'"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_style_is_a_context():
    before = dict(mpl.rcParams)
    with plot.style("slide"):
        assert mpl.rcParams["font.size"] == 18
    assert dict(mpl.rcParams) == before


def test_colours_stay_apart_in_grey():
    """Neighbours in the cycle must differ in lightness as well: some readers print in grey."""
    from matplotlib.colors import to_rgb

    light = [np.dot(to_rgb(colour), [0.2126, 0.7152, 0.0722]) for colour in plot.COLOURS[:4]]
    assert min(abs(np.diff(light))) > 0.02


def test_a_sweep_over_runs_is_not_taken_for_a_study():
    """Its coordinate `run` is an attribute of the Dataset, as the run of a study is."""
    values = np.exp(-np.outer(STEPS, [0.1, 0.2]))
    data = xr.Dataset({"loss": (("step", "run"), values)}, {"step": STEPS, "run": [0, 1]})
    assert len(plot.loss(data).lines) == 1
