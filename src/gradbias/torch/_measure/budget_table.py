"""What a budget says: a row for every tensor, and in words what decides its size."""

import dataclasses
import math
import statistics
from collections import Counter
from collections.abc import Callable

from ..._text.table import Table, number

AT_BOX = 0.95  # of the box: coordinates beyond are held by it
ON_FLOOR = 1.25  # factor to the noise floor within which a tensor sits on it
SHOWN = 30  # characters of a name in the table
MEANINGS = {
    "no ball": "without decay, under SGD and with decay in Adam's gradient there is no ball",
    "spectral ball": "this layer sits at the spectral ball: decay bounds its singular values",
    "too early": "decay has had less than 1/(lr·λ) steps: the size is still that of the start",
    "noise floor": "this layer sits on its noise floor: decay, not the loss, decides its size",
    "box": "entries of this layer are held by the box of decay: max|w| is 1/λ",
    "below floor": "smaller than noise alone would make it: its gradients are not white noise",
    "inside": "between its floor and its ball: the loss decides its size",
}


@dataclasses.dataclass(frozen=True)
class TensorBudget:
    """One tensor: η is its learning rate, λ its decay, w its entries; nan where a number is not.

    Attributes:
        name: of the parameter.
        optimizer: "AdamW", "Adam" (decay in the gradient), "Muon" or "SGD".
        lr: η of now.
        weight_decay: λ of now.
        steps: how many were taken; None if the optimiser does not count them.
        rms: rms(w).
        largest: max|w|.
        max_use: λ·max|w|: 1 at the box of AdamW's decay. A step of Adam may lead a little beyond.
        rms_use: λ·rms(w), between `floor` and 1 once decay has had its time.
        floor: √(ηλ/2): λ·rms(w) where AdamW sees nothing but noise.
        at_box: share of entries with λ|w| above 0.95.
        spectral_use: λσ_max/c: 1 at the ball of Muon's decay, c being what torch makes of the
            shape.
        gap: Frank–Wolfe gap of the batch's gradient, ‖g‖₁ + λ⟨w, g⟩ over ‖g‖₁: 0 where the box
            decides every entry, 1 where w and g have nothing to do with each other.
        update_rms: rms of the step over η, without decoupled decay.
        noise_update: the same where gradients are white noise, √((1−β₁)/(1+β₁)), 0.2294 for 0.9.
        signal: share of the gradient's square that is signal, by Adam's `update_rms`.
        angle: by which w turned in the last step, in radians.
        noise_angle: the same for weights whose scale does not matter, at their equilibrium.
    """

    name: str
    optimizer: str
    lr: float
    weight_decay: float
    _: dataclasses.KW_ONLY
    steps: int | None
    rms: float
    largest: float
    max_use: float
    rms_use: float
    floor: float
    at_box: float
    spectral_use: float
    gap: float
    update_rms: float
    noise_update: float
    signal: float
    angle: float
    noise_angle: float

    @property
    def decay_time(self) -> float:
        """1/(ηλ): the steps in which decay alone would take a factor of e off."""
        rate = self.lr * self.weight_decay
        return 1 / rate if rate > 0 else math.inf

    @property
    def early(self) -> bool:
        """Has decay had less than one of its times, so that sizes are still those of the start?"""
        return self.steps is not None and self.steps < self.decay_time

    @property
    def on_floor(self) -> bool:
        """Is λ·rms(w) within 25 % of the noise floor?"""
        return 1 / ON_FLOOR <= self.rms_use / self.floor <= ON_FLOOR

    @property
    def place(self) -> str:
        """Where the tensor is, in two or three words: a key of `MEANINGS`."""
        if self.optimizer in ("SGD", "Adam") or self.weight_decay == 0:
            return "no ball"
        if not math.isnan(self.spectral_use):
            return "spectral ball" if self.spectral_use >= AT_BOX else "inside"
        if self.early:
            return "too early"
        if self.on_floor:
            return "noise floor"
        if self.max_use >= AT_BOX:
            return "box"
        return "below floor" if self.rms_use < self.floor else "inside"

    @property
    def meaning(self) -> str:
        """What decides the tensor's size, in words."""
        return MEANINGS[self.place]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Budget(Table):
    """The budgets of all tensors; printed, a table.

    Attributes:
        tensors: one for each that a known optimiser moves.
        angular_momentum: by pair of layers, the share of the last step that rotated the space
            between them: 0 up to rounding for heavy ball from rest.
        not_known: sentences on what is not understood.
    """

    tensors: tuple[TensorBudget, ...]
    angular_momentum: dict[str, float]
    not_known: tuple[str, ...]

    columns = ("tensor", "use", "floor", "update", "signal", "rotation", "where")

    def __getitem__(self, name: str) -> TensorBudget:
        for tensor in self.tensors:
            if tensor.name == name:
                return tensor
        raise KeyError(f"no tensor {name!r}; there are {[t.name for t in self.tensors]}")

    def rows(self) -> list[tuple[str, ...]]:
        """A line for each tensor."""
        return [_row(tensor) for tensor in self.tensors]

    def notes(self) -> list[str]:
        """What the columns and words are, and what was not understood."""
        if not self.tensors:
            return list(self.not_known)
        places = dict.fromkeys(tensor.place for tensor in self.tensors)
        return [
            "use: λ·rms(w), of Muon λ·σ_max/c; 1 is the ball. floor: what noise makes of it. "
            "update: rms of the step over lr. rotation: the angle of a step over the one at which "
            "noise and decay balance.",
            *(f"{place}: {MEANINGS[place]}." for place in places),
            *self.not_known,
        ]

    def sentences(self) -> list[str]:
        """Of how many tensors what decides the size."""
        counts = Counter(tensor.place for tensor in self.tensors)
        total = len(self.tensors)
        lines = [f"{n} of {total} tensors, {p}: {MEANINGS[p]}." for p, n in counts.most_common(3)]
        return [*lines, *self.not_known]

    def scalars(self) -> dict[str, float]:
        """The numbers that a monitor logs: extremes, medians and counts over tensors."""
        tensors = self.tensors
        boxed = [t for t in tensors if not math.isnan(t.rms_use)]
        above = [t.rms_use / t.floor for t in boxed if t.floor > 0]
        return {
            "budget_max": _of(max, [t.max_use for t in tensors]),
            "budget_median": _of(statistics.median, [t.rms_use for t in tensors]),
            "budget_spectral": _of(max, [t.spectral_use for t in tensors]),
            "budget_over_floor": _of(statistics.median, above),
            "on_floor": _of(sum, [float(t.place == "noise floor") for t in boxed]),
            "frank_wolfe_gap": _of(statistics.median, [t.gap for t in tensors]),
            "update_rms": _of(statistics.median, [t.update_rms for t in tensors]),
            "signal_share": _of(statistics.median, [t.signal for t in tensors]),
            "rotation": _of(statistics.median, [t.angle / t.noise_angle for t in tensors]),
            "angular_momentum": _of(max, list(self.angular_momentum.values())),
        }


