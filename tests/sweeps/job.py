"""A sweep as people write it: a script, with its own classes and functions, and no guard.

    python job.py STORE EXECUTOR STEPS

Prints `start` before the sweep and its time after it; if it is interrupted, the CPU time of its
process until then, and what the sweep says of it.
"""

import signal
import sys
import time

import jax.numpy as jnp
import numpy as np

import gradbias as gb

signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it for background jobs
store, executor, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
problem = gb.problems.gaussian(n=8, d=5, key=1, loss="half_mean")


class Product(gb.LinearNet):
    """Two vectors, coordinate by coordinate."""

    d: int

    def shapes(self):
        return {"a": (self.d,), "b": (self.d,)}

    def predictor(self, p):
        return SCALE * p["a"] * p["b"]


SCALE = 2.0


def build(rate, seed):
    def size(problem, net, params):
        return jnp.sum(params["a"] ** 2)

    net = Product(5)
    # The times of a schedule are sums over all its steps: not for the long runs.
    lr = rate if steps > 10**6 else lambda k: rate / (1 + k / 1e4)
    return gb.Setup(problem, net, gb.init.gaussian(net, 0.4, key=seed),
                    gb.Descent(lr, gb.Minibatch(2)),
                    gb.Until(steps=steps), record={"loss": gb.observe.loss, "size": size},
                    save_at=np.arange(0, steps + 1, steps // 4), key=seed)  # fmt: skip


print("start", flush=True)
began = time.monotonic()
try:
    data = gb.sweep(build, {"rate": [0.01, 0.02, 0.03], "seed": range(8)},
                    store=None if store == "-" else store,
                    executor=None if executor == "-" else int(executor), chunk=4)  # fmt: skip
except KeyboardInterrupt as stopped:
    print(time.process_time(), *stopped.__notes__, flush=True)
    raise
print(f"seconds {time.monotonic() - began:.1f}")
