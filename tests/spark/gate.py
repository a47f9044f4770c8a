"""A plug-in that places messages by day, and stops in mid run until a test lets it go on."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

from secor.parsing.plugins import Message

AT = 45
"""The offset before which a task stops, in each partition."""


class Gate:
    """At offset ``AT`` it leaves the mark ``<partition>-<process>`` in ``directory`` and waits
    for the file ``<partition>-open``.
    """

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def place(self, message: Message) -> str | None:
        """Return the day; None for probes; raises for what is no JSON."""
        if message.offset == AT:
            (self._directory / f"{message.partition}-{os.getpid()}").touch()
            while not (self._directory / f"{message.partition}-open").exists():
                time.sleep(0.05)
        event = json.loads(message.value or b"")
        if event["kind"] == "probe":
            return None
        return f"dt={datetime.fromtimestamp(event['at'] / 1000, UTC):%Y-%m-%d}"
