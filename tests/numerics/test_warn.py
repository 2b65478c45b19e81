"""Warnings say where the user's own code led to them."""

import inspect

import pytest

from gradbias.numerics.warn import warn_user


def defined_in(module, source):
    space = {"__name__": module, "warn_user": inspect.unwrap(warn_user)}
    exec(compile(source, f"{module}.py", "exec"), space)
    return space


def test_the_first_caller_outside_the_library_is_named():
    library = defined_in(
        "gradbias.inner",
        "def warn():\n    warn_user('said')\ndef public(times):\n"
        "    return public(times - 1) if times else warn()",
    )
    script = defined_in("script", "def run(public, times):\n    public(times)")
    for times in range(3):
        with pytest.warns(UserWarning, match="said") as said:
            script["run"](library["public"], times)
        assert (said[0].filename, said[0].lineno) == ("script.py", 2)
