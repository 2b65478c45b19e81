"""Pure mathematics: which minimum, how fast and why, computed without running anything.

NumPy in, NumPy out. Nothing here knows the dynamics, so that a comparison of the two means
something. What takes a problem answers for that problem's own weight and time; what takes none
is in the convention that its docstring names. Everything is imported when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
