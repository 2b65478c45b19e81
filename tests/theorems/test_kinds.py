"""Every theorem can be asked about every kind of setup: an answer or a reason, never an error."""

import numpy as np
import pytest

import gradbias as gb

PROBLEMS = {
    "one output": lambda: gb.problems.gaussian(n=3, d=5, key=0),
    "two outputs": lambda: gb.problems.gaussian(n=3, d=5, k=2, key=0),
    "more samples than inputs": lambda: gb.problems.gaussian(n=9, d=5, key=0),
    "one sample": lambda: gb.problems.gaussian(n=1, d=5, key=0),
    "zero": lambda: gb.Regression.mean(np.zeros((3, 5)), np.zeros((3, 1))),
    "zero labels": lambda: gb.Regression.mean(np.eye(5)[:3], np.zeros((3, 1))),
    "population": lambda: gb.Population(np.eye(5), np.ones((1, 5)), np.eye(1)),
}
DYNAMICS = {
    "flow": gb.Flow,
    "descent": lambda: gb.Descent(0.01),
    "huge step": lambda: gb.Descent(1e3),
    "schedule": lambda: gb.Descent(lambda step: 0.01),
    "minibatch": lambda: gb.Descent(0.01, gb.Minibatch(1)),
    "label noise": lambda: gb.Descent(0.01, gb.LabelNoise(0.1, 1)),
    "isotropic": lambda: gb.Descent(0.01, gb.Isotropic(0.1)),
    "momentum and decay": lambda: gb.Descent(0.01, momentum=0.9, weight_decay=0.1),
    "diffusion": lambda: gb.Diffusion(0.01, gb.Minibatch(1), dt=0.01),
}


def nets(k):
    chains = [gb.TwoLayer(d=5, k=k, width=4), gb.TwoLayer(d=5, k=k, width=1)]
    chains += [gb.Deep(dims=(5, 3, 3, k)), gb.Deep(dims=(5, k))]
    rest = [gb.MLP(dims=(5, 4, k), activation="relu")]
    if k == 1:
        rest += [gb.Rank1(d=5, depth=3, width=2), gb.Rank1(d=5, depth=1, width=2), gb.Diagonal(d=5)]
    return chains + rest


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_asking_never_fails(problem, every):
    """One in five combinations of net and dynamics; all of them with the slow tests."""
    data, asked, count = PROBLEMS[problem](), 0, 0
    for net in nets(data.k):
        for scale in (0.0, 0.5):
            params = {n: scale * w for n, w in gb.init.gaussian(net, 1.0, key=1).items()}
            for make in DYNAMICS.values():
                count += 1
                if (count + count // 9) % every:  # shifted, so that every dynamics has its turn
                    continue
                try:
                    setup = gb.Setup(data, net, params, make())
                except ValueError:  # not every dynamics fits every problem
                    continue
                assert str(gb.predict(setup))
                asked += 1
    assert asked >= 40 // every
