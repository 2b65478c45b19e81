"""Looking into what jax has traced."""

from collections.abc import Iterator

from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn


def inside(equation: JaxprEqn) -> Iterator[Jaxpr]:
    """The jaxprs in the parameters of an operation: bodies of loops, branches, calls."""
    for value in equation.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield item.jaxpr
            elif isinstance(item, Jaxpr):
                yield item
