# ruff: noqa: E501
"""Every row of the tables in docs/identity.md: what a fingerprint sees, and what it does not."""

import functools
import linecache
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import jax
import numpy as np
import pytest

from gradbias.numerics.fingerprint import Walk, is_library
from gradbias.numerics.fingerprint._libraries import file_is_library

PAGE = Path(__file__).parents[2] / "docs" / "identity.md"
HEAD = "import collections, dataclasses, enum, functools, operator, types\nimport equinox as eqx\nimport jax\nimport numpy as np\n"

# The row of the table, and a definition of f that depends on V.
SEEN = [
    ("code", "f = eval(f'lambda a: {V} * a')"),
    ("code", "exec(f'def f(a):\\n def g(): return {V} * a\\n return g()')"),
    ("code", "exec(f'def f(a):\\n class G: v = {V}\\n return G.v * a')"),
    ("defaults", "def f(a, v=V): return v * a"),
    ("defaults", "def f(a, *, v=V): return v * a"),
    ("closures", "def make(v): return lambda a: v * a\nf = make(V)"),
    ("closures", "def make(m):\n return lambda a: m.v * a\nm = types.ModuleType('m'); m.v = V; f = make(m)"),
    ("globals", "C = V\ndef f(a): return C * a"),
    ("globals", "C = V\ndef f(a):\n def g(): return C * a\n return g()"),
    ("globals", "C = V\ndef f(a): return [C * x for x in a]"),
    ("helpers", "C = V\ndef g(a): return C * a\ndef f(a): return g(a)"),
    ("helpers", "C = V\ndef g(a): return f(a) if a else C\ndef f(a): return g(a - 1)"),
    ("modules of your own", "m = types.ModuleType('m'); m.K = V\ndef f(a): return m.K * a"),
    ("modules of your own", "m = types.ModuleType('m'); m.K = V\ndef f(a): return getattr(m, 'K') * a"),
    ("modules of your own", "m = types.ModuleType('m'); m.n = types.ModuleType('n'); m.n.K = V\n"
     "def f(a): return m.n.K * a"),
    ("arrays", "C = np.full(9, V)\ndef f(a): return C * a"),
    ("arrays", "C = np.float32(V)\ndef f(a): return C * a"),
    ("arrays", "C = np.asarray([2.0], np.float32 if V == 2 else np.float64)\ndef f(a): return C * a"),
    ("arrays", "C = jax.numpy.full(9, V)\ndef f(a): return C * a"),
    ("arrays", "C = np.asarray([None, V], object)\ndef f(a): return C[1] * a"),
    ("arrays", "C = np.ma.masked_array(np.ones(9), [V == 2] * 9)\ndef f(a): return C * a"),
    ("containers", "C = [[V]]\ndef f(a): return C[0][0] * a"),
    ("containers", "C = [0.0] * 99 + [V]\ndef f(a): return C[-1] * a"),
    ("containers", "C = {1: {'v': (V,)}}\ndef f(a): return C[1]['v'][0] * a"),
    ("containers", "C = {V}\ndef f(a): return max(C) * a"),
    ("containers", "def g(a): return V * a\nC = {'g': g}\ndef f(a): return C['g'](a)"),
    ("attributes", "class A: pass\nC = A(); C.v = V\ndef f(a): return C.v * a"),
    ("attributes", "class A: __slots__ = ('v',)\nC = A(); C.v = V\ndef f(a): return C.v * a"),
    ("attributes", "class A(dict): pass\nC = A(); C.v = V\ndef f(a): return C.v * a"),
    ("attributes", "class A(float): pass\nC = A(1); C.v = V\ndef f(a): return C.v * a"),
    ("attributes", "class A(float): pass\nC = A(V)\ndef f(a): return C * a"),
    ("attributes", "class A(collections.deque): pass\nC = A([V])\ndef f(a): return C[0] * a"),
    ("attributes", "@dataclasses.dataclass\nclass A:\n x: int = 0\nC = A(); C.v = V\ndef f(a): return C.v * a"),
    ("attributes", "class A(eqx.Module):\n v: float\nC = A(V)\ndef f(a): return C.v * a"),
    ("attributes", "def f(a): return f.v * a\nf.v = V"),
    ("class attributes", "class A: v = [V]\ndef f(a): return A.v[0] * a"),
    ("class attributes", "class A: v = np.float32(V)\ndef f(a): return A.v * a"),
    ("class attributes", "class A: v = {'a': np.full(9, V)}\ndef f(a): return A.v['a'] * a"),
    ("class attributes", "class A:\n class B: v = V\ndef f(a): return A.B.v * a"),
    ("class attributes", "class D:\n def __init__(s, v): s.v = v\n def __get__(s, o, t=None): return s.v\n"
     "class A: v = D(V)\ndef f(a): return A.v * a"),
    ("methods", "class A:\n def __call__(s, a): return V * a\nf = A()"),
    ("methods", "class A:\n @classmethod\n def g(cls): return V\ndef f(a): return A.g() * a"),
    ("methods", "class A:\n @staticmethod\n def g(): return V\ndef f(a): return A.g() * a"),
    ("methods", "class A:\n @property\n def g(s): return V\nC = A()\ndef f(a): return C.g * a"),
    ("methods", "class A:\n @functools.cached_property\n def g(s): return V\nC = A()\ndef f(a): return C.g * a"),
    ("methods", "class A:\n def g(s, a): return V * a\nf = A().g"),
    ("base classes", "class B: v = V\nclass A(B): pass\ndef f(a): return A.v * a"),
    ("base classes", "class M(type): v = V\nclass A(metaclass=M): pass\ndef f(a): return A.v * a"),
    ("enums", "class E(enum.Enum): S = V\ndef f(a): return E.S.value * a"),
    ("enums", "class E(enum.Enum): S = V\nC = E.S\ndef f(a): return C.value * a"),
    ("enums", "E = enum.IntEnum('E', {'S': int(V)})\nf = functools.partial(operator.mul, E.S)"),
    ("decorators", "def base(a): return a\ndef make(v):\n @functools.wraps(base)\n"
     " def g(a): return v * base(a)\n return g\nf = make(V)"),
    ("decorators", "def base(a): return V * a\n@functools.wraps(base)\ndef f(a): return base(a)"),
    ("decorators", "@functools.lru_cache\ndef f(): return V"),
    ("decorators", "f = functools.singledispatch(lambda a: a)\nf.register(int)(lambda a: V * a)"),
    ("partials", "def g(v, a): return v * a\nf = functools.partial(g, V)"),
    ("partials", "def g(a): return V * a\nf = functools.partial(g)"),
    ("jax transformations", "@jax.jit\ndef f(a): return V * a"),
    ("jax transformations", "@jax.vmap\ndef f(a): return V * a"),
    ("jax transformations", "@eqx.filter_jit\ndef f(a): return V * a"),
    ("jax transformations", "f = jax.checkpoint(jax.grad(lambda a: V * a))"),
    ("derivative rules", "f = jax.custom_vjp(lambda a: a)\nf.defvjp(lambda a: (a, None), lambda r, g: (V * g,))"),
    ("derivative rules", "f = jax.custom_jvp(lambda a: a)\nf.defjvp(lambda p, t: (p[0], V * t[0]))"),
    ("objects of libraries", "f = operator.methodcaller('__mul__', V)"),
    ("objects of libraries", "C = types.SimpleNamespace(v=V)\ndef f(a): return C.v * a"),
    ("objects of libraries", "C = collections.defaultdict(float, {'v': V})\ndef f(a): return C['v'] * a"),
    ("objects of libraries", "f = np.vectorize(lambda a: V * a)"),
    ("objects of libraries", "f = np.poly1d([V, 1.0])"),
]  # fmt: skip

