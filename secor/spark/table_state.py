"""Compares the rows of a table, by key, with the last state that the messages give each key.

It does not depend on the table's format: the rows are a DataFrame from any reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from secor.core.model import TopicPartition
from secor.spark.last_changes import key_columns, key_json, last_changes, quoted, text_of
from secor.tables.rows.row_changes import DELETE, UPSERT
from secor.tables.rows.staged_rows import KEPT, ROW
from secor.tables.staging.changes_of_table import UNFIT
from secor.verify.finding import LISTED, Finding, FindingKind
from secor.verify.keys import TableState, finding_of_key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

SORTING = ("topic", "partition", "offset", "key")

Erased = Callable[[str, Sequence[tuple[TopicPartition, int]]], bool]
"""Says whether the row of a key, a JSON object, was erased after the last messages of the key."""

EXPECTED = "secor_expected"
ACTUAL = "secor_actual"


def compare_state(
    table: str,
    changes: DataFrame,
    rows: DataFrame,
    key: Sequence[str],
    *,
    whole_log: bool,
    order: str | None = None,
    erased: Erased | None = None,
) -> TableState:
    """Compare ``rows`` with all ``changes`` of the topics, see ``staged_rows.POSITION``.

    ``key`` names columns of both.  A column that only one of them has is not compared.  Unless
    this is the ``whole_log``, rows with keys that no message has are older than the log.  ``order``
    is as in ``last_changes``.  A row that ``erased`` explains is not missing, and counted.
    """
    # Read three times below; without this the log would be read and parsed each time.
    changes = changes.persist()
    kept = _kept_columns(changes)
    fit = changes.filter(f"operation <> {UNFIT}")
    judged = _judge(fit, rows, key, order, kept, whole_log=whole_log).persist()
    try:
        totals = judged.groupBy("kind").agg(
            *_sums(keys="1", messages="messages", rows="copies"),
            *_sums(known="IF(messages > 0, 1, 0)", unordered="IF(partitions > 1, 1, 0)"),
        )
        counts = {row["kind"]: row.asDict() for row in totals.collect()}
        unfit = changes.filter(f"operation = {UNFIT}").count()
        passed = ["right", *([] if whole_log else ["unknown"])]
        gone = _Gone()
        if erased is not None and "missing" in counts:
            # Each in the driver: the secret by which keys are found is in no plan of Spark's.
            gone.divide(judged.filter("kind = 'missing'").orderBy(*SORTING), erased)
            passed.append("missing")
        wrong = judged.filter(~judged["kind"].isin(passed)).orderBy(*SORTING).limit(LISTED)
        listed = sorted([*wrong.collect(), *gone.missing], key=_place)[:LISTED]
        examples = [_finding(table, row) for row in listed]
    finally:
        judged.unpersist()
        changes.unpersist()

    def total(name: str) -> int:
        return sum(of_kind[name] or 0 for of_kind in counts.values())

    kinds = {kind: of_kind["keys"] for kind, of_kind in counts.items()}
    kinds.pop("right", None)
    if gone.erased:
        kinds["missing"] -= gone.erased
    kinds = {kind: keys for kind, keys in kinds.items() if keys}
    older = kinds.pop("unknown", 0)
    if whole_log and older:
        kinds["extra"] = kinds.get("extra", 0) + older
    return TableState(
        table=table,
        messages=total("messages"),
        keys=total("known"),
        rows=total("rows"),
        wrong={FindingKind(kind): keys for kind, keys in kinds.items()},
        unfit=unfit,
        examples=examples,
        unordered=total("unordered"),
        older=0 if whole_log else older,
        erased=gone.erased,
    )


@dataclass(slots=True)
class _Gone:
    """Rows that are not there: how many are ``erased``, and the first that are ``missing``."""

    erased: int = 0
    missing: list[Any] = field(default_factory=list)

    def divide(self, rows: DataFrame, erased: Erased) -> None:
        for row in rows.toLocalIterator():
            last = [
                (TopicPartition(topic, number), offset) for topic, number, offset in row["last"]
            ]
            if erased(row["key"], last):
                self.erased += 1
            elif len(self.missing) < LISTED:
                self.missing.append(row)


def _place(row: Any) -> tuple[bool, str, int, int, str]:
    """Order rows as Spark orders them by ``SORTING``: nulls come first."""
    message = (row["topic"] or "", row["partition"] or 0, row["offset"] or 0)
    return (row["topic"] is not None, *message, row["key"])


def _sums(**expressions: str) -> list[Any]:
    from pyspark.sql import functions

    return [functions.expr(f"sum({sql})").alias(name) for name, sql in expressions.items()]


def _kept_columns(changes: DataFrame) -> list[int]:
    """Return the numbers of the columns that some change leaves out."""
    if KEPT.name not in changes.columns:
        return []
    numbers = changes.selectExpr(f"explode({KEPT.name}) AS number").distinct().collect()
    return sorted(row["number"] for row in numbers)


def _judge(
    changes: DataFrame,
    rows: DataFrame,
    key: Sequence[str],
    order: str | None,
    kept: Sequence[int],
    *,
    whole_log: bool,
) -> DataFrame:
    """Return one row for each key: whether the table is ``right``, or which ``kind`` of wrong.

    Values of left-out columns that the log does not have are not compared: they are
    older, or came by a topic partition whose order nobody knows.
    """
    session: Any = changes.sparkSession
    last = last_changes(changes, key, order=order, every=True, kept=kept)
    last.createOrReplaceTempView(EXPECTED)
    selected = ", ".join(f"{quoted(name)} AS key_{index}" for index, name in enumerate(key))
    rows.createOrReplaceTempView(ACTUAL)
    types = cast("StructType", changes.schema[ROW].dataType)
    compared = [field.name for field in rows.schema if field.name in types.names]
    columns = ", ".join(map(quoted, compared))

    def equals(change: str, name: str) -> str:
        same = _equals(change, name, types)
        number = types.names.index(name)
        if number not in kept:
            return same
        known = f"NOT coalesce(array_contains({change}.{KEPT.name}, {number}), false)"
        return f"({same} OR NOT ({known}{' OR partitions = 1' if whole_log else ''}))"

    differing = ", ".join(
        f"IF({equals('change', name)}, NULL, '{text_of(name)}')" for name in compared
    )
    is_equal = " AND ".join(equals("c", name) for name in compared)
    keys = key_columns(key)
    return cast(
        "DataFrame",
        session.sql(
            f"""
        WITH actual AS (
            SELECT {keys}, count(*) AS copies, first(table_row) AS table_row
            FROM (SELECT {selected}, struct({columns}) AS table_row FROM {ACTUAL})
            GROUP BY {keys}
        ),
        judged AS (
            SELECT *, CASE
                WHEN copies > 1 THEN 'twice'
                WHEN changes IS NULL THEN 'unknown'
                WHEN copies IS NULL AND exists(changes, c -> c.operation = {DELETE}) THEN 'right'
                WHEN copies IS NULL THEN 'missing'
                WHEN NOT exists(changes, c -> c.operation = {UPSERT}) THEN 'extra'
                WHEN exists(changes, c -> c.operation = {UPSERT} AND {is_equal}) THEN 'right'
                ELSE 'different' END AS kind
            FROM {EXPECTED} FULL OUTER JOIN actual USING ({keys})
        )
        SELECT kind, messages, partitions, copies, {key_json(key)} AS key,
            change.topic AS topic, change.partition AS partition, change.offset AS offset,
            IF(kind = 'different', array_compact(array({differing})), array()) AS columns,
            IF(kind = 'missing', transform(changes, c -> struct(c.topic, c.partition, c.offset)),
                array()) AS last
        FROM judged
        """  # noqa: S608  # names are quoted, and nothing else comes from outside
        ),
    )


def _equals(change: str, name: str, types: StructType) -> str:
    """Return SQL that compares a column of a change with the table's; nulls are equal."""
    kind = types[name].dataType
    staged = _comparable(f"{change}.{ROW}.{quoted(name)}", kind)
    return f"{staged} <=> {_comparable(f'table_row.{quoted(name)}', kind)}"


