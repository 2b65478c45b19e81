# ruff: noqa: E501
"""Code that was read before is only looked at again: whatever changes in it must be noticed."""

import builtins
import contextlib
import functools
import importlib
import sys
import threading
import types

import jax
import numpy as np
import pytest

from gradbias.numerics import program_keys
from gradbias.numerics.fingerprint import Guards, Walk

HEAD = "import collections, dataclasses, enum, functools, types\nimport jax\nimport jax.numpy as jnp\nimport numpy as np\nimport equinox as eqx\n"
CLASS = "class A:\n c = 2.0\n def g(self): return self.c\n"

# What changes, a definition of f whose values are 2 a, and a change after which they are 3 a.
CHANGES = {
    "a global": ("C = 2.0\ndef f(a): return C * a", "C = 3.0"),
    "a global that is equal but of another type": ("C = 2\ndef f(a): return a * 2 if type(C) is int else a * 3", "C = 2.0"),
    "a global with another sign of zero": ("C = 0.0\ndef f(a): return a * (2.5 - 0.5 * np.copysign(1, C))", "C = -0.0"),
    "a deleted global": ("def abs(a): return 2.0 * a\ndef f(a): return abs(a)", "del abs; import builtins"),
    "a built-in that a global hides": ("def f(a): return float(2.0) * a", "def float(x): return 3.0"),
    "a helper's code": ("def g(a): return 2.0 * a\ndef f(a): return g(a)", "g.__code__ = (lambda a: 3.0 * a).__code__"),
    "a helper's helper": ("def h(a): return 2.0 * a\ndef g(a): return h(a)\ndef f(a): return g(a)", "def h(a): return 3.0 * a"),
    "a recursive helper": ("C = 2.0\ndef f(a, n=1): return f(a, 0) if n else C * a", "C = 3.0"),
    "code": ("def f(a): return 2.0 * a", "f.__code__ = (lambda a: 3.0 * a).__code__"),
    "defaults": ("def f(a, c=2.0): return c * a", "f.__defaults__ = (3.0,)"),
    "keyword defaults": ("def f(a, *, c=2.0): return c * a", "f.__kwdefaults__ = {'c': 3.0}"),
    "keyword defaults in place": ("def f(a, *, c=2.0): return c * a", "f.__kwdefaults__['c'] = 3.0"),
    "a list as default": ("def f(a, c=[2.0]): return c[0] * a", "f.__defaults__[0][0] = 3.0"),
    "a closure": ("def make():\n c = 2.0\n def f(a): return c * a\n def to(x):\n  nonlocal c\n  c = x\n return f, to\nf, to = make()", "to(3.0)"),
    "a cell": ("f = (lambda c: lambda a: c * a)(2.0)", "f.__closure__[0].cell_contents = 3.0"),
    "an array in a closure": ("c = np.full(2, 2.0)\nf = (lambda c: lambda a: c * a)(c)", "c[:] = 3.0"),
    "an attribute of a function": ("def f(a): return f.c * a\nf.c = 2.0", "f.c = 3.0"),
    "an attribute added to a function": ("def f(a): return getattr(f, 'c', 2.0) * a", "f.c = 3.0"),
    "all attributes of a function": ("def f(a): return f.c * a\nf.c = 2.0", "f.__dict__ = {'c': 3.0}"),
    "a class attribute": (CLASS + "def f(a): return A.c * a", "A.c = 3.0"),
    "a class attribute added on a base": ("class B: pass\nclass A(B): pass\ndef f(a): return getattr(A, 'c', 2.0) * a", "B.c = 3.0"),
    "a class attribute that hides one of a base": ("class B: c = 2.0\nclass A(B): pass\ndef f(a): return A.c * a", "A.c = 3.0"),
    "a class attribute under another name": ("class A: c, d = 2.0, None\ndef f(a): return (3.0 if A.c is None else 2.0) * a", "A.c, A.d = A.d, A.c"),
    "bases": ("class B: c = 2.0\nclass D: c = 3.0\nclass A(B): pass\ndef f(a): return A.c * a", "A.__bases__ = (D,)"),
    "a metaclass": ("class M(type): c = 2.0\nclass A(metaclass=M): pass\ndef f(a): return A.c * a", "M.c = 3.0"),
    "another metaclass": ("class M(type): c = 2.0\nclass N(type): c = 3.0\nclass A(metaclass=M): pass\ndef f(a): return A.c * a", "A.__class__ = N"),
    "a method": (CLASS + "def f(a): return A().g() * a", "A.g = lambda self: 3.0"),
    "a method's code": (CLASS + "def f(a): return A().g() * a", "A.g.__code__ = (lambda self: 3.0).__code__"),
    "a property": ("class A:\n @property\n def g(self): return 2.0\nC = A()\ndef f(a): return C.g * a", "A.g = property(lambda self: 3.0)"),
    "a property made anew": ("class A:\n @property\n def g(self): return 2.0\nC = A()\ndef f(a): return C.g * a", "A.__dict__['g'].__init__(lambda self: 3.0)"),
    "a class method": ("class A:\n @classmethod\n def g(cls): return 2.0\ndef f(a): return A.g() * a", "A.__dict__['g'].__init__(lambda cls: 3.0)"),
    "a descriptor": ("class D:\n v = 2.0\n def __get__(self, o, t): return self.v\nclass A: c = D()\ndef f(a): return A.c * a", "A.__dict__['c'].v = 3.0"),
    "an attribute of an instance": (CLASS + "C = A()\ndef f(a): return C.g() * a", "C.c = 3.0"),
    "all attributes of an instance": (CLASS + "C = A()\nC.c = 2.0\ndef f(a): return C.g() * a", "C.__dict__ = {'c': 3.0}"),
    "the class of an instance": (CLASS + "class B:\n def g(self): return 3.0\nC = A()\ndef f(a): return C.g() * a", "C.__class__ = B"),
    "a slot": ("class A: __slots__ = ('c',)\nC = A(); C.c = 2.0\ndef f(a): return C.c * a", "C.c = 3.0"),
    "a slot beside other attributes": ("class A: __slots__ = ('c', '__dict__')\nC = A(); C.c = 2.0; C.d = 1\ndef f(a): return C.c * a", "C.c = 3.0"),
    "the instance of a bound method": (CLASS + " def h(self, a): return self.c * a\nC = A()\nf = C.h", "C.c = 3.0"),
    "a cached property": ("class A:\n def __init__(self): self.v = 2.0\n @functools.cached_property\n def c(self): return self.v\nC = A()\ndef f(a): return C.c * a", "C.__dict__['c'] = 3.0"),
    "a dataclass": ("@dataclasses.dataclass\nclass A: c: float\nC = A(2.0)\ndef f(a): return C.c * a", "C.c = 3.0"),
    "an array in place": ("C = np.full(2, 2.0)\ndef f(a): return C * a", "C += 1.0"),
    "a view whose base changes": ("B = np.full(4, 2.0)\nC = B[::2]\ndef f(a): return C * a", "B[2] = 3.0; B[0] = 3.0"),
    "a read-only view whose base changes": ("B = np.full(2, 2.0)\nC = B.view(); C.flags.writeable = False\ndef f(a): return C * a", "B += 1.0"),
    "the type of an array": ("C = np.full(1, 2.0)\ndef f(a): return (2.0 if C.dtype == float else 3.0) * a", "C.dtype = np.int64"),
    "the shape of an array": ("C = np.full(2, 2.0)\ndef f(a): return (1.0 + C.ndim) * a", "C.shape = 2, 1"),
    "an array of objects": ("C = np.array([None, 2.0], object)\ndef f(a): return C[1] * a", "C[1] = 3.0"),
    "a large array": ("C = np.full(2**16, 2.0)\ndef f(a): return C[7] * a", "C[7] = 3.0"),
    "a structured number": ("C = np.zeros(1, [('c', float)])[0]; C['c'] = 2.0\ndef f(a): return C['c'] * a", "C['c'] = 3.0"),
    "an array of another class": ("C = np.ma.masked_array(np.full(2, 2.0), False)\ndef f(a): return (2.0 + C.mask[0]) * a", "C.mask = True"),
    "a list": ("C = [2.0]\ndef f(a): return C[0] * a", "C[0] = 3.0"),
    "a longer list": ("C = [2.0]\ndef f(a): return (1.0 + len(C)) * a", "C.append(C[0])"),
    "a list of many": ("C = [2.0] * 5000\ndef f(a): return C[9] * a", "C[9] = 3.0"),
    "a list in a tuple": ("C = ([2.0],)\ndef f(a): return C[0][0] * a", "C[0][0] = 3.0"),
    "a list that holds itself": ("C = [2.0]; C.append(C)\ndef f(a): return C[1][0] * a", "C[0] = 3.0"),
    "a dict": ("C = {'c': 2.0}\ndef f(a): return C['c'] * a", "C['c'] = 3.0"),
    "a dict's order": ("C = {2.0: 0, 3.0: 0}\ndef f(a): return next(iter(C)) * a", "C[2.0] = C.pop(2.0)"),
    "a key of a dict": ("C = {2.0: 0}\ndef f(a): return next(iter(C)) * a", "C[3.0] = C.pop(2.0)"),
    "a set": ("C = {2.0}\ndef f(a): return max(C) * a", "C.add(3.0)"),
    "a dict of its own class": ("class D(dict): pass\nC = D(c=2.0)\ndef f(a): return C['c'] * a", "C['c'] = 3.0"),
    "a float of its own class": ("class D(float): pass\nC = D(); C.c = 2.0\ndef f(a): return C.c * a", "C.c = 3.0"),
    "a defaultdict": ("C = collections.defaultdict(float, c=2.0)\ndef f(a): return C['c'] * a", "C['c'] = 3.0"),
    "a deque": ("C = collections.deque([2.0])\ndef f(a): return C[0] * a", "C[0] = 3.0"),
    "a deque of its own class": ("class D(collections.deque): pass\nC = D([2.0])\ndef f(a): return C[0] * a", "C[0] = 3.0"),
    "a UserDict": ("C = collections.UserDict(c=2.0)\ndef f(a): return C['c'] * a", "C['c'] = 3.0"),
    "a namespace": ("C = types.SimpleNamespace(c=2.0)\ndef f(a): return C.c * a", "C.c = 3.0"),
    "a mapping proxy": ("B = {'c': 2.0}\nC = types.MappingProxyType(B)\ndef f(a): return C['c'] * a", "B['c'] = 3.0"),
    "an enum": ("class E(enum.Enum): S = 2.0\ndef f(a): return E.S.value * a", "E.S._value_ = 3.0"),
    "a partial's keywords": ("def g(a, c): return c * a\nf = functools.partial(g, c=2.0)", "f.keywords['c'] = 3.0"),
    "a partial": ("def g(a): return 2.0 * a\ndef h(a): return 3.0 * a\nf = functools.partial(g)", "f.__setstate__((h, (), {}, {}))"),
    "what a decorator wraps": ("C = 2.0\ndef g(a): return C * a\n@functools.wraps(g)\ndef f(a): return g(a)", "C = 3.0"),
    "what a jitted helper calls": ("C = 2.0\n@jax.jit\ndef g(a): return C * a\ndef f(a): return g(a)", "C = 3.0"),
    "a derivative rule": ("C = 2.0\ng = jax.custom_vjp(lambda a: a)\ng.defvjp(lambda a: (a, None), lambda r, d: (C * d,))\ndef f(a): return a * jax.grad(g)(1.0)", "C = 3.0"),
    "a module's attribute": ("m = types.ModuleType('m'); m.c = 2.0\ndef f(a): return m.c * a", "m.c = 3.0"),
    "a module that is passed around": ("m = types.ModuleType('m'); m.c = 2.0\ndef f(a): return getattr(m, 'c') * a", "m.c = 3.0"),
    "a module's class": ("m = types.ModuleType('m'); m.c = 2.0\ndef f(a): return m.c * a",
                         "class Sub(types.ModuleType): c = property(lambda self: 3.0)\nm.__class__ = Sub"),
    "a module's __getattr__": ("m = types.ModuleType('m'); v = [2.0]; m.__getattr__ = lambda n: v[0]\ndef f(a): return m.c * a", "v[0] = 3.0"),
    "a module's attribute that hides its __getattr__": ("m = types.ModuleType('m'); m.__getattr__ = lambda n: 2.0\ndef f(a): return m.c * a", "m.c = 3.0"),
}  # fmt: skip
WALKED = {  # kinds that are not guarded but read again every time
    *("a slot", "a slot beside other attributes", "a deque of its own class", "a UserDict"),
    *("an array of objects", "a large array", "a structured number", "a list of many"),
    *("an array of another class", "a dict of its own class", "a float of its own class"),
    *("a deque", "a defaultdict", "a namespace", "a mapping proxy", "an enum"),
    *("a module's __getattr__", "a module's attribute that hides its __getattr__"),
}