UNSEEN = [
    ("reads a file", "def f(a): return a * len(open('x').read())"),
    ("reads a file", "def f(a): return a * np.load('x.npy')"),
    ("reads a file", "from pathlib import Path\ndef f(a): return a * len(Path('x').read_text())"),
    ("reads environment variables", "import os\ndef f(a): return float(os.environ['X']) * a"),
    ("reads environment variables", "from os import getenv\ndef f(a): return float(getenv('X')) * a"),
    ("looks names up while it runs", "def f(a): return globals()['C'] * a"),
    ("looks names up while it runs", "def f(a): return eval('C') * a"),
    ("looks names up while it runs", "import sys\ndef f(a): return getattr(sys.modules['x'], 'C') * a"),
    ("draws from a random state", "def f(a): return np.random.normal() * a"),
    ("draws from a random state", "import random\ndef f(a): return random.random() * a"),
    ("draws from a random state", "C = np.random.default_rng(0)\ndef f(a): return C.normal() * a"),
    ("reads a clock", "import time\ndef f(a): return time.time() * a"),
    ("reads a clock", "from datetime import datetime\ndef f(a): return datetime.now().second * a"),
    ("holds an unknown object", "import threading\nC = threading.Lock()\ndef f(a): return C.locked() * a"),
    ("holds an unknown object", "C = (i for i in range(3))\ndef f(a): return next(C) * a"),
]  # fmt: skip


def made(text, value=2.0):
    """The f that a cell defines."""
    space = {"__name__": "__main__", "V": value}
    exec(compile(HEAD + text, "<cell>", "exec"), space)
    return space["f"]


def walked(value):
    walk = Walk()
    return walk.read("f", value), walk


def rows(title):
    table = PAGE.read_text().partition(title)[2].partition("\n## ")[0]
    return set(re.findall(r"^\| (?!what|---)([^|]+?) \|", table, re.MULTILINE))


def test_the_tables_of_the_page_are_what_is_tested():
    assert rows("## What is seen") == {row for row, _ in SEEN}
    assert rows("## What is not seen") == {row for row, _ in UNSEEN} | {"calls compiled code"}


