"""The page in a headless Chromium: sliders, points, keys, links, sizes, colours."""

import json
import threading
import time

import numpy as np
import pytest

from explore.chromium import Chromium, executable
from explore.scenes import error
from gradbias.explore import SCENES, Server, find

pytestmark = pytest.mark.skipif(executable() is None, reason="there is no Chromium on this machine")

DONE = (
    "document.querySelector('#numbers td') && document.getElementById('code').textContent"
    " && !document.getElementById('working').textContent"
)
NUMBERS = """Object.fromEntries([...document.querySelectorAll('#numbers tbody tr')].map((row) =>
[row.dataset.key, [row.cells[1].dataset.value, row.cells[2].dataset.value].map(
(text) => text === undefined ? null : JSON.parse(text))]))"""
SLIDE = """(() => { const slider = document.getElementById('control-%s');
slider.value = %r; slider.dispatchEvent(new Event('input')); })()"""
# WCAG's contrast of the text of an element with the nearest ground behind it.
CONTRAST = r"""((selector) => {
const part = (v) => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
const light = (colour) => {
  const [r, g, b] = colour.match(/[\d.]+/g).map(Number).map(part);
  return .2126 * r + .7152 * g + .0722 * b;
};
return [...document.querySelectorAll(selector)].map((e) => {
  let behind = e, ground;
  do {
    ground = getComputedStyle(behind).backgroundColor;
    behind = behind.parentElement;
  } while (behind && /, 0\)$/.test(ground));
  const ink = getComputedStyle(e)[e instanceof SVGElement ? 'fill' : 'color'];
  const [dark, bright] = [light(ink), light(ground)].sort((a, b) => a - b);
  return [(bright + .05) / (dark + .05), e.textContent.slice(0, 30)];
}); })"""


@pytest.fixture(scope="module")
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    with Chromium() as browser:
        yield browser


@pytest.fixture
def page(server, browser):
    """Open a scene in a fresh page; afterwards nothing was wrong and nothing asked elsewhere."""

    def opened(anchor, width=1280, height=900, dark=False):
        browser.size(width, height, dark)
        browser.open("about:blank")
        browser.open(f"{server.address}#{anchor}")
        browser.until(DONE, 120)
        return browser

    browser.events.clear()
    yield opened
    wrong = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
    asked = [event["params"] for event in browser.events if "params" in event]
    addresses = [one["request"]["url"] for one in asked if "request" in one]
    assert [e for e in browser.events if e.get("method") in wrong] == []
    assert len(addresses) > 3
    assert {a for a in addresses if not a.startswith((server.address, "about:", "data:"))} == set()


def shown(browser):
    """Key → predicted and simulated, as the table has them."""
    browser.until(DONE, 60)
    return browser.run(NUMBERS)


def state_of(browser):
    """Scene and state, as the address has them."""
    anchor = browser.run("location.hash.slice(1)")
    name, _, query = anchor.partition("?")
    scene = find(name)
    return scene, scene.state(dict(pair.split("=") for pair in query.split("&")))


def agrees(browser):
    """Is what the table shows what the scene says in the state of the address?"""
    found = shown(browser)
    scene, state = state_of(browser)
    for one in scene.predicted(state)["numbers"]:
        assert found[one["key"]][0] == pytest.approx(one["value"], rel=1e-12), one["key"]
    for one in scene.simulated(state)["numbers"]:
        assert found[one["key"]][1] == pytest.approx(one["value"], rel=1e-6, abs=1e-12), one["key"]
    return state


def costly(scene):
    """Where sliders change a shape, each position is compiled anew: seconds each."""
    marks = [pytest.mark.slow] * (len(scene.warm) > 1)
    return pytest.param(scene, id=scene.id, marks=marks)


