"""A headless Chromium, driven over a pipe by the DevTools protocol: no further package needed."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

#: Names under which Chromium is commonly installed.
COMMON = ("chromium", "chromium-browser", "google-chrome", "chrome", "chrome-headless-shell")
#: Where `make browser` puts one.
OURS = Path(__file__).parents[2] / ".browser" / "chromium"
#: Without a sandbox, because continuous integration often runs as root; pages are our own files.
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-zygote",
    "--hide-scrollbars", "--no-first-run", "--remote-debugging-pipe",
)  # fmt: skip
#: Chromium reads commands from descriptor 3 and writes answers to descriptor 4.
LAUNCH = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4);"
    " os.execv(sys.argv[3], sys.argv[3:])"
)
PATIENCE = 30.0  # seconds that one answer may take on a busy machine


def find() -> str | None:
    """The browser that MECHTRACE_CHROMIUM names, else ours, else one in a common place."""
    given = os.environ.get("MECHTRACE_CHROMIUM")
    if given:
        return given
    if OURS.exists():
        return str(OURS)
    return next((found for name in COMMON if (found := shutil.which(name))), None)


class Browser:
    """One process with one page at a time."""

    def __init__(self, executable: str) -> None:
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs_in, theirs_out)]
        home = f"--user-data-dir={self._home.name}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, *map(str, ends), executable, *FLAGS, home],
            pass_fds=ends,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in ends:
            os.close(end)
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer, self._count = b"", 0
        self.session: str | None = None
        self.problems: list[str] = []

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            self._process.terminate()
        self._process.wait(10)
        for end in (self._to, self._from):
            os.close(end)
        self._home.cleanup()

    def open(
        self, file: Path, *, width: int = 1200, height: int = 900, dark: bool = False
    ) -> float:
        """A fresh page with a report, drawn to its end; seconds from the start until then."""
        if self.session is not None:
            self.call("Page.close")
            self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.problems.clear()
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        began = time.perf_counter()
        self.call("Page.navigate", url=file.resolve().as_uri())
        self.wait("document.body && document.body.dataset.ready === 'yes'")
        return time.perf_counter() - began

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until an expression is true."""
        until = time.monotonic() + PATIENCE
        while not self.evaluate(condition):
            if time.monotonic() > until:
                raise TimeoutError(f"{condition}; {self.problems}")
            time.sleep(0.02)

    def move(self, selector: str, right: float = 0.5, down: float = 0.5) -> None:
        """The mouse to a place in an element, as shares of its width and height."""
        self.evaluate(
            f"document.querySelector({selector!r})"
            ".scrollIntoView({block: 'nearest', behavior: 'instant'})"
        )
        box = self.evaluate(
            f"(r => [r.x, r.y, r.width, r.height])"
            f"(document.querySelector({selector!r}).getBoundingClientRect())"
        )
        x, y = box[0] + right * box[2], box[1] + down * box[3]
        for nudge in (-2, 0):  # a mouse that appears from nowhere is not a move
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x + nudge, y=y)

    def press(self, key: str, code: int = 0) -> None:
        """A key on the focused element."""
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                **(text if kind == "keyDown" else {}),
            )  # fmt: skip

    def screenshot(self, file: Path, *, whole: bool = True) -> None:
        """A PNG of the page, or of what is in view."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=whole, **(
            {"clip": self._everything()} if whole else {}
        ))  # fmt: skip
        file.write_bytes(base64.b64decode(picture["data"]))

    def pdf(self, file: Path) -> None:
        """The page as it is printed."""
        printed = self.call("Page.printToPDF", printBackground=True)
        file.write_bytes(base64.b64decode(printed["data"]))

    def _everything(self) -> dict[str, float]:
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and its answer."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(until)
            if answer.get("id") == self._count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self._notice(answer)

    def _receive(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            part = os.read(self._from, 1 << 20) if ready else b""
            if not part:
                raise TimeoutError("the browser does not answer")
            self._buffer += part
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def _notice(self, event: dict[str, Any]) -> None:
        """Whatever the page complains about is a problem, and so is any request it makes."""
        kind, about = event.get("method"), event.get("params", {})
        if kind == "Runtime.exceptionThrown":
            self.problems.append(str(about["exceptionDetails"]))
        elif kind == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning"):
            self.problems.append(str(about["args"]))
        elif kind == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning"):
            self.problems.append(about["entry"]["text"])
        elif kind == "Page.javascriptDialogOpening":
            self.problems.append(f"a dialog opened: {about['message']}")
