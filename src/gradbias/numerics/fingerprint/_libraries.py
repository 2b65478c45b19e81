"""Which code is a library's: it changes only with a version. All other code is the user's own.

Libraries are known wherever they lie: the standard library, folders of installed packages, folders
with the record of an installation (`pip install --target`), and what gradbias itself is built on.
A project that is installed in editable mode, or found by PYTHONPATH, is the user's own.
"""

import functools
import importlib.metadata
import os
import re
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

INSTALLED = {"site-packages", "dist-packages"}  # folders that installers write to
NEEDED = {  # found without any record of an installation
    *("gradbias", "jax", "jaxlib", "equinox", "diffrax", "optimistix", "lineax", "matfree"),
    *("jaxtyping", "numpy", "scipy", "ml_dtypes", "opt_einsum", "wadler_lindig", "xarray"),
    *("pandas", "h5netcdf", "h5py", "cloudpickle", "sklearn", "matplotlib", "torch"),
}
OURS = str(Path(__file__).parents[2]) + os.sep  # gradbias


def is_library(value: Any) -> bool:
    """Is this function, class or module code that changes only with a version?"""
    if isinstance(value, types.FunctionType):
        known = file_is_library(value.__code__.co_filename)
        # Code that a library made (a dataclass, a named tuple) lives where it was asked for.
        return module_is_library(value.__globals__.get("__name__")) if known is None else known
    if isinstance(value, types.ModuleType):
        return _module(value)
    if isinstance(value, type) and type(value).__hash__ is type.__hash__:
        return _class_is_library(value)
    return module_is_library(getattr(value, "__module__", None))


@functools.lru_cache(maxsize=1024)
def _class_is_library(kind: type) -> bool:
    return module_is_library(kind.__module__)


def module_is_library(name: Any) -> bool:
    """Is the module of this name a library's? A name that was never imported is the user's."""
    # Under `python -m cProfile script.py`, sys.modules["__main__"] is not the script.
    if not isinstance(name, str) or name == "__main__":
        return False
    module = sys.modules.get(name)
    if module is None:
        return name.startswith("namedtuple_") or _is_dependency(name.partition(".")[0])
    return _module(module)


def _module(module: types.ModuleType) -> bool:
    if module.__name__ == "__main__" or sys.modules.get(module.__name__) is not module:
        return False
    file = getattr(module, "__file__", None)
    if file is None:
        origin = getattr(getattr(module, "__spec__", None), "origin", None)
        return origin in ("built-in", "frozen") or _is_dependency(module.__name__.partition(".")[0])
    return bool(file_is_library(file))


@functools.lru_cache(maxsize=4096)
def file_is_library(filename: str) -> bool | None:
    """Is the code of this file a library's? None if it is not from a file."""
    if filename.startswith("<frozen"):
        return True
    if filename.startswith("<"):
        return None
    path = os.path.abspath(filename)
    if path.startswith((*_standard_folders(), OURS)):
        return True
    if in_installed_folder(path):
        return True
    top, folder = _top_package(path)
    return _is_dependency(top) or top in _recorded(folder)


def in_installed_folder(path: str | Path) -> bool:
    """Does this lie where installers put packages?"""
    return not INSTALLED.isdisjoint(Path(path).parts)


@functools.cache
def _standard_folders() -> tuple[str, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = {sysconfig.get_paths()[name] for name in names} | {os.path.dirname(os.__file__)}
    return tuple(os.path.join(folder, "") for folder in folders)


def _top_package(path: str) -> tuple[str, str]:
    """The outermost package that a file belongs to, and the folder in which that lies."""
    folder, name = os.path.split(path)
    name = name.partition(".")[0]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
    return name, folder


@functools.lru_cache(maxsize=256)
def _recorded(folder: str) -> frozenset[str]:
    """The packages that an installer put into a folder, by the records that it left there."""
    names = set[str]()
    for record in Path(folder).glob("*.dist-info/RECORD"):
        for line in record.read_text(encoding="utf-8", errors="replace").splitlines():
            names.add(line.split(",")[0].partition("/")[0].removesuffix(".py"))
    return frozenset(names)


@functools.lru_cache(maxsize=1024)
def _is_dependency(top: str) -> bool:
    return top in _dependencies()


@functools.cache
def _dependencies() -> frozenset[str]:
    """Top packages of what gradbias needs, and of what that needs."""
    seen = set[str]()
    left = ["gradbias"]
    names = set(NEEDED)
    while left:
        project = re.sub(r"[-_.]+", "-", left.pop()).lower()
        if project in seen:
            continue
        seen.add(project)
        try:
            found = importlib.metadata.distribution(project)
        except importlib.metadata.PackageNotFoundError:
            continue
        names |= set((found.read_text("top_level.txt") or project.replace("-", "_")).split())
        left += [re.split(r"[\s;\[<>=!~(]", line, maxsplit=1)[0] for line in found.requires or ()]
    return frozenset(names)
