"""A browser without a window, driven through a pipe: Chromium's DevTools protocol, and no library.

Chromium reads commands from its file descriptor 3 and writes answers and events to 4, each as JSON
and a zero byte.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
"""The program; empty where there is none."""

FLAGS = """--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars
--no-first-run --disable-background-networking --remote-debugging-pipe""".split()

PATIENCE_S = 60.0


class Page:
    """One page in one browser."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._number, self._rest, self._session = 0, b"", ""
        self.troubles: list[str] = []
        """What the console was told of errors, exceptions and broken policies."""
        self.requests: list[str] = []
        """The addresses that the page asked for."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> Json:
        """Send one command, and wait for its answer."""
        self._number += 1
        message: Json = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: Json = answer["result"]
                return result

    def open(
        self, path: Path, *, width: int = 1280, height: int = 1600, dark: bool = False
    ) -> None:
        """Open a file in a window of so many pixels, and wait until it is drawn."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=path.resolve().as_uri())
        drawn = "document.readyState === 'complete' && location.protocol === 'file:'"
        while not self.run(drawn):
            pass

    def run(self, expression: str) -> Any:
        """Answer what a JavaScript expression is worth."""
        done = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key, whatever has the focus."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save what is seen, or the whole page, as a PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _read(self) -> Json:
        while b"\0" not in self._rest:
            assert select([self._from], [], [], PATIENCE_S)[0], "the browser does not answer"
            self._rest += os.read(self._from, 1 << 20)
        one, self._rest = self._rest.split(b"\0", 1)
        message: Json = json.loads(one)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, said: Json) -> None:
        if method == "Runtime.exceptionThrown":
            self.troubles.append(str(said["exceptionDetails"]))
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.troubles.append(said["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning"):
            self.troubles.append(str(said["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])


@contextmanager
def browser() -> Iterator[Page]:
    """Start Chromium with one empty page; end it when the block is left."""
    (read_3, to_browser), (from_browser, write_4) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory() as profile:
        # 3 and 4 may be in use here, so the shell moves what it was given to where they belong.
        program = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        move = f'exec "$@" 3<&{read_3} 4>&{write_4}'
        process = subprocess.Popen(
            ["bash", "-c", move, "bash", *program],
            pass_fds=(read_3, write_4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_3)
        os.close(write_4)
        try:
            yield Page(to_browser, from_browser)
        finally:
            process.terminate()
            process.wait(10)
            os.close(to_browser)
            os.close(from_browser)
            shutil.rmtree(profile, ignore_errors=True)
