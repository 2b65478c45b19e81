"""The package as a whole: what an import costs, what the face shows, who may import whom."""

import ast
import importlib
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import gradbias

PACKAGE = Path(gradbias.__file__).parent
ARCHITECTURE = Path(__file__).parents[1] / "docs" / "architecture.md"
FACES = {"__init__", "__main__"}
HEAVY = ("jax", "jaxtyping", "equinox", "diffrax", "scipy", "xarray", "sklearn", "matplotlib")

# Who may import whom; docs/architecture.md shows the same table, and a test keeps the two equal.
# A room is a folder. Everyone may import `numerics`, and itself.
BLOCKS = {"problems", "nets", "init", "noise", "symmetry", "observe"}
ROOMS = {
    "numerics": set(),
    "_generators": set(),
    "_text": set(),
    "plot": set(),
    "geometry": set(),
    "problems": {"geometry"},
    "nets": {"_generators"},
    "init": {"nets", "problems"},
    "noise": {"nets", "problems"},
    "symmetry": {"_generators", "geometry", "nets", "noise", "problems"},
    "observe": {"geometry", "nets", "problems", "symmetry"},
    "dynamics": {"geometry", "nets", "noise", "problems"},
    "reductions": {"nets", "problems"},
    "_engine": BLOCKS | {"dynamics", "geometry", "reductions"},
    "_sweeps": BLOCKS | {"dynamics", "reductions", "_engine"},
    "_manifold": {"nets", "noise", "problems"},
    "theory": {"_manifold", "geometry", "init", "nets", "noise", "problems", "symmetry"},
    "limit": {"_manifold", "dynamics", "nets", "noise", "observe", "problems", "theory"},
    "theorems": BLOCKS | {"dynamics", "geometry", "theory", "_engine"},
    "_verdicts": BLOCKS
    | {"dynamics", "limit", "theory", "theorems", "plot", "_engine", "_sweeps", "_text"},
    "testing": BLOCKS | {"_generators", "dynamics", "theorems", "_engine", "_verdicts"},
    "figures": BLOCKS
    | {"geometry"}
    | {"dynamics", "limit", "theory", "theorems", "plot", "_engine", "_sweeps", "_text"},
    "report": {"figures", "theorems", "_engine", "_text"},
    "explore": BLOCKS
    | {"dynamics", "geometry", "theory", "theorems", "_engine", "_sweeps", "_verdicts"},
    "cli": {"explore", "figures", "plot", "report", "theorems", "torch"}
    | {"_sweeps", "_text", "_verdicts"},
    "torch": {"_text", "theory"},
}
EXCEPTIONS = {
    "_sweeps/predictions.py": {
        "theorems",
        "_verdicts",
    },  # `sweep(predict=)`, imported if it is asked
}


# What may be taken from behind the face of another room, and why.
PRIVATE = {
    "gradbias.problems._population": "parts of a problem that a reduction writes in another basis",
    "gradbias.problems._regression": "parts of a problem that a reduction writes in another basis",
    "gradbias.problems._mean_loss": "parts of a problem that a reduction writes in another basis",
    "gradbias.problems._batch": "the weighted batch that gradients and reductions agree on",
    "gradbias.theorems._shared_hypotheses": "a verdict asks what a hypothesis asks",
    "gradbias.limit._observe_at_limit": "weak errors measure a diffusion at its limit",
    "gradbias.theory.manifold._on_manifold": "up to which size a Hessian is dense is one number",
    "gradbias.symmetry._check": "the tolerance of a symmetry is one number",
    "gradbias.noise._sampling": "the variance of sample weights is one formula",
}


def python_files() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """The absolute names that a file imports, at the top or inside a function."""
    package = ["gradbias", *path.relative_to(PACKAGE).parts[:-1]]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names |= {f"{module}.{alias.name}" for alias in node.names}
    return names


def modules_after(statement: str) -> set[str]:
    """The modules that a fresh process has loaded after `statement`."""
    code = f"{statement}\nimport sys\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=outside()
    )
    return set(done.stdout.splitlines()[-1].split())


def outside() -> dict[str, str]:
    """The environment of a process that imports the same package as this one."""
    return {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}


def stub_names() -> set[str]:
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    names = {node.target.id for node in tree.body if isinstance(node, ast.AnnAssign)}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 1
            for alias in node.names:
                assert alias.asname == alias.name, f"{alias.name} is not re-exported"
                names.add(alias.name)
    return names


