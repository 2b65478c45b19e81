"""Four sliders over one line of minima: size of the start, depth, α, label noise.

Run it where there is a screen: `python examples/lecture.py`. Every position of a slider is a
prediction from `gradbias.theory`; nothing is trained, so it answers at once.
"""

import numpy as np

import gradbias as gb

X, Y = np.array([[1.0, 2.0]]), np.array([2.0])
PROBLEM = gb.Regression.half_sum(X, Y)
DIRECTION = np.array([0.83, -0.55])


def ends(scale: float, depth: float, alpha: float, noise_time: float) -> dict[str, np.ndarray]:
    """The predicted end point of each model.

    Args:
        scale: norm of the start.
        depth: layers of the deep net, rounded.
        alpha: size of the diagonal net's start.
        noise_time: t = steps·lr² of label noise on the diagonal net.
    """
    u = v = np.full(2, alpha)
    told = gb.theory.diagonal_limit(PROBLEM, {"u": u, "v": v})
    moved = gb.theory.diagonal.limiting_flow(PROBLEM, {"u": u, "v": v}, [noise_time], 1.0)
    return {
        "linear": np.ravel(gb.theory.balanced_limit(PROBLEM, scale * DIRECTION, 1).theta),
        "deep": np.ravel(gb.theory.balanced_limit(PROBLEM, scale * DIRECTION, round(depth)).theta),
        "diagonal": told.theta,
        "diagonal, label noise": moved[0][0] ** 2 - moved[1][0] ** 2,
    }


def main() -> None:
    """Open the window."""
    import matplotlib.pyplot as plt
    from matplotlib.widgets import Slider

    figure, ax = plt.subplots(figsize=(8, 7))
    figure.subplots_adjust(bottom=0.32)
    ax.axline(PROBLEM.min_norm, PROBLEM.min_norm + np.array([-2.0, 1.0]), color="0.7", lw=4)
    ax.set(xlim=(-1, 3), ylim=(-1, 1.8), xlabel="θ₁", ylabel="θ₂", aspect="equal")
    ranges = {
        "size": (0.02, 2, 0.4),
        "depth": (1, 12, 3),
        "α": (0.01, 1.5, 0.8),
        "label noise, k·lr²": (0, 5, 0),
    }
    sliders = [
        Slider(figure.add_axes((0.3, 0.20 - 0.05 * row, 0.5, 0.03)), name, low, high, valinit=at)
        for row, (name, (low, high, at)) in enumerate(ranges.items())
    ]
    marks = {
        name: ax.plot([], [], marker, ms=12, mfc="none", mew=2, color=colour, label=name)[0]
        for (name, marker), colour in zip(
            {"linear": "o", "deep": "s", "diagonal": "^", "diagonal, label noise": "v"}.items(),
            gb.plot.COLOURS,
            strict=False,
        )
    }
    (start,) = ax.plot([], [], "ko", label="start of linear and deep")
    ax.legend(loc="upper right")

    def update(_: float) -> None:
        values = [slider.val for slider in sliders]
        for name, end in ends(*values).items():
            marks[name].set_data(*end[:, None])
        start.set_data(*(values[0] * DIRECTION)[:, None])
        figure.canvas.draw_idle()

    for slider in sliders:
        slider.on_changed(update)
    update(0.0)
    plt.show()


if __name__ == "__main__":
    main()
