"""Executors: the same bits everywhere, and what happens when they break."""

import concurrent.futures
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import gradbias as gb
from gradbias._sweeps import executors, progress
from gradbias._sweeps import job as _job
from gradbias._sweeps.environment import xla_threads
from gradbias._sweeps.process_pool import own_pool

JOB = Path(__file__).parent / "job.py"
PROBLEM = gb.problems.gaussian(n=6, d=4, key=1, loss="half_mean")
NET = gb.TwoLayer(4, 1, 3)
OVER = {"rate": [0.01, 0.02], "seed": range(4)}


def build(rate, seed, steps=40, **changes):
    changes = {"record": [gb.observe.loss]} | changes
    return gb.Setup(PROBLEM, NET, gb.init.gaussian(NET, 0.4, key=seed),
                    gb.Descent(rate, gb.Minibatch(2)), gb.Until(steps=steps), save_at=[0, steps],
                    key=seed, **changes)  # fmt: skip


STEPS = 20_000


def begin(store, executor="-", steps=STEPS):
    folder = Path(gb.__file__).parents[1]
    settings = {**os.environ, "PYTHONPATH": str(folder), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(JOB), str(store), str(executor), str(steps)]
    return subprocess.Popen(command, env=settings, stdout=subprocess.PIPE, text=True)