@pytest.mark.parametrize(
    "statement",
    [
        "import gradbias",
        "import gradbias; dir(gradbias)",
        "import gradbias.cli",
        "from gradbias.cli import main; assert main(['--help']) == 0",
        "from gradbias.cli import main; assert main(['example', '--help']) == 0",
        "from gradbias.cli import main; assert main(['explore', '--help']) == 0",
        "from gradbias.cli import main; assert main(['torch', '--help']) == 0",
        "from gradbias.cli import main; assert main(['--version']) == 0",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_used(statement):
    assert modules_after(statement) & {*HEAVY, "numpy", "torch"} == set()


def test_a_sweep_without_a_store_needs_neither_scipy_nor_theorems():
    """They would be a tenth of what a fresh process takes for it."""
    statement = (
        "import gradbias as gb\n"
        "problem, net = gb.problems.gaussian(n=3, d=4, key=0), gb.Rank1(4, 2, 5)\n"
        "def build(seed):\n"
        "    start = gb.init.balanced(net, [1.0, 0, 0, 0], key=seed)\n"
        "    return gb.Setup(problem, net, start, gb.Descent(0.01), gb.Until(steps=5))\n"
        "gb.sweep(build, {'seed': range(2)}, progress=False)"
    )
    unused = {"scipy.linalg", "h5netcdf", "diffrax", "matplotlib", "gradbias.theorems"}
    assert modules_after(statement) & unused == set()


@pytest.mark.parametrize(
    ("before", "after"), [("gc.enable()", True), ("gc.disable()", False), ("gc.freeze()", True)]
)
def test_imports_leave_the_garbage_collector_as_it_was(before, after):
    code = (
        f"import gc; {before}; frozen = gc.get_freeze_count() > 0; import gradbias; gradbias.Net\n"
        f"assert gc.isenabled() is {after}; assert (gc.get_freeze_count() > 0) is frozen"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=outside())


@pytest.mark.smoke
@pytest.mark.parametrize("name", gradbias.__all__)
def test_every_public_name_resolves(name):
    assert getattr(gradbias, name) is getattr(gradbias, name)
    assert name in dir(gradbias)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="attribute simulat"):
        _ = gradbias.simulat


def test_a_public_name_is_listed_once():
    """The stub is the list: what it has, the face has, and nothing else."""
    assert stub_names() == set(gradbias.__all__)


def test_no_module_has_the_name_of_a_public_function():
    """With a lazy face `gb.x` would be the module from the second use on."""
    for init in PACKAGE.rglob("__init__.py"):
        face = importlib.import_module(".".join(init.parent.relative_to(PACKAGE.parent).parts))
        beside = {p.stem for p in init.parent.glob("*.py")}
        beside |= {p.parent.name for p in init.parent.glob("*/__init__.py")}
        public = {name for name in getattr(face, "__all__", ()) if not name.startswith("__")}
        modules = {n for n in beside & public if isinstance(getattr(face, n), types.ModuleType)}
        assert beside & public == modules, init


def rooms_of(path: Path) -> set[str]:
    """The other rooms that a file imports from."""
    own = path.relative_to(PACKAGE).parts[0]
    inside = {name.split(".")[1] for name in imported(path) if name.startswith("gradbias.")}
    return inside - {own, "numerics", "__version__"}


@pytest.mark.parametrize("path", python_files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_import_only_what_they_may(path):
    inside = path.relative_to(PACKAGE)
    if len(inside.parts) == 1:
        assert inside.stem in FACES, "nothing but faces lies in the root"
        return
    allowed = ROOMS[inside.parts[0]] | EXCEPTIONS.get(inside.as_posix(), set())
    assert rooms_of(path) <= allowed


def test_the_page_shows_the_same_table():
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", ARCHITECTURE.read_text(), re.MULTILINE)
    assert {room: set(re.findall(r"`(\w+)`", may)) for room, may in rows} == ROOMS


def test_files_that_the_page_names_are_there():
    named = re.findall(r"`([\w/]+(?:\.py|/))`", ARCHITECTURE.read_text())
    places = (PACKAGE, ARCHITECTURE.parents[1])
    assert [n for n in named if not any((place / n).exists() for place in places)] == []
    assert len(named) > 20


def private_imports() -> set[tuple[str, str]]:
    """What a room takes from behind the face of another: (file, name)."""
    found = set()
    for path in python_files():
        own = path.relative_to(PACKAGE).parts[0]
        for name in imported(path):
            parts = name.split(".")
            other = parts[0] == "gradbias" and own not in parts[1:2]
            if other and any(part.startswith("_") for part in parts[2:-1]):
                found.add((path.relative_to(PACKAGE).as_posix(), name))
    return found


def test_private_imports_across_rooms_have_a_reason():
    unexplained = {
        (path, name)
        for path, name in private_imports()
        if not any(name.startswith(prefix) for prefix in PRIVATE)
    }
    assert unexplained == set()
    assert len(private_imports()) < 20


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("_engine/*.py")), ids=lambda path: path.stem)
def test_the_engine_knows_dynamics_only_by_their_protocol(path):
    """A dynamics from outside must be as good as ours."""
    concrete = {"Descent", "Flow", "Diffusion", "_descent", "_flow", "_diffusion"}
    parts = {part for name in imported(path) for part in name.split(".")[1:]}
    assert not parts & concrete


def test_the_reader_of_imports_sees_every_form(tmp_path, monkeypatch):
    """The rule above is worth what its parser sees."""
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "theory").mkdir()
    source = tmp_path / "theory" / "_x.py"
    source.write_text(
        "import gradbias.dynamics\n"
        "from gradbias import nets\n"
        "from .. import init as i\n"
        "from ..noise import Replay\n"
        "from ..noise._base import z\n"
        "from . import _y\n"
        "def f():\n    from ..observe import loss\n"
    )
    assert imported(source) == {
        "gradbias.dynamics",
        "gradbias.nets",
        "gradbias.init",
        "gradbias.noise.Replay",
        "gradbias.noise._base.z",
        "gradbias.theory._y",
        "gradbias.observe.loss",
    }


def test_the_version_is_the_same_everywhere():
    done = subprocess.run(
        [sys.executable, "-m", "gradbias", "--version"],
        capture_output=True,
        text=True,
        check=True,
        env=outside(),
    )
    assert done.stdout == f"gradbias {gradbias.__version__}\n"
