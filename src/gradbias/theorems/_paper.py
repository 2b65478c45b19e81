"""A paper: where its theorems come from, and what they are about unless they say otherwise."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ..dynamics import Dynamics
from ..nets import Net
from ..problems import Problem
from ._source import Source


@dataclasses.dataclass(frozen=True)
class Paper:
    """What the theorems of a paper have in common; a theorem that says nothing else has it.

    Attributes:
        source: where it appeared.
        nets: the kinds of net; empty: any.
        problems: the kinds of problem; empty: any.
        dynamics: the kinds of dynamics; empty: any.
        needs: observables that measurements read, as in `Setup(record=…)`.
        narrow: theorems speak of all hidden units or of none, see `Theorem.narrow`.
    """

    source: Source
    nets: Sequence[type[Net]] = ()
    problems: Sequence[type[Problem]] = ()
    dynamics: Sequence[type[Dynamics]] = ()
    needs: Mapping[str, Any] | Sequence[Any] = ()
    narrow: bool = False
