"""Reading of a connector's settings: from a file, or from a worker's REST interface.

A file is JSON as that interface takes it, or properties.  Settings of the worker, if its file is
given too, count where the connector says nothing.
"""

from __future__ import annotations

import base64
import http.client
import json
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from secor.config.connect.kafka import CONSUMER
from secor.config.translation.properties import LINE, Occurrence, Properties, lines, unescape
from secor.core.errors import ConfigurationError
from secor.core.text import load_json

Settings = dict[str, tuple[str, str]]
"""Values with the places that give them, by name."""

_SECONDS = 20.0
_CONNECTOR = re.compile(r"(?P<address>.+/connectors/[^/]+)(?:/config)?/?")
_ENVIRONMENT = re.compile(r"\$\{env:(\w+)\}")
_OF_WORKER = re.compile(
    r"bootstrap\.servers|(security|sasl|ssl)\..+|(consumer\.)?(auto\.offset\.reset|client\.rack)"
)
_CONVERTERS = ("key.converter", "value.converter")
FLUSH_INTERVAL = "offset.flush.interval.ms"


def is_address(source: str) -> bool:
    """Return whether a source is the address of a worker's REST interface."""
    return source.startswith(("http://", "https://"))


def without_password(source: str) -> str:
    """Return a source as it may be shown: an address without its user and password."""
    if not is_address(source):
        return source
    parts = urlsplit(source)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def is_connector(source: str) -> bool:
    """Return whether a source is a connector's settings, and not Java Secor's.

    Raises ``ConfigurationError`` for a file that cannot be read.
    """
    if is_address(source):
        return True
    path = Path(source)
    text = _read(path)
    return _is_json(path, text) or any(
        line.split("=")[0].split(":")[0].strip() == "connector.class" for line in text.splitlines()
    )


def read(source: str, overrides: Mapping[str, str], worker: Path | None = None) -> Properties:
    """Read a connector's settings, with ``overrides`` over them and a worker's below them.

    Raises ``ConfigurationError``.
    """
    given: Settings = {} if worker is None else _of_worker(worker)
    own = _from_address(source) if is_address(source) else _from_file(Path(source))
    for converter in _CONVERTERS:
        if converter in own:
            given = {key: item for key, item in given.items() if not key.startswith(converter)}
    settings = {**given, **own, **{name: (value, "-D") for name, value in overrides.items()}}
    properties = Properties()
    for name, (value, place) in settings.items():
        # The environment's variables are written without a provider here.
        text = _ENVIRONMENT.sub(r"${\1}", value)
        properties.occurrences[name] = [Occurrence(place, (text,))]
    return properties


def _of_worker(path: Path) -> Settings:
    """Return the settings of a worker that count for its connectors, as connectors write them."""
    settings: Settings = {}
    for name, item in _from_lines(path, _read(path)).items():
        if name.startswith(_CONVERTERS) or name == FLUSH_INTERVAL:
            settings[name] = item
        elif name.startswith("consumer."):
            settings[CONSUMER + name.removeprefix("consumer.")] = item
        elif _OF_WORKER.fullmatch(name):
            settings.setdefault(CONSUMER + name, item)
    return settings


def _from_file(path: Path) -> Settings:
    text = _read(path)
    if not _is_json(path, text):
        return _from_lines(path, text)
    return _from_json(str(path), path.name, text)


def _from_address(address: str) -> Settings:
    """Ask a worker for ``/connectors/NAME``; a user and password may be in the address."""
    parts = urlsplit(address)
    shown = without_password(address)
    match = _CONNECTOR.fullmatch(shown)
    if match is None:
        raise ConfigurationError(f"{shown}: write http://connect:8083/connectors/NAME")
    plain = match["address"]
    headers = {"Accept": "application/json"}
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(user).decode()}"
    secure = parts.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    try:
        connection = kind(parts.hostname or "", parts.port, timeout=_SECONDS)
        connection.request("GET", urlsplit(plain).path, headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise ConfigurationError(f"{plain}: the worker cannot be asked ({error})") from error
    if answer.status != http.client.OK:
        raise ConfigurationError(f"{plain}: the worker answers {answer.status} {answer.reason}")
    return _from_json(plain, urlsplit(plain).netloc, text)


def _is_json(path: Path, text: str) -> bool:
    return path.suffix.lower() == ".json" or text.lstrip().startswith("{")


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        return path.read_text("latin-1")
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be read ({error.strerror})") from error


def _from_json(source: str, place: str, text: str) -> Settings:
    """Take the object under ``config``, as the REST interface has it, or the whole one."""
    try:
        data = load_json(text)
    except ValueError as error:
        raise ConfigurationError(f"{source}: is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise ConfigurationError(f"{source}: is no JSON object of a connector's settings")
    name = data.get("name")
    if isinstance(data.get("config"), dict):
        data = {**({"name": name} if name else {}), **data["config"]}
    settings = {}
    for key, value in data.items():
        if isinstance(value, dict | list) or value is None:
            raise ConfigurationError(f"{source}: {key}: a connector's settings are texts")
        shown = json.dumps(value) if isinstance(value, bool) else str(value)
        settings[key] = (shown, place)
    return settings


def _from_lines(path: Path, text: str) -> Settings:
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
