"""`gradbias torch inspect module:factory`: a look at a PyTorch model, without writing code."""

import html
import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

FORMS = "(model, batch), (model, loss_fn, batch) or (model, optimizer, loss_fn, batch)"


class Given(NamedTuple):
    """What a factory gave.

    Attributes:
        model: an `nn.Module`.
        optimizer: None if there is none.
        loss_fn: None if there is none.
        batch: samples.
    """

    model: Any
    optimizer: Any
    loss_fn: Any
    batch: Any


def run(place: str, batch_size: int | None, out: Path | None) -> None:
    """Print what was found, and write it to a page."""
    # Whether torch is there is known without loading it, and said before the user's module fails.
    if importlib.util.find_spec("torch") is None:
        raise ValueError(
            "gradbias torch needs PyTorch: install the build for your machine "
            "(https://pytorch.org/get-started), then gradbias[torch]"
        )
    if out is not None and out.is_dir():
        raise ValueError(f"--out must be a file such as page.html, got the folder {str(out)!r}")
    given = made(place)
    if batch_size is not None and given.optimizer is None:
        raise ValueError(
            "--batch-size goes with an optimizer: the factory must then give (model, optimizer, "
            "loss_fn, batch)"
        )
    parts = [f"<h1>{html.escape(place)}</h1>"]
    for title, found in findings(given, batch_size):
        print(f"{title}\n\n{found}\n")
        parts += [f"<h2>{title}</h2>", _shown(found)]
    if out is not None:
        from .._text.page import page

        out.parent.mkdir(parents=True, exist_ok=True)
        name = type(given.model).__name__
        out.write_text(page(f"{name}: symmetries and advice", "\n".join(parts)), encoding="utf-8")
        print(f"wrote {out}")


def findings(given: Given, batch_size: int | None) -> list[tuple[str, object]]:
    """What there is to say, by title."""
    from .. import torch as gbt

    if given.loss_fn is None:
        if not _own_loss(given.model, given.batch):
            without = "Symmetries (sharpness and noise need a loss: give (model, loss_fn, batch))"
            return [(without, gbt.symmetries(given.model, given.batch))]
        given = given._replace(loss_fn=_loss_of)
    model, optimizer, loss_fn, batch = given
    found: list[tuple[str, object]] = [("The model", gbt.inspect(model, loss_fn, batch))]
    if optimizer is not None:
        advice = gbt.advise(model, optimizer, loss_fn, batch, batch_size=batch_size)
        found.append(("The run", advice))
    return found


def made(place: str) -> Given:
    """What the factory gives, told apart by how many there are."""
    result = _factory(place)()
    if not isinstance(result, (tuple, list)) or not 2 <= len(result) <= 4:
        raise ValueError(f"{place} must return {FORMS}, got {_told(result)}")
    model, *between, batch = result
    optimizer = between[0] if len(between) == 2 else None
    given = Given(model, optimizer, between[-1] if between else None, batch)
    torch = importlib.import_module("torch")
    right = isinstance(model, torch.nn.Module)
    # Optimisers of wrappers have an inner one; what else has no groups of parameters is none.
    right = right and (optimizer is None or hasattr(optimizer, "param_groups"))
    right = right and (not between or callable(given.loss_fn))
    if not right:
        raise ValueError(f"{place} must return {FORMS}, got {_told(result)}")
    return given


def _factory(place: str) -> Callable[[], object]:
    name, colon, attribute = place.partition(":")
    if not (name and colon and attribute):
        raise ValueError(
            f"what to inspect must be module:factory, such as train:build, got {place!r}"
        )
    if name.endswith(".py"):
        raise ValueError(
            f"what to inspect must be module:factory, got the file {name!r}: write "
            f"{Path(name).stem}:{attribute}, from the folder it is in"
        )
    folder = str(Path.cwd())
    if folder not in sys.path:  # as `python -m` has it; a script's first entry is its own folder
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        missing = getattr(error, "name", None)
        if missing and (name == missing or name.startswith(f"{missing}.")):
            raise ValueError(f"there is no module {missing!r} in {folder} or installed") from error
        raise ValueError(f"module {name!r} could not be imported: {error}") from error
    found: object = module
    for word in attribute.split("."):
        if not hasattr(found, word):
            raise ValueError(f"module {name!r} has no {attribute!r}: {_names(module)}")
        found = getattr(found, word)
    if not callable(found):
        raise ValueError(
            f"{place} must be a function without arguments, got {type(found).__name__}"
        )
    return found


def _names(module: object) -> str:
    """The functions that a module makes itself, as a hint."""
    own = [
        name
        for name, value in vars(module).items()
        if callable(value) and getattr(value, "__module__", "") == getattr(module, "__name__", None)
    ]
    return f"it has {', '.join(own)}" if own else "it makes no function"


def _told(result: object) -> str:
    if not isinstance(result, (tuple, list)):
        return type(result).__name__
    return f"({', '.join(type(part).__name__ for part in result)})"


def _loss_of(model: Callable[..., object], batch: object) -> object:
    """The loss that a model computes itself: its one number, or what it calls `loss`."""
    if isinstance(batch, Mapping):
        result = model(**batch)
    else:
        result = model(*batch) if isinstance(batch, (tuple, list)) else model(batch)
    if isinstance(result, Mapping):
        return result.get("loss")
    return getattr(result, "loss", result)


def _own_loss(model: Callable[..., object], batch: object) -> bool:
    """Does the model compute its loss? It is asked on a copy: a call may keep statistics."""
    from copy import deepcopy

    torch = importlib.import_module("torch")
    try:
        with torch.random.fork_rng(), torch.no_grad():
            loss = _loss_of(deepcopy(model), batch)
    except Exception as error:
        raise ValueError(
            "a factory that gives (model, batch) must give what the model is called with, got "
            f"{type(error).__name__}: {error}. With labels, give (model, loss_fn, batch)"
        ) from error
    return torch.is_tensor(loss) and torch.numel(loss) == 1


def _shown(found: object) -> str:
    shown = getattr(found, "_repr_html_", None)
    if not callable(shown):
        return f"<pre>{html.escape(repr(found))}</pre>"
    return str(shown()).replace("<table>", '<table class="advice">', 1)  # no word is broken
