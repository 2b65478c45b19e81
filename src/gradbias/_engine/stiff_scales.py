"""Which scales of the data make a problem stiff, in words."""

import numpy as np

from ..problems import Problem, Regression

UNEQUAL = 30.0  # features this far apart are worth a word


def unequal_scales(problem: Problem) -> str:
    """A sentence about the features of a problem whose flow is stiff; empty if it has none."""
    if not isinstance(problem, Regression):
        return ""
    s = problem.svd[1]
    s = s[s > 0]
    if not len(s) or s[0] < UNEQUAL * s[-1]:
        return ""
    sizes = np.sqrt(np.mean(np.square(problem.X), axis=0))
    large = int(np.argmax(sizes))
    small = int(np.argmin(np.where(sizes > 0, sizes, np.inf)))
    words = (
        f"The singular values of X go from {s[-1]:.1e} to {s[0]:.1e}, and rates differ by "
        f"{(s[0] / s[-1]) ** 2:.0e}"
    )
    if sizes[large] < UNEQUAL * sizes[small]:
        return (
            words
            + ": features are correlated. Use Descent, or a larger gap or earlier time in Until."
        )
    return words + (
        f": feature {large} has the size {sizes[large]:.1e}, feature {small} {sizes[small]:.1e}. "
        "Standardise the features, use Descent, or a larger gap or earlier time in Until."
    )
