"""A ratchet: what is loosely typed or named twice may become less, never more."""

import ast
import re
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "gradbias"
FILES = {path.relative_to(SOURCE): ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}
NODES = [node for tree in FILES.values() for node in ast.walk(tree)]

RUN = 6  # lines that stand twice in the same order are a piece that should be one

# Lower these when a change makes them smaller.
ANY_PARAMETERS = 174
ANY_RETURNS = 72
PARALLEL_ASSIGNMENTS = 5  # swaps, and steps that need both old values
NAMED_TWICE = 1  # GradbiasCallback: two frameworks, each with its own base class
REPEATED_RUNS = 14  # runs that overlap count one by one


def is_any(annotation):
    if isinstance(annotation, ast.Attribute):
        return annotation.attr == "Any"
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


def functions():
    return [n for n in NODES if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def parameters(function):
    a = function.args
    extra = [p for p in (a.vararg, a.kwarg) if p is not None]
    return [*a.posonlyargs, *a.args, *a.kwonlyargs, *extra]


def test_parameters_that_take_anything():
    count = sum(is_any(p.annotation) for f in functions() for p in parameters(f))
    assert count <= ANY_PARAMETERS


def test_functions_that_return_anything():
    assert sum(is_any(f.returns) for f in functions()) <= ANY_RETURNS


def test_assignments_are_one_a_line():
    count = sum(
        isinstance(n, ast.Assign)
        and isinstance(n.targets[0], ast.Tuple)
        and isinstance(n.value, ast.Tuple)
        for n in NODES
    )
    assert count <= PARALLEL_ASSIGNMENTS


def test_a_class_name_is_defined_once():
    places = defaultdict(list)
    for path, tree in FILES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path))
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert len(twice) <= NAMED_TWICE, twice


def code_lines(path, tree):
    """Stripped lines without imports, and without those that are punctuation alone."""
    imports = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    lines = enumerate((SOURCE / path).read_text().splitlines(), start=1)
    return [line.strip() for n, line in lines if n not in imports and re.search(r"\w", line)]


def test_no_run_of_lines_stands_twice():
    places = defaultdict(list)
    for path, tree in FILES.items():
        lines = code_lines(path, tree)
        for first in range(len(lines) - RUN + 1):
            places[tuple(lines[first : first + RUN])].append((str(path), lines[first]))
    twice = [where for where in places.values() if len(where) > 1]
    assert len(twice) <= REPEATED_RUNS, twice