def finish(store, executor="-", steps=STEPS):
    """Run the script to its end: its seconds and its result."""
    job = begin(store, executor, steps)
    said, _ = job.communicate(timeout=600)
    assert job.returncode == 0
    with xr.open_dataset(Path(store) / "sweep.nc", engine="h5netcdf") as data:
        return float(said.split()[-1]), data.load().drop_attrs()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The result of the script in one process."""
    return finish(tmp_path_factory.mktemp("undisturbed"))[1]


def test_a_script_without_a_guard_on_a_pool_of_two(tmp_path, undisturbed):
    """Its classes and functions are in `__main__`; the pool makes the bits of one process."""
    assert finish(tmp_path, 2)[1].identical(undisturbed)


def chunks(store):
    return {file.name: file.read_bytes() for file in Path(store).glob("chunk-*.npz")}


def killed(store, executor, steps, moments):
    """Kill the script while it computes: so many chunks, and so much of a second, after it began.

    What was stored stays as it was.
    """
    for moment in moments:
        job, before = begin(store, executor, steps), chunks(store)
        while len(chunks(store)) < len(before) + int(moment) and job.poll() is None:
            time.sleep(0.02)
        time.sleep(moment % 1)
        assert job.poll() is None, "it was done before it was killed"
        job.send_signal(signal.SIGKILL)
        job.wait()
        job.stdout.close()
        assert before.items() <= chunks(store).items()
        assert len(chunks(store)) > len(before)


@pytest.mark.slow
def test_killed_and_resumed(tmp_path, undisturbed):
    killed(tmp_path, "-", STEPS, [1.05, 1.01])
    assert finish(tmp_path)[1].identical(undisturbed)


@pytest.mark.slow
@pytest.mark.parametrize("executor", ["-", "2"])
def test_a_long_sweep_killed_at_three_random_moments(tmp_path, executor):
    steps = 16_000_000
    seconds, whole = finish(tmp_path / "undisturbed", "-", steps)
    assert seconds >= 20
    rng = random.Random(os.getpid())
    moments = [1 + rng.random() for _ in range(3)]
    print(f"{seconds} s, killed at {moments}")
    killed(tmp_path / "killed", executor, steps, moments)
    assert finish(tmp_path / "killed", executor, steps)[1].identical(whole)
    assert bool((abs(whole["loss_end"]) < np.inf).all())


class Thrown(concurrent.futures.Executor):
    """Does some jobs here, then loses its workers."""

    def __init__(self, jobs):
        self.jobs = jobs

    def submit(self, function, /, *args, **kwargs):
        future = concurrent.futures.Future()
        self.jobs -= 1
        if self.jobs >= 0:
            future.set_result(function(*args, **kwargs))
        else:
            future.set_exception(BrokenProcessPool("a worker died"))
        return future


def test_threads_make_the_same_bits_and_equal_code_is_compiled_once(tmp_path):
    whole = gb.sweep(build, OVER, chunk=3)
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        assert gb.sweep(build, OVER, executor=threads, chunk=3).identical(whole)
    assert gb.sweep(build, OVER, executor=Thrown(100), chunk=3).identical(whole)


def test_a_lost_worker_says_what_is_stored_and_the_same_call_resumes(tmp_path):
    with pytest.raises(RuntimeError, match=r"worker was lost.*2 of 3 chunks are stored") as lost:
        gb.sweep(build, OVER, store=tmp_path, executor=Thrown(2), chunk=3)
    assert isinstance(lost.value.__cause__, BrokenProcessPool)
    assert "(0–1); the same call resumes" in str(lost.value)
    resumed = gb.sweep(build, OVER, store=tmp_path, executor=Thrown(1), chunk=3)
    assert resumed.identical(gb.sweep(build, OVER, chunk=3))
    with pytest.raises(RuntimeError, match="nothing is stored: with store="):
        gb.sweep(build, OVER, executor=Thrown(2), chunk=3)


def test_an_error_in_a_job_is_that_error():
    def wrong(problem, net, params):
        if float(params["W1"][0, 0]) > -1e9:  # jax cannot trace it: it fails when it is measured
            raise ArithmeticError("on purpose")

    with pytest.raises(ArithmeticError, match="on purpose"):
        gb.sweep(lambda rate, seed: build(rate, seed, record={"x": wrong}), OVER,
                 executor=Thrown(9), chunk=3)  # fmt: skip


def test_a_pool_that_forks_is_refused_with_the_line_to_write():
    fork = multiprocessing.get_context("fork")
    pool = concurrent.futures.ProcessPoolExecutor(2, mp_context=fork)
    with pool, pytest.raises(ValueError, match=r"executor=2.*get_context\(\"spawn\"\)"):
        gb.sweep(build, OVER, executor=pool)


def test_the_first_job_brings_an_estimate_if_it_is_long(monkeypatch, capsys):
    """It is printed before the others are done; the job is done again, in full."""
    monkeypatch.setattr(executors, "TIMED", 0.0)
    monkeypatch.setattr(progress, "WORTH_SAYING", 0.0)
    performed, perform = [], _job.perform

    def noted(job, bar=None):
        performed.append(perform(job, bar))
        return performed[-1]

    monkeypatch.setattr(_job, "perform", noted)

    def long(rate, seed):
        return build(rate, seed, steps=50_000)

    data = gb.sweep(long, OVER, executor=Thrown(9), chunk=3)
    kinds = [type(done).__name__ for done in performed]
    assert kinds == ["Estimate", "Finished", "Finished", "Finished"]
    assert "sweep of 8: about " in capsys.readouterr().err
    assert data.identical(gb.sweep(long, OVER, chunk=3))


def test_threads_stop_when_a_sweep_is_given_up():
    """A thread cannot be killed: it looks whether its sweep still wants the result."""
    begun = threading.Event()

    def slow(problem, net, params, gradient, lr):
        return lr

    class Interrupted(concurrent.futures.ThreadPoolExecutor):
        def submit(self, function, /, *args, **kwargs):
            future = super().submit(function, *args, **kwargs)
            begun.set()
            time.sleep(0.3)
            if len(self._threads) == 1:
                raise KeyboardInterrupt
            return future

    def endless(rate, seed):
        return build(rate, seed, steps=10**12)

    with Interrupted(1) as threads:
        with pytest.raises(KeyboardInterrupt):
            gb.sweep(endless, OVER, executor=threads, chunk=3)
        began = time.monotonic()
    assert time.monotonic() - began < 60  # leaving the block waits for the thread
    assert begun.is_set()


@pytest.mark.parametrize(
    "sign", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)]
)
def test_workers_end_with_their_parent_and_ctrl_c_is_quick(tmp_path, sign):
    """Neither SIGKILL nor Ctrl-C of the parent leaves a process behind."""
    job = begin(tmp_path, 2, steps=10**10)
    assert job.stdout.readline() == "start\n"
    workers = _wait_for(lambda: _children(job.pid), 2)
    time.sleep(1.0)
    began = time.monotonic()
    job.send_signal(sign)
    assert job.wait(timeout=20) != 0
    took = time.monotonic() - began
    job.stdout.close()
    assert took < 5, f"{sign!r} took {took:.1f} s"
    _wait_for(lambda: [pid for pid in workers if not _alive(pid)], 2)


@pytest.mark.slow
def test_ctrl_c_ends_a_sweep_within_a_second_and_keeps_what_is_stored(tmp_path):
    """Of the clock, or of its own computing where others have the machine."""
    job = begin(tmp_path, "-", steps=3_000_000)
    assert job.stdout.readline() == "start\n"
    _wait_for(lambda: chunks(tmp_path), 1)
    time.sleep(0.5)  # the next chunk is computed now
    before, cpu, began = chunks(tmp_path), _cpu_seconds(job.pid), time.monotonic()
    job.send_signal(signal.SIGINT)
    until, _, said = job.stdout.readline().partition(" ")
    took = time.monotonic() - began, float(until) - cpu
    assert job.wait(timeout=60) != 0
    job.stdout.close()
    assert min(took) < 1, f"{took} s, of the clock and of computing"
    assert before.items() <= chunks(tmp_path).items()
    assert len(chunks(tmp_path)) < 6, "it was done before it was stopped"
    assert "of 6 chunks are stored" in said
    assert "the same call resumes" in said


def _cpu_seconds(pid):
    """What a process and its threads have used so far."""
    used = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def _children(pid):
    """The processes of its pool."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            try:
                line = Path(f"/proc/{child}/cmdline").read_bytes()
            except OSError:
                continue
            if b"gradbias._sweeps.worker" in line:
                found.append(int(child))
    return found


