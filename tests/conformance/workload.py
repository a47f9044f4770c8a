"""Seeded changes of the rows of source tables."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.conformance.columns import Kind
from tests.conformance.servers import SIGNALS
from tests.conformance.source_tables import SOURCES, SourceTable, quoted

KEYS = 150
"""Of each table."""


@dataclass
class Workload:
    """Writes changes; ``cursor`` is a driver's, with a connection that commits by itself."""

    cursor: Any
    seed: int
    sources: Mapping[str, SourceTable] = field(default_factory=lambda: SOURCES)
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self._keys: dict[str, list[tuple[str, ...]]] = {name: [] for name in self.sources}
        self._now = dict(self.sources)
        """The tables with the columns that they have now."""

    def create(self) -> None:
        """Make the tables."""
        for table in self.sources.values():
            for statement in table.statements:
                self.cursor.execute(statement)
        columns = "id varchar(42) PRIMARY KEY, type varchar(32), data varchar(2048)"
        self.cursor.execute(f"CREATE TABLE {SIGNALS} ({columns})")

    def alter(self, step: int) -> None:
        """Change columns of tables for the first time (0), or again."""
        for name, table in self.sources.items():
            for alteration in table.alterations:
                if alteration.step == step:
                    self.cursor.execute(alteration.statement)
                    self.done["columns altered"] += 1
            self._now[name] = table.altered(step + 1)
            if any(it.touches for it in table.alterations if it.step == step):
                key = quoted(table.key[0])
                self.cursor.execute(f"UPDATE {quoted(name)} SET {key} = {key}")  # noqa: S608

    def empty(self) -> None:
        """Delete all rows of some tables, and truncate them: nobody can say of which rows a
        truncation is that is stored in another topic partition.
        """
        for name, table in self.sources.items():
            if table.truncate == "ignore":
                self.cursor.execute("BEGIN")
                self.cursor.execute(f"DELETE FROM {quoted(name)}")  # noqa: S608
                self.cursor.execute(f"TRUNCATE TABLE {quoted(name)}")
                self.cursor.execute("COMMIT")
                self.done["truncated"] += 1
                self.done["deleted"] += len(self._keys[name])
                self._keys[name].clear()

    def truncate(self, name: str) -> None:
        """Truncate a table, and go on to change its rows."""
        self.cursor.execute(f"TRUNCATE TABLE {quoted(name)}")
        self.done["truncated"] += 1
        self._keys[name].clear()
        for _ in range(KEYS):
            self._change(self._now[name])

    def ask_for_snapshot(self) -> None:
        """Let the connector read all tables again, in chunks between the changes."""
        tables = [
            f"public.{name}"
            for name, table in self.sources.items()
            if not table.strange and not table.in_no_chunks
        ]
        self.cursor.execute(
            f"INSERT INTO {SIGNALS} VALUES ('again', 'execute-snapshot', %s)",  # noqa: S608  # ours
            [json.dumps({"data-collections": tables, "type": "incremental"})],
        )

    def change_one_row_often(self) -> None:
        """Set the large columns of a row once, then another one a thousand times."""
        table, key = self._now["notes"], "1000000"
        self._insert(table, (key,))
        self.cursor.execute("BEGIN")
        for number in range(1, 1001):
            self._set(table, (key,), {"version": str(number)})
        self.cursor.execute("COMMIT")
        self.done["updated"] += 1000

    def steps(self, count: int) -> None:
        """Make changes, a few in each transaction."""
        for _ in range(count):
            table = self._now[self._rng.choice(list(self._now))]
            self.cursor.execute("BEGIN")
            for _ in range(self._rng.randint(1, 4)):
                self._change(table)
            self.cursor.execute("COMMIT")

    def run(self, seconds: float, rate: float) -> None:
        """Make changes for some time, ``rate`` transactions a second."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._paced(max(1, int(rate / 10)))

    def run_counted(self, count: int, rate: float) -> None:
        """Make changes in ``count`` transactions, ``rate`` a second."""
        while count > 0:
            several = min(count, max(1, int(rate / 10)))
            self._paced(several)
            count -= several

    def _paced(self, count: int) -> None:
        began = time.monotonic()
        self.steps(count)
        time.sleep(max(0.0, 0.1 - (time.monotonic() - began)))

    def _change(self, table: SourceTable) -> None:
        keys, rng = self._keys[table.name], self._rng
        chance = rng.random()
        if not keys or (len(keys) < KEYS and chance < 0.35):
            self._insert(table)
        elif chance < 0.80:
            self._update(table, rng.choice(keys))
        elif chance < 0.90:
            self._delete(table, rng.choice(keys))
        elif table.large and not table.keeps_former:
            # Without the whole old row, nothing says what a large column had under the old key.
            self._delete_and_insert(table, rng.choice(keys))
        else:
            self._move(table, rng.choice(keys))

    def _insert(self, table: SourceTable, key: tuple[str, ...] | None = None) -> None:
        key = key or self._new_key(table)
        if key in self._keys[table.name]:
            return
        values = {
            name: self._draw(kind) for name, kind in table.columns.items() if name not in table.key
        }
        values |= dict(zip(table.key, key, strict=True))
        names = ", ".join(map(quoted, values))
        marks = ", ".join(table.columns[name].mark for name in values)
        self.cursor.execute(
            f"INSERT INTO {quoted(table.name)} ({names}) VALUES ({marks})",  # noqa: S608  # our own names
            list(values.values()),
        )
        self._keys[table.name].append(key)
        self.done["inserted"] += 1

    def _update(self, table: SourceTable, key: tuple[str, ...]) -> None:
        rng = self._rng
        names = [name for name in table.columns if name not in table.key]
        chosen = rng.sample(names, rng.randint(1, min(3, len(names))))
        if table.large and rng.random() < 0.6:
            chosen = [name for name in names if name not in table.large][:1]
        self._set(table, key, {name: self._draw(table.columns[name]) for name in chosen})
        self.done["updated"] += 1

    def _move(self, table: SourceTable, key: tuple[str, ...]) -> None:
        target = self._new_key(table)
        if target in self._keys[table.name]:
            return
        self._set(table, key, dict(zip(table.key, target, strict=True)))
        self._keys[table.name].remove(key)
        self._keys[table.name].append(target)
        self.done["key changed"] += 1

    def _set(self, table: SourceTable, key: tuple[str, ...], values: dict[str, Any]) -> None:
        sets = ", ".join(f"{quoted(name)} = {table.columns[name].mark}" for name in values)
        where = _is_key(table)
        self.cursor.execute(
            f"UPDATE {quoted(table.name)} SET {sets} WHERE {where}",  # noqa: S608  # our own names
            [*values.values(), *key],
        )

    def _delete(self, table: SourceTable, key: tuple[str, ...]) -> None:
        where = _is_key(table)
        self.cursor.execute(f"DELETE FROM {quoted(table.name)} WHERE {where}", key)  # noqa: S608  # as above
        self._keys[table.name].remove(key)
        self.done["deleted"] += 1

    def _delete_and_insert(self, table: SourceTable, key: tuple[str, ...]) -> None:
        self._delete(table, key)
        self._insert(table, key)

    def _new_key(self, table: SourceTable) -> tuple[str, ...]:
        """Return a key: of few, so that rows come back under keys that others had."""
        number = self._rng.randrange(3 * KEYS)
        whole = table.key_of(number)
        return tuple(whole[name] for name in table.key)

    def _draw(self, kind: Kind) -> str | None:
        if self._rng.random() < 0.12 and "NOT NULL" not in kind.sql:
            return None
        if kind.literals and self._rng.random() < 0.3:
            return self._rng.choice(kind.literals)
        return kind.draw(self._rng)


def _is_key(table: SourceTable) -> str:
    return " AND ".join(f"{quoted(name)} = {table.columns[name].mark}" for name in table.key)


def source_rows(cursor: Any, table: SourceTable) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the rows of the source by key, as ``Kind.parse`` has their values."""
    texts = ", ".join(
        f"CASE WHEN {quoted(name)} IS NOT NULL THEN {kind.text.format(quoted(name))} END"
        for name, kind in table.columns.items()
    )
    cursor.execute(f"SELECT {texts} FROM {quoted(table.name)}")  # noqa: S608  # our own names
    rows: Sequence[Sequence[str | None]] = cursor.fetchall()
    parsed = [
        {
            name: None if text is None else kind.parse(text)
            for (name, kind), text in zip(table.columns.items(), row, strict=True)
        }
        for row in rows
    ]
    return {tuple(row[name] for name in table.key): row for row in parsed}
