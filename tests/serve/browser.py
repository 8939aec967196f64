"""A real Chromium whose microphone plays a sound file, driven over its DevTools websocket."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"),
    *("--remote-debugging-port=0", "--use-fake-ui-for-media-stream", "--use-fake-device-for-media-stream"),
    *("--autoplay-policy=no-user-gesture-required", "--disable-background-networking", "--disable-extensions"),
)


class Browser:
    """One page. `microphone`: a WAV that is played once, at its own pace, from when a page listens."""

    def __init__(self, microphone: Path) -> None:
        program = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chrome")
        if program is None:
            pytest.skip("no Chromium here")
        self._folder = Path(tempfile.mkdtemp(prefix="browser"))
        playing = f"--use-file-for-fake-audio-capture={microphone}%noloop"
        command = [program, *FLAGS, playing, f"--user-data-dir={self._folder}", "about:blank"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._numbers, self._opened = itertools.count(1), ExitStack()
        told = self._folder / "DevToolsActivePort"
        deadline = time.monotonic() + 60
        while not (told.exists() and len(told.read_text().splitlines()) == 2):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                pytest.skip("Chromium does not start here")
            time.sleep(0.05)
        port, path = told.read_text().splitlines()
        address = f"ws://127.0.0.1:{port}{path}"
        self._socket = self._opened.enter_context(connect(address, max_size=1 << 26, ping_interval=None))
        self._session: str | None = None
        target = next(t for t in self("Target.getTargets")["targetInfos"] if t["type"] == "page")["targetId"]
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __call__(self, method: str, **parameters: Any) -> dict[str, Any]:
        """A DevTools command."""
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters}
        self._socket.send(json.dumps(command | ({"sessionId": self._session} if self._session else {})))
        while (answer := json.loads(self._socket.recv(60))).get("id") != number:
            pass
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, url: str) -> None:
        self("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href.startsWith('http')")

    def js(self, expression: str) -> Any:
        """The value of an expression, a promise's when it is fulfilled."""
        answer = self("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while not self.js(expression):
            assert time.monotonic() < deadline, f"never: {expression}; {self.js('document.body.innerText')}"
            time.sleep(0.05)

    def look(self, width: int = 1100, height: int = 700, dark: bool = False) -> None:
        """The size of the window, and what the reader prefers."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self("Emulation.setEmulatedMedia", features=features)

    def picture(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        self._opened.close()
        self._process.terminate()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