@pytest.mark.parametrize("scene", [costly(scene) for scene in SCENES])
def test_every_slider_moves_the_picture_and_its_numbers(page, scene):
    browser = page(scene.id)
    agrees(browser)
    for control in scene.controls:
        before = json.dumps(browser.run("document.getElementById('panels').innerHTML"))
        low, high = (np.log10([control.low, control.high]) if control.log
                     else (control.low, control.high))  # fmt: skip
        now = float(browser.run(f"document.getElementById('control-{control.name}').value"))
        target = now + (0.2 if now < (low + high) / 2 else -0.2) * (high - low)
        if control.whole:
            target = now + (1 if now < high else -1)
        browser.run(SLIDE % (control.name, float(target)))
        state = agrees(browser)
        value = 10**target if control.log else target
        assert state[control.name] == pytest.approx(value, rel=0.01, abs=control.step)
        assert json.dumps(browser.run("document.getElementById('panels').innerHTML")) != before


def test_numbers_of_the_first_scene_against_theory(page):
    """The page's own digits, against the library called here."""
    import gradbias as gb

    browser = page("which_minimum?x1=1.5&x2=-0.5&y=1&start1=0.4&start2=0.6&alpha=0.2")
    found = shown(browser)
    problem = gb.Regression.half_sum([[1.5, -0.5]], [1.0])
    start = np.array([0.4, 0.6])
    for name, factors in (("linear", 1), ("deep", 4), ("rank1", 7)):
        told = gb.theory.balanced_limit(problem, start, factors).theta
        assert error(np.array(found[name][0]), told) < 1e-12
        assert error(np.array(found[name][1]), told) < 1e-8
        assert error(np.array(found[name][1]), 1.03 * told) > 0.02


@pytest.mark.slow  # it asks for times, which a busy machine need not keep
def test_predictions_move_at_once_and_paths_follow(page):
    """Warm: within 100 ms and within 1 s; the best of several, for the machine may be busy."""
    browser = page("which_minimum")
    times = []
    for value in (0.5, 0.6, 0.7, 0.8, 0.9):
        browser.run(SLIDE % ("x1", value))
        browser.until(DONE)
        times.append(
            browser.run(
                "Object.fromEntries(performance.getEntriesByType('resource').slice(-3).map((e) =>"
                " [new URL(e.name).pathname.split('/')[1], e.duration]))"
            )
        )
    assert min(one["predicted"] for one in times) < 100
    assert min(one["simulated"] for one in times) < 1000


def test_points_can_be_dragged(page):
    browser = page("which_minimum")
    centre = """(() => {
    const grip = document.querySelector('.handle[data-moves="start1 start2"] .grip');
    const box = grip.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2]; })()"""
    start = browser.run(centre)
    browser.drag(start, (start[0] + 60, start[1] - 80))
    state = agrees(browser)
    assert state["start1"] > 0.6
    assert state["start2"] > 0.3
    end = browser.run(centre)
    assert abs(end[0] - start[0] - 60) < 4
    assert abs(end[1] - start[1] + 80) < 4


def test_points_and_sliders_move_by_keys(page):
    browser = page("which_minimum")
    browser.run("document.querySelector('.handle[data-moves=\"x1 x2\"]').focus()")
    browser.press("ArrowLeft")
    browser.press("ArrowDown", shift=True)
    state = agrees(browser)
    assert (state["x1"], state["x2"]) == (0.99, 1.9)
    assert browser.run("document.activeElement.dataset.moves") == "x1 x2"
    browser.run("document.getElementById('control-alpha').focus()")
    browser.press("ArrowRight")
    assert agrees(browser)["alpha"] == pytest.approx(0.1 * 10**0.01, rel=1e-3)
    browser.run("document.getElementById('control-y').focus()")
    browser.press("ArrowLeft")
    assert agrees(browser)["y"] == 1.99


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.id)
def test_everything_is_reached_by_tab_and_has_a_name(page, scene):
    browser = page(scene.id)
    reached = []
    name = """(() => { const e = document.activeElement;
    return [e.id || e.dataset.moves || e.getAttribute('href') || e.tagName,
    (e.ariaLabel || e.labels?.[0]?.textContent || e.textContent).trim()]; })()"""
    while True:  # once around, from wherever the browser begins
        browser.press("Tab")
        one = browser.run(name)
        if one in reached:
            break
        if one[0] != "BODY":
            reached.append(one)
    ids = [one[0] for one in reached]
    first = ids.index("skip")
    ids = ids[first:] + ids[:first]
    assert ids[1] == f"#{SCENES[0].id}"
    assert [f"control-{control.name}" for control in scene.controls] == [
        i for i in ids if i.startswith("control-")
    ]
    assert {f"#{other.id}" for other in SCENES} <= set(ids)
    assert {"reset", "link", "copy"} <= set(ids)
    handles = browser.run("document.querySelectorAll('.handle').length")
    assert len([i for i in ids if " " in i]) == handles
    assert all(label for _, label in reached)


