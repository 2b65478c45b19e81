"""What belongs to the user's process is left alone, during a call and after it."""

import ast
import logging
import os
import subprocess
import sys
import tempfile
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
        "numpy errors": np.geterr(),
        "parameters": [p.detach().clone().view(torch.int32).tolist() for p in model.parameters()],
        "buffers": [b.tolist() for b in model.buffers()],
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


def trained_by(net):
    return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def steps(net, optimizer, count=3):
    """Steps of a training loop, in the state that the loop is in."""
    for _ in range(count):
        for p in net.parameters():
            p.grad = torch.ones_like(p)
        optimizer.step()


def watched(net):
    """A whole life of a monitor, on a net that is trained and then put back."""
    start = {name: t.clone() for name, t in net.state_dict().items()}
    grads = [p.grad for p in net.parameters()]
    optimizer = trained_by(net)
    monitor = gbt.Monitor(net, optimizer, mean_loss, DATA, every=1, budget=1e9, exact=True)
    steps(net, optimizer)
    monitor.close()
    monitor.finish()
    monitor.measure(), monitor.summary(), monitor.charge, monitor.latest
    put_back(net, start, grads)
    return monitor


def put_back(net, start, grads):
    net.load_state_dict(start)
    for p, grad in zip(net.parameters(), grads, strict=True):
        p.grad = grad


def followed(net):
    start = {name: t.clone() for name, t in net.state_dict().items()}
    grads = [p.grad for p in net.parameters()]
    optimizer = trained_by(net)
    law = gbt.ChargeLaw(net, optimizer, [first_family(net)])
    steps(net, optimizer)
    law.close()
    put_back(net, start, grads)


def budgeted(net):
    start = {name: t.clone() for name, t in net.state_dict().items()}
    grads = [p.grad for p in net.parameters()]
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1)
    steps(net, optimizer)
    repr(gbt.budget(net, optimizer))
    put_back(net, start, grads)


def logged(net):
    with tempfile.TemporaryDirectory() as folder:
        log = gbt.CsvLog(Path(folder) / "log.csv")
        log({"a": 1.0}, 3)
        gbt.JsonlLog(Path(folder) / "log.jsonl")({"a": 1.0}, 3)


def law_of_a_step(net):
    one = torch.ones(2)
    gbt.step_law(one, one, one, one, lr=0.1, momentum=0.9)


# Every function and every class of the face; a new name without a row fails below.
CALLS = {
    "symmetries": lambda net: gbt.symmetries(net, DATA[0]),
    "declare": lambda net: first_family(net),
    "check": lambda net: gbt.check(net, first_family(net), DATA[0]),
    "balance": lambda net: gbt.balance(net, DATA[0], loss_fn=mean_loss, batch=DATA).undo(),
    "equilibrate": lambda net: gbt.equilibrate(net, mean_loss, DATA).undo(),
    "inspect": lambda net: repr(gbt.inspect(net, mean_loss, DATA, lr=0.1)),
    "advise": lambda net: repr(gbt.advise(net, trained_by(net), mean_loss, DATA)),
    "budget": budgeted,
    "margin": lambda net: repr(gbt.margin(net, DATA)),
    "check_repeatable": lambda net: gbt.check_repeatable(net, mean_loss, DATA),
    "sharpness": lambda net: gbt.sharpness(net, mean_loss, DATA),
    "update_sharpness": lambda net: gbt.update_sharpness(net, trained_by(net), mean_loss, DATA),
    "hessian_trace": lambda net: gbt.hessian_trace(net, mean_loss, DATA),
    "gradient_noise": lambda net: gbt.gradient_noise(net, mean_loss, DATA, [first_family(net)]),
    "Monitor": watched,
    "ChargeLaw": followed,
    "step_law": law_of_a_step,
    "CsvLog": logged,
    "JsonlLog": logged,
    "a refusal": lambda net: gbt.symmetries(net, torch.zeros(2, 9)),
}
EVALUATED = ("check_repeatable", "sharpness", "hessian_trace", "gradient_noise")
# What calls give back, or where another library is asked first, each with its own test.
RESULTS = {
    *(
        "Advice",
        "Budget",
        "TensorBudget",
        "HeadMargin",
        "Family",
        "Finding",
        "Findings",
        "GradientNoise",
        "Inspection",
        "ModelJump",
    ),
    *("ParameterPart", "Symmetries", "TopEigenpair", "Trace", "UpdateSharpness"),
}
ELSEWHERE = {  # test_adapters.py
    *("lightning_callback", "trainer_callback", "accelerate_log", "mlflow_log"),
    *("tensorboard_log", "wandb_log"),
}


def first_family(net):
    return gbt.declare(net, "first", {"0.weight": 0, "0.bias": 0}, {"3.weight": 1})


def public_names():
    """The names of the stub, which the face is made from."""
    stub = Path(gbt.__file__).with_name("__init__.pyi").read_text()
    nodes = [node for node in ast.parse(stub).body if isinstance(node, ast.ImportFrom)]
    return {alias.asname for node in nodes for alias in node.names}


def test_every_public_name_has_a_row():
    rows = set(CALLS) - {"a refusal"}
    assert public_names() == set(gbt.__all__)
    assert public_names() == rows | RESULTS | ELSEWHERE
    assert not (rows & RESULTS or rows & ELSEWHERE)
    for name in RESULTS:  # classes of values alone: nothing is done when they are made
        assert isinstance(getattr(gbt, name), type)


@pytest.mark.parametrize("name", CALLS)
def test_no_public_call_changes_the_process_or_the_model(name, capfd):
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
    assert capfd.readouterr() == ("", "")


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
