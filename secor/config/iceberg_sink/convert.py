"""Translation of a connector's settings into a configuration of a table group."""

from __future__ import annotations

import re

from secor.config.connect.converters import convert_keys, convert_values
from secor.config.connect.kafka import convert_kafka
from secor.config.connect.settings import CONNECT_SETTINGS, default_outcome, finish_connector
from secor.config.iceberg_sink import catalog, routes
from secor.config.iceberg_sink.sink_settings import SINK_SETTINGS, transform_of
from secor.config.translation.draft import Draft, PropertyOutcome
from secor.config.translation.properties import Properties

CLASSES = frozenset(
    {
        "org.apache.iceberg.connect.IcebergSinkConnector",
        "io.tabular.iceberg.connect.IcebergSinkConnector",
        "IcebergSinkConnector",
        "IcebergSink",
    }
)
"""The sink's class; Connect also takes it without package or ending."""

_TRANSFORM = re.compile(r"transforms\..+\.type")

_MILLISECONDS = (
    ("iceberg.control.commit.interval-ms", "commit.interval", "5m"),
    ("iceberg.control.commit.timeout-ms", "commit.timeout", None),
)


def convert(properties: Properties, source: str) -> tuple[str, Draft]:
    """Return the TOML file, and what became of each setting.

    ``source`` names where they came from.  Raises ``ConfigurationError`` with everything that
    makes a valid configuration impossible.
    """
    draft = Draft(properties)
    _group(draft)
    convert_kafka(draft, "iceberg.kafka.")
    convert_values(draft)
    convert_keys(draft, changes_rows=routes.changes_rows(draft))
    draft.copy("parser.dead_letter_topic", "errors.deadletterqueue.topic.name")
    for converter in (catalog.convert, routes.convert, _commit):
        converter(draft)
    draft.todo(
        "stop the connector, wait for its last commit, and set where the new group begins:"
        " secor offsets set (docs/tables.md, From the Iceberg sink)"
    )
    return finish_connector(
        draft, "the Iceberg sink", source, lambda name: _default_outcome(draft, name)
    )


def _default_outcome(draft: Draft, name: str) -> tuple[PropertyOutcome, str]:
    transform = transform_of(draft.value(name)) if _TRANSFORM.fullmatch(name) else None
    if transform is not None:
        return PropertyOutcome.UNSUPPORTED, transform.here.replace("`", "")
    return default_outcome(draft, name, (*SINK_SETTINGS, *CONNECT_SETTINGS))


def _group(draft: Draft) -> None:
    name = draft.value("name") or "iceberg"
    draft.set("group.name", re.sub(r"[^A-Za-z0-9._-]", "_", name), "name")
    draft.set("group.kind", "table", "connector.class")
    draft.set("output.prefix", f"secor/{re.sub(r'[^A-Za-z0-9_-]', '_', name)}", "name")


def _commit(draft: Draft) -> None:
    for name, key, default in _MILLISECONDS:
        number = draft.number(name)
        if number is not None:
            draft.set(key, f"{number}ms", name)
        elif default is not None:
            draft.set(key, default, note="the sink's default")
    draft.copy_number("commit.threads", "iceberg.control.commit.threads", zero=False)
