"""Label noise finds a sparse teacher where kernels cannot, and where it does not."""

import numpy as np
import xarray as xr

from ... import observe
from ..._engine.setup import Setup, Until
from ...dynamics import Descent
from ...nets import Diagonal
from ...noise import LabelNoise
from ...plot import BLACK, BLUE, GREEN, GREY, ORANGE
from ...problems import Regression, sparse, sparse_teacher
from ...theory import diagonal
from .._figure import Canvas, Check, Figure, Settings
from .._lab import Lab

FINDERS = ("flow", "l1", "kernel", "small")


def task(s: Settings, n: int, seed: int) -> tuple[Regression, np.ndarray]:
    """Gaussian data of a planted sparse teacher, and the teacher."""
    key = 1000 * s.key + seed
    problem = sparse(n, s.d, s.nonzero, "gaussian", key=key)
    return problem, sparse_teacher(s.d, s.nonzero, key)


def found(problem: Regression, s: Settings) -> dict[str, np.ndarray]:
    """The predictors of the limiting flow at T, weighted ℓ1, min-ℓ2, and the net's own flow."""
    start = np.full(s.d, s.alpha)
    u, v = diagonal.limiting_flow(problem, {"u": start, "v": start}, s.time, s.std**2)
    return {
        "flow": (u - v) * (u + v),
        "l1": diagonal.weighted_l1(problem),
        "kernel": diagonal.kernel_solution(problem),
        "small": diagonal.limit(problem, {"u": start, "v": start}).theta,
    }


def compute(s: Settings, lab: Lab) -> xr.Dataset:
    errors = np.empty((len(FINDERS), len(s.samples), s.seeds))
    for i, n in enumerate(s.samples):
        for seed in range(s.seeds):
            problem, teacher = task(s, n, seed)
            for row, w in zip(errors, found(problem, s).values(), strict=True):
                row[i, seed] = np.sum((w - teacher) ** 2)
    sgd = np.stack([_sgd(s, lab, n) for n in s.sgd_samples])
    kernel = [diagonal.kernel_error(sparse_teacher(s.d, s.nonzero), n) for n in s.samples]
    return xr.Dataset(
        {
            **{name: (("n", "seed"), rows) for name, rows in zip(FINDERS, errors, strict=True)},
            "sgd": (("sgd_n", "run"), sgd),
            "theory": ("n", kernel),
        },
        {"n": list(s.samples), "sgd_n": list(s.sgd_samples)},
    )


def _sgd(s: Settings, lab: Lab, n: int) -> np.ndarray:
    """‖w − w*‖² of label-noise SGD with batches of one, on the first tasks, at the time T."""
    steps = round(s.time / s.lr**2)
    start = np.full(s.d, s.alpha)

    def build(run: int) -> Setup:
        problem, _ = task(s, n, run)
        params = {"u": start, "v": start}
        key = 1000 * s.key + run
        dynamics = Descent(s.lr, LabelNoise(s.std, 1))
        until = Until(steps=steps)
        record = [observe.theta]
        return Setup(problem, Diagonal(s.d), params, dynamics, until, record, [steps], key)

    ends = lab.sweep(build, {"run": range(s.runs)})["theta_end"].transpose("run", ...).values
    return np.array([np.sum((w - task(s, n, run)[1]) ** 2) for run, w in enumerate(ends)])