def test_a_link_restores_the_state(page):
    browser = page("which_minimum?alpha=0.5&y=1.5")
    told = shown(browser)["diagonal"]
    link = browser.run("location.href")
    browser.run("document.getElementById('reset').click()")
    assert agrees(browser)["alpha"] == 0.1
    browser.open("about:blank")
    browser.open(link)
    browser.until(DONE, 60)
    assert shown(browser)["diagonal"] == told
    browser.run("location.hash = '#label_noise?std=0.7'")
    browser.until("document.title.startsWith('After zero loss')")
    assert agrees(browser)["std"] == 0.7


def test_what_is_wrong_is_a_sentence_on_the_page(page):
    browser = page("which_minimum?alpha=9&gamma=1")
    words = "document.getElementById('error').textContent"
    assert "alpha, gamma" in browser.run(words)
    browser.run(SLIDE % ("x1", 0.01))
    browser.until(f"!{words}")
    browser.run(SLIDE % ("x1", 0.0))
    browser.run(SLIDE % ("x2", 0.0))
    browser.until(f"{words}.includes('data point')")
    assert browser.run("getComputedStyle(document.getElementById('error')).display") == "block"
    browser.events[:] = [  # the browser notes the refusal, too
        e
        for e in browser.events
        if "400" not in e.get("params", {}).get("entry", {}).get("text", "")
    ]


def test_the_newest_position_wins(page):
    browser = page("singular_values")
    for value in np.linspace(0.2, 4, 60).round(2):
        browser.run(SLIDE % ("sigma1", float(value)))
    assert agrees(browser)["sigma1"] == 4
    time.sleep(0.3)
    assert agrees(browser)["sigma1"] == 4


def test_theorems_and_code_follow(page):
    browser = page("noise_balance")
    state = "document.querySelector('[data-id=\"equilibrium.eq14\"] .state').textContent"
    assert "Applies" in browser.run(state)
    browser.run(SLIDE % ("batch", 8.0))
    browser.until(f"{state}.startsWith('Does not apply here: needs: the run is long')")
    assert browser.run("document.querySelectorAll('.theorem .missed').length") == 1
    assert browser.run("document.querySelectorAll('.theorem math').length") > 0
    assert "lr, batch, steps = 0.007, 8," in browser.run(
        "document.getElementById('code').textContent"
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.id)
@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1280, True)])
def test_it_fits_and_can_be_read(page, scene, width, dark):
    browser = page(scene.id, width, 844, dark)
    assert browser.run("document.documentElement.scrollWidth") <= width
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 22, 24)" if dark else "rgb(255, 255, 255)")
    texts = "p, h2, h3, h4, li, label, th, td, button, nav a, svg text, code, output"
    low = [one for one in browser.run(f"{CONTRAST}({json.dumps(texts)})") if one[0] < 4.5]
    assert low == []
    outside = """[...document.querySelectorAll('svg.panel text')].filter((text) => {
    const a = text.getBoundingClientRect(), b = text.closest('svg').getBoundingClientRect();
    const wide = a.left < b.left - 1 || a.right > b.right + 1;
    return wide || a.top < b.top - 1 || a.bottom > b.bottom + 1;
    }).map((text) => text.textContent)"""
    assert browser.run(outside) == []
