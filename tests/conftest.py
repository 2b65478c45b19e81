"""The test session: strict numerics, honest annotations, repeatable examples."""

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

jaxtyping.install_import_hook("gradbias", "_honest_types.after_the_call")

# Examples are a function of the test alone; the first call of a test compiles, so no deadline.
hypothesis.settings.register_profile("gradbias", deadline=None, derandomize=True)
hypothesis.settings.load_profile("gradbias")
