"""The fingerprint: what an object is made of, and all that the user's code in it refers to.

Stores of sweeps and compiled programs are keyed by it. See docs/identity.md for what it sees.
"""

from ._guards import Guards
from ._imported import changed_parts, imported_parts, is_importable
from ._libraries import in_installed_folder, is_library
from ._walk import Lines, UserFunction, Walk

__all__ = [
    "Guards",
    "Lines",
    "UserFunction",
    "Walk",
    "changed_parts",
    "imported_parts",
    "in_installed_folder",
    "is_importable",
    "is_library",
]
