"""Names and directories of Aiven's S3 sink: prefix, layout and names by its template.

Source: ``S3SinkTask``, ``TopicPartitionRecordGrouper`` and ``RecordGrouperFactory`` of
cloud-storage-connectors-for-apache-kafka 3.4.
"""

from __future__ import annotations

import re

from secor.config.translation.draft import Draft, PropertyOutcome
from secor.core.errors import ConfigurationError
from secor.core.naming import ConnectName
from secor.parsing.layout import Layout
from secor.parsing.zones import Zone

_TEMPLATE = "file.name.template"
_DEFAULT_TEMPLATE = "{{topic}}-{{partition}}-{{start_offset}}"
_COMPRESSION = "file.compression.type"
_WITH_PREFIX = "{{topic}}-{{partition}}-{{start_offset:padding=true}}"
_EXTENSIONS = {"gzip": ".gz", "snappy": ".snappy", "zstd": ".zst"}
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*(?::\s*([^}]*?)\s*)?\}\}")
_TIMES = {"yyyy": "%Y", "YYYY": "%Y", "MM": "%m", "dd": "%d", "HH": "%H"}


def convert_names(draft: Draft) -> None:
    """Set prefix, layout and names by the template."""
    prefix, template = draft.value("aws.s3.prefix"), draft.value(_TEMPLATE)
    # Where there is a prefix, the sink looks at no template.
    own = ["aws.s3.prefix"] if prefix else [_TEMPLATE] if template else []
    whole = prefix + _WITH_PREFIX if prefix else template or _DEFAULT_TEMPLATE
    if prefix or not template:
        whole += ".avro" if draft.value("format.output.type").lower() == "avro" else ""
        whole += _EXTENSIONS.get(draft.value(_COMPRESSION).lower() or "gzip", "")
    *directories, name = whole.split("/")
    before: list[str] = []
    while directories and "{{" not in directories[0]:
        before.append(directories.pop(0))
    # Secor makes the topic's directory itself: in the layout it would be there twice.
    has_topic = bool(directories) and _VARIABLE.fullmatch(directories[0]) is not None
    has_topic = has_topic and "topic" in directories[0]
    layout, has_layout = "partition={kafka_partition}", False
    try:
        rest = "/".join(_piece(item) for item in directories[has_topic:] if item)
        Layout(rest)
        # Secor has a directory for each topic, and behind it may be none.
        layout, has_layout = (rest, True) if rest or has_topic else (layout, False)
    except ConfigurationError as error:
        draft.unsupported(f"write parser.layout by hand: {error}", *own)
    naming = _naming(draft, name, own)
    if draft.outcomes.get(_COMPRESSION, (None,))[0] is PropertyOutcome.UNSUPPORTED:
        # Who reads it takes the extension for the compression.
        naming = naming.partition(".")[0]
    mapped = [item for item in own if item not in draft.outcomes]
    draft.set("output.prefix", "/".join(item for item in before if item), *mapped)
    if naming:
        draft.set("output.naming", naming, *mapped, note="Names as the sink's.")
    draft.set("parser.layout", layout, *mapped)
    _say_where(
        draft, whole, [*before, "TOPIC", layout], alike=bool(naming) and has_topic and has_layout
    )
    draft.unneeded("aws.s3.prefix comes first: the sink does not look at it", _TEMPLATE)
    _times(draft, timed="{time:" in layout)


def _naming(draft: Draft, name: str, own: list[str]) -> str:
    """Return the template of names here; empty, if there is none: they are Secor's then."""
    if "{{key}}" in name.replace(" ", ""):
        why = (
            "the sink keeps the newest message of each key, an object each; here every message is"
            " stored, in objects of many: a table with mode = upsert keeps one row a key"
        )
        draft.unsupported(why, *own)
        return ""
    naming = _VARIABLE.sub(_of_name, name)
    try:
        ConnectName.of_template(naming)
    except ValueError:
        draft.unsupported(
            f"names are topic, partition and start_offset, with -, _ or + between them, not {name}:"
            " they are Secor's own (docs/formats.md)",
            *own,
        )
        return ""
    return naming


def _of_name(match: re.Match[str]) -> str:
    padded = match[2] == "padding=true"
    number = {"partition": "{partition:010}", "start_offset": "{offset:020}"}
    if match[1] in number:
        return number[match[1]] if padded else re.sub(":[0-9]+", "", number[match[1]])
    return "{topic}" if match[1] == "topic" else match[0]


def _say_where(draft: Draft, whole: str, parts: list[str], *, alike: bool) -> None:
    if not alike:
        ours = "/".join(filter(None, parts))
        draft.todo(
            f"objects go to {ours}/, the sink's are {whole}: readers, and secor verify, need both"
            " directories"
        )


def _piece(text: str) -> str:
    def placeholder(match: re.Match[str]) -> str:
        name, argument = match[1], match[2] or ""
        unit = argument.removeprefix("unit=")
        if name == "timestamp" and unit in _TIMES:
            return f"{{time:{_TIMES[unit]}}}"
        if name == "topic":
            return "{topic}"
        if name == "partition" and argument != "padding=true":
            return "{kafka_partition}"
        raise ConfigurationError(f"no layout writes {match[0]}")

    return _VARIABLE.sub(placeholder, text).replace("}{time:", "")


def _times(draft: Draft, *, timed: bool) -> None:
    for before in ("file.name.timestamp.", "timestamp."):
        zone, source = f"{before}timezone", f"{before}source"
        given = draft.value(zone)
        try:
            if timed and given not in ("", "UTC"):
                Zone(given)
                draft.set("parser.time_zone", given, zone)
        except ConfigurationError as error:
            draft.unsupported(f"set parser.time_zone: {error}", zone)
        draft.unneeded("directories have no times, or UTC's", zone)
        draft.unneeded("directories follow Kafka's timestamp", source)
    if timed:
        draft.todo(
            "directories follow Kafka's timestamp, not the worker's clock: a message that waited"
            " goes into an earlier directory than the connector's"
        )
