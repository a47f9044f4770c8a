"""``${NAME}`` and ``${NAME:-default}`` in the texts of a configuration file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_REFERENCE = re.compile(
    r"(?P<escape>\$\$\{)|\$\{(?P<name>\w+)(?::-(?P<default>[^{}]*))?\}|(?P<broken>\$\{)"
)


def expand(
    value: Any, environment: Mapping[str, str], faults: dict[str, str], key: str = ""
) -> Any:
    """Return ``value`` with the references in its texts replaced, tables and arrays as well.

    ``${NAME:-text}`` is ``text`` where the variable is not set; ``$${NAME}`` stays ``${NAME}``.
    Puts into ``faults``, by dotted key, what is not set and has no default, and what begins as a
    reference and is none, such as one within another.
    """
    if isinstance(value, dict):
        return {
            name: expand(inner, environment, faults, f"{key}.{name}" if key else name)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [
            expand(inner, environment, faults, f"{key}.{index}")
            for index, inner in enumerate(value)
        ]
    if not isinstance(value, str):
        return value

    def replacement(match: re.Match[str]) -> str:
        if match["escape"]:
            return "${"
        if match["broken"]:
            faults[key] = (
                "${ begins a variable of the environment, and what follows is none: ${NAME} or"
                " ${NAME:-default} is one, without braces in the default; $${ is the text itself"
            )
            return match[0]
        default: str | None = match["default"]
        text = environment.get(match["name"], default)
        if text is None:
            name = match["name"]
            faults[key] = (
                f"the environment has no variable {name}; set it, write ${{{name}:-default}}, or"
                f" $${{{name}}} for the text itself"
            )
            return match[0]
        return text

    return _REFERENCE.sub(replacement, value)