def _comparable(value: str, kind: DataType, names: count[int] | None = None) -> str:
    """Return SQL for a value that can be compared: Spark compares no maps."""
    from pyspark.sql import types

    if not _has_map(kind):
        return value
    names = names or count()
    each = f"x{next(names)}"
    if isinstance(kind, types.MapType):
        key = _comparable(f"{each}.key", kind.keyType, names)
        item = _comparable(f"{each}.value", kind.valueType, names)
        pairs = f"transform(map_entries({value}), {each} -> struct({key} AS k, {item} AS v))"
        return f"array_sort({pairs})"
    if isinstance(kind, types.ArrayType):
        return f"transform({value}, {each} -> {_comparable(each, kind.elementType, names)})"
    assert isinstance(kind, types.StructType)
    inner = [
        f"{_comparable(f'{value}.{quoted(field.name)}', field.dataType, names)} AS f{index}"
        for index, field in enumerate(kind)
    ]
    return f"IF({value} IS NULL, NULL, struct({', '.join(inner)}))"


def _has_map(kind: DataType) -> bool:
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        return any(_has_map(field.dataType) for field in kind)
    if isinstance(kind, types.ArrayType):
        return _has_map(kind.elementType)
    return isinstance(kind, types.MapType)


def _finding(table: str, row: Any) -> Finding:
    kind = FindingKind("extra" if row["kind"] == "unknown" else row["kind"])
    if row["topic"] is None:
        return finding_of_key(table, kind, row["key"])
    message = TopicPartition(row["topic"], row["partition"]), row["offset"]
    return finding_of_key(table, kind, row["key"], message, row["columns"])
