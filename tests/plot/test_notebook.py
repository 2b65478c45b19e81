"""Pictures in a real notebook: each call shows exactly one, without a word about pyplot."""

from pathlib import Path

import pytest

import gradbias as gb

MADE = """
import gradbias as gb

problem = gb.problems.gaussian(n=4, d=5, k=2, key=1, loss="half_mean")
net = gb.TwoLayer(5, 2, 6)
record = {"loss": gb.observe.loss, "sv": gb.observe.singular_values("W1")}
setup = gb.Setup(problem, net, gb.init.orthogonal(net, 1e-2), gb.Descent(0.05),
                 gb.Until(steps=2000), record)
study = gb.check(setup, only="spectral.cor3.1")
"""
SHOWN = ("study.plot()", "gb.plot.loss(study.run)", "gb.plot.singular_values(study.run)")


@pytest.mark.slow
def test_a_call_shows_one_picture(tmp_path, monkeypatch):
    """As somebody sees it who knows `gb.plot` and nothing else."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(Path(gb.__file__).parents[1]))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    cells = [nbformat.v4.new_code_cell(source) for source in (MADE, *SHOWN)]
    book = nbformat.v4.new_notebook(cells=cells)
    where = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(book, timeout=600, resources=where).execute()
    for cell in book.cells[1:]:
        data = [output.get("data", {}) for output in cell.outputs]
        assert sum("image/png" in one for one in data) == 1, cell.source
