"""Templates of commands, as the configuration has them."""

from __future__ import annotations

import re
import shlex

from secor.core.errors import ConfigurationError

PLACEHOLDERS = ("topic", "path", "url", "partition", "location")

PLACEHOLDER = re.compile(r"\{(\w+)\}")


def split(template: str) -> list[str]:
    """Return the arguments of a template.  Raises ``ConfigurationError``."""
    try:
        arguments = shlex.split(template)
    except ValueError as error:
        raise ConfigurationError(f"it is no command: {error}") from error
    unknown = set(PLACEHOLDER.findall(template)) - set(PLACEHOLDERS)
    if unknown or not arguments:
        known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
        what = f"{{{min(unknown)}}} is none of {known}" if unknown else "it is empty"
        raise ConfigurationError(what)
    return arguments
