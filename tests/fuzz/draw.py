"""Random cases: data, nets, starts and ways to descend, ordinary and degenerate."""

from typing import Any, NamedTuple

import numpy as np

import gradbias as gb

STEPS = 400
ALIKE = 64  # cases in a row that share what is compiled
EXPONENTS = (0, 0, 0, -1, -3, -6, -10, -15, -20, -60, -150, -300, 3, 10, 60, 150)

# Few shapes, so that few programs are compiled; values are what varies.
NETS = (
    lambda: gb.TwoLayer(3, 2, 6),
    lambda: gb.TwoLayer(2, 2, 2),
    lambda: gb.TwoLayer(3, 1, 8),
    lambda: gb.Deep([3, 4, 4, 2]),
    lambda: gb.Deep([2, 2, 2, 2]),
    lambda: gb.Deep([3, 2]),
    lambda: gb.Rank1(3, 3, 4),
    lambda: gb.Diagonal(3),
)


class Case(NamedTuple):
    """A run in plain arrays: all that a reference needs."""

    net: Any
    X: np.ndarray
    Y: np.ndarray
    weight: float
    params: dict[str, np.ndarray]
    lr: float
    indices: np.ndarray | None
    noise: np.ndarray | None
    momentum: float
    decay: float
    words: str
    loss: str = "squared"

    @property
    def problem(self) -> Any:
        """The same data for gradbias."""
        if self.loss == "squared":
            return gb.Regression(self.X, self.Y, self.weight)
        labels = self.Y.argmax(axis=1) if self.loss == "cross_entropy" else self.Y[:, 0]
        return gb.Classification(self.X, labels, self.loss)

    def setup(self, dynamics: Any, until: gb.Until, save_at: Any) -> gb.Setup:
        """The same run for gradbias, with every parameter recorded."""
        record = [gb.observe.loss, gb.observe.theta, gb.observe.params]
        return gb.Setup(
            self.problem, self.net, self.params, dynamics, until, record=record, save_at=save_at
        )

    @property
    def descent(self) -> gb.Descent:
        """The way down for gradbias."""
        replay = None
        if self.indices is not None or self.noise is not None:
            replay = gb.Replay(self.indices, self.noise)
        return gb.Descent(self.lr, replay, momentum=self.momentum, weight_decay=self.decay)


