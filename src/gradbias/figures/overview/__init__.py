"""What no single paper shows: which minimum, and the map of all biases."""

from ._atlas import ATLAS
from ._which_minimum import WHICH_MINIMUM

FIGURES = (WHICH_MINIMUM, ATLAS)
