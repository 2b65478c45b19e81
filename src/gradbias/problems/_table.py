"""Data from tables: CSV files and data frames."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from ..numerics.names import suggestion

if TYPE_CHECKING:
    import pandas

Table: TypeAlias = "pandas.DataFrame"
Loss: TypeAlias = Literal["mean", "half_mean", "half_sum"]
LOSSES: tuple[str, ...] = get_args(Loss)


def columns_of(
    table: "Table | str | os.PathLike[str]",
    target: str | Sequence[str],
    features: Sequence[str] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, d) and labels, (n,) where the target is one name; sentences for what is wrong."""
    import pandas as pd

    frame = table if isinstance(table, pd.DataFrame) else _read(table)
    several = not isinstance(target, str)
    targets = list(target) if several else [target]
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"table must have distinct columns, got {twice!r} twice")
    if isinstance(features, str):
        raise ValueError(f"features must be a list of columns, got {features!r}")
    chosen = [n for n in names if n not in targets] if features is None else list(features)
    frame = frame.set_axis(names, axis=1)
    for argument, some in (("target", targets), ("features", chosen)):
        if not some:
            raise ValueError(f"{argument} must name a column at least; the table has {names}")
        for name in some:
            if name not in names:
                near = suggestion(str(name), names) or f"; there are {', '.join(names)}"
                raise ValueError(f"{argument}: the table has no column {name!r}{near}")
    both = [name for name in chosen if name in targets]
    if both:
        raise ValueError(f"features must not hold the target, got {both[0]!r} in both")
    X = np.stack([_numbers(frame, name) for name in chosen], axis=1)
    Y = np.stack([_numbers(frame, name) for name in targets], axis=1)
    return X, Y if several else Y[:, 0]


def _read(path: str | os.PathLike[str]) -> "pandas.DataFrame":
    import pandas as pd

    try:
        return pd.read_csv(path)
    except FileNotFoundError:
        raise ValueError(f"table: there is no file {os.fspath(path)!r}") from None
    except (TypeError, ValueError, OSError) as error:
        raise ValueError(
            f"table must be a CSV file or a pandas.DataFrame, got {path!r:.80}: {error}"
        ) from error


def _numbers(frame: "pandas.DataFrame", name: str) -> np.ndarray:
    """A column of finite numbers; the first cell that is none is named."""
    import pandas as pd

    column = frame[name]
    numbers = np.asarray(pd.to_numeric(column, errors="coerce"), np.float64)
    bad = np.flatnonzero(~np.isfinite(numbers))
    if len(bad):
        row = int(bad[0])
        count = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        raise ValueError(
            f"table: column {name!r} must hold finite numbers, got {column.iloc[row]!r} in row "
            f"{row}{count}: drop or fill these rows, leave the column out of features=, or code "
            "words as numbers (pandas.get_dummies)"
        )
    return numbers
