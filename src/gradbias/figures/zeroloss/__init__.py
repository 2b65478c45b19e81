"""The figures of the after-zero-loss paper."""

from ._batches import BATCHES
from ._cloud import CLOUD
from ._drift import DRIFT
from ._isotropic import ISOTROPIC
from ._lr_convergence import LR_CONVERGENCE
from ._motor import MOTOR
from ._phase_diagram import PHASE_DIAGRAM
from ._recovery import RECOVERY
from ._taylor import TAYLOR
from ._two_phases import TWO_PHASES

FIGURES = (
    TAYLOR,
    CLOUD,
    DRIFT,
    TWO_PHASES,
    LR_CONVERGENCE,
    MOTOR,
    ISOTROPIC,
    RECOVERY,
    BATCHES,
    PHASE_DIAGRAM,
)
