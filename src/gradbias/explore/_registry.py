"""The scenes in the order of the page."""

from ._imbalance import SCENE as IMBALANCE
from ._label_noise import SCENE as LABEL_NOISE
from ._noise_balance import SCENE as NOISE_BALANCE
from ._scene import Scene
from ._separators import SCENE as SEPARATORS
from ._sgd_against_gd import SCENE as SGD_AGAINST_GD
from ._singular_values import SCENE as SINGULAR_VALUES
from ._which_minimum import SCENE as WHICH_MINIMUM

SCENES: tuple[Scene, ...] = (
    WHICH_MINIMUM,
    SGD_AGAINST_GD,
    SINGULAR_VALUES,
    LABEL_NOISE,
    NOISE_BALANCE,
    IMBALANCE,
    SEPARATORS,
)


def find(name: str) -> Scene:
    """A scene by its id.

    Args:
        name: such as "which_minimum".
    """
    for scene in SCENES:
        if scene.id == name:
            return scene
    known = ", ".join(scene.id for scene in SCENES)
    raise ValueError(f"scene must be one of {known}, got {name!r:.60}")
