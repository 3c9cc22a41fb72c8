"""A very small WebDriver client (W3C WebDriver over HTTP): enough to click, type and look.

chromedriver speaks plain HTTP and JSON, so no library is needed. What the page logs and what it
asks the network for are read from the driver's logs.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from types import TracebackType
from typing import Any

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key under which the protocol returns elements (W3C WebDriver, section 12)."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing() -> str | None:
    """Why no browser can be driven here, or None."""
    if not any(map(shutil.which, BROWSERS)):
        return "no Chromium on the PATH (Debian: apt-get install chromium)"
    if not shutil.which("chromedriver"):
        return "no chromedriver on the PATH (Debian: apt-get install chromium-driver)"
    return None


class Element:
    """An element of the page."""

    def __init__(self, browser: Browser, identifier: str) -> None:
        self._browser = browser
        self._path = f"/element/{identifier}"
        self.reference = {ELEMENT: identifier}

    def click(self) -> None:
        """Click in the middle of the element, brought to where nothing lies over it."""
        self._browser.run("arguments[0].scrollIntoView({block: 'center'})", self.reference)
        self._browser.call("POST", f"{self._path}/click", {})

    def type(self, text: str) -> None:
        self._browser.call("POST", f"{self._path}/value", {"text": text})

    @property
    def text(self) -> str:
        return str(self._browser.call("GET", f"{self._path}/text"))

    def attribute(self, name: str) -> str | None:
        value: str | None = self._browser.call("GET", f"{self._path}/attribute/{name}")
        return value

    @property
    def displayed(self) -> bool:
        return bool(self._browser.call("GET", f"{self._path}/displayed"))


class Browser:
    """A headless Chromium with a profile of its own, closed at the end of `with`."""

    def __init__(self, width: int = 1200, height: int = 900) -> None:
        self._size = (width, height)

    def __enter__(self) -> Browser:
        self._profile = tempfile.mkdtemp(prefix="gemmgrid-browser-")
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            self._base = f"http://127.0.0.1:{self._port()}"
            self._session = ""
            arguments = [
                *ARGUMENTS,
                f"--user-data-dir={self._profile}",
                "--window-size={},{}".format(*self._size),
            ]
            options = {"args": arguments, "binary": next(filter(None, map(shutil.which, BROWSERS)))}
            wanted = {
                "browserName": "chrome",
                "goog:chromeOptions": options,
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }
            session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
            self._session = f"/session/{session['sessionId']}"
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.call("DELETE", "")
        finally:
            self._stop()

    def _stop(self) -> None:
        self._driver.terminate()
        self._driver.wait(timeout=20)
        shutil.rmtree(self._profile, ignore_errors=True)

    def _port(self) -> int:
        assert self._driver.stdout
        for line in self._driver.stdout:
            found = re.search(r"started successfully on port (\d+)", line)
            if found:
                return int(found[1])
        raise RuntimeError("chromedriver ended before it listened")

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One command of the protocol; RuntimeError with the driver's words where it fails."""
        session = "" if path == "/session" else self._session
        request = urllib.request.Request(
            self._base + session + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{path}: {json.load(error)['value']['message']}") from error

    def open(self, url: str) -> None:
        self.call("POST", "/url", {"url": url})

    def find(self, selector: str) -> Element:
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        return Element(self, found[ELEMENT])

    def find_all(self, selector: str) -> list[Element]:
        found = self.call("POST", "/elements", {"using": "css selector", "value": selector})
        return [Element(self, entry[ELEMENT]) for entry in found]

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that the script returns."""
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait_for(self, expected: Callable[[], Any], limit_s: float = 60.0) -> None:
        """Wait until `expected` holds: the page answers an event a little after it was sent."""
        end = time.monotonic() + limit_s
        while not expected():
            assert time.monotonic() < end, f"still not after {limit_s:.0f} s"
            time.sleep(0.02)

    def press(self, *keys: str) -> None:
        """Press and let go keys one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        keyboard = {"type": "key", "id": "keyboard", "actions": actions}
        self.call("POST", "/actions", {"actions": [keyboard]})

    def devtools(self, command: str, **parameters: Any) -> Any:
        """A command of the Chrome DevTools protocol, for what WebDriver does not have."""
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def prefer(self, theme: str) -> None:
        """Make the system's preference "light" or "dark"."""
        feature = {"name": "prefers-color-scheme", "value": theme}
        self.devtools("Emulation.setEmulatedMedia", features=[feature])

    def resize(self, width: int, height: int, mobile: bool = False) -> None:
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )

    def complaints(self) -> list[str]:
        """What the console has logged since it was last asked, warnings and errors alike."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """Addresses asked for since it was last asked."""
        asked = []
        for entry in self.call("POST", "/se/log", {"type": "performance"}):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        return asked
