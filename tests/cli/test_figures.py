"""`gradbias figures` and `gradbias report`: what they write, what they return."""

import json

import numpy as np
import pytest
import xarray as xr

from gradbias import figures
from gradbias.cli import _figures as command
from gradbias.cli import main
from gradbias.figures import Check, Figure, _make, _registry


def figure(name, default, slope=1.0):
    return Figure(
        id=name,
        title="a line",
        caption="It rises.",
        compute=lambda s, lab: xr.Dataset({"y": ("x", s.slope * np.arange(3.0))}),
        draw=lambda canvas, data, s: canvas.subplots().plot(data["y"]),
        seen=lambda data, s: [Check("slope", float(data["y"][1]), 0.5, 2.0)],
        quick={"slope": slope},
        default=default,
    )


@pytest.fixture(autouse=True)
def three(monkeypatch):
    """Three figures in the place of the papers'."""
    put = {f.id: f for f in (figure("a.1", True), figure("a.2", False), figure("b.1", True))}
    for module in (_registry, figures):
        monkeypatch.setattr(module, "known", lambda: put)
    monkeypatch.setattr(_make, "one", put.__getitem__)


def made(folder):
    return sorted(path.stem for path in folder.glob("*.svg"))


@pytest.mark.parametrize(
    ("words", "names"),
    [([], ["a.1", "b.1"]), (["--all"], ["a.1", "a.2", "b.1"]), (["a.*"], ["a.1", "a.2"])],
)
def test_which_ones(words, names, tmp_path):
    assert main(["figures", *words, "--out", str(tmp_path), "--jobs", "1"]) == 0
    assert made(tmp_path) == names


def test_what_is_not_seen_is_an_exit_code(tmp_path, capsys):
    words = ["figures", "a.1", "--out", str(tmp_path), "--jobs", "1", "--set", "slope=3"]
    assert main(words) == 1
    assert "NOT SEEN" in capsys.readouterr().out
    about = json.loads((tmp_path / "a.1.json").read_text())
    assert about["command"] == "gradbias figures a.1 --set slope=3"
    assert about["seen"][0]["holds"] is False


def test_formats_and_looks(tmp_path):
    words = ["figures", "a.1", "--out", str(tmp_path), "--jobs", "1", "--style", "slide"]
    assert main([*words, "--format", "png", "--format", "csv"]) == 0
    assert sorted(path.suffix for path in tmp_path.glob("a.1.*")) == [".csv", ".json", ".png"]


def test_the_list(capsys):
    assert main(["figures", "--all", "--list"]) == 0
    out = capsys.readouterr().out
    assert "* a.1" in out
    assert "  a.2" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nothing*"], "no figure matches 'nothing*'; there are a.1, a.2, b.1"),
        (["a.*", "--set", "slope=1"], "--set is for one figure, but 'a.*' matches 2"),
        (["a.1", "--set", "slope"], "--set takes name=value, got 'slope'"),
        (["a.1", "--set", "sloop=1"], "a.1 has no setting ['sloop']"),
        (["--jobs", "-1"], "--jobs must be at least 0, got -1"),
    ],
)
def test_refusals(words, sentence, tmp_path, capsys):
    assert main(["figures", *words, "--out", str(tmp_path)]) == 3
    assert sentence in capsys.readouterr().err


def test_values_of_settings():
    assert command._setting("lr=1e-3") == ("lr", 1e-3)
    assert command._setting("scales=(1, 2)") == ("scales", (1, 2))
    assert command._setting("kind=relu") == ("kind", "relu")


def test_a_report_of_what_is_there(tmp_path, monkeypatch):
    """Nothing is verified or drawn again; the page has what the folder has."""
    from gradbias import report

    monkeypatch.setattr(report, "corrections", lambda: [])
    main(["figures", "a.1", "--out", str(tmp_path / "figures"), "--jobs", "1"])
    (tmp_path / "verify.json").write_text('{"rows": []}')
    assert main(["report", "--out", str(tmp_path / "report.html")]) == 0
    text = (tmp_path / "report.html").read_text()
    assert "figure-a.1" in text
    assert not any(json.loads((tmp_path / "errata.json").read_text()).values())
