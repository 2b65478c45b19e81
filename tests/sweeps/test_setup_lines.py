"""What a setup is made of: what changes it, what does not, and which functions are equal."""

import functools
import threading

import jax
import numpy as np
import pytest

import gradbias as gb
from gradbias._sweeps.interning import interned
from gradbias._sweeps.setup_lines import Reader

PROBLEM = gb.problems.gaussian(n=6, d=4, key=1, loss="half_mean")
NET = gb.TwoLayer(4, 1, 3)
PARAMS = gb.init.gaussian(NET, 0.4, key=0)


def setup(function=None, **changes):
    record = None if function is None else {"x": function}
    changes = {"until": gb.Until(steps=4), "record": record, "params": PARAMS} | changes
    return gb.Setup(PROBLEM, NET, dynamics=gb.Descent(0.1), **changes)


def source(text, filename="cell 1", **names):
    """A function defined in a cell."""
    space = {"np": np, "__name__": "cell", **names}
    exec(compile(text, filename, "exec"), space)
    return space["f"]


def difference(one, other):
    """The names of the lines in which two setups differ."""
    a, b = Reader().read(setup(one)), Reader().read(setup(other))
    return sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name))


TEXT = "def f(problem, net, params):\n    return c * params['W1'].sum()\n"


def test_a_cell_may_be_run_again_elsewhere():
    moved = "\n\n# a comment\n" + TEXT
    assert difference(source(TEXT, c=2.0), source(moved, "cell 9", c=2.0)) == []


@pytest.mark.parametrize(
    ("other", "names"),
    [
        (lambda: source(TEXT.replace("sum", "max"), c=2.0), ["record.x.function"]),
        (lambda: source(TEXT.replace("'W1'", "'W2'"), c=2.0), ["record.x.function"]),
        (lambda: source(TEXT, c=3.0), ["record.x.function.c"]),
        (lambda: source(TEXT, c=np.full(9, 2.0)), ["record.x.function.c"]),
    ],
)
def test_code_and_what_it_refers_to_count(other, names):
    assert difference(source(TEXT, c=2.0), other()) == names


def test_helpers_defaults_partials_methods_and_wrappers_count():
    helped = "def f(problem, net, params):\n    return g(params['W1'])\n"

    def helper(text):
        return source(helped, g=source(f"def f(w):\n    return {text}\n"))

    assert difference(helper("w.sum()"), helper("w.sum()")) == []
    assert difference(helper("w.sum()"), helper("w.min()")) == ["record.x.function.g"]

    def defaulted(k):
        return source(f"def f(problem, net, params, k={k}):\n    return k\n")

    assert difference(defaulted(1.0), defaulted(2.0)) == ["record.x.function.default0"]

    def partial(k):
        return functools.partial(source("def f(k, problem, net, params):\n    return k\n"), k)

    assert difference(partial(1.0), partial(2.0)) == ["record.x.function.args.0"]
    jitted = jax.jit(source(TEXT, c=2.0)), jax.jit(source(TEXT, c=3.0))
    assert difference(*jitted) == ["record.x.function.wrapped.c"]


def test_functions_that_call_themselves_end():
    text = "def f(problem, net, params, n=3):\n    return f(0, 0, 0, n - 1) if n else 1.0\n"
    assert difference(source(text), source(text)) == []


def test_equal_functions_become_one_and_others_do_not():
    reader = Reader()
    two, two_again, three = (source(TEXT, c=c) for c in (2.0, 2.0, 3.0))
    first, _ = interned(setup(two), reader)
    given = setup(two_again)
    again, lines = interned(given, reader)
    other, _ = interned(setup(three), reader)
    assert again.record["x"].function is two
    assert other.record["x"].function is three
    assert again.record == first.record
    assert again.problem is PROBLEM
    assert again.params is given.params
    assert lines == Reader().read_shared(again)


def test_what_cannot_be_compared_is_never_taken_for_equal():
    """Two objects of which nothing is known but their type."""
    reader = Reader()
    locks = [threading.Lock() for _ in range(2)]
    text = "def f(problem, net, params):\n    return float(c.locked())\n"
    functions = [source(text, c=lock) for lock in locks]
    setups = [interned(setup(f), reader)[0] for f in functions]
    assert [s.record["x"].function for s in setups] == functions
    assert list(reader.unseen) == ["record.x.function.c.content"]


