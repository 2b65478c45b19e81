"""Symmetry generators of nets."""
