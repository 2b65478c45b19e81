"""A sweep in a real notebook: what its cells define goes to a pool."""

from pathlib import Path

import pytest

import gradbias as gb

DEFINED = """
import jax.numpy as jnp
import gradbias as gb

problem = gb.problems.gaussian(n=6, d=4, key=1, loss="half_mean")
factor = 2.0

class Product(gb.LinearNet):
    d: int

    def shapes(self):
        return {"a": (self.d,), "b": (self.d,)}

    def predictor(self, p):
        return factor * p["a"] * p["b"]

def size(problem, net, params):
    return jnp.sum(params["a"] ** 2)

def build(rate, seed):
    net = Product(4)
    start = gb.init.gaussian(net, 0.4, key=seed)
    return gb.Setup(problem, net, start, gb.Descent(rate, gb.Minibatch(2)), gb.Until(steps=40),
                    record={"loss": gb.observe.loss, "size": size}, key=seed)

over = {"rate": [0.01, 0.02], "seed": range(3)}
"""
SWEPT = """
here = gb.sweep(build, over, chunk=2)
there = gb.sweep(build, over, chunk=2, executor=2)
print(there.identical(here), bool((here["size_end"] > 0).all()))
"""
CHANGED = """
factor = 3.0
print(gb.sweep(build, over, chunk=2, executor=2)["loss_end"].equals(here["loss_end"]))
"""


@pytest.mark.slow
def test_what_cells_define_goes_to_a_pool(tmp_path, monkeypatch):
    """The same bits as in the kernel itself; a cell that is run again counts."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(Path(gb.__file__).parents[1]))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    cells = [nbformat.v4.new_code_cell(source) for source in (DEFINED, SWEPT, CHANGED)]
    book = nbformat.v4.new_notebook(cells=cells)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, timeout=600, resources=where).execute()
    assert [_printed(cell) for cell in book.cells] == ["", "True True\n", "False\n"]


def _printed(cell):
    return "".join(o["text"] for o in cell["outputs"] if o.get("name") == "stdout")
