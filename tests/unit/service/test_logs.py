from __future__ import annotations

import ast
import io
import json
import logging
from pathlib import Path

import structlog

from secor.service.logs import LibraryHandler, configure


def test_an_event_is_one_line_of_json() -> None:
    stream = io.StringIO()
    configure("info", "auto", stream)
    structlog.get_logger("secor.part").info("sealed", partition=3, path="a\nb", odd={1})
    (line,) = stream.getvalue().splitlines()
    event = json.loads(line)
    assert event.pop("timestamp").endswith("Z")
    assert event == {
        "event": "sealed",
        "partition": 3,
        "path": "a\nb",
        "odd": "{1}",
        "level": "info",
        "logger": "secor.part",
    }


def test_the_console_shows_key_and_value() -> None:
    stream = io.StringIO()
    configure("debug", "console", stream)
    structlog.get_logger().debug("sealed", partition=3)
    assert "sealed" in stream.getvalue()
    assert "partition=3" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_what_is_below_the_level_is_not_said() -> None:
    stream = io.StringIO()
    configure("warning", "json", stream)
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("loud")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["loud"]


def test_an_exception_is_a_field_of_the_line() -> None:
    stream = io.StringIO()
    configure("info", "json", stream)
    try:
        raise ValueError("why")
    except ValueError:
        structlog.get_logger().exception("failed")
    (line,) = stream.getvalue().splitlines()
    assert "ValueError: why" in json.loads(line)["exception"]


def test_tracebacks_on_the_console_show_no_local_variables() -> None:
    stream = io.StringIO()
    configure("info", "console", stream)
    password = "hush" + "-hush"
    try:
        raise ValueError(len(password))
    except ValueError:
        structlog.get_logger().exception("failed")
    assert "ValueError: 9" in stream.getvalue()
    assert "hush-hush" not in stream.getvalue()


def test_libraries_are_heard_from_warning_on() -> None:
    stream = io.StringIO()
    configure("debug", "json", stream)
    logging.getLogger("kafka.conn").info("chatter")
    try:
        raise OSError("reset")
    except OSError:
        logging.getLogger("kazoo.client").warning("lost %s", "it", exc_info=True)
    (line,) = stream.getvalue().splitlines()
    event = json.loads(line)
    del event["timestamp"]
    assert event == {
        "event": "library",
        "logger": "kazoo.client",
        "level": "warning",
        "message": "lost it",
        "error": "OSError('reset')",
    }


def test_a_library_repeats_a_warning_only_after_a_while() -> None:
    stream = io.StringIO()
    configure("info", "json", stream)
    now = [0.0]
    handler = LibraryHandler(lambda: now[0])

    def warn(message: str, level: int = logging.WARNING) -> None:
        handler.handle(logging.LogRecord("kazoo", level, "", 0, message, None, None))

    for seconds in (0.0, 1.0, 299.0, 301.0):
        now[0] = seconds
        warn("Connection dropped")
    warn("something else")
    warn("an error", logging.ERROR)
    warn("an error", logging.ERROR)
    told = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert told == ["Connection dropped"] * 2 + ["something else"] + ["an error"] * 2


def test_configuring_again_says_nothing_twice() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure("info", "json", first)
    configure("info", "json", second)
    logging.getLogger("kazoo").error("once")
    assert first.getvalue() == ""
    assert len(second.getvalue().splitlines()) == 1


def test_the_chatter_of_kafkas_client_is_heard_only_when_debugging() -> None:
    for level, lines in (("info", 0), ("debug", 1)):
        stream = io.StringIO()
        configure(level, "json", stream)
        logging.getLogger("kafka.net").error("connection lost")
        assert len(stream.getvalue().splitlines()) == lines


def test_no_line_has_a_field_of_a_name_that_the_log_itself_writes() -> None:
    own = {"event", "level", "logger", "timestamp"}
    levels = {"debug", "info", "warning", "error", "_tell"}
    clashes = [
        f"{path}:{call.lineno}"
        for path in (Path(__file__).parents[3] / "secor").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in levels
        and any(keyword.arg in own for keyword in call.keywords)
    ]
    assert clashes == []
