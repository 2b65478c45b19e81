"""What a step adds to the sums along the path, seen with the user's own eyes."""

from typing import Any

import equinox as eqx

from ..observe import Running
from ..reductions import Lift
from .setup import Setup


class Tally(eqx.Module):
    """The increments of all running sums of a record.

    Attributes:
        problem: the user's problem.
        net: the user's net.
        lift: from the coordinates of the run to all parameters; None if they are the same.
        running: the sums, by name.
    """

    problem: Any
    net: Any
    lift: Any
    running: dict[str, Running]

    def __call__(self, params, grads, lr) -> dict[str, Any]:
        if self.lift is not None:
            params = self.lift(params)
            grads = self.lift.gradient(grads)
        return {
            name: f.of_step(self.problem, self.net, params, grads, lr)
            for name, f in self.running.items()
        }


def tally_of(setup: Setup, lift: Lift | None) -> Tally | None:
    """The tally of a setup; None if nothing is summed."""
    running = {name: f for name, f in setup.record.items() if isinstance(f, Running)}
    return Tally(setup.problem, setup.net, lift, running) if running else None
