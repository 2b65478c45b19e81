"""What every figure owes its reader: words beside it, and on three keys what must be seen."""

import pytest

from gradbias.figures import find, make

FIGURES = {figure.id: figure for figure in find()}


@pytest.mark.parametrize("name", FIGURES)
def test_it_says_what_it_shows(name):
    figure = FIGURES[name]
    assert 10 < len(figure.title) <= 60
    assert 60 <= len(figure.caption.split()) <= 120, len(figure.caption.split())
    assert figure.caption.count("$") % 2 == 0
    assert set(figure.full) <= set(figure.quick)
    figure.settings(full=True)


@pytest.mark.slow
@pytest.mark.parametrize("key", (0, 1, 2))
@pytest.mark.parametrize("name", FIGURES)
def test_it_shows_what_it_must_on_three_keys(name, key, tmp_path):
    made = make(FIGURES[name], key=key)
    assert made.holds, made
    made.save(tmp_path, "png")
    if made.figure.frames is not None and key == 0:
        assert made.save(tmp_path, "gif").stat().st_size > 10_000
