"""A headless Chromium, spoken to through a pipe (the DevTools protocol): for tests of HTML pages.

No port is opened and no package is needed: the browser reads commands from file descriptor 3 and writes
answers and events to 4, JSON texts that end in a zero byte.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE = 600
"""Seconds that an answer may take: enough for the slowest machine, and tests do not hang for ever."""
KEYS = {"Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39, "Tab": 9}


def executable() -> str | None:
    """Return the browser's program, or None if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. Requests that it makes and errors that it meets are noted from the start."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from, self._rest, self._number, self._session = to_browser, from_browser, b"", 0, ""
        self.requests: list[str] = []
        self.errors: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> Any:
        """Send a command and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self._note(answer)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def open(self, path: Path, fragment: str = "") -> None:
        """Load a file and wait until it is there."""
        # By way of another page: to go to a fragment of the same one would load nothing.
        for address in ("about:blank", path.resolve().as_uri() + fragment):
            self.send("Page.navigate", url=address)
            while (event := self._receive()).get("method") != "Page.loadEventFired":
                self._note(event)

    def run(self, script: str) -> Any:
        """Return the value of an expression; of a promise, what it resolves to."""
        found = self.send(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True, userGesture=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key: one of `KEYS`, or a character."""
        code = KEYS.get(key, 0)
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        common = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        self.send("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Type into whatever has the focus."""
        self.send("Input.insertText", text=text)

    def move(self, x: float, y: float) -> None:
        """Move the pointer, in CSS pixels from the upper left corner of the window."""
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def resize(self, width: int, height: int = 900, *, mobile: bool = False) -> None:
        """Give the window a size in CSS pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.send("Emulation.setDeviceMetricsOverride", **metrics)

    def prefer(self, scheme: str) -> None:
        """Let the system prefer "dark" or "light"."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.send("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """Write a PNG of the window, or of the whole page."""
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            assert select.select([self._from], [], [], PATIENCE)[0], "the browser does not answer"
            chunk = os.read(self._from, 1 << 20)
            assert chunk, "the browser has gone"
            self._rest += chunk
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"])


@contextmanager
def browser() -> Iterator[Page]:
    """Start the browser and yield a page of it."""
    program = executable()
    assert program is not None
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run")
        quiet = ("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage")

        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_DUP2, to_read, 3),
            (os.POSIX_SPAWN_DUP2, from_write, 4),
        ]
        words = [program, *options, *quiet, f"--user-data-dir={profile}"]
        process = os.posix_spawn(program, words, os.environ, file_actions=actions, setsid=True)
        os.close(to_read)
        os.close(from_write)
        try:
            yield Page(to_write, from_read)
        finally:
            os.close(to_write)
            os.close(from_read)
            os.killpg(process, signal.SIGKILL)  # it has a dozen processes and nothing to save
            os.waitpid(process, 0)
