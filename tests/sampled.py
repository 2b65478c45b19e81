"""Which theorems `make test` tries: one in twelve. `make verify` tries every one."""

import pytest


def sampled(theorems, one_in=12):
    """Parameters for a test of theorems; those that are left out run with the slow tests."""
    left_out = [theorem.slow or number % one_in > 0 for number, theorem in enumerate(theorems)]
    return [
        pytest.param(theorem, id=theorem.id, marks=[pytest.mark.slow] if slow else [])
        for theorem, slow in zip(theorems, left_out, strict=True)
    ]