def test_own_classes_count_by_their_code():
    def net(factor):
        text = (
            "class f(gb.LinearNet):\n"
            "    def shapes(self): return {'a': (4,)}\n"
            f"    def predictor(self, p): return {factor} * p['a']\n"
        )
        return source(text, gb=gb)()

    def lines(factor):
        return Reader().read(setup().replace(net=net(factor), params={"a": np.ones(4)}))

    changed = {n for n in lines(2.0) if lines(2.0)[n] != lines(3.0).get(n)}
    assert changed == {"net.class.predictor"}
    assert lines(2.0) == lines(2.0)


def test_numbers_count_to_their_last_bit():
    def lines(value):
        return Reader().read(setup(params={"W1": PARAMS["W1"] * value, "W2": PARAMS["W2"]}))

    assert lines(1.0) == lines(1.0)
    assert lines(1.0) != lines(1 + 2.3e-16)
    assert Reader().read(setup(until=gb.Until(gap=0.1)))["until.gap"] == "0.1"
    near = np.nextafter(0.1, 1)
    assert Reader().read(setup(until=gb.Until(gap=near)))["until.gap"] == repr(float(near))


def test_equal_parts_become_one_object_and_others_do_not():
    """A problem, a net and a record that `build` makes anew for every point."""

    def made(scale=1.0, steps=4):
        problem = gb.Regression(scale * PROBLEM.X, PROBLEM.Y, 0.5)
        return gb.Setup(problem, gb.TwoLayer(4, 1, 3), PARAMS, gb.Descent(0.1),
                        gb.Until(steps=steps), save_at=[0, 4])  # fmt: skip

    reader = Reader()
    first, again, other = (interned(made(scale), reader)[0] for scale in (1.0, 1.0, 1 + 1e-15))
    for name in ("problem", "net", "dynamics", "until", "record", "save_at"):
        assert getattr(again, name) is getattr(first, name)
    assert other.problem is not first.problem
    assert other.net is first.net
    longer, _ = interned(made(1 + 1e-15, steps=5), reader)
    assert (longer.until.steps, longer.problem is other.problem) == (5, True)
    given = made()
    interned(given, reader)
    assert given.net is not first.net  # what the user holds stays as it was


def test_own_classes_with_equal_code_but_other_constants_stay_apart():
    def net(factor):
        text = (
            "class f(gb.LinearNet):\n"
            f"    factor = {factor}\n"
            "    def shapes(self): return {'a': (4,)}\n"
            "    def predictor(self, p): return self.factor * p['a']\n"
        )
        return setup().replace(net=source(text, gb=gb)(), params={"a": np.ones(4)})

    reader = Reader()
    two, three = (interned(net(factor), reader)[0] for factor in (2.0, 3.0))
    assert (two.net.factor, three.net.factor) == (2.0, 3.0)
    assert Reader().read(two)["net.class.factor"] == "2.0"
    assert interned(net(3.0), reader)[0].net is not three.net  # another class


def test_what_holds_the_same_function_is_read_again():
    """It may read something else by now: a glance is not enough."""
    limit = [1.0]

    def f(problem, net, params):
        return params["W1"].sum() / limit[0]

    reader = Reader()
    first = reader.read(setup(f))
    assert reader.read(setup(f)) == first
    limit[0] = 2.0
    changed = reader.read(setup(f))
    assert [name for name in first if changed[name] != first[name]] == ["record.x.function.limit.0"]


@pytest.mark.parametrize(("one", "other"), [(0.1, 0.1), (0.1, 0.2), (0.1, np.nextafter(0.1, 1))])
def test_numbers_are_told_apart_by_all_their_digits(one, other):
    reader = Reader()
    dynamics = [interned(setup().replace(dynamics=gb.Descent(lr)), reader)[0].dynamics
                for lr in (one, other)]  # fmt: skip
    assert (dynamics[0] is dynamics[1]) == (one == other)
