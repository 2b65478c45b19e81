"""What the monitor costs: the CNN example with and without it, both arms in one process.

Run it: `python benchmarks/torch_overhead.py` (some minutes). The arms take turns, so that a machine
that slows down slows both; the monitor is set up inside the timed region, and its clock stands
still while it is the other's turn. Seconds are of CPU time, with one thread.
"""

import argparse
import importlib.util
import time
from pathlib import Path

import torch

import gradbias.torch as gbt

_EXAMPLE = Path(__file__).parents[1] / "examples" / "torch_digits_cnn.py"


def _example():
    spec = importlib.util.spec_from_file_location("torch_digits_cnn", _EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Arm:
    """One training run, timed in stretches.

    Args:
        watched: with the monitor at its default budget?
    """

    def __init__(self, watched: bool):
        self.example, self.seconds, self.turn = _example(), 0.0, 0
        x, y = self.example.digits()
        self.data, probe = (x, y), (x[:64], y[:64])
        self.model = self.example.network()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.monitor, self._begin = None, time.process_time()
        if watched:
            self.monitor = gbt.Monitor(
                self.model, self.optimizer, self.example.loss_fn, probe, batch_size=64
            )
            # From wall time to CPU time: on a busy machine they are not the same.
            self.monitor.clock.now, self.monitor.clock.own = self.now, self.now()
        self._end()

    def now(self) -> float:
        """Seconds of this arm, in its turn."""
        return self.seconds + time.process_time() - self._begin

    def _end(self) -> None:
        self.seconds = self.now()

    def run(self, steps: int) -> None:
        """Take some steps."""
        self._begin = time.process_time()
        self.example.steps(self.model, self.optimizer, *self.data, steps, key=self.turn)
        self.turn += 1
        self._end()


def main() -> None:
    """Print both arms and the overhead."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--steps", type=int, default=6000)
    options.add_argument("--turns", type=int, default=60)
    given = options.parse_args()
    torch.set_num_threads(1)
    plain, watched = Arm(watched=False), Arm(watched=True)
    for _ in range(given.turns):
        for arm in (plain, watched):
            arm.run(given.steps // given.turns)
    monitor = watched.monitor
    assert monitor is not None
    same = all(
        torch.equal(a, b)
        for a, b in zip(plain.model.parameters(), watched.model.parameters(), strict=True)
    )
    overhead = watched.seconds / plain.seconds - 1
    print(f"plain {plain.seconds:.1f} s, watched {watched.seconds:.1f} s: {overhead:+.2%}")
    print(
        f"by its own account {monitor.clock.used:.2%} in {monitor.clock.measurements} measurements"
    )
    print(f"the same weights at the end: {same}")
    kept = overhead <= monitor.clock.budget and monitor.clock.measurements > 0
    print(f"budget {monitor.clock.budget:.0%}: {'kept' if kept else 'NOT kept'}")


if __name__ == "__main__":
    main()
