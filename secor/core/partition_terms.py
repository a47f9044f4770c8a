"""Partition terms as people write them: ``day(ts)``, ``bucket(16, id)``, or just a column."""

from __future__ import annotations

import re

from secor.core.errors import ConfigurationError

_TERM = re.compile(
    r"\s*(?P<name>[a-z]+?)s?\(\s*((?P<width>\d+)\s*,\s*)?(?P<column>[^(),]+?)\s*\)\s*"
)
_WITH_WIDTH = ("bucket", "truncate")
TIMES = ("year", "month", "day", "hour")
"""Transforms of times."""

_WITHOUT = ("identity", *TIMES, "void")


def parse_term(term: str) -> tuple[str, str]:
    """Return transform (``bucket[16]``) and column of a term.  Raises ``ConfigurationError``."""
    match = _TERM.fullmatch(term)
    if match is None:
        if re.fullmatch(r"[^(),]+", term):
            return "identity", term.strip()
        raise ConfigurationError(f"{term!r} is no partition field: write day(ts) or bucket(16, id)")
    name, width = match["name"], match["width"]
    if name in _WITH_WIDTH and width is not None and int(width):
        return f"{name}[{int(width)}]", match["column"]
    if name in _WITHOUT and width is None:
        return name, match["column"]
    known = ", ".join([*_WITHOUT, *(f"{name}(N, ...)" for name in _WITH_WIDTH)])
    raise ConfigurationError(f"{term!r}: no such partition transform; there are {known}")
