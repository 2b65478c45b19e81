"""The test session: strict numerics, honest annotations, repeatable examples."""

import collections
import os

# Before jax is imported, and for every process that a test starts. The global x64 flag is off,
# as users have it: on, it would hide every missing float64 context. `make test` repeats the
# smoke set with it on.
os.environ.setdefault("JAX_ENABLE_X64", "0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"
os.environ["MPLBACKEND"] = "agg"

import hypothesis
import jaxtyping
import pytest

import programs

jaxtyping.install_import_hook("gradbias", "_honest_types.after_the_call")

# Examples are a function of the test alone; the first call of a test compiles, so no deadline.
hypothesis.settings.register_profile("gradbias", deadline=None, derandomize=True)
hypothesis.settings.load_profile("gradbias")


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is slow
def pytest_collection_modifyitems(items):
    """Of a test marked one_in(n), one case in n stays quick and the others are slow."""
    seen = collections.Counter()
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is not None and item.get_closest_marker("slow") is None:
            case = (item.path, item.originalname)
            if seen[case] % mark.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[case] += 1


@pytest.fixture(autouse=True, scope="module")
def room_for_programs():
    yield
    programs.make_room()
