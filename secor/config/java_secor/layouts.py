"""Java Secor's directories as templates of ours."""

from __future__ import annotations

import re

from secor.config.java_secor.draft import Draft

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

Named = tuple[str, tuple[str, ...]]
"""A template, and the properties that it came from."""


def dated(draft: Draft, kind: str) -> Named:
    """Return the directories of a time: day, and hour and minute where they are asked for."""
    if kind == "pattern":
        name = "secor.partition.output_dt_format"
        return _template(draft, name, "yyyy-MM-dd"), (name,)
    parts = [_part(draft, "date", "dt=", "yyyy-MM-dd")]
    hours, minutes = (_GRANULARITY + name for name in ("hour", "minute"))
    if kind == "day":
        draft.unneeded("DateMessageParser knows days only", hours, minutes)
        return _joined(draft, parts)
    if draft.flag(hours) or draft.flag(minutes):
        parts.append(_part(draft, "hour", "hr=", "HH"))
    if draft.flag(minutes):
        # Java Secor asks for min.format, though its own file has minute.format.
        parts.append(_part(draft, "minute", "min=", "mm", asked="min.format"))
    return _joined(draft, parts, hours, minutes)


def offset_layout(draft: Draft, prefix: str = "") -> Named:
    """Return the directories of ranges of offsets."""
    size, named = "secor.offsets.per.partition", "secor.offsets.prefix"
    wanted = prefix or draft.value(named) or "offset="
    names = (size,) if prefix else (size, named)
    if prefix:
        draft.unneeded("DailyOffsetMessageParser does not look at it", named)
    return f"{wanted}{{offset:{draft.number(size) or 10_000_000}}}", names


def _joined(draft: Draft, parts: list[Named], *names: str) -> Named:
    used = {name for _, said in parts for name in said} | set(names)
    others = [name for name in draft.given if name.startswith(_GRANULARITY) and name not in used]
    field = f"{_GRANULARITY}field.prefix"
    draft.unneeded(
        "its directory is not made, or Java Secor does not look at it",
        *(n for n in others if n != field),
    )
    return "/".join(template for template, _ in parts), (
        *names,
        *(n for _, said in parts for n in said),
    )


def _part(draft: Draft, what: str, prefix: str, pattern: str, asked: str = "") -> Named:
    named = f"{_GRANULARITY}{what}.prefix"
    formatted = _GRANULARITY + (asked or f"{what}.format")
    wanted = draft.value(named) if named in draft.given else prefix
    return f"{wanted}{_template(draft, formatted, pattern)}", (named, formatted)


def _template(draft: Draft, name: str, default: str) -> str:
    pattern = draft.value(name) or default
    found = template_of(pattern)
    if found is None:
        draft.fault(name, f"{pattern!r} cannot be written as a layout: use {default}, by -D")
    return found or ""


def template_of(pattern: str) -> str | None:
    """Return a pattern of Java's ``SimpleDateFormat`` as a template; None if it has no like."""
    result, held = "", ""
    for token in _TOKEN.finditer(pattern):
        if token["letters"]:
            directive = _DIRECTIVES.get(token["letters"])
            if directive is None:
                return None
            held += directive
            continue
        quoted = token["quoted"]
        text = token["other"] if quoted is None else quoted.replace("''", "'") or "'"
        if held and _BETWEEN.fullmatch(text):
            held += text
        else:
            result, held = result + _time(held) + text, ""
    return result + _time(held)


def _time(directives: str) -> str:
    return f"{{time:{directives}}}" if directives else ""
