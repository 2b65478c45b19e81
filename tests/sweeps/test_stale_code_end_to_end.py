"""Every row of "What is seen" in docs/identity.md, from the user's code to the numbers.

Each row is a cell that defines f and a later one that changes what f refers to. Whatever runs with
f afterwards must be right: in one process, in a pool, and in a notebook.
"""

import re
from pathlib import Path

import numpy as np
import pytest

import gradbias as gb
from gradbias._sweeps.process_pool import own_pool

PAGE = Path(__file__).parents[2] / "docs" / "identity.md"
HEAD = """
import enum, functools, types
import jax, jax.numpy as jnp, numpy as np
import gradbias as gb
"""
# f(a) is 2 a, and 3 a after the change.
ROWS = {
    "code": (
        "def f(a):\n    def g(): return 2.0 * a\n    return g()",
        "def f(a):\n    def g(): return 3.0 * a\n    return g()",
    ),
    "defaults": ("def f(a, c=2.0): return c * a", "f.__defaults__ = (3.0,)"),
    "closures": ("c = [2.0]\nf = (lambda c: lambda a: c[0] * a)(c)", "c[0] = 3.0"),
    "globals": ("C = 2.0\ndef f(a): return C * a", "C = 3.0"),
    "helpers": (
        "def h(a): return 2.0 * a\ndef g(a): return h(a)\ndef f(a): return g(a)",
        "def h(a): return 3.0 * a",
    ),
    "modules of your own": (
        "own = types.ModuleType('own')\nown.C = 2.0\ndef f(a): return own.C * a",
        "own.C = 3.0",
    ),
    "arrays": ("C = np.full(2, 2.0)\ndef f(a): return C * a", "C *= 1.5"),
    "containers": ("C = {'c': ([2.0],)}\ndef f(a): return C['c'][0][0] * a", "C['c'][0][0] = 3.0"),
    "attributes": (
        "class A: pass\nC = A()\nC.c = 2.0\ndef f(a): return C.c * a",
        "C.c = 3.0",
    ),
    "class attributes": ("class A: c = [2.0]\ndef f(a): return A.c[0] * a", "A.c[0] = 3.0"),
    "methods": (
        "class A:\n    def g(self): return 2.0\nC = A()\ndef f(a): return C.g() * a",
        "A.g = lambda self: 3.0",
    ),
    "base classes": (
        "class B: c = 2.0\nclass A(B): pass\nC = A()\ndef f(a): return C.c * a",
        "B.c = 3.0",
    ),
    "enums": (
        "class E(enum.Enum): S = 2.0\ndef f(a): return E.S.value * a",
        "class E(enum.Enum): S = 3.0",
    ),
    "decorators": (
        "C = 2.0\ndef scaled(g):\n    @functools.wraps(g)\n    def wrapped(a): return C * g(a)\n"
        "    return wrapped\n@scaled\ndef f(a): return a",
        "C = 3.0",
    ),
    "partials": (
        "def g(a, c): return c * a\nf = functools.partial(g, c=2.0)",
        "f.keywords['c'] = 3.0",
    ),
    "jax transformations": ("C = 2.0\n@jax.jit\ndef f(a): return C * a", "C = 3.0"),
    "derivative rules": (  # f(a) is a: only its derivative is 2, and 3
        "C = 2.0\nf = jax.custom_vjp(lambda a: 1.0 * a)\n"
        "f.defvjp(lambda a: (1.0 * a, None), lambda _, g: (C * g,))",
        "C = 3.0",
    ),
    "objects of libraries": (
        "C = types.SimpleNamespace(c=2.0)\ndef f(a): return C.c * a",
        "C.c = 3.0",
    ),
}
USED = """
problem = gb.Regression.half_mean(np.eye(2), np.array([1.0, 2.0]))

class Product(gb.LinearNet):
    def shapes(self): return {"a": (2,), "b": (2,)}
    def predictor(self, p): return f(p["a"] * p["b"])
    def symmetries(self): return {"ab": gb.symmetry.neurons({"a": 0}, {"b": 0})}

def slope(problem, net, params):
    return jnp.sum(jax.vjp(f, params["a"])[1](jnp.ones(2))[0])

net = gb.nets.linear(lambda p: f(p["a"]))
plain = gb.nets.linear(lambda p: p["a"])

def setup(net, **start):
    start = {"a": np.array([0.5, 0.6]), **start}
    record = {"params": gb.observe.params, "slope": slope}
    return gb.Setup(problem, net, start, gb.Descent(0.1), gb.Until(steps=2), record, [0, 2])

def swept(**options):
    data = gb.sweep(lambda s: setup(net), {"s": [0]}, progress=False, **options)
    return data["params_a"].values[0, -1]

def simulated(): return gb.simulate(setup(net), progress=False).final["a"]
def observed(): return gb.simulate(setup(plain), progress=False).data["slope"].values[-1] / 2
def checked():
    made = setup(Product(), b=np.array([0.4, 0.3]))
    return gb.check(made, "equilibrium.eq98", progress=False).run.final["a"]
"""


