"""Geometry of the manifold of minimisers (jax-level)."""