def made(text):
    space = {"__name__": "__main__"}
    exec(compile(HEAD + text, "<cell>", "exec"), space)
    return space


def key_of(f):
    """What programs are keyed by, twice: read, and looked at again."""
    first = program_keys.code_key(f)
    assert program_keys.code_key(f) == first
    return first


def value_of(f):
    with program_keys.keyed_by(f):
        return np.asarray(f(np.ones(1)))


@pytest.mark.filterwarnings("ignore:Setting the:DeprecationWarning")  # of shapes and types
@pytest.mark.parametrize("name", CHANGES)
def test_every_change_is_noticed(name):
    text, change = CHANGES[name]
    space = made(text)
    f, before = space["f"], key_of(space["f"])
    assert np.all(value_of(f) == 2.0)
    assert (id(f) in program_keys._KNOWN) == (name not in WALKED)
    if name not in WALKED:
        assert program_keys._KNOWN[id(f)][2].unchanged() or name == "a cached property"
    exec(change, space)
    assert not np.all(value_of(f) == 2.0)
    assert key_of(f) != before


def test_what_has_not_changed_is_not_read_again(monkeypatch):
    space = made(CLASS + "def g(a): return A().g() * a\ndef f(a): return g(a)")
    program_keys.code_key(space["f"])
    monkeypatch.setattr(program_keys, "Walk", None)
    program_keys.code_key(space["f"])
    space["A"].c = 3.0
    with pytest.raises(TypeError):
        program_keys.code_key(space["f"])


