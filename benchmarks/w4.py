"""W4: a linear autoencoder 100-2000-100 on fresh samples, 100 a step, inputs and noise drawn."""

import functools

import gradbias as gb

from .agreement import largest_difference
from .protocol import Arm, Part, Workload

SAMPLES = 100


@functools.cache
def problem() -> gb.Population:
    """The paper's: the variances of the inputs are phi and 2 − phi."""
    return gb.problems.autoencoding(100, phi=0.6)


def setup(steps: int, seed: int = 0) -> gb.Setup:
    """One run, with the paper's learning rate and init variance 1/(100 + 2000)."""
    net = gb.TwoLayer(100, 100, 2000)
    start = gb.init.gaussian(net, 2100**-0.5, key=seed)
    dynamics = gb.Descent(0.1, gb.Minibatch(SAMPLES))
    return gb.Setup(problem(), net, start, dynamics, gb.Until(steps=steps), key=seed)


def workloads(quick: bool) -> list[Workload]:
    """Each draws its own samples while it is timed, those of gradbias while it is compared."""
    from . import plain_jax, rivals
    from . import torch_loops as loops

    steps = 400 if quick else 2000
    one = setup(steps)

    def job() -> None:
        gb.simulate(setup(steps), progress=False)

    def parts() -> list[Part]:
        arms = {
            rivals.ONE_BY_ONE: Arm(lambda: plain_jax.fresh(one, True), steps),
            rivals.LOOP: Arm(lambda: loops.fresh(one, True), steps),
            rivals.TUNED: Arm(lambda: loops.fresh(one, True, tuned=True), steps),
        }
        return [Part("SGD", arms)]

    def difference() -> float:
        torch = functools.partial(loops.fresh, drawn_by_torch=False)
        jax = functools.partial(plain_jax.fresh, drawn_by_jax=False)
        return max(largest_difference([one], torch), largest_difference([one], jax))

    return [Workload("W4", 1.5, job, parts, difference, 3)]
