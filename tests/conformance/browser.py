"""A headless Chromium for tests, driven by its DevTools protocol over two pipes: no port, no network, no library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 60
"""Seconds for one answer: beyond that the browser is broken."""
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip
KEYS = {"Enter": (13, "\r"), "Tab": (9, ""), " ": (32, " ")}


class Browser:
    """One tab. `said` are its console messages and errors, `asked` the addresses that it wanted to load."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back = to, back
        self._buffer = b""
        self._number = 0
        self._session: str | None = None
        self.said: list[str] = []
        self.asked: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Ask the browser; the answer's result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._buffer:
            assert select.select([self._back], [], [], PATIENCE)[0], "the browser does not answer"
            piece = os.read(self._back, 1 << 16)
            assert piece, "the browser has ended"
            self._buffer += piece
        line, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(line)
        self._notice(message.get("method"), message.get("params", {}))
        return message

    def _notice(self, method: str | None, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.asked.append(parameters["request"]["url"])
        elif method in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.said.append(json.dumps(parameters)[:500])

    def open(self, address: str, width: int = 1100, height: int = 800, dark: bool = False) -> None:
        """Load a page in a window of this size, in light or dark colours."""
        self.look(width, height, dark)
        self.call("Page.navigate", url=address)
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def look(self, width: int, height: int = 800, dark: bool = False) -> None:
        """Change the window and the colours."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression, promises waited for."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """A key, down and up; then whatever the page wants to do about it."""
        code, text = KEYS[key]
        event = {"key": key, "windowsVirtualKeyCode": code, "code": "Space" if key == " " else key}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)
        self.settle()

    def write(self, text: str) -> None:
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)
        self.settle()

    def settle(self) -> None:
        """Wait for the next frame."""
        self.ask("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")

    def picture(self, path: Path) -> None:
        """What the window shows, as a PNG file."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """A browser for a while, with a fresh profile directory. It ends with the block, by its own process only."""
    assert CHROMIUM is not None
    down, up = os.pipe(), os.pipe()

    def wire() -> None:  # the browser reads from 3 and writes to 4
        os.dup2(down[0], 103)
        os.dup2(up[1], 104)
        os.dup2(103, 3)
        os.dup2(104, 4)
        os.close(103)
        os.close(104)

    process = subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        close_fds=False, preexec_fn=wire,
    )  # fmt: skip
    os.close(down[0])
    os.close(up[1])
    try:
        one = Browser(down[1], up[0])
        yield one
        one._session = None
        one.call("Browser.close")
        process.wait(PATIENCE)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(down[1])
        os.close(up[0])
