"""gradbias: which minimum a gradient method picks, how fast and why."""

import lazy_loader

# Nothing heavy is imported before it is used; `__init__.pyi` says which name is where.
_attribute, _, _public = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["__version__", *_public]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name != "__version__":
        return _attribute(name)
    import importlib.metadata

    try:
        version = importlib.metadata.version("gradbias")
    except importlib.metadata.PackageNotFoundError:  # a folder on the path, never installed
        version = "0+unknown"
    globals()[name] = version  # read once: a second look does not come here
    return version


def __dir__() -> list[str]:
    return sorted(__all__)
