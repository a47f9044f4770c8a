"""Table of the sink connectors that can be imported, by their classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from secor.config.connect import aiven_s3, confluent_s3, hudi_sink
from secor.config.iceberg_sink import convert as iceberg
from secor.config.translation.draft import Draft
from secor.config.translation.properties import Properties
from secor.core.errors import ConfigurationError

Convert = Callable[[Properties, str], tuple[str, Draft]]


@dataclass(frozen=True, slots=True)
class SinkConnector:
    """A sink connector: what people call it, and what translates its settings."""

    name: str
    convert: Convert


_CONFLUENT = SinkConnector("Confluent's S3 sink", confluent_s3.convert)
_AIVEN = SinkConnector("Aiven's S3 sink", aiven_s3.convert)
_ICEBERG = SinkConnector("the Iceberg sink", iceberg.convert)
_HUDI = SinkConnector("Hudi's sink", hudi_sink.convert)

SINKS: Mapping[str, SinkConnector] = MappingProxyType(
    {
        **dict.fromkeys(sorted(confluent_s3.CLASSES), _CONFLUENT),
        **dict.fromkeys(sorted(aiven_s3.CLASSES), _AIVEN),
        **dict.fromkeys(sorted(iceberg.CLASSES), _ICEBERG),
        **dict.fromkeys(sorted(hudi_sink.CLASSES), _HUDI),
    }
)
"""Connect also takes a class without its package, or without its ending."""


def convert(properties: Properties, source: str) -> tuple[str, Draft]:
    """Return the TOML file, and what became of each setting.

    Raises ``ConfigurationError``, also for a connector of another class.
    """
    kind = properties.text("connector.class").strip()
    if kind not in SINKS:
        what = f"connector.class is {kind}" if kind else "there is no connector.class"
        known = dict.fromkeys(sink.name for sink in SINKS.values())
        raise ConfigurationError(
            f"{source}: {what}; what can be imported is {', '.join(known)}, and Java Secor's"
            " properties"
        )
    return SINKS[kind].convert(properties, source)