def test_an_equal_value_in_its_place_leaves_the_key_as_it_is():
    space = made("C = [2.5]\ndef f(a): return C[0] * a")
    before = key_of(space["f"])
    exec("C = [float('2.5')]", space)
    assert key_of(space["f"]) == before


def test_an_address_that_is_used_again_is_not_taken_for_the_same_object():
    """What was seen is kept alive, so that nothing else can lie where it was."""
    space = made("C = 2.0 + 0.5\ndef f(a): return C * a")
    keys = {2.5: key_of(space["f"])}
    for c in np.arange(100.0).tolist():
        del space["C"]
        space["C"] = c + 0.25
        keys[c + 0.25] = key_of(space["f"])
    assert len(set(keys.values())) == len(keys) == 101


def test_functions_that_come_and_go_are_not_mixed_up():
    keys = []
    for i in range(3 * program_keys.MOST_KNOWN):
        f = eval(f"lambda a: {i} * a")
        keys.append(program_keys.code_key(f))
        del f
    assert len(set(keys)) == len(keys)
    assert len(program_keys._KNOWN) <= program_keys.MOST_KNOWN


def test_a_built_in_that_is_replaced(monkeypatch):
    monkeypatch.setattr(builtins, "own_scale", 2.0, raising=False)
    space = made("def f(a): return own_scale * a")
    before = key_of(space["f"])
    monkeypatch.setattr(builtins, "own_scale", 3.0)
    assert key_of(space["f"]) != before


