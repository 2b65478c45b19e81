"""A theorem as an object: what it says, when, how it is measured, and how it would fail."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._engine.setup import Setup
from ..dynamics import Dynamics
from ..nets import Net
from ..observe import Observable, named
from ..problems import Problem
from ._claims import Claim, as_claim
from ._erratum import Erratum
from ._hypothesis import Checked, Hypothesis
from ._latex import check_dollars
from ._source import Source

ID = re.compile(r"[a-z0-9]+(\.[A-Za-z0-9_]+)+")
CERTIFIED = 1e-8  # the largest residual with which a prediction can refute anything


class Undecided(ValueError):
    """Raised by `predict` or `measure` where the runs decide nothing: why, and what to do."""


@dataclasses.dataclass(frozen=True, eq=False)
class Told:
    """What `predict` returns when it has more to say than the quantities.

    Attributes:
        values: quantity → number, array or Claim.
        residual: how well the root or minimum that they come from was found, relative.
        expected: quantity → a relative error of its own, beside that of the graded hypotheses.
    """

    values: Mapping[str, Any]
    residual: float = 0.0
    expected: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @property
    def claims(self) -> dict[str, Claim]:
        """The quantities as claims."""
        return {name: as_claim(value) for name, value in self.values.items()}


@dataclasses.dataclass(frozen=True)
class Control:
    """A setup that breaks one hypothesis, on which the prediction must be seen to fail.

    Attributes:
        breaks: the name of the hypothesis that it breaks, or what it breaks in a few words.
        setup: key → Setup, of the same shapes as the instances, so that nothing recompiles.
        predict: the theorem's own prediction if None; a control that its predict refuses says
            here what would be predicted if the hypothesis were taken for granted.
    """

    breaks: str
    setup: Callable[[int], Setup]
    predict: Callable[..., Any] | None = None


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """Runs of a theorem that needs many: a sweep instead of named setups.

    Attributes:
        build: point → Setup.
        over: the axes, as in `gb.sweep`.
    """

    build: Callable[..., Setup]
    over: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Theorem:
    """A theorem that can be predicted with, measured, and broken.

    Attributes:
        id: the paper's short name and its numbering: "rank1.thm1".
        statement: one sentence, formulas in LaTeX between dollars.
        hypotheses: when it applies.
        predict: setup → {quantity: number, array, `equals`, `at_most` or `at_least`}, or a `Told`
            with a residual. Takes (setup, runs) if `given` is not empty.
        measure: {name: Run or Dataset} → the same quantities; plain, or `measured(value, error,
            standard_error)`.
        tolerance: the relative error up to which it holds, for all quantities or by name.
        instances: key → a fresh random Setup that meets every hypothesis; always of the same
            shapes, for a new shape compiles anew.
        controls: what must fail.
        runs: setup → {name: Setup or Ensemble}, or one Ensemble; by default {"run": setup}.
        nets: the kinds of net it is about; empty: any.
        needs: observables that `measure` reads, as in `Setup(record=…)`.
        given: what the prediction takes from the run, for example ("charges",).
        errata: where the printed form is wrong.
        source: the paper.
        title: its name in a few words.
        problems: the kinds of problem it is about; empty: any.
        dynamics: the kinds of dynamics it is about; empty: any.
        slow: leave it out of `gradbias verify` unless it is asked for by its own id.
        narrow: it speaks of all hidden units or of none, not of their number: on a wide net its
            hypotheses are checked, and it is read, on a narrow net that moves in the same way.
    """

    id: str
    statement: str
    hypotheses: Sequence[Hypothesis]
    predict: Callable[..., Any]
    measure: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    tolerance: float | Mapping[str, float]
    instances: Callable[[int], Setup]
    controls: Sequence[Control] = ()
    runs: Callable[[Setup], Any] | None = None
    nets: Sequence[type[Net]] = ()
    needs: Mapping[str, Any] | Sequence[Any] = ()
    given: Sequence[str] = ()
    errata: Sequence[Erratum] = ()
    source: Source | None = None
    title: str = ""
    problems: Sequence[type[Problem]] = ()
    dynamics: Sequence[type[Dynamics]] = ()
    slow: bool = False
    narrow: bool = False

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A theorem of a paper travels as its id: its functions need not be picklable."""
        from ._registry import known

        if known().get(self.id) is self:
            return _known, (self.id,)
        return super().__reduce_ex__(protocol)

    def __post_init__(self) -> None:
        if not ID.fullmatch(self.id):
            raise ValueError(f'id must look like "paper.thm1", got {self.id!r}')
        check_dollars(self.statement)
        for name in ("predict", "measure", "instances"):
            if not callable(getattr(self, name)):
                raise ValueError(f"{name} must be a function, got {getattr(self, name)!r:.80}")
        limits = (
            self.tolerance.values() if isinstance(self.tolerance, Mapping) else [self.tolerance]
        )
        if not all(limit >= 0 for limit in limits):
            raise ValueError(f"tolerance must not be negative, got {self.tolerance!r}")

    @property
    def observables(self) -> dict[str, Observable]:
        """What it needs recorded, by name."""
        return named(self.needs) if self.needs else {}

    def foreign(self, setup: Setup) -> str:
        """Why a setup is of another kind ("about other nets"); empty if it is not."""
        for what, kinds, thing in (
            ("nets", self.nets, setup.net),
            ("problems", self.problems, setup.problem),
            ("dynamics", self.dynamics, setup.dynamics),
        ):
            if kinds and not isinstance(thing, tuple(kinds)):
                return what
        return ""

    def check(self, setup: Setup) -> list[Checked]:
        """Every hypothesis on one setup; none is looked at once a hard one is broken."""
        found: list[Checked] = []
        for hypothesis in self.hypotheses:
            found.append(hypothesis.check(setup))
            if not found[-1].met and not hypothesis.graded:
                break
        return found

    def tell(self, setup: Setup, runs: Mapping[str, Any] | None = None) -> Told:
        """The prediction; `runs` only if the theorem takes something from them."""
        told = self.predict(setup, runs) if self.given else self.predict(setup)
        return told if isinstance(told, Told) else Told(told)

    def limit(self, quantity: str) -> float:
        """The tolerance of one quantity."""
        if isinstance(self.tolerance, Mapping):
            return float(self.tolerance[quantity])
        return float(self.tolerance)

    def runs_of(self, setup: Setup) -> dict[str, Any]:
        """The named setups that it needs, with its observables recorded."""
        wanted = {"run": setup} if self.runs is None else self.runs(setup)
        wanted = {"run": wanted} if isinstance(wanted, Ensemble) else dict(wanted)
        return {name: self._recorded(run) for name, run in wanted.items()}

    def _recorded(self, run: Any) -> Any:
        if isinstance(run, Ensemble):
            build = run.build
            return Ensemble(lambda **point: self._recorded(build(**point)), run.over)
        return run.replace(record={**run.record, **self.observables}) if self.needs else run

    def __repr__(self) -> str:
        return f"Theorem({self.id!r})"


def _known(theorem_id: str) -> Theorem:
    """The theorem of this id, in the process that asks."""
    from ._registry import known

    return known()[theorem_id]
