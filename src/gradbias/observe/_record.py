"""The `record` argument: what to measure, under which names."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .base import FunctionObservable, Measurement, Observable

Record = Mapping[str, Observable | Measurement] | Sequence[Observable | Measurement] | Measurement

_AXES = ("step", "time", "log_time")


def as_observable(name: str, f: Observable | Measurement) -> Observable:
    """A function f(problem, net, params) as an observable; an observable stays what it is.

    Args:
        name: the name of its variable.
        f: written with jax.numpy; returns an array or a dict of arrays.
    """
    _checked_name(name)
    if isinstance(f, Observable):
        return f
    if isinstance(f, type) or not callable(f):
        _refuse(name, f"must be an observable or a function, got {f!r:.80}")
    if not _takes_three(f):
        _refuse(name, f"must take (problem, net, params), got {_shown(f)}; is it to be called?")
    if not _hashable(f):
        _refuse(name, f"must be hashable, got {f!r:.80}; subclass gb.observe.Observable instead")
    return FunctionObservable(name, f)


def named(record: Record) -> dict[str, Observable]:
    """A record as a dict from names to observables.

    Args:
        record: a dict {name: observable}, a list of observables, or one of them; plain functions
            f(problem, net, params) count as observables, named after themselves in a list.
    """
    if isinstance(record, Mapping):
        return {name: as_observable(name, f) for name, f in record.items()}
    if isinstance(record, (list, tuple)):
        return _distinct((_own_name(f), f) for f in record)
    if callable(record):
        return _distinct([(_own_name(record), record)])
    raise ValueError(
        "record must be a dict {name: observable}, a list of observables or one observable, "
        f"got {type(record).__name__} {record!r:.80}"
    )


def _distinct(items: Iterable[tuple[str, Any]]) -> dict[str, Observable]:
    result: dict[str, Observable] = {}
    for name, f in items:
        if name in result:
            raise ValueError(
                f"record must have distinct names, got {name!r} twice; "
                "a dict {name: observable} can tell them apart"
            )
        result[name] = as_observable(name, f)
    return result


def _own_name(f: object) -> str:
    name = f.name if isinstance(f, Observable) else getattr(f, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier():
        raise ValueError(
            f"record must hold observables or named functions, got {f!r:.80}; "
            "give it a name in a dict {name: observable}"
        )
    return name


def _checked_name(name: object) -> None:
    wrong = not isinstance(name, str) or not name.strip() or "/" in name or "\0" in name
    if wrong or name in (*_AXES, ".", ".."):
        raise ValueError(
            "record must have names that are non-empty strings without '/' and '\\0', other than "
            f"'.', '..', {', '.join(map(repr, _AXES))}, got {name!r:.80}"
        )


def _refuse(name: str, words: str) -> None:
    raise ValueError(f"record[{name!r}] {words}")


def _takes_three(f: Callable[..., Any]) -> bool:
    try:
        inspect.signature(f).bind(None, None, None)
    except TypeError:
        return False
    except ValueError:  # some built-ins have no signature
        return True
    return True


def _shown(f: Callable[..., Any]) -> str:
    return f"{getattr(f, '__name__', type(f).__name__)}{inspect.signature(f)}"


def _hashable(f: object) -> bool:
    try:
        hash(f)
    except TypeError:
        return False
    return True