def test_a_relative_import(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "__init__.py").touch()
    (tmp_path / "own_package" / "part.py").write_text("K = 2.0\n")
    space = made("__package__ = 'own_package'\ndef f(a):\n from .part import K\n return K * a")
    before = key_of(space["f"])
    sys.modules["own_package.part"].K = 3.0
    assert key_of(space["f"]) != before
    for name in ("own_package.part", "own_package"):
        monkeypatch.delitem(sys.modules, name)


def test_a_module_that_is_reloaded(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "reloaded_helper.py").write_text("K = 2.0\ndef g(a): return K * a\n")
    module = importlib.import_module("reloaded_helper")
    spaces = [
        made("import reloaded_helper\ndef f(a): return reloaded_helper.g(a)"),
        made("from reloaded_helper import g\ndef f(a): return g(a)"),
        made("def f(a):\n import reloaded_helper\n return reloaded_helper.g(a)"),
        made("def f(a):\n from reloaded_helper import g\n return g(a)"),
    ]
    before = [key_of(space["f"]) for space in spaces]
    (tmp_path / "reloaded_helper.py").write_text("K = 3.0\ndef g(a): return K * a  # edited\n")
    importlib.reload(module)
    after = [key_of(space["f"]) for space in spaces]
    assert all(a != b for a, b in zip(before, after, strict=True))
    monkeypatch.delitem(sys.modules, "reloaded_helper")


def test_threads_that_change_what_is_looked_at():
    """Whatever is found while it changes, afterwards the key is that of what is there."""
    space = made("C = {'c': 2.0}\nD = [0]\ndef f(a): return C['c'] * D[0] * a")
    stop = threading.Event()

    def change():
        while not stop.is_set():
            space["C"].update({"c": 3.0, "d": 1})
            space["C"].pop("d")
            space["D"].append(1)
            space["D"].pop()

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            program_keys.code_key(space["f"])
    except RuntimeError as error:  # of the walk: nothing was read
        assert "changed size" in str(error)
    finally:
        stop.set()
        thread.join()
    walk = Walk()
    assert key_of(space["f"]) == {walk.read("", space["f"])}


