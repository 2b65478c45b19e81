"""What is compared: a function of a seed for each kind of case."""

import contextlib
import pathlib
import tempfile
import warnings
from typing import Any, NamedTuple

import numpy as np

import gradbias as gb

from . import by_hand, closures, optimisers
from .draw import ALIKE, STEPS, Case, case, classification

EXACT = 1e-10  # of the largest entry: what a reduced run promises
RTOL = 1e-10  # of Flow, by default
FLOW_STEPS = 50  # of an integrator, each of which may be off by RTOL
ANOTHER = 10**9  # to the number of a case whose net has no closure
JUMP = 1e-5  # of the largest entry
DENORMAL = 1e-300  # below it numbers lose their digits
SAVES = [0, 1, STEPS // 3, STEPS]
DAMAGE = ("delete", "cut", "empty", "flip", "append", "zeros")


class Wrong(AssertionError):
    """Two numbers that must agree and do not, or an error that does not say what it is about."""


class Outcome(NamedTuple):
    """A case that agreed.

    Attributes:
        worst: the largest difference, relative to what is allowed.
        note: how it was compared.
    """

    worst: float
    note: str


def descent(seed: int) -> Outcome:
    """Reduced against full against steps by hand."""
    one = case(seed)
    return _against(one, by_hand.descent(one, SAVES), EXACT, lambda: _of_descent(one))


def optimiser(seed: int) -> Outcome:
    """Nesterov, Adam, SAM and Muon: reduced against full against steps by hand."""
    one, dynamics, step, rho, mixes = optimisers.choice(seed)
    known = by_hand.optimiser(one, SAVES, step, rho, mixes)
    if mixes and known is not None and _jumps(known):
        return Outcome(0.0, "decided by rounding")
    return _against(one, known, EXACT, lambda: one.setup(dynamics, gb.Until(steps=STEPS), SAVES))


def _jumps(path: by_hand.Path) -> bool:
    """Does rounding move it so far that singular values crossed the cut of a polar factor?

    Beyond a jump, displacements are not normal numbers: how far some twins are apart says nothing
    about the next one.
    """
    sizes = {name: np.abs(value).max(initial=0.0) for name, value in path.states.items()}
    return any(float(path.slack[name]) > JUMP * size for name, size in sizes.items())


def classifier(seed: int) -> Outcome:
    """Descent of the three losses of classification."""
    one = classification(seed)
    return _against(one, by_hand.descent(one, SAVES), EXACT, lambda: _of_descent(one))


def closure(seed: int) -> Outcome:
    """The small run and the full one, both by hand; nothing is compiled, so nets may vary."""
    one = case(seed * ALIKE)
    while not isinstance(one.net, gb.nets.ChainNet):
        seed += ANOTHER
        one = case(seed * ALIKE)
    found = closures.compared(one, SAVES)
    if isinstance(found, str):
        return Outcome(0.0, found)
    off, slack, note = found
    allowed = EXACT + slack
    if not off <= allowed:
        raise Wrong(f"off by {off:.1e}, allowed {allowed:.1e}; {one.words}")
    return Outcome(off / allowed, "sensitive to rounding" if slack > 1e-8 else note)


def flow(seed: int) -> Outcome:
    """Reduced against full against SciPy."""
    one = case(seed)._replace(indices=None, noise=None, momentum=0.0, decay=0.0)
    end = float(one.lr * STEPS)
    saves = [0.0, end / 10, end]
    setup = one.setup(gb.Flow(), gb.Until(time=end), saves)
    try:
        known = by_hand.flow(one, saves, RTOL)
    except by_hand.NoReference:
        return Outcome(0.0, "no reference")
    least = FLOW_STEPS * by_hand.LEAST
    return _against(one, known, FLOW_STEPS * RTOL, lambda: setup, least)


def sweep(seed: int) -> Outcome:
    """Every row of a sweep against the member by itself."""
    build, over = _grid(np.random.default_rng(seed))
    together = gb.sweep(build, over, progress=False)
    return _rows_agree(build, over, together)


def store(seed: int) -> Outcome:
    """A store that is damaged gives the same numbers, or names the file."""
    rng = np.random.default_rng(seed)
    build, over = _grid(rng)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says which files it makes again
        place = pathlib.Path(folder) / "runs"
        with gb.sweep(build, over, place, progress=False, chunk=1) as first:
            first = first.load()
        damaged = _damage(rng, place)
        try:
            with gb.sweep(build, over, place, progress=False, chunk=1) as again:
                again = again.load()
        except (ValueError, OSError, RuntimeError) as error:
            said = " ".join([str(error), *getattr(error, "__notes__", [])])
            if not any(name in said for name, _ in damaged):
                raise Wrong(f"{damaged}: the error names no file: {said[:200]}") from error
            return Outcome(0.0, "refused")
        for name, value in first.items():
            if not np.array_equal(value.values, again[name].values, equal_nan=_may_be_nan(value)):
                raise Wrong(f"{damaged}: {name} changed without a word")
    return Outcome(0.0, "same numbers")


KINDS = {
    "closure": closure,
    "descent": descent,
    "sweep": sweep,
    "store": store,
    "flow": flow,
    "optimiser": optimiser,
    "classifier": classifier,
}


def _of_descent(one: Case) -> gb.Setup:
    return one.setup(one.descent, gb.Until(steps=STEPS), SAVES)


def _against(
    one: Case, known: by_hand.Path | None, promise: float, make: Any, least: float = DENORMAL
) -> Outcome:
    setup = make()
    runs = {name: _quiet(setup, name == "reduced") for name in ("reduced", "full")}
    if known is None:
        for name, run in runs.items():
            if run.status.ending.name in ("CONVERGED", "CONVERGED_TO_TOLERANCE"):
                raise Wrong(f"{name} says {run.status}, by hand it runs away; {one.words}")
        return Outcome(0.0, "ran away")
    worst = 0.0
    for name, run in runs.items():
        pairs = {
            key: (run.data[f"params_{key}"].values, value) for key, value in known.states.items()
        }
        theta = run.data["theta"].values.reshape(known.thetas.shape)
        for key, (got, need) in {**pairs, "theta": (theta, known.thetas)}.items():
            scale = known.terms if key == "theta" else np.abs(need).max(initial=0.0)
            allowed = promise * scale + float(known.slack[key]) + least
            off = np.abs(got - need).max(initial=0.0)
            if not off <= allowed:
                how = run.stats["reduction"], run.stats["reason"], str(run.status)
                raise Wrong(
                    f"{name} {key} is off by {off:.1e}, allowed {allowed:.1e}; {how}; {one.words}"
                )
            worst = max(worst, float(off / allowed) if allowed else 0.0)
    moved = max(float(known.slack[key]) for key in known.slack)
    note = "reduced" if runs["reduced"].stats["reduction"] != "none" else "in full"
    return Outcome(worst, "sensitive to rounding" if moved > 1e-8 else note)


def _quiet(setup: gb.Setup, reduce: bool) -> gb.Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return gb.simulate(setup, reduce, progress=False)


def _grid(rng: np.random.Generator) -> tuple[Any, dict[str, Any]]:
    """Three members with their own data and starts, which end in their own ways."""
    seed, flows = int(rng.integers(2**31)), bool(rng.random() < 0.3)
    wide = bool(rng.random() < 0.2)  # too large to be run side by side
    saddle = bool(rng.random() < 0.3)  # some members are run again, in full
    width = 700 if wide else 5

    def build(member: int, scale: float) -> gb.Setup:
        own = np.random.default_rng([seed, member])
        X, Y = own.normal(size=(4, 3)), own.normal(size=(4, 2))
        net = gb.TwoLayer(3, 2, width)
        start = {
            name: scale * own.normal(size=shape) / np.sqrt(width)
            for name, shape in net.shapes().items()
        }
        if saddle:
            Y = 4 * Y
            theta = scale * np.outer(own.normal(size=3), own.normal(size=2))
            start = gb.init.balanced(net, theta, key=member)
        problem = gb.Regression.half_mean(X, Y)
        if flows:
            until = gb.Until(time=5.0 + member, gap=float(10.0 ** own.uniform(-6, 0)))
            return gb.Setup(problem, net, start, gb.Flow(), until, save_at=[0.0, 1.0, 4.0])
        noise = gb.Minibatch(2) if seed % 2 else None
        until = gb.Until(steps=200, gap=float(10.0 ** own.uniform(-6, 0)), check_every=20)
        save_at = [0, 20, 130, 200]
        return gb.Setup(
            problem, net, start, gb.Descent(0.05, noise), until, save_at=save_at, key=member
        )

    if flows and wide:
        width = 5
    return build, {"member": range(2), "scale": [float(10.0 ** rng.uniform(-3, 0)), 3.0]}


def _rows_agree(build: Any, over: dict[str, Any], together: Any) -> Outcome:
    worst = 0.0
    for member in over["member"]:
        for scale in over["scale"]:
            alone = _quiet(build(member, scale), True)
            row = together.sel(member=member, scale=scale)
            for name, value in alone.data.data_vars.items():
                got, need = row[name].values, value.values
                if got.shape != need.shape:
                    got = got[: len(need)]
                if not np.array_equal(np.isnan(got), np.isnan(need)):
                    raise Wrong(
                        f"{name} of member {member}, scale {scale:.3g}: NaN in other places"
                    )
                allowed = 1e-9 * max(np.nanmax(np.abs(need), initial=0.0), 1e-300)
                off = np.nanmax(np.abs(got - need), initial=0.0)
                if not off <= allowed:
                    raise Wrong(
                        f"{name} of member {member}, scale {scale:.3g}: off by {off:.1e}, "
                        f"allowed {allowed:.1e}"
                    )
                worst = max(worst, float(off / allowed))
    return Outcome(worst, "rows agree")


def _damage(rng: np.random.Generator, place: pathlib.Path) -> list[tuple[str, str]]:
    """Break one to three files of a store; their names and what was done."""
    files = sorted(path for path in place.rglob("*") if path.is_file())
    done = []
    for path in rng.choice(np.array(files, dtype=object), size=rng.integers(1, 4)):
        how = str(rng.choice(DAMAGE))
        with contextlib.suppress(FileNotFoundError):
            content = bytearray(path.read_bytes())
            at = int(rng.integers(max(len(content), 1)))
            if how == "delete":
                path.unlink()
            elif how == "cut":
                path.write_bytes(content[:at])
            elif how == "empty":
                path.write_bytes(b"")
            elif how == "append":
                path.write_bytes(content + rng.bytes(16))
            elif content and how == "flip":
                content[at] ^= 1 << int(rng.integers(8))
                path.write_bytes(content)
            else:
                content[at : at + 64] = bytes(len(content[at : at + 64]))
                path.write_bytes(content)
            done.append((path.name, how))
    return done


def _may_be_nan(value: Any) -> bool:
    return value.dtype.kind == "f"
