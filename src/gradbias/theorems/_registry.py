"""All theorems that are known: the papers' own, and people's."""

import fnmatch
import functools
import importlib
from collections.abc import Iterable

from ..numerics.names import suggestion
from ..numerics.progress import CountProgress
from ._citation import own_entry
from ._source import Source
from ._theorem import Theorem

# One module a paper, in the order in which they are listed; each has THEOREMS.
PAPERS: tuple[str, ...] = (
    "rank1",
    "spectral",
    "zeroloss",
    "imbalance",
    "equilibrium",
    "optimiser",
    "margin",
)

_own: dict[str, Theorem] = {}


@functools.cache
def _papers() -> dict[str, Theorem]:
    theorems: dict[str, Theorem] = {}
    with CountProgress("reading theorems", len(PAPERS)) as count:
        for number, paper in enumerate(PAPERS):
            count.step(number, paper)
            for theorem in importlib.import_module(f".{paper}", __package__).THEOREMS:
                if theorem.id in theorems:
                    raise ValueError(f"two theorems have the id {theorem.id!r}")
                theorems[theorem.id] = theorem
    return theorems


def known() -> dict[str, Theorem]:
    """Every theorem by its id."""
    return {**_papers(), **_own}


def register(theorem: Theorem) -> Theorem:
    """Make a theorem known, so that `predict`, `check` and `verify` use it.

    Args:
        theorem: one with an id of its own.

    Returns:
        The theorem.
    """
    if not isinstance(theorem, Theorem):
        raise ValueError(f"theorem must be a gb.Theorem, got {type(theorem).__name__}")
    if theorem.id in _papers():
        raise ValueError(f"theorem id {theorem.id!r} is taken by a paper's; choose another")
    _own[theorem.id] = theorem
    return theorem


def unregister(theorem_id: str) -> None:
    """Forget a theorem that `register` made known."""
    _own.pop(theorem_id, None)


def find(only: str | Theorem | Iterable[Theorem] = "*") -> list[Theorem]:
    """The theorems whose id matches a pattern such as "rank1.*".

    Args:
        only: a shell pattern, an id, a theorem or several.
    """
    if isinstance(only, Theorem):
        return [only]
    if not isinstance(only, str):
        return list(only)
    matching = [t for name, t in known().items() if fnmatch.fnmatchcase(name, only)]
    if not matching:
        near = suggestion(only, known()) or f"; there are {_some(list(known()))}"
        raise ValueError(f"no theorem matches {only!r}{near}")
    return matching


def cite(only: str | Theorem | Iterable[Theorem] | None = None) -> str:
    """The BibTeX entries of what theorems come from: papers, and gradbias for its own results.

    A paper of which only results of gradbias are asked for is noted as related work.

    Args:
        only: a pattern of theorem ids, such as "rank1.*", a theorem or several; without it all
            papers, and gradbias itself first.
    """
    theorems = find("*" if only is None else only)
    theirs = {t.source for t in theorems if not t.own}
    sources: dict[Source, None] = {t.source: None for t in theorems if t.source is not None}
    entries = [source.bibtex if source in theirs else source.related for source in sources]
    ours = only is None or any(t.own for t in theorems)
    return "\n\n".join([own_entry(), *entries] if ours else entries)


def _some(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
