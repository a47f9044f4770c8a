"""Logs: one line per event, its name and ``key=value`` fields, as JSON or for people.

Loggers come from ``structlog.get_logger("secor.part")``; the libraries' own logging is
let through from WARNING on, as events called ``library``.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from secor.service.journal import JournaldConnection, entry

REPEATED = 300.0
"""Seconds for which a library's warning is not logged again."""

_REMEMBERED = 1000

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def configure(
    level: str,
    form: Literal["json", "console", "auto"],
    stream: TextIO,
    journal: JournaldConnection | None = None,
) -> None:
    """Send all logs from ``level`` on to ``stream``, a line each; or to ``journal`` if given.

    Called once, before any other thread logs; a later call replaces the earlier one.
    """
    console = form == "console" or (form == "auto" and stream.isatty())
    if journal is None:
        processors = _processors(console, colors=console and stream.isatty())
        factory: Callable[..., object] = _factory(stream)
    else:
        processors = [*_shared(), structlog.processors.format_exc_info, _whole]
        factory = partial(Entries, journal, stream)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=factory,
        # Loggers are made when modules are imported, before this is called: a cached one would keep
        # the settings of before.
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    # Only our own: a test runner, or a program that embeds this, has handlers there, too.
    for handler in [handler for handler in root.handlers if isinstance(handler, LibraryHandler)]:
        root.removeHandler(handler)
    root.addHandler(LibraryHandler())
    root.setLevel(max(logging.WARNING, LEVELS[level]))
    # It calls every lost connection and every missing topic an error, several times a second;
    # the adapter says once what matters.
    logging.getLogger("kafka").setLevel(logging.WARNING if level == "debug" else logging.CRITICAL)


class LibraryHandler(logging.Handler):
    """Turns what libraries log into events: their name, level and message as fields.

    The same message comes once in ``REPEATED`` seconds: kazoo logs every attempt to
    reach a server that is out, about every second.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic = monotonic
        self._logged: dict[tuple[str, str], float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one record on, unless it was logged lately."""
        # Errors always come through: one that repeats is still one that a person must see.
        if record.levelno < logging.ERROR and self._lately(record.name, record.getMessage()):
            return
        # Kafka's client logs exceptions of every lost connection: the message says enough.
        failed = record.exc_info[1] if record.exc_info else None
        fields = {"error": repr(failed)} if failed is not None else {}
        log = structlog.get_logger(record.name)
        log.log(record.levelno, "library", message=record.getMessage(), **fields)

    def _lately(self, name: str, message: str) -> bool:
        """Return whether it was logged lately, and remember it.  A handler's lock is held."""
        now = self._monotonic()
        logged_at = self._logged.get((name, message))
        if logged_at is not None and now - logged_at < REPEATED:
            return True
        if len(self._logged) >= _REMEMBERED:
            # Messages with numbers in them are new each time: the memory is bounded rather than
            # exact.
            self._logged.clear()
        self._logged[name, message] = now
        return False


class LineWriter:
    """Writes finished lines of one named logger, whole, whatever thread they come from."""

    def __init__(self, stream: TextIO, lock: threading.Lock, name: str) -> None:
        """``lock`` is shared by all loggers of the stream."""
        self.name = name
        self._stream = stream
        self._lock = lock

    def msg(self, text: str) -> None:
        """Write one line."""
        with self._lock:
            self._stream.write(text + "\n")
            self._stream.flush()

    log = debug = info = warning = error = critical = exception = fatal = msg


class Entries:
    """Sends the events of one named logger to the journal."""

    def __init__(self, journal: JournaldConnection, stream: TextIO, name: str = "secor") -> None:
        """``stream`` takes, as JSON, what the journal does not."""
        self.name = name
        self._journal = journal
        self._stream = stream

    def msg(self, event: EventDict) -> None:
        """Send one event."""
        try:
            self._journal.send(entry(event))
        except OSError:
            # It restarts, or is gone: what is its stream is still read, then or by others.
            self._stream.write(_dumps(event) + "\n")
            self._stream.flush()

    log = debug = info = warning = error = critical = exception = fatal = msg


def _whole(_: WrappedLogger, __: str, event: EventDict) -> tuple[tuple[EventDict], dict[str, Any]]:
    """Hand the event over as it is."""
    return (event,), {}


def _factory(stream: TextIO) -> Callable[..., LineWriter]:
    lock = threading.Lock()

    def create(name: str = "secor") -> LineWriter:
        return LineWriter(stream, lock, name)

    return create


def _shared() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _add_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _processors(console: bool, colors: bool) -> list[Processor]:
    shared = _shared()
    if console:
        # Plain tracebacks: the rich ones print local variables, and those may hold secrets.
        plain = structlog.dev.plain_traceback
        return [*shared, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    return [
        *shared,
        structlog.processors.format_exc_info,
        structlog.processors.JSONRenderer(serializer=_dumps),
    ]


def _dumps(event: EventDict, **_: object) -> str:
    return json.dumps(event, default=str, ensure_ascii=False)


def _add_name(logger: WrappedLogger, _: str, event: EventDict) -> EventDict:
    event["logger"] = getattr(logger, "name", "secor")
    return event