# The names of `Budget.scalars`, with what they are.
SCALARS = {
    "budget_max": "largest λ·max|w| under AdamW; 1 is the box of its decay",
    "budget_median": "λ·rms(w) of the tensor in the middle",
    "budget_spectral": "largest λσ_max/c under Muon; 1 is the ball of its decay",
    "budget_over_floor": "λ·rms(w) over its noise floor, of the tensor in the middle",
    "on_floor": "tensors whose size is made by noise and decay",
    "frank_wolfe_gap": "0 where the box decides, 1 without a pull; of the tensor in the middle",
    "update_rms": "rms of a step over the learning rate, of the tensor in the middle",
    "signal_share": "share of a gradient's square that is signal, of the tensor in the middle",
    "rotation": "angle of a step over that at which noise and decay balance, in the middle",
    "angular_momentum": "largest share of a step that rotates a space between layers",
}


def _of(statistic: Callable[[list[float]], float], values: list[float]) -> float:
    there = [v for v in values if not math.isnan(v)]
    return float(statistic(there)) if there else math.nan


def _row(tensor: TensorBudget) -> tuple[str, ...]:
    use = tensor.rms_use if math.isnan(tensor.spectral_use) else tensor.spectral_use
    turn = tensor.angle / tensor.noise_angle
    numbers = (use, tensor.floor, tensor.update_rms, tensor.signal, turn)
    name = tensor.name if len(tensor.name) <= SHOWN else "…" + tensor.name[1 - SHOWN :]
    cells = ("–" if math.isnan(v) else number(v) for v in numbers)
    return (name, *cells, tensor.place)
