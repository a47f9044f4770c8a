"""Import of Java Secor's directories as templates of a layout."""

from __future__ import annotations

import re

from secor.config.translation.draft import Draft

_GRANULARITY = "partitioner.granularity."
_TOKEN = re.compile(r"'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>.)")
_DIRECTIVES = {
    "yyyy": "%Y",
    "y": "%Y",
    "yy": "%y",
    "MM": "%m",
    "dd": "%d",
    "DDD": "%j",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
}
_BETWEEN = re.compile(r"[-_.]*")

Template = tuple[str, tuple[str, ...]]
"""A template, and the properties that it came from."""


def time_layout(draft: Draft, kind: str) -> Template:
    """Return the directories of a time: day, and hour and minute where they are asked for."""
    if kind == "pattern":
        name = "secor.partition.output_dt_format"
        return _template(draft, name, "yyyy-MM-dd"), (name,)
    parts = [_part(draft, "date.prefix", "dt=", "date.format", "yyyy-MM-dd")]
    switches: tuple[str, ...] = (f"{_GRANULARITY}hour", f"{_GRANULARITY}minute")
    if kind == "day":
        draft.unneeded("DateMessageParser knows days only", *switches)
        switches = ()
    hours, minutes = map(draft.flag, switches) if switches else (False, False)
    if hours or minutes:
        parts.append(_part(draft, "hour.prefix", "hr=", "hour.format", "HH"))
    if minutes:
        # Java Secor asks for min.format, though its own file has minute.format.
        parts.append(_part(draft, "minute.prefix", "min=", "min.format", "mm"))
    names = (*switches, *(name for _, used in parts for name in used))
    others = {*draft.properties} - {*names, f"{_GRANULARITY}field.prefix"}
    draft.unneeded(
        "its directory is not made, or Java Secor does not look at it",
        *(name for name in others if name.startswith(_GRANULARITY)),
    )
    return "/".join(template for template, _ in parts), names


def offset_layout(draft: Draft, prefix: str = "") -> Template:
    """Return the directories of ranges of offsets; ``prefix`` takes the property's place."""
    size, given = "secor.offsets.per.partition", "secor.offsets.prefix"
    names: tuple[str, ...] = (size, given)
    if prefix:
        draft.unneeded("DailyOffsetMessageParser does not look at it", given)
        names = (size,)
    prefix = prefix or draft.value(given) or "offset="
    return f"{prefix}{{offset:{draft.number(size) or 10_000_000}}}", names


def _part(draft: Draft, prefix: str, default: str, pattern: str, default_pattern: str) -> Template:
    prefix, pattern = _GRANULARITY + prefix, _GRANULARITY + pattern
    begin = draft.value(prefix) if prefix in draft.properties else default
    return begin + _template(draft, pattern, default_pattern), (prefix, pattern)


def _template(draft: Draft, name: str, default: str) -> str:
    pattern = draft.value(name) or default
    template = template_of(pattern)
    if template is None:
        draft.fault(name, f"{pattern!r} cannot be written as a layout: use {default}, by -D")
    return template or ""


def template_of(pattern: str) -> str | None:
    """Return a pattern of Java's ``SimpleDateFormat`` as a template; None if it has no like."""
    result, directives = "", ""
    for token in _TOKEN.finditer(pattern):
        if token["letters"]:
            directive = _DIRECTIVES.get(token["letters"])
            if directive is None:
                return None
            directives += directive
            continue
        quoted = token["quoted"]
        text = token["other"] if quoted is None else quoted.replace("''", "'") or "'"
        if directives and _BETWEEN.fullmatch(text):
            directives += text
        else:
            result, directives = result + _time(directives) + text, ""
    return result + _time(directives)


def _time(directives: str) -> str:
    return f"{{time:{directives}}}" if directives else ""