def draw(figure: Canvas, data: xr.Dataset, s: Settings) -> None:
    ax = figure.subplots()
    n = data["n"].values
    worse = n[data["flow"].mean("seed").values > data["theory"].values]
    if len(worse):
        ax.axvspan(n[0] - 1, worse.max() + 1, color=ORANGE, alpha=0.12, lw=0)
    kinds = {
        "kernel": (GREY, "s", "least ℓ2 norm"),
        "small": (GREEN, "^", f"gradient flow, α = {s.alpha:g}"),
        "l1": (ORANGE, "x", "weighted ℓ1"),
        "flow": (BLUE, "o", "label noise, limit"),
    }
    for name, (colour, mark, label) in kinds.items():
        mean, error = _mean(data[name])
        kind = {"fmt": mark, "color": colour, "mfc": "none", "capsize": 2, "lw": 0.8}
        ax.errorbar(n, mean, error, label=label, ls="-" if name == "flow" else ":", **kind)
    ax.plot(n, data["theory"], color=BLACK, lw=1, label="(1 − n/d)|w*|²")
    mean, error = _mean(data["sgd"])
    kind = {"fmt": "D", "color": BLACK, "mfc": "white", "ms": 5, "zorder": 4, "capsize": 2}
    ax.errorbar(data["sgd_n"], mean, error, label="label noise, SGD", **kind)
    ax.set(xlabel="samples $n$", ylabel=r"test error $|w - w^*|^2$", xlim=(n[0] - 1, n[-1] + 1))
    ax.set_yscale("symlog", linthresh=0.1)
    ax.set_ylim(bottom=-0.01)
    figure.legend(loc="outside lower center", ncols=2)


def _mean(rows: xr.DataArray) -> tuple[np.ndarray, np.ndarray]:
    values = rows.values
    return values.mean(axis=1), values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])


def seen(data: xr.Dataset, s: Settings) -> list[Check]:
    mean = {name: _mean(data[name])[0] for name in FINDERS}
    kernel, error = _mean(data["kernel"])
    z = (kernel - data["theory"].values) / error
    few = float(mean["flow"][0] / mean["kernel"][0])
    many = mean["flow"][-1] / kernel[-1]
    sgd = _mean(data["sgd"])[0]
    gain = sgd / np.interp(data["sgd_n"].values, data["n"].values, data["theory"].values)
    runs = data["flow"].values[np.searchsorted(data["n"].values, data["sgd_n"].values)][:, : s.runs]
    floor = float(np.abs(np.median(data["sgd"].values - runs, axis=1)).max())
    return [
        Check("fewest samples: label noise over kernel, worse", few, low=1.3),
        Check("most samples: label noise over kernel, better", float(many), high=0.05),
        Check("weighted ℓ1 error at the most samples", float(mean["l1"][-1]), high=0.01),
        Check("least ℓ2 norm: largest |z| from theory", float(np.abs(z).max()), high=4),
        Check("SGD over kernel at its most samples", float(gain[-1]), high=0.25),
        Check("SGD minus limit, largest median", floor, high=0.3),
    ]


RECOVERY = Figure(
    id="zeroloss.recovery",
    title="Label noise finds sparse teachers, given enough samples",
    caption=(
        "A teacher with 3 of 30 coordinates, a diagonal net from a large start; mean squared "
        "error over data sets. Predicted: every kernel method has at least $(1-n/d)|w^*|^2$ "
        "(black line), which the fit of least ℓ2 norm attains; label noise drives the net towards "
        "the fit of least weighted ℓ1 norm, which finds the teacher from about κ ln d samples on. "
        "Measured: the limiting flow (circles) and SGD itself (diamonds) do so, far below the "
        "kernel. With fewer samples (shaded) the ℓ1 fit is a wrong sparse vector, and label noise "
        "is worse than the kernel."
    ),
    compute=compute,
    draw=draw,
    seen=seen,
    quick={
        "d": 30,
        "nonzero": 3,
        "samples": (6, 8, 10, 12, 14, 18, 22, 26),
        "seeds": 32,
        "alpha": 1.0,
        "std": 1.0,
        "time": 5.0,
        "lr": 0.004,
        "sgd_samples": (8, 22),
        "runs": 8,
    },
    full={"sgd_samples": (6, 8, 10, 12, 14, 18, 22, 26), "runs": 64, "seeds": 200, "lr": 0.002},
    default=True,
    height=1.1,
)
