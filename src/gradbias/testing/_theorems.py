"""Is an own theorem one that can hold, and one that can fail?"""

import math

from .._engine.setup import Setup
from .._verdicts.verify import rows_of
from ..numerics import checks
from ..theorems import Theorem, to_html, to_unicode
from ._net_tracing import refuse_class
from ._report import Notes, Report, said


def check_theorem(
    theorem: Theorem, raise_on_error: bool = True, key: int = 0, instances: int = 2
) -> Report:
    """Find what is wrong with an own theorem: one line in its author's tests.

    Looks at the statement in its other forms; whether instances differ from each other, keep one
    shape and meet the hypotheses; whether prediction and measurement have the same quantities and
    shapes; whether it holds; whether there is a control, and whether every control breaks.

    Args:
        theorem: what is checked.
        raise_on_error: raise a ValueError that lists all findings, if there are any.
        key: an integer; decides the instances.
        instances: how many of them.
    """
    refuse_class("theorem", theorem, Theorem)
    key = checks.integer("key", key)
    notes = Notes(theorem)
    notes.begin("statement")
    _statement(notes, theorem)
    notes.begin("instances")
    setups = _instances(notes, theorem, key)
    if setups is not None:
        notes.begin("hypotheses")
        _hypotheses(notes, theorem, setups[0])
    if not notes.findings:
        _rows(notes, theorem, instances, key)
    return notes.close(raise_on_error)


def _statement(notes: Notes, theorem: Theorem) -> None:
    try:
        to_html(theorem.statement)
        text = to_unicode(theorem.statement)
    except Exception as error:  # whatever a converter dislikes is a finding, not a crash
        notes.find(f"the statement cannot be converted: {said(error)}")
        return
    if "\\" in text:
        notes.find(f"the statement has commands that a terminal cannot show: {text}")


def _instances(notes: Notes, theorem: Theorem, key: int) -> list[Setup] | None:
    try:
        setups = [theorem.instances(key), theorem.instances(key + 1)]
    except Exception as error:  # the author's own code
        notes.find(f"instances({key}) raises {said(error)}")
        return None
    import jax
    import numpy as np

    shapes = [jax.tree.map(np.shape, setup.params) for setup in setups]
    if shapes[0] != shapes[1]:
        notes.find("two instances have different shapes, so that each one compiles anew")
    leaves = [jax.tree.leaves((setup.problem, setup.params)) for setup in setups]
    if shapes[0] == shapes[1] and all(map(np.array_equal, *leaves)):
        notes.find("two keys give the same instance: `instances` must use its key")
    return setups


def _hypotheses(notes: Notes, theorem: Theorem, setup: Setup) -> None:
    foreign = theorem.foreign(setup)
    if foreign:
        notes.find(f"an instance is not of the {foreign} that the theorem is about")
    for hypothesis in theorem.hypotheses:
        try:
            checked = hypothesis.check(setup)
        except Exception as error:  # the author's own code
            notes.find(f"the margin of {hypothesis.name!r} raises {said(error)}")
            continue
        if math.isnan(checked.margin) or not checked.met:
            notes.find(f"an instance breaks a hypothesis: {checked}")


def _rows(notes: Notes, theorem: Theorem, instances: int, key: int) -> None:
    notes.begin("quantities")
    try:
        rows = list(rows_of(theorem, instances, key))
    except Exception as error:  # the author's own code
        notes.find(f"it cannot be verified: {said(error)}")
        return
    notes.begin("verdicts")
    for row in rows:
        if row.bad or row.verdict == "inconclusive":
            notes.find(f"{row.what}: {row.verdict} {row.reason}".rstrip())
    notes.begin("controls")
    if not theorem.controls:
        notes.find("it has no control: what breaks it, so that the check can fail?")