def test_guards_say_what_they_cannot_guard():
    for value, complete in (([1.0], True), (np.ones(3), True), (np.ones(10**5), False),
                            (list(range(10**4)), False), (jax.numpy.ones(3), True),
                            (slice(3), True), (iter([]), False)):  # fmt: skip
        guards = Guards()
        Walk(guards).read("", value)
        assert guards.complete == complete


class Tangle:
    """Objects of all kinds that refer to each other at random, and random changes of them."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.space = made(
            "def f(a): return [n0, n1, n2, n3, own.n4, own.n5]\nown = types.ModuleType('own')"
        )
        self.nodes = []
        for i in range(12):
            self.nodes.append(self.node())
            (self.space if i % 2 else vars(self.space["own"]))[f"n{i}"] = self.nodes[-1]
        self.space |= {f"n{i}": self.part() for i in range(4)}
        vars(self.space["own"]).update(n4=self.part(), n5=self.part())

    def choice(self, items):
        return items[self.rng.integers(len(items))]

    def part(self):
        """A node that is there, or a plain value."""
        plain = [2.0, 3, True, "x", None, 0.0, -0.0, float(self.rng.integers(3))]
        return (
            self.choice(self.nodes)
            if self.nodes and self.rng.random() < 0.7
            else self.choice(plain)
        )

    def node(self):
        part, more = self.part(), self.part()
        kinds = [
            lambda: [part, more],
            lambda: {"c": part, 1: more},
            lambda: (part, [more]),
            lambda: np.full(3, float(self.rng.integers(3))),
            lambda: (lambda c: lambda a, d=more, *, e=part: c * d * e)(part),
            lambda: eval(f"lambda a: n{self.rng.integers(12)} + own.n{self.rng.integers(6)}", self.space),
            lambda: type("A", (), {"c": part, "g": lambda self: more}),
            lambda: type("B", (type("A", (), {"c": part}),), {})(),
            lambda: functools.partial(max, part, key=more),
            lambda: types.SimpleNamespace(c=part),
            lambda: property(lambda self: part),
            lambda: jax.jit(lambda a: part),
        ]  # fmt: skip
        return self.choice(kinds)()

    def change(self):
        node, part = self.choice(self.nodes), self.part()
        if isinstance(node, list):
            node[self.rng.integers(2)] = part
        elif isinstance(node, dict):
            node[self.choice(["c", 1, "new"])] = part
        elif isinstance(node, tuple):
            node[1][0] = part
        elif isinstance(node, np.ndarray):
            node[self.rng.integers(3)] = self.rng.integers(3)
        elif isinstance(node, types.FunctionType):
            self.change_function(node, part)
        elif isinstance(node, property):
            node.__init__(lambda self: part)
        elif isinstance(node, functools.partial):
            node.keywords["key"] = part
        elif isinstance(node, type) or hasattr(node, "c"):
            owner = (
                self.choice([node, *type(node).__mro__[:-1]]) if hasattr(type(node), "c") else node
            )
            with contextlib.suppress(AttributeError):  # a property without a setter
                setattr(owner, self.choice(["c", "g", "new"]), part)
        else:
            self.choice([self.space, vars(self.space["own"])])[f"n{self.rng.integers(6)}"] = part

    def change_function(self, node, part):
        if node.__closure__ and self.rng.random() < 0.5:
            node.__closure__[0].cell_contents = part
        elif node.__kwdefaults__ and self.rng.random() < 0.5:
            node.__kwdefaults__["e"] = part
        elif self.rng.random() < 0.5:
            node.note = part
        else:
            node.__defaults__ = (part,)


@pytest.mark.filterwarnings("ignore:functools.partial will be:FutureWarning")  # in classes
@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 100), marks=pytest.mark.slow)])
def test_a_second_look_finds_what_a_walk_would_find(seeds):
    looked_at, keys = 0, set()
    for seed in seeds:
        tangle = Tangle(seed)
        f = tangle.space["f"]
        for _ in range(60):
            key = program_keys.code_key(f)
            looked_at += id(f) in program_keys._KNOWN
            keys.add(key)
            assert program_keys.code_key(f) == key == {Walk().read("", f)}
            tangle.change()
    assert len(keys) > 10 * len(seeds)
    assert looked_at > 20 * len(seeds)
