"""What takes long, or needs more than the library: many members, a cluster that loses a worker."""

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import gradbias as gb

PROBLEM = gb.problems.gaussian(n=8, d=5, key=1, loss="half_mean")
NET = gb.TwoLayer(5, 1, 3)


def build(rate, seed, steps=2_000_000):
    return gb.Setup(PROBLEM, NET, gb.init.gaussian(NET, 0.3, key=seed),
                    gb.Descent(rate, gb.Minibatch(2)), gb.Until(steps=steps),
                    save_at=[0, steps], key=seed)  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # dask's own
def test_dask_loses_a_worker(tmp_path):
    """The scheduler gives its work to the other one, or to its successor: the same bits."""
    distributed = pytest.importorskip("distributed")
    over = {"rate": [0.01, 0.02], "seed": range(8)}
    whole = gb.sweep(build, over, chunk=2)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as here,
        distributed.Client(here) as client,
    ):
        lost = []

        def lose_one():
            while not list(tmp_path.glob("chunk-*")):
                time.sleep(0.05)
            lost.append(next(iter(client.run(os.getpid).values())))
            os.kill(lost[0], 9)

        killer = threading.Thread(target=lose_one)
        killer.start()
        data = gb.sweep(build, over, store=tmp_path, executor=client.get_executor(), chunk=2)
        killer.join()
    assert lost
    assert data.identical(whole)


MANY = """
import resource, sys
import gradbias as gb
problem, net = gb.problems.gaussian(n=8, d=5, key=1, loss="half_mean"), gb.TwoLayer(5, 1, 3)
def build(seed):
    return gb.Setup(problem, net, gb.init.gaussian(net, 0.3, key=seed), gb.Descent(0.05),
                    gb.Until(steps=200), save_at=range(201),
                    record=[gb.observe.loss, gb.observe.params])
data = gb.sweep(build, {"seed": range(int(sys.argv[1]))}, store=sys.argv[2], progress=False)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, data.nbytes / 2**20)
"""


@pytest.mark.slow
def test_memory_is_bounded_by_the_chunk(tmp_path):
    """Ten thousand members against five hundred: results grow by 300 MiB, memory does not."""
    folder = Path(gb.__file__).parents[1]
    settings = {**os.environ, "PYTHONPATH": str(folder), "OPENBLAS_NUM_THREADS": "1"}
    said = {}
    for count in (500, 10_000):
        command = [sys.executable, "-c", MANY, str(count), str(tmp_path / str(count))]
        done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
        said[count] = [float(number) for number in re.findall(r"[\d.]+", done.stdout)]
        print(count, said[count])
    grown = np.subtract(said[10_000], said[500])
    assert grown[1] > 250
    assert grown[0] < 200  # KEPT_BYTES, and the list of members
