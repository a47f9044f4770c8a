"""The Java options of a Spark that logs nothing, for tests and benchmarks."""

from __future__ import annotations

from pathlib import Path

_SILENCE = """
status = off
appender.console.type = Console
appender.console.name = console
rootLogger.level = off
rootLogger.appenderRef.console.ref = console
"""  # without an appender Spark takes its own configuration


def quiet_java_options(folder: Path) -> str:
    """Return the driver's Java options with which Spark logs nothing."""
    logging = folder / "log4j2.properties"
    logging.write_text(_SILENCE)
    return f"-Dlog4j2.configurationFile={logging}"
