"""Objects as bytes for another process, code included."""

import hashlib
import io
import pickle
import types
from typing import Any

import cloudpickle
import jax

from ..numerics.fingerprint import is_importable

Code = dict[str, bytes]
Packed = dict[int, tuple[Any, str, bytes]]  # by identity: the object, its name, its bytes

_unpacked: dict[str, Any] = {}


class _Pickler(cloudpickle.Pickler):
    """Takes functions with derivative rules of their own too, which jax does not unpickle."""

    def reducer_override(self, obj: object) -> Any:
        if type(obj) in (jax.custom_jvp, jax.custom_vjp):
            return object.__new__, (type(obj),), vars(obj)
        return super().reducer_override(obj)


class _Packer(_Pickler):
    """Puts functions and classes that cannot be imported elsewhere beside the objects.

    A process unpacks each of them once: jax compiles again for every new function object.
    """

    def __init__(self, file: io.BytesIO, packed: Packed):
        super().__init__(file)
        self.code: Code = {}
        self.packed = packed

    def persistent_id(self, obj: object) -> str | None:
        if not isinstance(obj, types.FunctionType | type) or is_importable(obj):
            return None
        if id(obj) not in self.packed:
            file = io.BytesIO()
            _Pickler(file).dump(obj)
            content = file.getvalue()
            self.packed[id(obj)] = obj, hashlib.sha256(content).hexdigest(), content
        _, name, self.code[name] = self.packed[id(obj)]
        return name


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, code: Code):
        super().__init__(file)
        self.code = code

    def persistent_load(self, pid: str) -> Any:
        if pid not in _unpacked:
            _unpacked[pid] = pickle.loads(self.code[pid])
        return _unpacked[pid]


def pack(value: object, packed: Packed | None = None) -> bytes:
    """A value and all code it needs that the other side cannot import.

    Args:
        value: what is to travel.
        packed: code that travelled before; for one sweep, because a cell that is run again may
            change what the same function refers to.
    """
    file = io.BytesIO()
    packer = _Packer(file, {} if packed is None else packed)
    packer.dump(value)
    return pickle.dumps((file.getvalue(), packer.code))


def unpack(content: bytes) -> Any:
    """What `pack` packed."""
    inner, code = pickle.loads(content)
    return _Unpacker(io.BytesIO(inner), code).load()
