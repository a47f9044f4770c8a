"""Drives headless Chromium by its own protocol over a pair of pipes: no driver, no port."""

from __future__ import annotations

import base64
import fcntl
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""Seconds to wait for any answer, on a machine that does other things too."""

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
)
_ABOVE = 10
"""Descriptors from here on are not the 3 and 4 by which Chromium speaks."""


def program() -> str:
    """Return where Chromium is; fails the test with what to do."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    assert found, "Chromium is missing: apt-get install chromium (scripts/test does, as root)"
    return found


class Chromium:
    """A running browser: ``call`` commands it, ``events`` is what it told unasked."""

    def __init__(self, process: subprocess.Popen[bytes], commands: int, answers: int) -> None:
        self.events: list[dict[str, Any]] = []
        self._process = process
        self._commands = commands
        self._answers = answers
        self._rest = b""
        self._numbers = itertools.count(1)

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Return the result of a command; ``session`` is that of a page."""
        told = self.ask(method, session, params)
        assert "result" in told, f"{method}: {told}"
        result: dict[str, Any] = told["result"]
        return result

    def ask(self, method: str, session: str | None, params: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a command, whether ``result`` or ``error``."""
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            told = self._read(deadline)
            assert told is not None, f"no answer to {method} in {PATIENCE:.0f} s"
            if told.get("id") == number:
                return told
            self.events.append(told)

    def listen(self, seconds: float) -> None:
        """Take what it tells for so long."""
        deadline = time.monotonic() + seconds
        while (told := self._read(deadline)) is not None:
            self.events.append(told)

    def _read(self, deadline: float) -> dict[str, Any] | None:
        while b"\0" not in self._rest:
            ready, _, _ = select.select(
                [self._answers], [], [], max(0, deadline - time.monotonic())
            )
            if not ready:
                return None
            data = os.read(self._answers, 1 << 20)
            assert data, f"Chromium has ended: exit code {self._process.poll()}"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def chromium(folder: Path) -> Iterator[Chromium]:
    """Start a browser with a new profile, and its log, in ``folder``; end it afterwards."""
    with ExitStack() as opened:
        theirs, commands = _pipe(opened)
        answers, told = _pipe(opened)
        log = opened.enter_context((folder / "chromium.log").open("wb"))
        command = [program(), *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs} 4>&{told}', "bash", *command],
            pass_fds=(theirs, told),
            stdout=log,
            stderr=log,
            # One group, so that what the browser has started ends with it.
            start_new_session=True,
        )
        try:
            browser = Chromium(process, commands, answers)
            yield browser
            browser.call("Browser.close")
            process.wait(PATIENCE)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, 9)
                process.wait(PATIENCE)


def _pipe(opened: ExitStack) -> tuple[int, int]:
    ends = []
    for end in os.pipe():
        ends.append(fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _ABOVE))
        os.close(end)
        opened.callback(os.close, ends[-1])
    return ends[0], ends[1]


class Page:
    """One tab."""

    def __init__(self, browser: Chromium, width: int, height: int) -> None:
        """Open it; sizes in CSS pixels, below 600 as on a telephone."""
        self._browser = browser
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        attached = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        phone = width < 600
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if phone else 1,
            mobile=phone,
        )

    def close(self) -> None:
        """Close the tab; else it asks for its page for ever."""
        self._browser.call("Target.closeTarget", targetId=self._target)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask the browser about this page."""
        return self._browser.call(method, self._session, **params)

    def told(self, *methods: str) -> list[dict[str, Any]]:
        """Return the parameters of all events of these names so far."""
        self._browser.listen(0)
        return [
            event["params"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event["method"] in methods
        ]

    def go(self, url: str) -> None:
        """Load; returns when it has been loaded."""
        before = self.loads()
        self.call("Page.navigate", url=url)
        self.until(lambda: self.loads() > before, f"{url} to load")

    def loads(self) -> int:
        """Return how often it has been loaded, by command or by itself."""
        return len(self.told("Page.loadEventFired"))

    def until(self, done: Callable[[], bool], what: str) -> None:
        """Wait; fails the test with ``what``."""
        deadline = time.monotonic() + PATIENCE
        while not done():
            assert time.monotonic() < deadline, f"not in {PATIENCE:.0f} s: {what}"
            self._browser.listen(0.05)

    def value(self, expression: str) -> Any:
        """Return what a JavaScript expression gives, as JSON, once the page is whole.

        It renews itself when it likes: what is asked meanwhile has no page to be asked of.
        """
        found: list[Any] = []
        script = f"document.readyState === 'complete' ? [({expression})] : null"

        def ask() -> bool:
            params = {"expression": script, "returnByValue": True}
            answer = self._browser.ask("Runtime.evaluate", self._session, params)
            result = answer.get("result", {})
            assert "exceptionDetails" not in result, answer
            found.extend(result.get("result", {}).get("value") or ())
            return bool(found)

        self.until(ask, f"an answer to {expression}")
        return found[0]

    def requests(self) -> list[str]:
        """Return the address of everything it has asked for."""
        return [event["request"]["url"] for event in self.told("Network.requestWillBeSent")]

    def complaints(self) -> list[dict[str, Any]]:
        """Return what would stand in the console: errors, violations, exceptions, prints."""
        return self.told("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")

    def screenshot(self, path: Path) -> None:
        """Write a picture of the whole page, PNG."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))
