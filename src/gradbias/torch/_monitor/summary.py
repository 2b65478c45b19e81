"""What a monitored run showed, in sentences."""

import math
from typing import TYPE_CHECKING

from torch.optim import SGD

if TYPE_CHECKING:
    from .monitor import Monitor


def summary(monitor: "Monitor") -> str:
    """A few lines: the last values, why the imbalances moved, and what measuring cost."""
    return "\n".join([_table(monitor), *sentences(monitor), cost(monitor)])


def _table(monitor: "Monitor") -> str:
    if not monitor.history:
        return "gradbias: nothing was measured."
    first, start = monitor.history[0]
    last = monitor.history[-1][0]
    now = monitor.latest
    rows = [f"{'':<20}{f'step {first}':>14}{f'step {last}':>14}"]
    rows += [f"{n:<20}{start.get(n, math.nan):>14.4g}{v:>14.4g}" for n, v in now.items()]
    return "\n".join(rows)


def sentences(monitor: "Monitor") -> list[str]:
    """What the numbers mean, at most four sentences."""
    if not monitor.history:
        return []
    now = monitor.latest
    lines = []
    first = now.get("first_order_share", math.nan)
    if not math.isnan(first):
        lines.append(_why(monitor, first))
    explained = now.get("drift_explained", math.nan)
    if explained > 0:
        lines.append(
            f"Gradient noise and weight decay explain {explained:.0%} of how the imbalances moved."
        )
    elif explained <= 0:
        lines.append(
            "Gradient noise on the probe does not explain how the imbalances moved: the probe may "
            "not be like the training data, or measurements were too far apart."
        )
    elif isinstance(monitor.optimizer, SGD) and monitor.drift.batch_size is None:
        lines.append("Pass batch_size to compare the imbalances with what gradient noise predicts.")
    if now["lr_over_limit"] > 1:
        lines.append(
            f"The learning rate is {now['lr_over_limit']:.1f} times 2/sharpness: plain gradient "
            "descent would be unstable here."
        )
    if monitor.weight_budget is not None:
        lines += monitor.weight_budget.sentences()
    if now["dead_units"]:
        lines.append(f"{now['dead_units']:.0f} units are dead and left out.")
    return lines


def _why(monitor: "Monitor", first: float) -> str:
    which = "all steps" if monitor.exact else "the last measured step"
    begin = f"Over {which}, {first:.0%} of the change of the imbalances was first order"
    if not isinstance(monitor.optimizer, SGD):
        name = type(monitor.optimizer).__name__
        return (
            f"{begin}: {name}'s preconditioner and memory, not noise. The noise equilibrium is a "
            f"law of SGD and does not apply to {name}."
        )
    if any(group["momentum"] for group in monitor.optimizer.param_groups):
        return f"{begin}: the memory of momentum, which acts as a learning rate of lr/(1 − β)."
    return f"{begin}: for plain SGD that is rounding, or a symmetry that is not exact."


def cost(monitor: "Monitor") -> str:
    """What was spent."""
    clock = monitor.clock
    used = (
        f"gradbias used {clock.used:.2%} of the training time (budget {clock.budget:.2%}) for "
        f"{len(monitor.history)} measurements in {clock.step} steps, {clock.measurements} of them "
        "with noise and sharpness."
    )
    if clock.step > clock.every and clock.measurements < 3:
        used += " Few of these fit into the budget: raise budget, or make the probe smaller."
    return used
