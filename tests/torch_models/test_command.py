"""`gradbias torch inspect`: it says what the functions say, and errors are sentences."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import gradbias  # noqa: E402
import gradbias.torch as gbt  # noqa: E402
from gradbias.cli import main  # noqa: E402

torch.set_num_threads(1)

SOURCE = """
import torch
from torch import nn

def parts():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 3))
    batch = torch.randn(64, 4), torch.randint(0, 3, (64,))
    return model, nn.CrossEntropyLoss(), batch

def two():
    model, _, (x, _) = parts()
    return model, x

def four():
    model, loss_fn, batch = parts()
    return model, torch.optim.SGD(model.parameters(), lr=0.1), loss_fn, batch

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.loss_fn, _ = parts()

    def forward(self, x, labels):
        logits = self.net(x)
        return {"loss": self.loss_fn(logits, labels), "logits": logits}

def own():
    _, _, (x, labels) = parts()
    return Own(), {"x": x, "labels": labels}

class Place:
    build = staticmethod(parts)

def labelled():
    model, _, batch = parts()
    return model, batch

def reversed_():
    model, loss_fn, batch = parts()
    return loss_fn, batch, model

def no_loss():
    model, _, batch = parts()
    return model, "mse", batch

def no_optimizer():
    model, loss_fn, batch = parts()
    return model, 0.1, loss_fn, batch

def one():
    return parts()[0]

def many():
    return (*parts(), 1, 2)

rate = 0.1
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module in the folder where the command is called, under a name of its own."""
    name = f"command_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "broken_import.py").write_text("import nowhere_to_be_found", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield name
    sys.modules.pop(name, None)
    sys.modules.pop("broken_import", None)


def said(capsys, *words):
    code = main(["torch", "inspect", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_it_prints_what_inspect_and_advise_say(module, capsys):
    code, out, err = said(capsys, f"{module}:four", "--batch-size", "16")
    assert (code, err) == (0, "")
    model, optimizer, loss_fn, batch = sys.modules[module].four()
    assert repr(gbt.inspect(model, loss_fn, batch)) in out
    advice = str(gbt.advise(model, optimizer, loss_fn, batch, batch_size=16))
    assert advice in out
    assert advice != str(gbt.advise(model, optimizer, loss_fn, batch))


def test_without_an_optimizer_there_is_no_word_of_a_run(module, capsys):
    code, out, _ = said(capsys, f"{module}:parts")
    assert code == 0 and "sharpness" in out and "The run" not in out
    assert said(capsys, f"{module}:Place.build")[1] == out


def test_a_model_alone_shows_its_symmetries_or_its_own_loss(module, capsys):
    code, out, _ = said(capsys, f"{module}:two")
    assert code == 0 and "0 -> 2 (relu): 6 units" in out
    assert "need a loss" in out and "needs lr <" not in out
    code, out, _ = said(capsys, f"{module}:own")
    assert code == 0 and "net.0 -> net.2 (relu)" in out and "needs lr <" in out


def test_the_page_has_the_same_numbers(module, capsys, tmp_path):
    page = tmp_path / "a folder" / "page.html"
    code, out, _ = said(capsys, f"{module}:four", "--out", str(page))
    text = page.read_text(encoding="utf-8")
    assert code == 0 and f"wrote {page}" in out
    sharp = next(line for line in out.splitlines() if line.startswith("sharpness"))
    assert sharp.replace("<", "&lt;") in text
    model, optimizer, loss_fn, batch = sys.modules[module].four()
    table = gbt.advise(model, optimizer, loss_fn, batch)._repr_html_()
    assert table.removeprefix("<table>") in text
    assert text.startswith("<!doctype html>") and "http" not in text.split("</style>")[1]


FORMS = r"must return \(model, batch\), \(model, loss_fn, batch\) or .*, got "


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("MODULE", "must be module:factory, such as train:build, got 'command_"),
        ("MODULE.py:four", "got the file .*: write command_.*:four"),
        ("not_there:four", "there is no module 'not_there'"),
        ("not_there.inner:four", "there is no module 'not_there'"),
        ("broken_import:four", "'broken_import' could not be imported: .*nowhere_to_be_found"),
        ("MODULE:five", "has no 'five': it has parts, two, four"),
        ("MODULE:Place.other", "has no 'Place.other'"),
        ("MODULE:rate", "must be a function without arguments, got float"),
        ("MODULE:one", FORMS + "Sequential"),
        ("MODULE:many", FORMS + r"\(Sequential, CrossEntropyLoss, tuple, int, int\)"),
        ("MODULE:reversed_", FORMS + r"\(CrossEntropyLoss, tuple, Sequential\)"),
        ("MODULE:no_loss", FORMS + r"\(Sequential, str, tuple\)"),
        ("MODULE:no_optimizer", FORMS + r"\(Sequential, float, CrossEntropyLoss, tuple\)"),
        ("MODULE:labelled", r"With labels, give \(model, loss_fn, batch\)"),
    ],
)
def test_errors_are_sentences(module, capsys, place, words):
    code, out, err = said(capsys, place.replace("MODULE", module))
    assert (code, out) == (3, "")
    assert re.search(words, err), err
    assert err.startswith("gradbias: ") and "Traceback" not in err


def test_wrong_options_are_refused(module, capsys, tmp_path):
    code, _, err = said(capsys, f"{module}:parts", "--batch-size", "8")
    assert code == 3 and "--batch-size goes with an optimizer" in err
    code, _, err = said(capsys, f"{module}:four", "--batch-size", "0")
    assert code == 3 and "--batch-size must be at least 1, got 0" in err
    code, _, err = said(capsys, f"{module}:parts", "--out", str(tmp_path))
    assert code == 3 and "--out must be a file" in err


def in_a_new_process(code, folder):
    root = str(Path(gradbias.__file__).parents[1])
    source = f"import sys; sys.path.insert(0, {root!r})\n{textwrap.dedent(code)}"
    return subprocess.run(
        [sys.executable, "-c", source], cwd=folder, capture_output=True, text=True
    )


def test_torch_that_is_not_installed_is_said(tmp_path):
    code = """
    import importlib.util
    real = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *rest: None if name == "torch" else real(name, *rest)
    from gradbias.cli import main
    raise SystemExit(main(["torch", "inspect", "train:build"]))
    """
    done = in_a_new_process(code, tmp_path)
    assert done.returncode == 3 and "gradbias torch needs PyTorch: install" in done.stderr


def test_jax_is_not_imported(module, tmp_path):
    code = f"""
    from gradbias.cli import main
    assert "torch" not in sys.modules
    assert main(["torch", "inspect", "{module}:parts"]) == 0
    assert "jax" not in sys.modules and "torch" in sys.modules
    """
    done = in_a_new_process(code, tmp_path)
    assert done.returncode == 0, done.stderr
