"""A browser for tests: the few words of the WebDriver protocol that they need.

ChromeDriver speaks HTTP and JSON on the loopback address, so no library is needed.
"""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")

# As root there is no sandbox; the rest keeps the browser from talking to its makers.
_OPTIONS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --disable-quic "
    "--disable-default-apps --disable-extensions --metrics-recording-only --mute-audio"
)
_PATIENCE = 90.0


class Browser:
    """One headless browser; close it at the end."""

    def __init__(self, profile: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [str(DRIVER), f"--port={port}", "--allowed-ips=127.0.0.1"]
        self._driver = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._base = f"http://127.0.0.1:{port}"
        try:
            self._wait()
            self._session = self._new_session(profile)
        except BaseException:
            self._driver.kill()
            self._driver.wait()
            raise

    def _wait(self) -> None:
        end = time.monotonic() + _PATIENCE
        while True:
            try:
                self._send("GET", "/status")
                return
            except OSError:
                if time.monotonic() > end or self._driver.poll() is not None:
                    raise
                time.sleep(0.05)

    def _new_session(self, profile: Path) -> str:
        options = {"binary": CHROMIUM, "args": [*_OPTIONS.split(), f"--user-data-dir={profile}"]}
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        body = {"capabilities": {"alwaysMatch": wanted}}
        return str(self._send("POST", "/session", body)["sessionId"])

    def open(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Show a file in a window of this size, in dark mode or not."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])
        self.log("browser")
        self.log("performance")
        self._ask("POST", "/url", {"url": path.as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script returns."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def log(self, kind: str) -> list[dict[str, Any]]:
        """What was logged since the last look."""
        actual: list[dict[str, Any]] = self._ask("POST", "/se/log", {"type": kind})
        return actual

    def requests(self) -> list[str]:
        """Addresses that the page has asked for since the last look."""
        events = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]

    def screenshot(self, *, whole: bool = False) -> bytes:
        """The window, or the whole page, as a PNG file."""
        actual = self.devtools("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(actual["data"])

    def devtools(self, command: str, **parameters: Any) -> Any:
        """A command of Chromium's own protocol."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        return self._send(method, f"/session/{self._session}{path}", body)

    def _send(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=_PATIENCE) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode(errors="replace")) from error

    def close(self) -> None:
        try:
            self._ask("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(timeout=30)
