"""Reading of a connector's configuration: JSON as the REST interface takes it, or properties."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from secor.config.translation.properties import LINE, Occurrence, Properties, lines, unescape
from secor.core.errors import ConfigurationError
from secor.core.foreign_json import load_json

CLASSES = frozenset(
    {
        "org.apache.iceberg.connect.IcebergSinkConnector",
        "io.tabular.iceberg.connect.IcebergSinkConnector",
        "IcebergSinkConnector",
        "IcebergSink",
    }
)
"""The sink's class; Connect also takes it without package or ending."""


def is_connector(path: Path) -> bool:
    """Tell whether a file is a connector's, and not Java Secor's.

    Raises ``ConfigurationError`` for one that cannot be read.
    """
    text = _read(path)
    return _is_json(path, text) or any(
        line.split("=")[0].split(":")[0].strip() == "connector.class" for line in text.splitlines()
    )


def read(path: Path, overrides: Mapping[str, str]) -> Properties:
    """Read a connector's settings, with ``overrides`` over them.

    Raises ``ConfigurationError``, also for a connector of another class.
    """
    text = _read(path)
    given = _from_json(path, text) if _is_json(path, text) else _from_lines(path, text)
    settings = {**given, **{name: (value, "-D") for name, value in overrides.items()}}
    properties = Properties()
    for name, (value, place) in settings.items():
        properties.occurrences[name] = [Occurrence(place, (value,))]
    kind = settings.get("connector.class", ("", ""))[0].strip()
    if kind not in CLASSES:
        what = f"connector.class is {kind}" if kind else "there is no connector.class"
        raise ConfigurationError(
            f"{path}: {what}; what can be imported is the Iceberg sink"
            " (org.apache.iceberg.connect.IcebergSinkConnector), or Java Secor's properties"
        )
    return properties


def _is_json(path: Path, text: str) -> bool:
    return path.suffix.lower() == ".json" or text.lstrip().startswith("{")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        return path.read_text("latin-1")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from error


def _from_json(path: Path, text: str) -> dict[str, tuple[str, str]]:
    """Take the object under ``config``, as the REST interface has it, or the whole one."""
    try:
        data = load_json(text)
    except ValueError as error:
        raise ConfigurationError(f"{path}: is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise ConfigurationError(f"{path}: is no JSON object of a connector's settings")
    name = data.get("name")
    if isinstance(data.get("config"), dict):
        data = {**({"name": name} if name else {}), **data["config"]}
    settings = {}
    for key, value in data.items():
        if isinstance(value, dict | list) or value is None:
            raise ConfigurationError(f"{path}: {key}: a connector's settings are texts")
        shown = json.dumps(value) if isinstance(value, bool) else str(value)
        settings[key] = (shown, path.name)
    return settings


def _from_lines(path: Path, text: str) -> dict[str, tuple[str, str]]:
    """Read properties as Java does: of several lines of one name the last counts."""
    settings = {}
    for number, line in lines(path, text):
        match = LINE.fullmatch(line)
        name = unescape(match[1]) if match else ""
        if match is None or not name:
            raise ConfigurationError(f"{path}:{number}: {line!r} is no setting")
        value = unescape(match[2].strip()).replace("\\,", ",")
        settings[name] = (value, f"{path.name}:{number}")
    return settings
