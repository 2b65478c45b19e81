"""What belongs to the user's process is left alone, during a call and after it."""

import logging
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import scipy.special  # noqa: F401  (adds a filter for its own warnings when it is first imported)

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import gradbias  # noqa: E402
import gradbias.torch as gbt  # noqa: E402


class Watching(nn.Module):
    """Notes, from another thread, what the process looks like whenever it is called."""

    def __init__(self, data_dependent: bool = False):
        super().__init__()
        self.into = nn.Linear(4, 5)
        self.out = nn.Linear(5, 2)
        self.data_dependent = data_dependent
        self.notes: set[tuple] = set()

    def __deepcopy__(self, memo: dict):
        twin = Watching(self.data_dependent)
        twin.load_state_dict(self.state_dict())
        twin.notes = self.notes
        return twin

    def forward(self, x):
        thread = threading.Thread(target=self._look)
        thread.start()
        thread.join()
        h = torch.relu(self.into(x))
        if self.data_dependent and h.sum() > 1e9:
            h = 2 * h
        return self.out(h)

    def _look(self):
        self.notes.add(state_now())


def state_now():
    return torch.get_default_dtype(), id(sys.stdout), id(sys.stderr), logging.root.manager.disable


@pytest.mark.parametrize("data_dependent", [False, True])
def test_other_threads_see_nothing(data_dependent, capfd):
    logging.disable(logging.INFO)
    try:
        before = state_now()
        model = Watching(data_dependent)
        found = gbt.symmetries(model, torch.randn(3, 4))
        assert model.notes == {before}
        assert state_now() == before
        assert logging.root.manager.disable == logging.INFO
    finally:
        logging.disable(logging.NOTSET)
    # torch prints half a graph where it cannot have the whole one; nobody asked for it
    assert capfd.readouterr() == ("", "")
    if not data_dependent:
        assert [family.units for family in found.exact] == [5]


def test_loggers_of_torch_keep_their_levels():
    logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        gbt.symmetries(Watching(True), torch.randn(3, 4))
        assert logger.level == logging.ERROR
    finally:
        logger.setLevel(level)


def test_tables_that_a_model_makes_fit_a_double_copy():
    class Tables(nn.Module):
        def __init__(self):
            super().__init__()
            self.into = nn.Linear(4, 5)
            self.out = nn.Linear(5, 2)

        def forward(self, x):
            mask = torch.where(torch.ones(3, 3).tril() > 0, 0.0, 1.0)
            steps = torch.arange(3) / 3
            mixed = (mask + torch.diag(steps) + torch.full((3, 3), 0.5)) @ x
            return self.out(torch.relu(self.into(mixed)) @ torch.eye(5))

    found = gbt.symmetries(Tables(), torch.randn(3, 4))
    assert found.exact and found[0].holds < 1e-12


def whole_state(model):
    """Everything of the process and of the model that a call could touch."""
    return {
        "default dtype": torch.get_default_dtype(),
        "default device": str(torch.get_default_device()),
        "gradients": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "autocast dtype": torch.get_autocast_dtype("cpu"),
        "autocast cache": torch.is_autocast_cache_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "threads": torch.get_num_threads(),
        "torch random": torch.get_rng_state().tolist(),
        "numpy random": np.random.get_state()[1].tolist(),
        "logging": logging.root.manager.disable,
        "levels": {name: logging.getLogger(name).level for name in ("", "torch", "torch.export")},
        "handlers": list(logging.root.handlers),
        "streams": (id(sys.stdout), id(sys.stderr)),
        "warnings": list(warnings.filters),
        "kernels": torch.backends.cuda.math_sdp_enabled(),
        "modes": [module.training for module in model.modules()],
        "gradients of parameters": [p.grad for p in model.parameters()],
        "hooks": [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()],
        "own attributes": [sorted(vars(module)) for module in model.modules()],
        "requires": [p.requires_grad for p in model.parameters()],
    }


def dropped():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Dropout(0.5), nn.Linear(5, 2))
    net[2].eval()  # one module in another mode than the rest
    return net


def mean_loss(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


DATA = (torch.arange(64.0).reshape(16, 4).cos(), torch.arange(16) % 2)


def observed(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    monitor = gbt.Monitor(net, optimizer, mean_loss, DATA)
    monitor.close()


CALLS = {
    "symmetries": lambda net: gbt.symmetries(net, DATA[0]),
    "check": lambda net: gbt.check(net, first_family(net), DATA[0]),
    "balance": lambda net: gbt.balance(net, DATA[0], loss_fn=mean_loss, batch=DATA),
    "undo": lambda net: gbt.balance(net, DATA[0]).undo(),
    "equilibrate": lambda net: gbt.equilibrate(net, mean_loss, DATA),
    "inspect": lambda net: gbt.inspect(net, mean_loss, DATA, lr=0.1),
    "check_repeatable": lambda net: gbt.check_repeatable(net, mean_loss, DATA),
    "sharpness": lambda net: gbt.sharpness(net, mean_loss, DATA),
    "hessian_trace": lambda net: gbt.hessian_trace(net, mean_loss, DATA),
    "gradient_noise": lambda net: gbt.gradient_noise(net, mean_loss, DATA, [first_family(net)]),
    "Monitor": observed,
    "a refusal": lambda net: gbt.symmetries(net, torch.zeros(2, 9)),
}
EVALUATED = ("check_repeatable", "sharpness", "hessian_trace", "gradient_noise")


def first_family(net):
    return gbt.declare(net, "first", {"0.weight": 0, "0.bias": 0}, {"3.weight": 1})


@pytest.mark.parametrize("name", CALLS)
def test_no_public_call_changes_the_process_or_the_model(name):
    """Under a state that is as unusual as it can be, and with gradients of the user's own."""
    net = dropped()
    if name in EVALUATED:
        net.eval()
    for p in net.parameters():
        p.grad = torch.ones_like(p)
    logging.disable(logging.INFO)
    try:
        with torch.autocast("cpu", torch.bfloat16, cache_enabled=False), torch.no_grad():
            before = whole_state(net)
            try:
                CALLS[name](net)
            except ValueError:
                assert name == "a refusal"
            after = whole_state(net)
    finally:
        logging.disable(logging.NOTSET)
    changed = [key for key in before if str(before[key]) != str(after[key])]
    assert not changed


def test_the_random_module_of_python_is_not_used():
    """In a process of its own: the checks of annotations in this one draw from it."""
    code = (
        "import random, torch, gradbias.torch as gbt\n"
        "net = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))\n"
        "x, y = torch.randn(16, 4), torch.arange(16) % 2\n"
        "loss = lambda model, b: torch.nn.functional.cross_entropy(model(b[0]), b[1])\n"
        "gbt.symmetries(net, x)  # torch may import what draws once\n"
        "before = random.getstate()\n"
        "gbt.symmetries(net, x), gbt.balance(net, x), gbt.inspect(net, loss, (x, y))\n"
        "assert random.getstate() == before"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(gradbias.__file__).parents[1])}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)
