"""One HTML page of evidence, to be printed: numbers and hashes, nothing from elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from html import escape

from secor.archive.evidence.record import Evidence, PartitionRecord

_CAUSES = {
    "compacted": "not in the log: compaction, deleted records, transaction markers",
    "aborted": "aborted transactions",
    "filtered": "left out by the configuration",
    "unseen": "in an object's range; not compared with a log",
    "uncovered": "in no object's range; not compared with a log",
    "unknown": "in objects that record no offsets; not compared with a log",
}

_STYLE = """
body { font: 10pt/1.4 sans-serif; margin: 1.5cm; }
table { border-collapse: collapse; margin: 0.5em 0 1.5em; }
th, td { border: 1px solid #999; padding: 0.2em 0.5em; text-align: left; vertical-align: top; }
td.number { text-align: right; }
td.hash, td.key { font: 8pt monospace; word-break: break-all; }
thead { display: table-header-group; }
tr { break-inside: avoid; }
h2 { break-after: avoid; }
@page { size: A4 landscape; margin: 1cm; }
"""


def page(evidence: Evidence, data: bytes, signature: bytes | None) -> str:
    """Return the page of evidence; ``data`` are the bytes of its file."""
    making = evidence.making
    where = ", ".join(_places(evidence))
    compared = "the topics in Kafka" if making.log_read else "no topic: the objects alone"
    facts = [
        ("group", making.group),
        ("made", making.at),
        ("by", f"Secor {making.version} on {making.host}"),
        ("store", where),
        ("compared with", compared),
        ("result", evidence.summary),
        ("settings, SHA-256", making.configuration),
        ("root of the hash tree", evidence.root),
        ("file of evidence, SHA-256", hashlib.sha256(data).hexdigest()),
        ("Ed25519 signature", signature.hex() if signature else "none"),
    ]
    title = f"Evidence: {making.group}, {making.at}"
    body = [
        f"<h1>{escape(title)}</h1>",
        _table((), ((name, value) for name, value in facts), numbers=frozenset()),
        "<h2>Topic partitions</h2>",
        _table(
            (
                *("topic", "partition", "first offset", "next offset", "messages", "objects"),
                *("bytes", "first time", "last time", "hash tree"),
            ),
            (_row(partition) for partition in evidence.partitions),
            numbers=frozenset(range(1, 7)),
        ),
        "<h2>Offsets without a message</h2>",
        _table(
            ("topic", "partition", "offsets", "cause"),
            _holes(evidence.partitions),
            numbers=frozenset({1, 2}),
        ),
        "<h2>Findings</h2>",
        _table(
            ("topic", "partition", "kind", "from", "to", "count", "object"),
            _findings(evidence.partitions),
            numbers=frozenset({1, 3, 4, 5}),
        ),
        "<h2>Objects</h2>",
        _table(
            ("key", "first offset", "next offset", "messages", "bytes", "SHA-256", "CRC32C"),
            _objects(evidence.partitions),
            numbers=frozenset(range(1, 5)),
        ),
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title><style>{_STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _places(evidence: Evidence) -> Iterator[str]:
    kind = str(evidence.store.get("kind"))
    yield kind
    section = evidence.store.get(kind)
    if isinstance(section, dict):
        yield from (f"{name} {value}" for name, value in section.items() if value is not False)


def _row(partition: PartitionRecord) -> tuple[object, ...]:
    return (
        partition.topic,
        partition.partition,
        partition.start,
        partition.end,
        partition.messages,
        len(partition.objects),
        partition.size,
        partition.first_time,
        partition.last_time,
        partition.tree,
    )


def _holes(partitions: Iterable[PartitionRecord]) -> Iterator[tuple[object, ...]]:
    for partition in partitions:
        for cause, holes in partition.holes.items():
            text = _CAUSES.get(cause, cause)
            yield partition.topic, partition.partition, holes.offsets, text


def _findings(partitions: Iterable[PartitionRecord]) -> Iterator[tuple[object, ...]]:
    for partition in partitions:
        for finding in partition.verified.get("findings", ()):
            values = (
                finding["kind"],
                finding["start"],
                finding["end"],
                finding["count"],
                finding["key"],
            )
            yield partition.topic, partition.partition, *values


def _objects(partitions: Iterable[PartitionRecord]) -> Iterator[tuple[object, ...]]:
    for partition in partitions:
        for recorded in partition.objects:
            yield (
                recorded.key,
                recorded.start,
                recorded.end,
                recorded.messages,
                recorded.size,
                recorded.sha256,
                recorded.crc32c,
            )


def _table(
    head: tuple[str, ...], rows: Iterable[tuple[object, ...]], *, numbers: frozenset[int]
) -> str:
    lines = ["<table>"]
    if head:
        cells = "".join(f"<th>{escape(name)}</th>" for name in head)
        lines.append(f"<thead><tr>{cells}</tr></thead>")
    empty = True
    for row in rows:
        empty = False
        cells = "".join(_cell(value, index in numbers) for index, value in enumerate(row))
        lines.append(f"<tr>{cells}</tr>")
    if empty:
        return "<p>None.</p>"
    return "\n".join([*lines, "</table>"])


def _cell(value: object, is_number: bool) -> str:
    if is_number and isinstance(value, int):
        return f'<td class="number">{value:,}</td>'
    text = "" if value is None else str(value)
    kind = ' class="hash"' if len(text) >= 64 else ""
    return f"<td{kind}>{escape(text)}</td>"
