"""The figures of the spectral-bias paper."""

from ._both_layers import BOTH_LAYERS
from ._incremental import INCREMENTAL
from ._label_noise import LABEL_NOISE
from ._noise_only import ALIGNMENT, SINGULAR_VALUES
from ._relu import RELU
from ._saddles import LOSS, VALUES
from ._small_init import SMALL_INIT

FIGURES = (
    SMALL_INIT,
    LABEL_NOISE,
    RELU,
    SINGULAR_VALUES,
    ALIGNMENT,
    BOTH_LAYERS,
    LOSS,
    VALUES,
    INCREMENTAL,
)