def reference(row, c):
    """Two steps of gradient descent on the net θ = f(a)."""
    forward, a = 1.0 if row == "derivative rules" else c, np.array([0.5, 0.6])
    for _ in range(2):
        a = a - 0.1 * c * (forward * a - np.array([1.0, 2.0])) / 2
    return a


def reference_of_product(row, c):
    """The same on θ = f(a·b)."""
    forward, a, b = 1.0 if row == "derivative rules" else c, np.array([0.5, 0.6]), [0.4, 0.3]
    for _ in range(2):
        slope = 0.1 * c * (forward * a * b - np.array([1.0, 2.0])) / 2
        a, b = a - slope * b, b - slope * a
    return a


def defined(row):
    """What the cells of a notebook define."""
    space = {"__name__": "__main__"}
    exec(compile(HEAD + ROWS[row][0] + USED, "<cell>", "exec"), space)
    return space


def test_the_rows_are_those_of_the_page():
    table = PAGE.read_text().partition("## What is seen")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| (?!what|---)([^|]+?) \|", table, re.MULTILINE)) == set(ROWS)


WAYS = {  # what is called, and a row that is tried every time
    "simulate": ("simulated", "jax transformations"),
    "sweep": ("swept", "class attributes"),
    "observable": ("observed", "helpers"),
    "check": ("checked", None),
}
CASES = [
    pytest.param(way, row, marks=() if row == quick else pytest.mark.slow)
    for way, (_, quick) in WAYS.items()
    for row in ROWS
]


@pytest.mark.parametrize(("way", "row"), CASES)
def test_numbers_are_those_of_what_code_refers_to_now(way, row):
    space, name = defined(row), WAYS[way][0]
    expected = {
        "check": reference_of_product,
        "observable": lambda _, c: c,
    }.get(way, reference)
    np.testing.assert_allclose(space[name](), expected(row, 2.0), rtol=1e-12)
    exec(ROWS[row][1], space)
    np.testing.assert_allclose(space[name](), expected(row, 3.0), rtol=1e-12)


STORED = [pytest.param(row, marks=() if row == "decorators" else pytest.mark.slow) for row in ROWS]


@pytest.mark.parametrize("row", STORED)
def test_a_store_holds_the_numbers_of_its_own_code(row, tmp_path):
    space, again = defined(row), defined(row)
    swept = space["swept"]
    np.testing.assert_allclose(swept(store=tmp_path / "2"), reference(row, 2.0), rtol=1e-12)
    np.testing.assert_array_equal(again["swept"](store=tmp_path / "2"), swept())
    exec(ROWS[row][1], space)
    np.testing.assert_allclose(swept(store=tmp_path / "3"), reference(row, 3.0), rtol=1e-12)
    with pytest.raises(ValueError, match=r"holds another sweep. The first difference: at .* net"):
        swept(store=tmp_path / "2")


@pytest.fixture(scope="module")
def pool():
    with own_pool(1) as workers:
        yield workers


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_workers_of_a_pool_see_what_code_refers_to_now(row, pool):
    space = defined(row)
    swept = space["swept"]
    np.testing.assert_allclose(swept(executor=pool), reference(row, 2.0), rtol=1e-12)
    exec(ROWS[row][1], space)
    np.testing.assert_allclose(swept(executor=pool), reference(row, 3.0), rtol=1e-12)


@pytest.mark.slow
def test_cells_of_a_notebook_that_run_again(tmp_path, monkeypatch):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(Path(gb.__file__).parents[1]))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    shown = "print([*simulated(), *swept(), float(observed())])"
    texts = [HEAD, "f = None\n" + USED]
    for first, second in ROWS.values():
        texts += [first, shown, second, shown]
    book = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, texts)))
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, timeout=600, resources=where).execute()
    printed = ["".join(o["text"] for o in c["outputs"] if o.get("name") == "stdout")
               for c in book.cells if c["source"] == shown]  # fmt: skip
    for i, row in enumerate(ROWS):
        for c, text in zip((2.0, 3.0), printed[2 * i : 2 * i + 2], strict=True):
            found = [float(number) for number in re.findall(r"-?\d+\.\d+", text)]
            a = reference(row, c)
            np.testing.assert_allclose(found, [*a, *a, c], rtol=1e-12, err_msg=row)