def _alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _wait_for(look, count):
    for _ in range(600):
        found = look()
        if len(found) >= count:
            return found
        time.sleep(0.1)
    raise AssertionError(f"waited for {count}, got {found}")


def settings():
    return os.environ["NPROC"], os.environ["OPENBLAS_NUM_THREADS"], os.environ["GRADBIAS_TEST"]


def outside():
    raise LookupError("on purpose")


def printed(words):
    print(words)
    return sys.stdin.read(), sys.modules["__main__"].__dict__.get("__file__")


def test_workers_get_our_settings_and_tell_their_errors(monkeypatch, capfd):
    """And never run the script of their parent, which stays as it is while they start."""
    monkeypatch.setenv("GRADBIAS_TEST", "x")
    with own_pool(1) as pool:
        assert pool.submit(settings).result() == (str(xla_threads()), "1", "x")
        with pytest.raises(LookupError, match="on purpose") as raised:
            pool.submit(outside).result()
        assert "in outside" in raised.value.__notes__[0]
        assert pool.submit(printed, "words").result() == ("", None)
    assert "words" in capfd.readouterr().err


def test_nobody_sees_another_main_module_while_processes_start():
    """Another thread looks all the time."""
    main = sys.modules["__main__"]
    seen = set()
    done = threading.Event()

    def look():
        while not done.is_set():
            seen.add(sys.modules["__main__"] is main)

    watcher = threading.Thread(target=look)
    watcher.start()
    with own_pool(2) as pool:
        assert pool.submit(len, "ab").result() == 2
    done.set()
    watcher.join()
    assert seen == {True}


def test_a_process_that_dies_fails_its_task_and_all_after_it():
    with own_pool(1) as pool:
        lost = [pool.submit(os._exit, 7), pool.submit(len, "ab")]
        for future in lost:
            with pytest.raises(BrokenProcessPool, match="exit code 7"):
                future.result()


def test_an_error_in_the_block_ends_what_runs():
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), own_pool(1) as pool:
        waiting = [pool.submit(time.sleep, 1000) for _ in range(3)]
        _wait_for(lambda: [future for future in waiting if future.running()], 1)
        raise KeyboardInterrupt
    assert time.monotonic() - began < 30
    assert isinstance(waiting[0].exception(), BrokenProcessPool)
    assert waiting[1].cancelled()
    assert waiting[2].cancelled()
