"""All theorems that are known: the papers' own, and people's."""

import fnmatch
import functools
import importlib
from collections.abc import Iterable

from ._source import Source
from ._theorem import Theorem

# One module a paper, in the order in which they are listed; each has THEOREMS.
PAPERS: tuple[str, ...] = ("rank1", "spectral", "zeroloss", "imbalance", "equilibrium")

_own: dict[str, Theorem] = {}


@functools.cache
def _papers() -> dict[str, Theorem]:
    found: dict[str, Theorem] = {}
    for paper in PAPERS:
        for theorem in importlib.import_module(f".{paper}", __package__).THEOREMS:
            if theorem.id in found:
                raise ValueError(f"two theorems have the id {theorem.id!r}")
            found[theorem.id] = theorem
    return found


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


def find(pattern: str | Theorem | Iterable[Theorem] = "*") -> list[Theorem]:
    """The theorems whose id matches a pattern such as "rank1.*".

    Args:
        pattern: a shell pattern, an id, a theorem or several.
    """
    if isinstance(pattern, Theorem):
        return [pattern]
    if not isinstance(pattern, str):
        return list(pattern)
    found = [t for name, t in known().items() if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        raise ValueError(f"no theorem matches {pattern!r}; there are {_some(list(known()))}")
    return found


def cite(pattern: str | Theorem = "*") -> str:
    """The BibTeX entries of the papers that theorems come from.

    Args:
        pattern: which theorems.
    """
    sources: dict[Source, None] = {t.source: None for t in find(pattern) if t.source is not None}
    return "\n\n".join(source.bibtex for source in sources)


def _some(names: list[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