def case(seed: int, steps: int = STEPS) -> Case:
    """One random run of gradient descent; neighbours have the same net and way to descend."""
    shared, rng = np.random.default_rng([seed // ALIKE, 0]), np.random.default_rng([seed, 1])
    net = NETS[shared.integers(len(NETS))]()
    moves = str(shared.choice(["gd", "gd", "minibatch", "label noise", "momentum", "decay", "all"]))
    d, k = _ends(net)
    X, data = _inputs(rng, d)
    Y, labels = _labels(rng, X, k)
    params, start = _start(rng, net)
    weight = float(rng.choice([0.5, 0.5 / len(X), 1 / len(X)]))
    lr = _step_size(rng, X, weight, params)
    everything = moves == "all"
    indices = noise = None
    if everything or moves == "minibatch":
        indices = rng.integers(0, len(X), size=(steps, 2))
    if everything or moves == "label noise":
        rows = len(X) if indices is None else 2
        noise = 0.3 * np.abs(Y).max(initial=0.0) * rng.normal(size=(steps, rows, k))
    momentum = 0.8 if everything or moves == "momentum" else 0.0
    decay = 0.03 if everything or moves == "decay" else 0.0
    words = f"{net!r}, {data} data, {labels} labels, {start} start, {moves}, lr {lr:.2e}"
    lr = lr * (1 - momentum)
    return Case(net, X, Y, weight, params, lr, indices, noise, momentum, decay, words)


def classification(seed: int, steps: int = STEPS) -> Case:
    """The same nets, inputs and starts, with labels of two or more classes; no label noise."""
    one, rng = case(seed, steps), np.random.default_rng([seed, 2])
    k = one.Y.shape[1]
    shared = np.random.default_rng([seed // ALIKE, 3])
    loss = str(shared.choice(["logistic", "exponential"])) if k == 1 else "cross_entropy"
    which = np.resize(np.arange(max(k, 2)), len(one.X))  # every class has a sample
    rng.shuffle(which)
    Y = np.eye(k)[which] if k > 1 else 2.0 * which[:, None] - 1
    words = f"{one.words}, {loss} loss"
    return one._replace(Y=Y, noise=None, weight=1 / len(one.X), loss=loss, words=words)


def _ends(net: Any) -> tuple[int, int]:
    shapes = net.shapes()
    if isinstance(net, gb.Diagonal):
        return shapes["u"][0], 1
    if isinstance(net, gb.Rank1):
        return shapes["v1"][0], 1
    return shapes["W1"][0], shapes[f"W{len(shapes)}"][1]


def _inputs(rng: np.random.Generator, d: int) -> tuple[np.ndarray, str]:
    name = str(
        rng.choice(
            ["tall", "wide", "identity", "dependent", "repeated", "zero input", "blocks", "scaled"]
        )
    )
    X = rng.normal(size=(4, d))
    if name == "wide":
        X = np.concatenate([X[: d - 1], np.zeros((5 - d, d))])  # fewer directions than inputs
    elif name == "identity":
        X = np.eye(4, d)
    elif name == "dependent":
        X = rng.normal(size=(4, 1)) @ rng.normal(size=(1, d))
    elif name == "repeated":
        X[2:] = X[:2]
    elif name == "zero input":
        X[:, -1] = 0.0
    elif name == "blocks":
        X[:2, 1:], X[2:, 0] = 0.0, 0.0
    elif name == "scaled":
        X = X * 10.0 ** rng.choice([-8, -3, 0, 0, 3], size=d)
    return X, name


def _labels(rng: np.random.Generator, X: np.ndarray, k: int) -> tuple[np.ndarray, str]:
    name = str(
        rng.choice(["fitted", "noisy", "diagonal", "zero", "uneven"], p=[0.4, 0.2, 0.2, 0.1, 0.1])
    )
    teacher = rng.normal(size=(X.shape[1], k))
    if name == "diagonal":
        teacher = np.eye(X.shape[1], k) * rng.uniform(0.5, 2, size=k)
    Y = X @ teacher
    if name == "noisy":
        Y = Y + rng.normal(size=Y.shape)
    elif name == "zero":
        Y = np.zeros_like(Y)
    elif name == "uneven":
        Y = Y * 10.0 ** rng.choice([-12, -4, 0], size=k)
    return Y, name


def _start(rng: np.random.Generator, net: Any) -> tuple[dict[str, np.ndarray], str]:
    name = str(
        rng.choice(
            [
                "gaussian",
                "low rank",
                "balanced",
                "zero layers",
                "diagonal",
                "units",
                "rows",
                "columns",
                "layers",
                "sparse",
                "integers",
            ]
        )
    )
    shapes = net.shapes()
    params = {key: 0.6 * rng.normal(size=shape) for key, shape in shapes.items()}
    if name == "low rank":
        params = {
            key: 0.8 * np.outer(rng.normal(size=shape[0]), rng.normal(size=shape[-1]))
            if len(shape) == 2 and key.startswith("W")
            else params[key]
            for key, shape in shapes.items()
        }
    elif name == "balanced" and not isinstance(net, gb.Diagonal):
        d, k = _ends(net)
        theta = rng.normal(size=(d, 1)) @ rng.normal(size=(1, k))
        theta = theta * 10.0 ** rng.choice([0, -2, -6])
        params = gb.init.balanced(net, theta[:, 0] if k == 1 else theta, key=int(rng.integers(99)))
    elif name == "zero layers":
        params = {key: value * rng.integers(0, 2) for key, value in params.items()}
    elif name == "diagonal":
        params = {
            key: np.eye(*shape) * rng.choice([0.9, 0.5, 1e-3, 1e-9, 1e-20, 0.0], size=shape[-1])
            if len(shape) == 2
            else params[key]
            for key, shape in shapes.items()
        }
    elif name == "units":
        params = _by_unit(rng, net, params)
    elif name in ("rows", "columns"):
        axis = 0 if name == "rows" else -1
        params = {key: _scaled(rng, value, axis) for key, value in params.items()}
    elif name == "layers":
        params = {key: value * 10.0 ** rng.choice(EXPONENTS) for key, value in params.items()}
    elif name == "integers":  # products of them cancel exactly
        params = {
            key: rng.integers(-2, 3, size=shape) * float(rng.choice([1.0, 0.5, 0.0]))
            for key, shape in shapes.items()
        }
    elif name == "sparse":
        params = {
            key: value
            * (rng.random(value.shape) < 0.4)
            * 10.0 ** rng.choice(EXPONENTS[:9], size=value.shape)
            for key, value in params.items()
        }
    return params, name


def _scaled(rng: np.random.Generator, value: np.ndarray, axis: int) -> np.ndarray:
    """Each row, or column, in its own unit; a few of them far above one."""
    shape = [1] * value.ndim
    shape[axis] = value.shape[axis]
    exponents = EXPONENTS if rng.random() < 0.1 else EXPONENTS[:12]
    return value * 10.0 ** rng.choice(exponents, size=shape)


def _by_unit(rng: np.random.Generator, net: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Hidden units, or entries where there are none, of different scale, in and out alike."""
    if not isinstance(net, (gb.TwoLayer, gb.Deep)):
        shape = params["v"].shape[-1:]
        scale = 10.0 ** rng.choice(EXPONENTS[:11], size=shape)
        return params | {name: params[name] * scale for name in ("u", "v")}
    result = dict(params)
    for k in range(1, len(params)):
        scale = 10.0 ** rng.choice([0, 0, 0, -6, -12, -20, -100], size=params[f"W{k}"].shape[1])
        result[f"W{k}"] = result[f"W{k}"] * scale
        result[f"W{k + 1}"] = scale[:, None] * result[f"W{k + 1}"]
    return result


def _step_size(rng: np.random.Generator, X: np.ndarray, weight: float, params: Any) -> float:
    """Mostly stable: a part of two over the curvature when the net is of order one."""
    curvature = 2 * weight * max(np.linalg.norm(X, 2) ** 2, 1e-12)
    size = max(max(min(np.abs(value).max(initial=0.0), 1e3) for value in params.values()), 1.0)
    return float(10.0 ** rng.uniform(-1.7, -0.3) / curvature / size ** (2 * (len(params) - 1)))
