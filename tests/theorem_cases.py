"""Theorems as cases of a test; a test of all of them is marked `one_in`, `make verify` is not."""

import pytest


def each_theorem(theorems):
    """Parameters for a test of theorems, with their ids; the slow ones are slow tests."""
    return [
        pytest.param(theorem, id=theorem.id, marks=[pytest.mark.slow] if theorem.slow else [])
        for theorem in theorems
    ]
