"""The pictures of docs/explore.md: `PYTHONPATH=tests python -m explore.pictures`."""

import threading
from pathlib import Path

from PIL import Image

from explore.chromium import Chromium
from gradbias.explore import SCENES, Server

OUT = Path(__file__).parents[2] / "docs" / "pictures"
COLOURS = 200
READY = (
    "document.querySelector('#numbers td') && document.getElementById('code').textContent"
    " && !document.getElementById('working').textContent"
)


def main():
    """One PNG for each scene: sentence, picture and sliders."""
    with Server() as server, Chromium() as browser:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.size(1240, 900)
        for scene in SCENES:
            browser.open("about:blank")
            browser.open(f"{server.address}#{scene.id}")
            browser.until(READY, 120)
            bottom = browser.run("document.getElementById('key').getBoundingClientRect().bottom")
            sliders = browser.run(
                "document.querySelector('.buttons').getBoundingClientRect().bottom"
            )
            browser.size(1240, int(max(bottom, sliders)) + 12)
            file = OUT / f"explore.{scene.id}.png"
            browser.picture(file, whole=False)
            with Image.open(file) as picture:  # a third of the size, and nobody sees it
                small = picture.convert("RGB").quantize(COLOURS)
            small.save(file, optimize=True)
            browser.size(1240, 900)
        server.shutdown()


if __name__ == "__main__":
    main()
