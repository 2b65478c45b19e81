"""What happens after zero loss, as a dynamics: the motion along the manifold of minimisers."""

from ._dynamics import Limit

__all__ = ["Limit"]
