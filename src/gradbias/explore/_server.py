"""The server of the page: this machine only, GET only, and every refusal is a sentence."""

import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from urllib.parse import parse_qsl, urlsplit

from ..numerics import checks
from ._picture import Json
from ._registry import SCENES, find
from ._scene import Scene, State

HOST = "127.0.0.1"
LAST_PORT = 65_535
LONGEST = 2000  # characters of an address
FILES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/drawing.js": ("drawing.js", "text/javascript"),
}
# Nothing from elsewhere is ever loaded, and no other page may put this one in a frame.
POLICY = "default-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'"


class Server(ThreadingHTTPServer):
    """Serves the explorer to this machine.

    Attributes:
        address: what to open in the browser.
        computing: held while something runs, so that compilations do not get into each other's way.
    """

    daemon_threads: bool = True

    def __init__(self, port: int = 0):
        """Listen, but answer nothing yet; call `serve_forever`.

        Args:
            port: of 127.0.0.1; 0 takes one that is free.
        """
        port = checks.integer("port", port, at_least=0)
        if port > LAST_PORT:
            raise ValueError(f"port must be at most {LAST_PORT}, got {port}")
        super().__init__((HOST, port), Handler)
        self.computing: threading.Lock = threading.Lock()
        self.address: str = f"http://{HOST}:{self.server_address[1]}/"
        self._closing: threading.Event = threading.Event()
        self._warming: threading.Thread | None = None

    def warm_up(self) -> None:
        """Compile in the background what the sliders can ask for, between the user's own calls."""
        self._warming = threading.Thread(target=self._compile, daemon=True)
        self._warming.start()

    @property
    def busy(self) -> bool:
        """Is something compiled or run at this moment?"""
        warming = self._warming is not None and self._warming.is_alive()
        return warming or self.computing.locked()

    def server_close(self) -> None:
        self._closing.set()
        super().server_close()

    def _compile(self) -> None:
        """The first position of every scene comes first, then the others."""
        rounds = max(len(scene.warm) for scene in SCENES)
        for number in range(rounds):
            for scene in SCENES:
                if self._closing.is_set():
                    return
                if number < len(scene.warm):
                    state = scene.state(scene.warm[number])
                    with self.computing:
                        scene.simulated(state)
                        scene.theorems(state)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server_version = "gradbias"
    sys_version = ""
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Files of the page, the list of scenes, and what a scene says."""
        if not self._local():
            self._refuse(HTTPStatus.FORBIDDEN, f"this server answers to {HOST} and localhost only")
            return
        address = urlsplit(self.path)
        if len(self.path) > LONGEST:
            self._refuse(HTTPStatus.REQUEST_URI_TOO_LONG, f"at most {LONGEST} characters")
        elif address.path in FILES:
            self._file(*FILES[address.path])
        elif address.path == "/scenes":
            self._json({"scenes": [scene.about() for scene in SCENES]})
        else:
            self._scene(address.path, address.query)

    def _local(self) -> bool:
        """Is it asked for by our own name? Else another site may have pointed its name here."""
        port = self._server.server_address[1]
        return self.headers.get("Host", "") in {f"{HOST}:{port}", f"localhost:{port}"}

    @property
    def _server(self) -> Server:
        assert isinstance(self.server, Server)
        return self.server

    def _scene(self, path: str, query: str) -> None:
        parts = path.strip("/").split("/")
        if len(parts) != 2 or parts[0] not in ANSWERS:
            self._refuse(HTTPStatus.NOT_FOUND, f"there is nothing at {path!r:.60}")
            return
        try:
            scene = find(parts[1])
            state = scene.state(dict(parse_qsl(query, keep_blank_values=True)))
            self._json(ANSWERS[parts[0]](self._server, scene, state))
        except (ValueError, ArithmeticError, RuntimeError) as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error) or type(error).__name__)

    def _file(self, name: str, kind: str) -> None:
        text = resources.files("gradbias.explore").joinpath(name).read_bytes()
        self._send(HTTPStatus.OK, text, kind)

    def _json(self, content: Json, status: HTTPStatus = HTTPStatus.OK) -> None:
        text = json.dumps(content, allow_nan=False, ensure_ascii=False)
        self._send(status, text.encode(), "application/json")

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        self._json({"error": sentence}, status)

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Slider", "no-store")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a slider makes many requests."""


def _predicted(_: Server, scene: Scene, state: State) -> Json:
    return scene.predicted(state)


def _simulated(server: Server, scene: Scene, state: State) -> Json:
    with server.computing:
        return scene.simulated(state)


def _theorems(server: Server, scene: Scene, state: State) -> Json:
    with server.computing:
        return {"theorems": scene.theorems(state), "code": scene.code(state)}


ANSWERS: dict[str, Callable[[Server, Scene, State], Json]] = {
    "predicted": _predicted,
    "simulated": _simulated,
    "theorems": _theorems,
}
