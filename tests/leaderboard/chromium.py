"""A headless Chromium, driven by the DevTools protocol over a pipe; needs no package beyond the browser."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-extensions "
    "--disable-background-networking --disable-component-update --hide-scrollbars --remote-debugging-pipe"
)


def find_chromium() -> str | None:
    """The browser's path: from GAPBENCH_CHROMIUM, else by the usual names."""
    named = os.environ.get("GAPBENCH_CHROMIUM")
    return named or next((path for path in map(shutil.which, NAMES) if path), None)


CHROMIUM = find_chromium()
needs_browser = pytest.mark.skipif(
    CHROMIUM is None, reason="needs Chromium (Debian package chromium, or GAPBENCH_CHROMIUM = its path)"
)
ROWS = "[...document.querySelectorAll('#ranking tr[data-proxy]')]"
"""Of the ranking, one per proxy."""


@dataclass
class Page:
    """One tab: what it asked for, what it complained about."""

    write: int
    read: int
    session: str | None = None
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    loaded: int = 0
    _number: int = 0
    _buffer: bytes = b""

    def call(self, method: str, seconds: float = 60, **parameters: Any) -> dict[str, Any]:
        """One command of the protocol; its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        limit = time.monotonic() + seconds
        while True:
            answer = self._next(limit)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def open(self, url: str) -> None:
        """Load a page and wait until it is drawn."""
        before = self.loaded
        self.call("Page.navigate", url=url)
        while self.loaded == before:
            self._next(time.monotonic() + 60)

    def value(self, expression: str) -> Any:
        """The value of an expression in the page, awaited."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def choose(self, id: str, value: str) -> None:
        """Choose an option of a select, or type into a field, as a user does."""
        kind = "input" if self.value(f"document.getElementById({id!r}).tagName") == "INPUT" else "change"
        self.value(
            f"{{const e = document.getElementById({id!r}); e.value = {json.dumps(value)};"
            f" e.dispatchEvent(new Event({kind!r}, {{bubbles: true}})); 1}}"
        )

    def screenshot(self, path: Path, width: int = 1280, dark: bool = False, mobile: bool = False) -> None:
        """The whole page as PNG."""
        self.call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.resize(width, mobile)
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": width, "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def resize(self, width: int, mobile: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=mobile,
        )

    def _next(self, limit: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self.read], [], [], max(0.0, limit - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            piece = os.read(self.read, 1 << 20)
            if not piece:
                raise RuntimeError("the browser ended")
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, given: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(given["exceptionDetails"])[:2000])
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(given["args"])[:2000])
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.complaints.append(given["entry"]["text"])
        elif method == "Page.loadEventFired":
            self.loaded += 1


@contextlib.contextmanager
def browser(path: str) -> Iterator[Page]:
    """A fresh browser with one tab; it ends with the block."""
    to_read, write = os.pipe()
    read, to_write = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:

        def connect() -> None:  # the protocol's pipe is file descriptors 3 (commands) and 4 (answers)
            first, second = os.dup(to_read), os.dup(to_write)
            high = [os.dup(first), os.dup(second)]
            while min(high) < 5:
                high = [os.dup(fd) for fd in high]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        process = subprocess.Popen(
            [path, *FLAGS.split(), f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=connect,
        )
        os.close(to_read)
        os.close(to_write)
        try:
            page = Page(write, read)
            target = page.call("Target.createTarget", url="about:blank")["targetId"]
            page.session = page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                page.call(f"{domain}.enable")
            yield page
            page.session = None
            with contextlib.suppress(Exception):
                page.call("Browser.close", seconds=5)
        finally:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            os.close(write)
            os.close(read)
