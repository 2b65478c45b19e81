"""The explorer: theorems as scenes with sliders, in the browser of this machine.

Made with Python's own `http.server` and plain JavaScript: marimo, Panel and the like bring a
server, a large bundle and often a CDN, where one page of SVG needs none of it, nor an extra. The
page only draws; every number on it comes from the library.
"""

from ._registry import SCENES, find
from ._scene import Scene, Slider
from ._server import Server

__all__ = ["SCENES", "Scene", "Server", "Slider", "find"]
