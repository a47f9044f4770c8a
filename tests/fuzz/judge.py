"""Promises about what is stored: each message once, as it was meant or with a reason."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, IsNaN, IsNull
from pyiceberg.table import Table

from secor.core.ports import ObjectStore
from secor.formats import make_format
from tests.fuzz.columns import MEANINGS, UNKNOWN, meanings
from tests.fuzz.messages import Message, chunk_of
from tests.fuzz.paths import FuzzedPath
from tests.fuzz.process import FuzzedProcess
from tests.fuzz.readers import (
    UNREAD,
    Quarantined,
    Row,
    data_files,
    quarantined,
    rows_of,
    rows_of_table,
    text_lines,
)

ROOT = "lake/flights"
TABLE = "db.flights"


class WronglyStoredError(Exception):
    """A message is missing, twice, or other than it was."""


def require(condition: bool, text: str) -> None:
    """Raise ``WronglyStoredError`` unless the condition holds."""
    if not condition:
        raise WronglyStoredError(text)


def judge(path: FuzzedPath, process: FuzzedProcess) -> None:
    """Compare what is stored with the messages.  Raises ``WronglyStoredError``."""
    messages, directory = process.messages, process.directory
    if path.kind == "backup":
        _judge_backup(path, messages, process.own, directory / "store" / ROOT)
        return
    bad = quarantined(process.own)
    _judge_quarantine(messages, bad)
    if path.kind == "partition":
        files = data_files(directory / "store" / ROOT)
        rows = [row for file in files for row in rows_of(file)]
    else:
        rows = _rows_of_iceberg(path, process)
    _judge_rows(path, messages, {it.offset: it.reason for it in bad}, rows)
    if path.kind == "table" and path.format == "parquet" and path.schema == "declared":
        _judge_filters(_table(process), messages, rows)


def _judge_backup(
    path: FuzzedPath, messages: Sequence[Message], store: ObjectStore, directory: Path
) -> None:
    records = chunk_of(messages).records.to_pylist()
    if path.format.startswith("text"):
        files = [file for file in sorted(directory.rglob("*")) if _is_object(file)]
        lines = [line for file in files for line in text_lines(file)]
        values = [message.value for message in messages if message.value is not None]
        require(b"\n".join(lines) == b"\n".join(values), "the text is another")
        return
    stored: list[Any] = []
    if path.format.startswith("parquet"):
        for file in data_files(directory):
            stored += pq.ParquetFile(file).read().to_pylist()
    else:
        sequencefile = make_format("sequencefile")
        for it in store.list(f"{ROOT}/"):
            with store.open(it.key) as content:
                for batch in sequencefile.read(content, it.key):
                    stored += batch.to_pylist()
    _compare_records(stored, records)


def _is_object(path: Path) -> bool:
    return path.is_file() and path.suffix in (".gz", ".zst", ".txt", "")


def _compare_records(stored: Sequence[Any], records: Sequence[Any]) -> None:
    require(len(stored) == len(records), f"{len(stored)} records of {len(records)}")
    for record, given in zip(stored, records, strict=True):
        wrong = [name for name in given if (record[name] or None) != (given[name] or None)]
        require(not wrong, f"offset {given['offset']}: {wrong} differ: {record!r:.300}")


def _judge_quarantine(messages: Sequence[Message], bad: Sequence[Quarantined]) -> None:
    records = {record["offset"]: record for record in chunk_of(messages).records.to_pylist()}
    for it in bad:
        given = records[it.offset]
        require(bool(it.reason), f"offset {it.offset} is in quarantine without a reason")
        same = all(getattr(it, name) == given[name] for name in ("timestamp", "key", "value"))
        require(
            same and list(it.headers or ()) == list(given["headers"] or ()),
            f"offset {it.offset} is in quarantine as another message: {it!r:.300}",
        )
    twice = [offset for offset, n in Counter(it.offset for it in bad).items() if n > 1]
    require(not twice, f"offsets {twice} are in quarantine twice")


def _judge_rows(
    path: FuzzedPath,
    messages: Sequence[Message],
    bad: Mapping[int, str],
    rows: Sequence[Row],
) -> None:
    total = len(rows) + len(bad)
    require(
        total == len(messages), f"{len(rows)} rows and {len(bad)} in quarantine of {len(messages)}"
    )
    if path.schema == "declared":
        lost = {it: why for it, why in bad.items() if messages[it].plain and not messages[it].late}
        require(not lost, f"plain messages are in quarantine: {lost}")
    written = [it for it, message in enumerate(messages) if message.late and it not in bad]
    require(not written, f"offsets {written} cannot be written and are not in quarantine")
    by_offset = "_offset" in path.metadata
    numbers = {it: it for it in range(len(messages))} if by_offset else _offsets_of_ids(messages)
    key = "_offset" if by_offset else "id"
    found = [numbers[row[key]] for row in rows if row.get(key) in numbers]
    wanted = set(numbers.values()) - set(bad)
    require(wanted <= set(found), f"offsets {sorted(wanted - set(found))} are nowhere")
    twice = [offset for offset, n in Counter(found).items() if n > 1]
    require(not twice, f"offsets {twice} are stored twice")
    for row in rows:
        if row.get(key) in numbers:
            _judge_values(path, messages[numbers[row[key]]], row)


def _offsets_of_ids(messages: Sequence[Message]) -> dict[int, int]:
    """Return the offsets of messages by their ids, where an id is clear and of one message."""
    ids = [meanings(message.value).get("id") for message in messages]
    counts = Counter(number for number in ids if isinstance(number, int))
    return {it: at for at, it in enumerate(ids) if isinstance(it, int) and counts[it] == 1}


def _judge_values(path: FuzzedPath, message: Message, row: Row) -> None:
    if "_timestamp" in path.metadata:
        in_json = path.format == "jsonlines"  # whose lines leave out what is null
        stored = row.get("_timestamp") if in_json else row["_timestamp"]
        _judge_timestamp(message, stored, in_json=in_json)
    if path.schema != "declared" or path.format == "jsonlines":
        return
    for name, meaning in meanings(message.value).items():
        value = row[name]
        if UNREAD not in (value, meaning) and meaning is not UNKNOWN:
            require(_same(value, meaning), f"{name} is {value!r:.200} and was {meaning!r:.200}")


def _judge_timestamp(message: Message, stored: object, *, in_json: bool) -> None:
    if stored is UNREAD:
        return
    wanted = message.timestamp * 1000 if message.timestamp != -1 else None
    if not in_json or stored is None:
        same = (None if stored is None else int(str(stored))) == wanted
        require(same, f"_timestamp is {stored!r} and was {message.timestamp} ms")


def _same(stored: object, meaning: object) -> bool:
    if isinstance(meaning, float) and isinstance(stored, float):
        signs = math.copysign(1, stored) == math.copysign(1, meaning)
        return (math.isnan(stored) and math.isnan(meaning)) or (stored == meaning and signs)
    if isinstance(meaning, Decimal):
        return isinstance(stored, Decimal) and stored == meaning
    return stored == meaning and type(stored) is type(meaning)


def _table(process: FuzzedProcess) -> Table:
    assert process.catalog is not None
    return process.catalog.library.load_table(TABLE)


def _rows_of_iceberg(path: FuzzedPath, process: FuzzedProcess) -> list[Row]:
    assert process.catalog is not None
    if not process.catalog.list_tables("db"):
        return []
    scan = _table(process).scan()
    if path.format == "parquet":
        return list(rows_of_table(scan.to_arrow()))
    files = [Path(task.file.file_path.removeprefix("file://")) for task in scan.plan_files()]
    return [row for file in files for row in rows_of(file)]


def _judge_filters(table: Table, messages: Sequence[Message], rows: Sequence[Row]) -> None:
    """Find each row that is not plain by the value of each of its columns."""
    numbers = _offsets_of_ids(messages)
    for row in rows:
        if row["id"] not in numbers or messages[numbers[row["id"]]].plain:
            continue
        conditions = [_equals(name, row[name]) for name in MEANINGS]
        everything: BooleanExpression = AlwaysTrue()
        for condition in conditions:
            everything = And(everything, condition)
        found = table.scan(everything, selected_fields=("id",)).to_arrow().num_rows
        if found != 1:
            lost = [str(it) for it in conditions if not _finds(table, it, row["id"])]
            raise WronglyStoredError(f"id {row['id']} is not found by {', '.join(lost):.300}")


def _finds(table: Table, condition: BooleanExpression, number: int) -> bool:
    found = table.scan(condition, selected_fields=("id",)).to_arrow()
    return number in found.column("id").to_pylist()


def _equals(name: str, value: Any) -> BooleanExpression:
    if value is None:
        return IsNull(name)
    if isinstance(value, float) and math.isnan(value):
        return IsNaN(name)
    return EqualTo(name, value)
