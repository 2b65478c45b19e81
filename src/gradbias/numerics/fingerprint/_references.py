"""What a piece of code refers to by name, read from its bytecode."""

import dis
import functools
import types
from typing import Any, NamedTuple

Chain = tuple[str, ...]

_NAMES = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_CELLS = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}


class Import(NamedTuple):
    """An import inside a function; `names` is empty for `import module`."""

    module: str
    level: int
    names: tuple[str, ...]


class References(NamedTuple):
    """The names in a piece of code.

    Attributes:
        globals: names and the attributes that are taken of them, `np.linalg.norm` in parts.
        cells: the same for names of an enclosing function.
        imports: what is imported while it runs.
    """

    globals: frozenset[Chain]
    cells: frozenset[Chain]
    imports: frozenset[Import]


@functools.lru_cache(maxsize=4096)
def references(code: types.CodeType) -> References:
    """The names in a piece of code and in all functions that are defined inside it."""
    found: tuple[set[Chain], set[Chain], set[Import]] = set(), set(), set()
    _read(code, found)
    # A class body may take a name of the enclosing function without loading it.
    bare = {(name,) for name in code.co_freevars} - {chain[:1] for chain in found[1]}
    cells = {chain for chain in found[1] | bare if chain[0] in code.co_freevars}
    return References(frozenset(found[0]), frozenset(cells), frozenset(found[2]))


def _read(code: types.CodeType, found: tuple[set[Chain], set[Chain], set[Import]]) -> None:
    instructions = [i for i in dis.get_instructions(code) if i.opname not in _SILENT]
    for at, instruction in enumerate(instructions):
        if instruction.opname in _NAMES:
            found[0].add(_chain(instructions, at))
        elif instruction.opname in _CELLS:
            found[1].add(_chain(instructions, at))
        elif instruction.opname == "IMPORT_NAME":
            level, names = (instructions[at - back].argval for back in (2, 1))
            found[2].add(Import(instruction.argval, level or 0, tuple(names or ())))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _read(constant, found)


_SILENT = {"CACHE", "EXTENDED_ARG", "PUSH_NULL", "PRECALL", "NOP", "RESUME"}


def _chain(instructions: list[dis.Instruction], at: int) -> Chain:
    names: list[Any] = [instructions[at].argval]
    for following in instructions[at + 1 :]:
        if following.opname not in _ATTRIBUTES:
            break
        names.append(following.argval)
    return tuple(names)
