"""What happens after zero loss, as a dynamics: the motion along the manifold of minimisers."""

from ._limit import Limit

__all__ = ["Limit"]
