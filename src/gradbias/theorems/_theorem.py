"""A theorem as an object: what it says, when, how it is measured, and how it would fail."""

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsIndex, TypeAlias

import xarray as xr

from .._engine.run import Run
from .._engine.setup import Setup
from ..dynamics import Dynamics
from ..nets import Net
from ..observe import Observable, named
from ..problems import Problem
from ._citation import NAME
from ._claims import Measure, Measurements, Predict, Told
from ._erratum import Erratum
from ._hypothesis import Checked, Hypothesis
from ._latex import check_dollars
from ._paper import Paper
from ._source import Source

ID = re.compile(r"[a-z0-9]+(\.[A-Za-z0-9_]+)+")
CAP = 0.05  # what graded hypotheses may allow at most
CERTIFIED = 1e-8  # the largest residual with which a prediction can refute anything


class Undecided(ValueError):
    """Raised by `predict` or `measure` where the runs decide nothing: why, and what to do."""


# What `execute` makes of the setups and ensembles of a theorem, by name.
Runs: TypeAlias = Mapping[str, Run | xr.Dataset]


@dataclasses.dataclass(frozen=True)
class Control:
    """A setup that breaks one hypothesis, on which the prediction must be seen to fail.

    Attributes:
        breaks: the name of the hypothesis that it breaks, or what it breaks in a few words.
        setup: key → Setup, of the same shapes as the instances, so that nothing recompiles.
        predict: the theorem's own prediction if None; a control that its predict refuses says
            here what would be predicted if the hypothesis were taken for granted.
        formula: it breaks no hypothesis: the setup is an instance, and `predict` a wrong formula.
    """

    breaks: str
    setup: Callable[[int], Setup]
    predict: Predict | None = None
    formula: bool = False


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
            with a residual. Takes (setup, run) if `given` is not empty; the run as in `measure`.
        measure: a Run (of an `Ensemble` the Dataset) → the same quantities; plain, or
            `measured(value, error, standard_error)`. Where `runs` names several: {name: Run}.
        tolerance: the relative error up to which it holds, for all quantities or by name.
        instances: key → a fresh random Setup that meets every hypothesis; always of the same
            shapes, for a new shape compiles anew.
        controls: what must fail.
        runs: setup → {name: Setup or Ensemble}, or one Ensemble; by default {"run": setup}.
        nets: the kinds of net it is about; empty: any.
        needs: observables that `measure` reads, as in `Setup(record=…)`.
        given: what the prediction takes from the run, for example ("charges",).
        errata: where the printed form is wrong.
        paper: where it comes from, and the kinds of net, problem and dynamics that it is about
            unless they are given here.
        title: its name in a few words.
        problems: the kinds of problem it is about; empty: any.
        dynamics: the kinds of dynamics it is about; empty: any.
        slow: leave it out of `gradbias verify` unless it is asked for by its own id.
        narrow: it speaks of all hidden units or of none, not of their number: on a wide net its
            hypotheses are checked, and it is read, on a narrow net that moves in the same way.
        terms: name of a term → a function like `predict` that leaves it out; the runs must refute
            each of them.
        paper_size: key → an instance at the paper's own size, for the full set.
        cap: the largest error that graded hypotheses may bring; above it the verdict is
            "inconclusive". A theorem may lower it.
        never_tight: of a bound that no instance comes near: that, why, and by how much.
        weak: why an error of 3 % of the prediction cannot be noticed, where it cannot.
        own: a result of gradbias; the paper is related work.
    """

    id: str
    statement: str
    _: dataclasses.KW_ONLY
    hypotheses: Sequence[Hypothesis]
    predict: Predict
    measure: Measure
    tolerance: float | Mapping[str, float]
    instances: Callable[[int], Setup]
    controls: Sequence[Control] = ()
    runs: Callable[[Setup], Ensemble | Mapping[str, Setup | Ensemble]] | None = None
    nets: Sequence[type[Net]] = ()
    needs: Mapping[str, Any] | Sequence[Any] = ()
    given: Sequence[str] = ()
    errata: Sequence[Erratum] = ()
    paper: Paper | None = None
    title: str = ""
    problems: Sequence[type[Problem]] = ()
    dynamics: Sequence[type[Dynamics]] = ()
    slow: bool = False
    narrow: bool = False
    terms: Mapping[str, Predict] = dataclasses.field(default_factory=dict)
    paper_size: Callable[[int], Setup] | None = None
    cap: float = CAP
    never_tight: str = ""
    weak: str = ""
    own: bool = False

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """A theorem of a paper travels as its id: its functions need not be picklable."""
        from ._registry import known

        if known().get(self.id) is self:
            return _known, (self.id,)
        return super().__reduce_ex__(protocol)

    def __post_init__(self) -> None:
        if not ID.fullmatch(self.id):
            raise ValueError(f'id must look like "paper.thm1", got {self.id!r}')
        check_dollars(self.statement)
        if self.paper is not None:
            for name in ("nets", "problems", "dynamics", "needs", "narrow"):
                if not getattr(self, name):
                    object.__setattr__(self, name, getattr(self.paper, name))
        for name in ("predict", "measure", "instances"):
            if not callable(getattr(self, name)):
                raise ValueError(f"{name} must be a function, got {getattr(self, name)!r:.80}")
        limits = (
            self.tolerance.values() if isinstance(self.tolerance, Mapping) else [self.tolerance]
        )
        if not all(limit >= 0 for limit in limits):
            raise ValueError(f"tolerance must not be negative, got {self.tolerance!r}")
        if not 0 <= self.cap <= CAP:
            raise ValueError(f"cap must be between 0 and {CAP}, got {self.cap!r}")

    @property
    def source(self) -> Source | None:
        """The paper's own entry; None for a theorem of a user's."""
        return None if self.paper is None else self.paper.source

    @property
    def credit(self) -> str:
        """Whose result it is, in a few words."""
        paper = "" if self.source is None else str(self.source)
        return f"{NAME}; related: {paper}" if self.own and paper else NAME if self.own else paper

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
        checked: list[Checked] = []
        for hypothesis in self.hypotheses:
            checked.append(hypothesis.check(setup))
            if not checked[-1].met and not hypothesis.graded:
                break
        return checked

    def tell(self, setup: Setup, runs: Runs | None = None) -> Told:
        """The prediction; `runs` only if the theorem takes something from them."""
        return self.told_by(self.predict, setup, runs)

    def told_by(self, predict: Predict, setup: Setup, runs: Runs | None = None) -> Told:
        """What another function in the place of `predict` says: that of a control."""
        values = predict(setup, _one_or_all(runs)) if self.given else predict(setup)
        return values if isinstance(values, Told) else Told(values)

    def measure_on(self, runs: Runs) -> Measurements:
        """The quantities, measured on the runs that `runs_of` names."""
        return self.measure(_one_or_all(runs))

    def limit(self, quantity: str) -> float:
        """The tolerance of one quantity."""
        if isinstance(self.tolerance, Mapping):
            return float(self.tolerance[quantity])
        return float(self.tolerance)

    def runs_of(self, setup: Setup) -> dict[str, Setup | Ensemble]:
        """The named setups that it needs, with its observables recorded."""
        wanted = {"run": setup} if self.runs is None else self.runs(setup)
        wanted = {"run": wanted} if isinstance(wanted, Ensemble) else wanted
        return {name: self._all_recorded(run) for name, run in wanted.items()}

    def _all_recorded(self, run: Setup | Ensemble) -> Setup | Ensemble:
        if isinstance(run, Ensemble):
            build = run.build
            return Ensemble(lambda **point: self._recorded(build(**point)), run.over)
        return self._recorded(run)

    def _recorded(self, setup: Setup) -> Setup:
        if not self.needs:
            return setup
        return setup.replace(record={**setup.record, **self.observables})

    def __repr__(self) -> str:
        return f"Theorem({self.id!r})"


def _one_or_all(runs: Runs | None) -> Any:
    """One run is handed over as it is, several by name."""
    return runs["run"] if runs is not None and list(runs) == ["run"] else runs


def _known(theorem_id: str) -> Theorem:
    """The theorem of this id, in the process that asks."""
    from ._registry import known

    return known()[theorem_id]
