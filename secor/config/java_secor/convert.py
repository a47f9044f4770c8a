"""From Java Secor's properties to a configuration that this one accepts."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches

from secor.config.java_secor import formats, kafka, parsers, policies, store
from secor.config.java_secor.draft import Draft, Fate, Line
from secor.config.java_secor.known_properties import CONVERTED, EVERY, NOT_NEEDED
from secor.config.java_secor.properties import Properties
from secor.config.java_secor.render import render
from secor.config.load import validate
from secor.core.errors import ConfigurationError

_CONVERTERS = (kafka.convert, store.convert, formats.convert, parsers.convert, policies.convert)


def convert(given: Properties, source: str) -> tuple[str, Draft]:
    """Return the TOML file, and what became of each property.

    ``source`` names where the properties came from.  Raises ``ConfigurationError`` with
    everything that makes a valid configuration impossible, by the properties' names.
    """
    draft = Draft(given)
    for converter in _CONVERTERS:
        converter(draft)
    _tell_of_the_rest(draft)
    if draft.faults:
        raise ConfigurationError(_report(source, draft.faults))
    text = render(draft, source)
    _, faults = validate(tomllib.loads(text))
    if faults:
        lines = [f"{_origin(draft, key)}: {fault}" for key, fault in faults.items()]
        raise ConfigurationError(_report(source, lines))
    return text, draft


def _tell_of_the_rest(draft: Draft) -> None:
    for why, names in NOT_NEEDED.items():
        draft.unneeded(why, *names)
    for name in draft.given:
        if name in draft.fates:
            continue
        if not draft.value(name):
            draft.fates[name] = (Fate.EMPTY, "")
        elif name in EVERY or _of_a_topic(name):
            draft.fates[name] = (Fate.UNNEEDED, "nothing looks at it with these settings")
        else:
            near = get_close_matches(name, EVERY, n=1, cutoff=0.7)
            draft.fates[name] = (Fate.UNKNOWN, f"did you mean {near[0]}?" if near else "")


def _of_a_topic(name: str) -> bool:
    families = (one.removesuffix("*") for one in CONVERTED if one.endswith(".*"))
    return any(name.startswith(family) for family in families)


def _report(source: str, faults: list[str]) -> str:
    lines = [f"{source}: no configuration of ours can be made of it", *(f"  {it}" for it in faults)]
    return "\n".join(lines)


def _origin(draft: Draft, key: str) -> str:
    """Name a faulty key by the properties that it came from."""
    steps = key.split(".")
    lines: list[Line] = draft.lines
    if steps[0] == "topics" and len(steps) > 1 and steps[1].isdigit():
        lines, steps = list(draft.rules.values())[int(steps[1])], steps[2:]
    own = ".".join(steps)
    said = [name for line in lines if own in (line.key, "match") for name in line.names]
    names = dict.fromkeys(said)
    return f"{key} (from {', '.join(names)})" if names else key
