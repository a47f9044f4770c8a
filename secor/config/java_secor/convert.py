"""Translation of Java Secor's properties into a configuration file of this one."""

from __future__ import annotations

import tomllib

from secor.config.java_secor import formats, kafka, parsers, policies, store
from secor.config.java_secor.known_properties import default_outcome
from secor.config.load import validate
from secor.config.translation.draft import Draft, Outcome
from secor.config.translation.properties import Properties
from secor.config.translation.render import render
from secor.core.errors import ConfigurationError

_ABOUT = (
    "# Made by secor config import of {source}, which was Java Secor's.",
    "# Behind each value stand the properties that it came from; what is not here has the",
    "# default that config/backup.toml and config/partition.toml explain.",
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
    for name in properties:
        if name not in draft.outcomes:
            empty = not draft.value(name)
            draft.outcomes[name] = (Outcome.EMPTY, "") if empty else default_outcome(name)
    _refuse(source, draft.faults)
    text = render(draft, "\n".join(_ABOUT).format(source=source))
    _, faults = validate(tomllib.loads(text))
    _refuse(source, [f"{_origin(draft, key)}: {fault}" for key, fault in faults.items()])
    return text, draft


def _refuse(source: str, faults: list[str]) -> None:
    if faults:
        head = f"{source}: no configuration of ours can be made of it"
        raise ConfigurationError("\n  ".join([head, *faults]))


def _origin(draft: Draft, key: str) -> str:
    """Name a faulty key by the properties that it came from."""
    steps = key.split(".")
    lines = draft.lines
    if steps[0] == "topics" and len(steps) > 1 and steps[1].isdigit():
        lines, steps = list(draft.rules.values())[int(steps[1])], steps[2:]
    own = ".".join(steps)
    names = dict.fromkeys(
        name for line in lines if own in (line.key, "match") for name in line.names
    )
    return f"{key} (from {', '.join(names)})" if names else key
