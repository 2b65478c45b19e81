"""`python -m fuzz`: random cases until the time is over; exit code 1 if one fails."""

import argparse
import collections
import itertools
import pathlib
import sys
import time
import traceback

from programs import make_room

from .kinds import KINDS, Wrong

SHARES = {
    "closure": 100,
    "descent": 12,
    "sweep": 1,
    "store": 2,
    "flow": 1,
    "optimiser": 6,
    "classifier": 6,
}
TELL = 60.0  # seconds between two lines that say how far it is


def main(arguments: list[str] | None = None) -> int:
    """Run cases; each failure is one line with the seed that repeats it."""
    asked = _parsed(arguments)
    if asked.seed is not None:
        kind, _, number = asked.seed.partition(":")
        if kind not in KINDS or not number.isdecimal():
            print(f"SEED must be KIND:NUMBER with a kind of {', '.join(KINDS)}, got {asked.seed!r}")
            return 2
        cases = iter([(kind, int(number))])
    else:
        print(
            f"from {asked.start} on: make fuzz FUZZ='--start {asked.start}' repeats it", flush=True
        )
        cases = _cases([kind for kind in KINDS if kind not in asked.without], asked.start)
    return run(cases, asked.seconds, asked.cases)


def run(cases, seconds: float, most: int | None = None) -> int:
    """Run these cases; 0 if all agree."""
    now = time.monotonic()
    end, told, notes, worst, failures = now + seconds, now, collections.Counter(), {}, 0
    for kind, seed in itertools.islice(cases, most):
        try:
            found = KINDS[kind](seed)
        except Exception as error:
            failures += 1
            notes[kind, "FAILED"] += 1
            said = str(error) if isinstance(error, Wrong) else _where(error)
            print(f"FAILED {said.splitlines()[0]}  # make fuzz SEED={kind}:{seed}", flush=True)
        else:
            notes[kind, found.note] += 1
            if found.worst >= worst.get(kind, (0.0, 0))[0]:
                worst[kind] = found.worst, seed
        make_room()
        now = time.monotonic()
        if now > end:
            break
        if now > told + TELL:
            told = now
            print(f"{sum(notes.values()) - failures} passed, {failures} failed so far", flush=True)
    for (kind, note), count in sorted(notes.items()):
        print(f"{kind:8} {note:22} {count:7d}")
    for kind, (value, seed) in worst.items():
        print(f"{kind:8} worst difference {value:.2g} of what is allowed, SEED={kind}:{seed}")
    print(f"{sum(notes.values()) - failures} passed, {failures} failed")
    return 1 if failures or not notes else 0


def _cases(kinds: list[str], start: int):
    rota = [kind for kind in kinds for _ in range(SHARES[kind])]
    for number in itertools.count(start):
        yield rota[number % len(rota)], number


def _where(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {pathlib.Path(last.filename).name}:{last.lineno}: {error}"


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--cases", type=int, help="stop after so many")
    parser.add_argument("--seed", help="one case again, as a failure prints it: KIND:NUMBER")
    parser.add_argument(
        "--start", type=int, default=None, help="the first number; else from the clock"
    )
    parser.add_argument("--without", action="append", default=[], choices=list(KINDS))
    asked = parser.parse_args(arguments)
    if asked.start is None:
        asked.start = time.time_ns() // 10**6 % 10**9
    if set(asked.without) == set(KINDS):
        parser.error("--without leaves no kind of case")
    return asked


if __name__ == "__main__":
    sys.exit(main())
