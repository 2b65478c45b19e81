"""A headless Chromium, driven through a pipe: the DevTools protocol, and nothing but Python."""

import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# Chromium talks on descriptors 3 and 4; they may be taken here, so that a new process sets them.
LAUNCH = """import os, sys
spare = [os.dup(int(n)) for n in sys.argv[1:3]]
for here, there in zip(spare, (3, 4)):
    os.dup2(here, there)
    os.set_inheritable(there, True)  # which dup2 leaves as it was where both are the same
os.execvp(sys.argv[3], sys.argv[3:])"""


def executable():
    """The path of a Chromium, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Chromium:
    """One browser with one page."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        options = [
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",  # of which a container has none
            "--disable-dev-shm-usage",
            "--disable-gpu",
            "--no-first-run",
            "--force-device-scale-factor=1",
            "--hide-scrollbars",
            f"--user-data-dir={self._profile.name}",
        ]
        launch = [sys.executable, "-c", LAUNCH, str(theirs_in), str(theirs_out)]
        self._process = subprocess.Popen(
            [*launch, executable(), *options, "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._session = None
            self.call("Browser.close")
            self._process.wait(10)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def call(self, method, /, **params):
        """One command of the protocol, and its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def _read(self, seconds=60.0):
        end = time.monotonic() + seconds
        while b"\0" not in self._rest:
            ready = select.select([self._in], [], [], max(0.0, end - time.monotonic()))[0]
            part = os.read(self._in, 1 << 20) if ready else b""
            if not part:
                raise TimeoutError(f"chromium said nothing for {seconds} s, or has ended")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def run(self, script):
        """The value of a script; promises are waited for."""
        found = self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script, seconds=30.0):
        """Wait for a script to be true; its value."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {script}")
            time.sleep(0.02)
        return value

    def open(self, address):
        """Go to an address; one that differs in its anchor alone loads nothing."""
        self.call("Page.navigate", url=address)

    def size(self, width, height, dark=False):
        """Of the window, and light or dark."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def press(self, key, shift=False):
        """A key, down and up."""
        codes = {"Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
        codes |= {"Home": 36, "End": 35, "Enter": 13}
        named = {"key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
        if key == "Enter":
            named["text"] = "\r"
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, modifiers=8 * shift, **named)

    def drag(self, start, end):
        """With the left button, in two moves."""
        middle = [(a + b) / 2 for a, b in zip(start, end, strict=True)]
        steps = (("mousePressed", start), ("mouseMoved", middle), ("mouseMoved", end))
        for kind, (x, y) in (*steps, ("mouseReleased", end)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1)

    def picture(self, file, whole=True):
        """A screenshot as PNG."""
        import base64

        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        Path(file).write_bytes(base64.b64decode(shot["data"]))
