"""Headless Chromium, driven over its DevTools protocol: opens a file, presses on things and hears complaints."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from websockets.sync.client import connect
from websockets.sync.connection import Connection

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS: Final = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--remote-debugging-port=0",
)  # fmt: skip

_AXE: Final = """
axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], resultTypes: ["violations"]})
  .then(({violations}) => violations.flatMap(({id, nodes}) => nodes.map((node) =>
    `${id}: ${node.html.slice(0, 200)} ${node.failureSummary.replace(/\\s+/g, " ").slice(0, 300)}`)))
"""


def find_browser() -> str | None:
    """Return the path of an installed Chromium."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab. ``complaints`` are errors and violations of the page, ``requests`` the URLs that it asked for."""

    def __init__(self, socket: Connection) -> None:
        self._socket = socket
        self._number = 0
        self._session = ""
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result; events that arrive meanwhile are noted."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        self._socket.send(json.dumps(message | ({"sessionId": self._session} if self._session else {})))
        while True:
            reply = json.loads(self._socket.recv(timeout=120))
            if reply.get("id") == self._number:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']}")
                return dict(reply["result"])
            self._note(reply)

    def _note(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.complaints.append(json.dumps(params["exceptionDetails"])[:1000])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.complaints.append(json.dumps(params["args"])[:1000])
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.complaints.append(params["entry"]["text"])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])

    def open(self, path: Path, fragment: str = "") -> None:
        """Open a file and wait until its script says that it is ready."""
        self.send("Page.navigate", url=path.as_uri() + fragment)
        self.wait("document.body && document.body.dataset.ready === 'true'")

    def js(self, expression: str) -> Any:
        """Return the value of an expression."""
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:2000])
        return result["result"].get("value")

    def wait(self, expression: str, seconds: float = 30) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + seconds
        while not self.js(f"Boolean({expression})"):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {expression}; complaints: {self.complaints}")
            time.sleep(0.05)

    def fill(self, selector: str, value: str) -> None:
        """Set a control as a user does, with its events."""
        self.js(
            f"(() => {{ const c = document.querySelector({json.dumps(selector)}); c.value = {json.dumps(value)};"
            "for (const kind of ['input', 'change']) c.dispatchEvent(new Event(kind, {bubbles: true})); })()"
        )

    def press(self, selector: str) -> None:
        """Click on an element."""
        self.js(f"document.querySelector({json.dumps(selector)}).click()")

    def text(self, selector: str) -> str:
        """Return the text that an element shows."""
        return str(self.js(f"document.querySelector({json.dumps(selector)}).innerText"))

    def violations(self) -> list[str]:
        """Return what axe finds against WCAG 2.2 at the levels A and AA: the rule, and where."""
        axe = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
        self.js(f"if (!window.axe) {{ {axe} }}")
        return list(self.js(_AXE))

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """Set the size of the view and the colours that the reader prefers."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])


@contextmanager
def browse() -> Iterator[Page]:
    """Start Chromium and yield a tab; it is gone afterwards."""
    program = find_browser()
    assert program, f"No browser: one of {', '.join(NAMES)} must be installed (Debian: apt-get install chromium)."
    with TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            with connect(_address(process), max_size=None) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(timeout=20)


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if found := re.search(r"DevTools listening on (ws://\S+)", line):
            return found[1]
    raise RuntimeError("Chromium did not start: " + "".join(said)[-2000:])
