"""Transforms of single messages (SMTs): as ``parser.transforms``, or what replaces them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from secor.config.translation.draft import Draft

Step = dict[str, object]

_ROUTERS = "a topic's directory has the topic's name; {kind = route} brings messages to another's"
_HERE: Mapping[str, str] = MappingProxyType(
    {
        "ExtractNewRecordState": (
            "envelopes are stored whole; rows of their state: a table group, mode cdc (docs/cdc.md)"
        ),
        "RegexRouter": _ROUTERS,
        "ByLogicalTableRouter": _ROUTERS,
        "TimestampRouter": "write the time into parser.layout instead: dt={time:%Y-%m-%d}",
        "TimestampConverter": (
            "times keep their form: declare the column's type in output.schema_file; the layout"
            " reads them by parser.time_format"
        ),
        "Cast": "declare the column's type in output.schema_file",
        "SetSchemaMetadata": "schemas have no names here",
        "Flatten": "structures stay structures; parser.layout leads into them: {user.country}",
        "HoistField": "values are stored as they are; a plug-in may wrap them",
        "ExtractField": "values are stored whole; a plug-in may take a field out",
        "ValueToKey": "keys are not stored with decoded fields, unless output.metadata_columns",
        "Filter": "{kind = filter} keeps messages by a field: docs/parsing.md, Transforms",
        "DropHeaders": "headers are not stored, unless output.metadata_columns has _headers",
        "InsertHeader": "headers are not stored, unless output.metadata_columns has _headers",
        "HeaderFrom": "headers are not stored, unless output.metadata_columns has _headers",
    }
)
_METADATA = {
    "topic.field": "_topic",
    "partition.field": "_partition",
    "offset.field": "_offset",
    "timestamp.field": "_timestamp",
}


def convert_transforms(draft: Draft, *, fields: bool) -> None:
    """Translate ``transforms``, in their order; ``fields``: the format stores decoded fields."""
    names = [item.strip() for item in draft.value("transforms").split(",") if item.strip()]
    steps: list[Step] = []
    sources: list[str] = []
    columns: dict[str, str] = {}
    for name in names:
        before = f"transforms.{name}."
        kind = draft.value(f"{before}type")
        own = kind.rpartition(".")[2]
        # Nothing is lost by leaving these out: what they change is not stored.
        if own.endswith("$Key"):
            why = "keys are not stored with decoded fields, unless output.metadata_columns has _key"
            draft.unneeded(why, *_settings(draft, before))
            continue
        translate = _TRANSLATED.get(own.removesuffix("$Value"))
        made = translate(draft, before) if translate and fields else None
        if made:
            steps += made
            sources += _settings(draft, before)
        # Offset, partition and time of a message are columns that Secor adds itself: no step does
        # it.
        elif own == "InsertField$Value" and fields:
            columns |= _inserted(draft, before)
        else:
            _name_counterpart(draft, before, own)
    if steps:
        draft.set("parser.transforms", steps, "transforms", *sources)
    if columns:
        _add_columns(draft, columns)
    _rest(draft)


def _add_columns(draft: Draft, columns: Mapping[str, str]) -> None:
    """Add metadata columns, by their settings, to those that the sink itself asks for."""
    key = "output.metadata_columns"
    before = [line for line in draft.lines if line.key == key]
    draft.lines[:] = [line for line in draft.lines if line.key != key]
    names: dict[str, None] = {}
    for line in before:
        assert isinstance(line.value, list)
        names |= dict.fromkeys(line.value)
    names |= dict.fromkeys(columns.values())
    draft.set(key, list(names), *(name for line in before for name in line.names), *columns)


def _settings(draft: Draft, before: str) -> list[str]:
    return [name for name in draft.properties if name.startswith(before)]


def _list(draft: Draft, name: str) -> list[str]:
    return [item.strip() for item in draft.value(name).split(",") if item.strip()]


def _replace_field(draft: Draft, before: str) -> list[Step]:
    """Drop and rename; fields that are listed to stay have no counterpart."""
    if any(_list(draft, f"{before}{name}") for name in ("include", "whitelist", "predicate")):
        return []
    dropped = [*_list(draft, f"{before}exclude"), *_list(draft, f"{before}blacklist")]
    # A name with a dot is one field to Connect, and a path here: another field would be dropped.
    if any("." in name for name in dropped):
        return []
    steps: list[Step] = [{"kind": "drop", "field": name} for name in dropped]
    for pair in _list(draft, f"{before}renames"):
        old, colon, new = pair.partition(":")
        if not colon or "." in pair:
            return []
        steps.append({"kind": "rename", "field": old, "to": new})
    return steps


def _mask_field(draft: Draft, before: str) -> list[Step]:
    text = draft.value(f"{before}replacement")
    if not text or draft.value(f"{before}predicate"):
        return []
    fields = _list(draft, f"{before}fields")
    if any("." in name for name in fields):
        return []
    return [{"kind": "mask", "field": name, "value": text} for name in fields]


_TRANSLATED: Mapping[str, Callable[[Draft, str], list[Step]]] = MappingProxyType(
    {"ReplaceField": _replace_field, "MaskField": _mask_field}
)


def _inserted(draft: Draft, before: str) -> dict[str, str]:
    """Return the metadata columns that take the place of inserted fields, by their settings."""
    columns = {}
    for setting, column in _METADATA.items():
        name = f"{before}{setting}"
        # Connect's marks for required and optional fields; columns here are always there.
        field = draft.value(name).rstrip("!?")
        if field:
            columns[name] = column
        if field not in ("", column):
            draft.todo(f"readers of the field {field} read the column {column}")
    static = [f"{before}static.{item}" for item in ("field", "value")]
    draft.unsupported("a constant is in no file: add it where the objects are read", *static)
    if columns:
        draft.unneeded("output.metadata_columns has them", f"{before}type")
    else:
        why = "a constant is in no file: add it where the objects are read"
        draft.unsupported(why, f"{before}type")
    return columns


def _name_counterpart(draft: Draft, before: str, own: str) -> None:
    plain = own.removesuffix("$Value")
    tombstones = draft.value(f"predicates.{draft.value(f'{before}predicate')}.type")
    # People write this filter because the sink fails on tombstones; here none is needed.
    if plain == "Filter" and tombstones.endswith("RecordIsTombstone"):
        why = "messages without a value are no rows: text leaves them out, else quarantine has them"
        draft.unneeded(why, *_settings(draft, before))
        return
    why = _HERE.get(plain, "write a plug-in over columns (docs/parsing.md, Plug-ins)")
    if plain in ("ReplaceField", "MaskField"):
        why = (
            "a format of whole messages stores them unchanged"
            if "ByteArrayFormat" in draft.value("format.class")
            else "only fields to drop, to rename and to mask by a text: write a plug-in for others"
        )
    draft.unsupported(why, *_settings(draft, before))


def _rest(draft: Draft) -> None:
    """Report ``transforms`` and ``predicates`` themselves by what became of their parts."""
    listed = _list(draft, "transforms")
    for name in [
        item for item in draft.properties if item.startswith(("transforms.", "predicates."))
    ]:
        parts = name.split(".")
        if name in draft.outcomes or (parts[0] == "transforms" and parts[1] in listed):
            continue
        if parts[0] == "transforms":
            draft.unneeded("transforms does not name it", name)
        else:
            draft.unneeded("it is a condition of a transform: see there", name)
    draft.unneeded("see the settings of each", "transforms", "predicates")
    for name in [item for item in draft.properties if item.startswith("transforms.")]:
        draft.unneeded("it changes nothing with these settings", name)
