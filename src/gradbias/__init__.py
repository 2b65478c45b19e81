"""gradbias: which minimum a gradient method picks, how fast and why."""

import lazy_loader

__version__ = "0.1.0"

# Nothing heavy is imported before it is used; `__init__.pyi` says which name is where.
__getattr__, _, _public = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["__version__", *_public]  # pyright: ignore[reportUnsupportedDunderAll]


def __dir__() -> list[str]:
    return sorted(__all__)
