"""Objects as the call that makes them, with values instead of types of arrays."""

import inspect

import numpy as np

SHORT = 4  # arrays below this length are shown as they are


def as_call(value: object) -> str:
    """`Descent(lr=0.02, noise=Minibatch(batch_size=2))`: fields that are not at their defaults."""
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(type(value)).parameters.items()
    }
    # Where a method has the name of an argument, the field is called `…_name`.
    fields = {name.removesuffix("_name"): field for name, field in vars(value).items()}
    shown = [
        f"{name}={in_words(field)}"
        for name, field in fields.items()
        if name in defaults and field is not None and not _same(field, defaults[name])
    ]
    return f"{type(value).__name__}({', '.join(shown)})"


def in_words(value: object) -> str:
    """A field: numbers as numbers, longer arrays by their shape, functions by their name."""
    shape = getattr(value, "shape", None)
    if isinstance(value, np.ndarray) and value.ndim == 1 and len(value) < SHORT:
        return f"({', '.join(map(in_words, value))})"
    if isinstance(value, np.ndarray | np.generic | float) and not shape:
        return f"{value:g}" if np.issubdtype(np.asarray(value).dtype, np.floating) else str(value)
    if shape is not None:
        return f"array {'×'.join(map(str, shape))}"
    if inspect.isroutine(value):
        return value.__name__
    return repr(value)


def _same(value: object, default: object) -> bool:
    """Is a field at its default? An array of one number is that number."""
    if value is default:
        return True
    if isinstance(value, np.ndarray) and value.ndim < 2:
        value = value.item() if value.ndim == 0 else tuple(value.tolist())
    simple = (bool, int, float, str, tuple)
    return isinstance(value, simple) and isinstance(default, simple) and value == default
