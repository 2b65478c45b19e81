"""Watches a training run from inside the optimiser's own steps."""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from ...numerics import checks
from .._find.family import Family
from .._measure.batches import B, LossFn, as_loss, held, is_loader
from .._measure.budget_table import Budget
from .._measure.undisturbed import Named, undisturbed
from .._measure.unwrap import OptimizerWrapper, unwrap_model, unwrap_optimizer
from .budgets import BUDGET, BudgetProbe, nothing
from .checkpoint import restore, state_of
from .clock import Clock
from .csv_log import CsvLog
from .drift import PredictedDrift
from .extras import EXTRAS
from .guard import Guard
from .headline import PREFIX
from .readings import Readings
from .steps import ChargeSplit, Steps, charges
from .summary import summary

Log = Callable[[Mapping[str, float], int], Any]


class Monitor:
    """Follows imbalance, gradient noise and sharpness of a model while it is trained.

    ```python
    with gbt.Monitor(model, optimizer, loss_fn, probe=(x[:256], y[:256]), log="run.csv") as monitor:
        ...  # the training loop, unchanged
    monitor.report("run.html")
    ```

    It hangs on the optimiser's step hooks and so sees clipping, accumulation, schedules and
    parameter groups as the optimiser does. A charge changes in a step by exactly
    ΔC = 2⟨Aθ, Δθ⟩ + ⟨AΔθ, Δθ⟩, whatever the optimiser; it is split into weight decay, first order
    and step². Whatever fails in it is told once, and training goes on. Nothing waits for the
    device between measurements. Of several processes (DDP), rank 0 measures, on its probe and the
    whole layers that each of them has.

    Convention: C = θᵀAθ, κ = lr/S, objective L + γ‖θ‖² (torch's weight decay is 2γ for SGD).
    Numbers are measured in evaluation mode.

    Args:
        model: the model that is trained, compiled or in DistributedDataParallel or not.
        optimizer: its optimiser.
        loss_fn: `loss_fn(model, batch)`, the mean loss, or a criterion.
        probe: a fixed batch to measure on, or a loader whose first batch is kept. Samples that are
            trained on: on others the noise is not that of training.
        every: steps between measurements. Loss and imbalance are measured at each.
        budget: the largest share of training time for measuring noise, sharpness and extras; they
            are measured less often to keep it.
        exact: sum the split over every step, instead of looking at measured steps only.
        log: `log(values, step)`, or the path of a CSV file.
        families: symmetries to follow; found by `symmetries` if not given.
        batch_size: samples of a training step in this process, for the predicted drift; a loader
            given as `probe` tells its own.
        extras: more to measure: "equilibrium", "spectrum", "ranks", "trace", "label_noise", and
            "budget" (see `gradbias.torch.budget`), which is measured every `every` steps.
        arrays: a folder for per-unit arrays, a file of NumPy arrays per measurement.

    Attributes:
        history: (step, values) of every measurement, under plain names; NaN for what was left out
            to keep the budget.
        families: what is followed.
        charge: (units,) C by family now: with `exact`, followed through the steps from the start.
    """

    history: list[tuple[int, dict[str, float]]]

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer | OptimizerWrapper,
        loss_fn: LossFn[B] | nn.Module,
        probe: B | Iterable[B],
        every: int = 50,
        budget: float = 0.03,
        exact: bool = False,
        log: Log | str | os.PathLike[str] | None = None,
        *,
        families: Sequence[Family] | None = None,
        batch_size: int | None = None,
        extras: Sequence[str] = (),
        arrays: str | os.PathLike[str] | None = None,
    ):
        inner = unwrap_model(model)
        self.model = inner.model
        self.speaks = inner.speaks
        self.optimizer = unwrap_optimizer(optimizer)
        self.loss_fn: LossFn[Any] = as_loss(loss_fn)
        self.exact = bool(exact)
        known = (*EXTRAS, BUDGET)
        self.extras = tuple(checks.one_of("extras", name, known) for name in extras)
        self.clock = Clock(
            checks.integer("every", every, at_least=1), checks.number("budget", budget, above=0)
        )
        self.history = []
        self._whole: int | None = None  # the step at which everything was measured last
        self._warned = set()
        self._handles = ()
        self.families: tuple[Family, ...] = ()
        self._params: Named = {}
        self._budgets: BudgetProbe | None = None
        self._log = CsvLog(log) if isinstance(log, str | os.PathLike) else log
        self._arrays = None if arrays is None else Path(arrays)
        if self.speaks:
            with self.clock.ours():
                size = _batch_size(batch_size, probe)
                self._begin(probe, families, None if size is None else size * inner.world)

    def _begin(self, probe: object, families: Sequence[Family] | None, size: int | None) -> None:
        batch = held(probe, self.model)
        dear = [name for name in self.extras if name != BUDGET]
        with undisturbed(self.model):
            self.readings = Readings(self.model, self.loss_fn, batch, families, dear)
        self.families = self.readings.families
        self.clock.expect(self.readings.expected)
        wanted = {name for family in self.families for name in family.parameters}
        self._params = {n: p for n, p in self.model.named_parameters() if n in wanted}
        self._steps = Steps(self.optimizer, self._params, self.families)
        self.drift = PredictedDrift(self.optimizer, self._params, self.families, size)
        if BUDGET in self.extras:
            self._budgets = BudgetProbe(self.model, self.optimizer, self.families)
        self._start = charges(self._params, self.families)
        self._sums: dict[str, ChargeSplit] = {}
        self._split: Mapping[str, ChargeSplit] = {}  # the last one looked at
        self._looking = False
        self._dear = False
        self._handles = (
            self.optimizer.register_step_pre_hook(self._before),
            self.optimizer.register_step_post_hook(self._after),
        )

    @property
    def charge(self) -> dict[str, np.ndarray]:
        """C by family name; with `exact`, the start plus every step's change."""
        now = charges(self._params, self.families)
        if self.exact and self.speaks:
            now = {
                name: c + self._sums[name].total if name in self._sums else c
                for name, c in self._start.items()
            }
        return {name: c.cpu().numpy() for name, c in now.items()}

    @property
    def latest(self) -> dict[str, float]:
        """The last value of everything that was measured, by name; nothing before the first."""
        whole = [values for step, values in self.history if step == self._whole]
        now = self.history[-1][1] if self.history else {}
        seen = {name: v for name, v in now.items() if not math.isnan(v)}
        return {**now, **(whole[-1] if whole else {}), **seen}

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint, beside those of the model and the optimiser; {} where rank is not 0."""
        return state_of(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint: load the model and the optimiser first.

        Args:
            state: from `state_dict` of a monitor of the same model.
        """
        restore(self, state)

    @property
    def weight_budget(self) -> Budget | None:
        """The last `gradbias.torch.Budget`, with `extras=["budget"]`."""
        return None if self._budgets is None else self._budgets.last

    def _before(self, *_: object) -> None:
        with self._guarded("the start of a step"):
            self.clock.tick()
            self.drift.step()
            self._looking = self.clock.looks()
            self._dear = self.clock.due()
            if self._looking or self.exact:
                with self.clock.ours():
                    self._steps.before()
            if self._budgets is not None:
                with self.clock.ours():
                    (self._budgets.before if self._looking else self._budgets.forget)()

    def _after(self, *_: object) -> None:
        with self._guarded("the end of a step"):
            if not (self._looking or self.exact):
                return
            with self.clock.ours():
                splits = self._steps.after()
                if self.exact:
                    self._sums = {n: s.plus(self._sums.get(n)) for n, s in splits.items()}
            if self._looking:
                self._measure(splits, self._dear)

    def measure(self, splits: Mapping[str, ChargeSplit] | None = None) -> dict[str, float]:
        """Measure all of it now, whatever the budget says.

        Args:
            splits: of the step just taken, if there was one.

        Returns:
            The values under plain names, as in `history`.
        """
        return self._measure(splits, dear=True)

    def _measure(self, splits: Mapping[str, ChargeSplit] | None, dear: bool) -> dict[str, float]:
        """Loss, imbalance and the split; what takes gradients of the probe only if it is `dear`."""
        if not self.speaks:
            return {}
        for device in {p.device for p in self._params.values() if p.device.type == "cuda"}:
            torch.cuda.synchronize(device)  # or training's own work would count as ours
        quiet = np.errstate(invalid="ignore", over="ignore")  # a run that diverges has no numbers
        with self.clock.ours(measurement=dear), undisturbed(self.model), quiet:
            group = self.optimizer.param_groups[0]
            lr = float(group["lr"])
            self._split = self._sums if self.exact else splits or self._split
            values = self.readings.take(
                *(self._params, self.drift, self._split, lr, self._guarded),
                rate=lr / (1 - float(group.get("momentum", 0.0))),
                weight_decay=float(group.get("weight_decay", 0.0)),
                dear=dear,
            )
            if self._budgets is not None:
                values |= nothing()
                with self._guarded("the budget of weight decay"):
                    values |= self._budgets.take(self.readings.arrays)
            if dear:
                self._save()
        values["overhead"] = self.clock.used
        self.history.append((self.clock.step, values))
        if dear:
            self._whole = self.clock.step
        with self._guarded("the log"):
            if self._log is not None:
                self._log({PREFIX + name: v for name, v in values.items()}, self.clock.step)
        return values

    def _save(self) -> None:
        if self._arrays is not None:
            with self._guarded("writing arrays"):
                self._arrays.mkdir(parents=True, exist_ok=True)
                file = self._arrays / f"step_{self.clock.step:08d}.npz"
                np.savez_compressed(file, **self.readings.arrays)  # pyright: ignore[reportArgumentType]

    def _guarded(self, what: str) -> Guard:
        return Guard(what, self._warned)

    def close(self) -> None:
        """Leave the optimiser alone."""
        for handle in self._handles:
            handle.remove()
        self._handles = ()

    def __enter__(self) -> "Monitor":
        return self

    def __exit__(self, kind: type[BaseException] | None = None, *_: object) -> None:
        self.close()
        if self.speaks and kind is None:
            self.finish()
            with self._guarded("the summary"):
                print(self.summary())

    def finish(self) -> None:
        """Training has ended: measure once more, if the last step was not measured."""
        self.clock.stop()
        if self._whole != self.clock.step:
            if self.history and self.history[-1][0] == self.clock.step:
                self.history.pop()  # all of it is measured instead
            with self._guarded("the last measurement"):
                self.measure()

    def summary(self) -> str:
        """What was seen and what it cost, in a few sentences."""
        return summary(self) if self.speaks else ""

    def report(self, path: str | os.PathLike[str]) -> Path | None:
        """Write one page with the curves, readable without having read a paper."""
        from .page import page

        if not self.speaks:
            return None
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page(self), encoding="utf-8")
        return target


def _batch_size(given: int | None, probe: object) -> int | None:
    if given is not None:
        return checks.integer("batch_size", given, at_least=1)
    return getattr(probe, "batch_size", None) if is_loader(probe) else None