@pytest.mark.parametrize(("row", "text"), SEEN, ids=[f"{r} {i}" for i, (r, _) in enumerate(SEEN)])
def test_what_code_refers_to_is_seen(row, text):
    (two, walk), (again, _), (three, _) = (walked(made(text, v)) for v in (2.0, 2.0, 3.0))
    assert not walk.unseen
    assert two == again
    assert two != three


@pytest.mark.parametrize(("row", "text"), UNSEEN, ids=[f"{r} {i}" for i, (r, _) in enumerate(UNSEEN)])  # fmt: skip
def test_what_cannot_be_seen_is_said(row, text):
    _, walk = walked(made(text))
    expected = row if row != "holds an unknown object" else "holds a "
    assert [why.startswith(expected) for why in walk.unseen.values()] == [True]
    assert not walk.functions


def test_compiled_code_of_the_user_is_not_seen(monkeypatch):
    module = types.ModuleType("own_extension")
    monkeypatch.setitem(sys.modules, "own_extension", module)
    monkeypatch.setattr(
        "gradbias.numerics.fingerprint._objects.module_is_library", lambda name: False
    )
    _, walk = walked(__import__("math").sqrt)
    assert list(walk.unseen.values()) == ["math.sqrt is compiled"]


@pytest.mark.parametrize("change", [
    lambda f, C: C.append(1.0),
    lambda f, C: C.__setitem__(0, 3.0),
    lambda f, C: setattr(f, "__defaults__", (3.0,)),
    lambda f, C: setattr(f, "__code__", (lambda a, v=1.0: a).__code__),
    lambda f, C: setattr(f, "note", "x"),
])  # fmt: skip
def test_changes_in_place_are_seen(change):
    f = made("C = [2.0]\ndef f(a, v=2.0): return v * C[0] * a")
    before, _ = walked(f)
    change(f, f.__globals__["C"])
    assert walked(f)[0] != before


def test_where_code_stands_and_which_equal_parts_are_one_object_does_not_matter():
    shared = made("C = [2.0]\nD = C\ndef f(a): return C[0] * D[0] * a")
    apart = made("# moved\n\nC = [2.0]\nD = [2.0]\ndef f(a): return C[0] * D[0] * a")
    assert walked(shared)[1].lines == walked(apart)[1].lines


def test_chains_of_any_depth_and_shared_helpers_end_soon():
    """A thousand functions, each of which refers twice to the next one."""

    def chain(value):
        f = made("C = V\ndef f(a): return C * a", value)
        for _ in range(1000):
            f = (lambda g, h: lambda a: g(a) + h(a))(f, f)
        return walked(f)

    (two, walk), (three, _) = chain(2.0), chain(3.0)
    assert two != three
    assert len(walk.lines) < 3000


def test_functions_in_a_class_that_refers_to_itself_are_not_taken_for_equal_alone():
    """The method alone is the same in both, the class that it calls is not."""
    text = "class A:\n v = V\n def g(s): return A.v\nf = A"
    walks = [walked(made(text, v))[1] for v in (2.0, 3.0)]
    assert not {f.digest for f in walks[0].functions} & {f.digest for f in walks[1].functions}


def test_a_module_imported_inside_a_function_is_followed(tmp_path, monkeypatch):
    (tmp_path / "own_helper.py").write_text("K = 2.0\ndef g(a): return K * a\n")
    monkeypatch.syspath_prepend(tmp_path)
    for text in ("def f(a):\n import own_helper\n return own_helper.g(a)",
                 "def f(a):\n from own_helper import g\n return g(a)"):  # fmt: skip
        before, _ = walked(made(text))
        monkeypatch.setattr(sys.modules["own_helper"], "K", 3.0)
        assert walked(made(text))[0] != before
        monkeypatch.undo()
        monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_helper")


def test_libraries_are_known_wherever_they_lie(tmp_path):
    assert all(map(is_library, (np, np.linalg.norm, jax.vmap, functools.partial, Walk, linecache)))
    assert not is_library(made("def f(a): return a"))
    assert file_is_library("/home/me/.local/lib/python3.11/site-packages/x/y.py")
    assert file_is_library("/usr/lib/python3/dist-packages/x.py")
    for name in ("jax", "installed", "own"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "installed-1.dist-info").mkdir()
    (tmp_path / "installed-1.dist-info" / "RECORD").write_text("installed/__init__.py,,\n")
    found = {
        name: file_is_library(str(tmp_path / name / "x.py")) for name in ("jax", "installed", "own")
    }
    assert found == {"jax": True, "installed": True, "own": False}


def test_classes_are_read_under_a_profiler(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("from gradbias.numerics.fingerprint import Walk\nclass A: v = [2.5]\n"
                      "walk = Walk()\nwalk.read('f', A)\nprint(walk.lines['f.v.0'])\n")  # fmt: skip
    command = [sys.executable, "-m", "cProfile", str(script)]
    out = subprocess.run(command, capture_output=True, text=True, env=os.environ, check=True)
    assert out.stdout.startswith("2.5\n")
