"""Translation of Java Secor's properties into a configuration file of this one."""

from __future__ import annotations

from secor.config.java_secor import formats, kafka, parsers, policies, store
from secor.config.java_secor.known_properties import default_outcome
from secor.config.translation.draft import Draft
from secor.config.translation.properties import Properties
from secor.config.translation.report import finish

_ABOUT = (
    "# Made by secor config import of {source}, which was Java Secor's.",
    "# Behind each value are the properties that it came from; what is not here has the",
    "# default that docs/configuration.md explains.",
)

_CONVERTERS = (kafka.convert, store.convert, formats.convert, parsers.convert, policies.convert)


def convert(properties: Properties, source: str) -> tuple[str, Draft]:
    """Return the TOML file, and what became of each property.

    ``source`` names where the properties came from.  Raises ``ConfigurationError`` with
    everything that makes a valid configuration impossible, by the properties' names.
    """
    draft = Draft(properties)
    for converter in _CONVERTERS:
        converter(draft)
    return finish(draft, "\n".join(_ABOUT).format(source=source), source, default_outcome)
