"""What belongs to the user's process is left alone, during a call and after it."""

import logging
import sys
import threading

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

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
