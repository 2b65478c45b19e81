"""What a setup has of that which a hypothesis speaks of, in a few words."""

import re
from collections.abc import Callable

from .._engine.setup import Setup
from ..nets import ChainNet
from ..noise import Isotropic, LabelNoise, Minibatch, Replay

NOISES = {
    Minibatch: "minibatch noise",
    LabelNoise: "label noise",
    Isotropic: "isotropic noise",
    Replay: "replayed batches",
}


def noise(setup: Setup) -> str:
    """The noise of its steps."""
    law = getattr(setup.dynamics, "noise", None)
    if law is None:
        return "no noise"
    return NOISES.get(type(law), f"{type(law).__name__} noise")


def _some(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _layers(setup: Setup) -> str:
    return _some(len(setup.net.chain) - 1, "layer") if isinstance(setup.net, ChainNet) else ""


def _width(setup: Setup) -> str:
    inside = setup.net.chain[1:-1] if isinstance(setup.net, ChainNet) else ()
    return f"width {min(inside)}" if inside else ""


def _rates(setup: Setup) -> str:
    rate = getattr(setup.dynamics, "lr", None)
    return "a schedule of learning rates" if callable(rate) else ""


# Words of a hypothesis → what the setup has of it.
TOPICS: tuple[tuple[str, Callable[[Setup], str]], ...] = (
    (r"\bnoise\b|\bbatches\b", noise),
    (r"\binputs?\b", lambda setup: _some(setup.problem.d, "input")),
    (r"\boutputs?\b", lambda setup: _some(setup.problem.k, "output")),
    (r"\blayers?\b", _layers),
    (r"\bwidth\b", _width),
    (r"\b(learning rate|step) is constant\b", _rates),
)


def has(name: str, setup: Setup) -> str:
    """What the setup has of what this name of a hypothesis speaks of; empty if nobody knows."""
    said = [say(setup) for words, say in TOPICS if re.search(words, name)]
    return " and ".join(word for word in said if word)
