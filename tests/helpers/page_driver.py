"""A browser driven through ChromeDriver, in the few words of WebDriver that the tests need."""

from __future__ import annotations

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --disable-dev-shm-usage"
)


def need_browser():
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("there is no browser here (Debian's packages: chromium, chromium-driver)")


class Browser:
    def __init__(self, address):
        self._address = address

    def ask(self, method, path, content=None):
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(self._address + path, data=data, method=method)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)["value"]

    def open(self, url):
        self.ask("POST", "/url", {"url": url})
        self.wait("document.documentElement.dataset.ready === 'done'")

    def run(self, script, *arguments):
        """What a script gives; ``arguments`` are its own."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not self.run(f"return {condition}"):
            assert time.monotonic() < end, f"{condition} never came true: {self.complaints()}"
            time.sleep(0.05)

    def element(self, selector):
        result = self.ask("POST", "/element", {"using": "css selector", "value": selector})
        return next(iter(result.values()))

    def click(self, selector):
        self.ask("POST", f"/element/{self.element(selector)}/click", {})

    def type(self, selector, text):
        self.ask("POST", f"/element/{self.element(selector)}/value", {"text": text})

    def resize(self, width, height):
        self.ask("POST", "/window/rect", {"width": width, "height": height})

    def dark(self, scheme="dark"):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        command = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}}
        self.ask("POST", "/goog/cdp/execute", command)

    def picture(self):
        return base64.b64decode(self.ask("GET", "/screenshot"))

    def complaints(self):
        return [item["message"] for item in self.ask("POST", "/se/log", {"type": "browser"})]


@contextmanager
def browser(profile):
    need_browser()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    driver = subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    session = None
    try:
        root = Browser(f"http://127.0.0.1:{port}")
        end = time.monotonic() + 30
        while session is None:
            try:
                chrome = {"binary": CHROMIUM, "args": [*OPTIONS.split(), f"--user-data-dir={profile}"]}
                wanted = {"goog:chromeOptions": chrome, "goog:loggingPrefs": {"browser": "ALL"}}
                actual = root.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
                session = Browser(f"http://127.0.0.1:{port}/session/{actual['sessionId']}")
            except urllib.error.HTTPError as error:
                pytest.skip(f"the browser does not start: {error.read()[:200]!r}")
            except OSError:
                assert time.monotonic() < end
                time.sleep(0.1)
        yield session
    finally:
        if session is not None:
            session.ask("DELETE", "")
        driver.terminate()
        driver.wait(timeout=30)
