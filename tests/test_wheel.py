"""The wheel as users get it: built, installed without extras into an empty environment, used."""

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KNOWN_TYPES = 0.95  # of what the package shows; raise it when a change makes it larger

SAVE_AND_LOAD = """
import numpy as np
import gradbias as gb

X = np.random.default_rng(0).normal(size=(4, 6))
problem = gb.Regression.half_mean(X, X[:, 0])
net = gb.TwoLayer(d=6, k=1, width=3)
params = gb.init.gaussian(net, std=0.1, key=0)
run = gb.simulate(gb.Setup(problem, net, params, gb.Descent(lr=0.05), until=gb.Until(steps=50)))
run.save("run.nc")
again = gb.load("run.nc")
np.testing.assert_array_equal(again.theta, run.theta)
assert again.status == run.status
assert again.data.equals(run.data)
"""


def first_example() -> str:
    """The first block of Python in the README."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    assert blocks, "README.md has no block of Python"
    return blocks[0]


def command(*words: str | Path, cwd: Path) -> str:
    """Run a command as a user would, away from the sources; its output, or a failure with it."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "JAX_", "PYTEST_"))}
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**clean, "MPLBACKEND": "agg"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def empty_environment(tmp_path_factory) -> Path:
    """The directory of programs of an environment that holds the wheel and what it asks for."""
    where = tmp_path_factory.mktemp("wheel")
    command(
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation"),
        *("--outdir", where, ROOT),
        cwd=where,
    )
    (wheel,) = where.glob("gradbias-*.whl")
    venv.create(where / "empty", with_pip=True)
    programs = where / "empty" / ("Scripts" if os.name == "nt" else "bin")
    # Files are compiled when they are imported: most of them never are.
    command(programs / "python", "-m", "pip", "install", "--no-compile", wheel, cwd=where)
    return programs


@pytest.mark.wheel
def test_the_readme_example_runs(empty_environment, tmp_path):
    command(empty_environment / "python", "-c", first_example(), cwd=tmp_path)


@pytest.mark.wheel
def test_a_run_is_saved_and_loaded(empty_environment, tmp_path):
    command(empty_environment / "python", "-c", SAVE_AND_LOAD, cwd=tmp_path)


@pytest.mark.wheel
def test_the_command_is_installed(empty_environment, tmp_path):
    assert command(empty_environment / "gradbias", "--version", cwd=tmp_path)


@pytest.mark.wheel
def test_it_cites_itself_with_its_version(empty_environment, tmp_path):
    code = "import gradbias as gb; print(gb.__version__); print(gb.cite())"
    version, first, *_ = command(
        empty_environment / "python", "-c", code, cwd=tmp_path
    ).splitlines()
    assert version.startswith("0.") and first == "@software{gradbias,"


@pytest.mark.wheel
def test_types_travel_with_the_wheel_and_torch_does_not(empty_environment, tmp_path):
    shown = command(
        *(empty_environment / "python", "-c"),
        "import importlib.metadata as m; print('\\n'.join(map(str, m.files('gradbias'))));"
        "print(*(d.name for d in m.distributions()), sep='\\n')",
        cwd=tmp_path,
    ).splitlines()
    assert {"gradbias/py.typed", "gradbias/__init__.pyi", "gradbias/CITATION.cff"} <= set(shown)
    assert "torch" not in shown


@pytest.mark.wheel
def test_what_is_public_has_types(empty_environment, tmp_path):
    """As the type checker of somebody who installed the wheel sees it, PyTorch not being there."""
    path = os.pathsep.join([str(empty_environment), os.environ["PATH"]])
    done = subprocess.run(
        [
            *(sys.executable, "-m", "basedpyright", "--verifytypes", "gradbias"),
            *("--ignoreexternal", "--outputjson"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "VIRTUAL_ENV": str(empty_environment.parent)},
        stdout=subprocess.PIPE,
        text=True,
    )
    found = json.loads(done.stdout)["typeCompleteness"]
    unknown = [s["name"] for s in found["symbols"] if s["isExported"] and not s["isTypeKnown"]]
    assert found["exportedSymbolCounts"]["withKnownType"] > 500
    assert found["completenessScore"] >= KNOWN_TYPES, unknown
