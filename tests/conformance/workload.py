"""The source tables, and seeded changes of their rows."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.conformance.columns import KINDS, LARGE, Kind, large_text
from tests.conformance.servers import SIGNALS

KEYS = 150
"""Of each table."""


@dataclass(frozen=True, slots=True)
class SourceTable:
    """A table of the source: its key, and all of its columns."""

    name: str
    key: tuple[str, ...]
    columns: dict[str, Kind]
    large: tuple[str, ...] = ()
    """Columns whose values are outside of their rows: updates of others leave them out."""

    more: tuple[str, ...] = ()
    """Statements after the table was made."""

    alterations: tuple[tuple[str, Kind, str], ...] = ()
    """Columns that change while rows do: the name, what it is then, and the statement."""

    partition_by: tuple[str, ...] = ()
    """Terms of the Iceberg table that is made."""

    def altered(self) -> SourceTable:
        """Return the table as it is at the end."""
        later = {name: kind for name, kind, _ in self.alterations}
        return replace(self, columns={**self.columns, **later})

    @property
    def statements(self) -> list[str]:
        """SQL that makes it."""
        columns = ", ".join(f"{name} {kind.sql}" for name, kind in self.columns.items())
        external = [
            f"ALTER TABLE {self.name} ALTER COLUMN {name} SET STORAGE EXTERNAL"
            for name in self.large
        ]
        keys = ", ".join(self.key)
        return [
            f"CREATE TABLE {self.name} ({columns}, PRIMARY KEY ({keys}))",
            *external,
            *self.more,
        ]


def _large_bytes(rng: random.Random) -> str:
    return "\\x" + rng.randbytes(LARGE if rng.random() < 0.8 else 5).hex()


def large_texts(rng: random.Random) -> str:
    return "{" + ",".join(f"{rng.getrandbits(60):x}" for _ in range(LARGE // 8)) + "}"


def _large_numbers(rng: random.Random) -> str:
    return "{" + ",".join(str(rng.getrandbits(30)) for _ in range(LARGE // 2)) + "}"


def _large_json(rng: random.Random) -> str:
    return f'{{"text": "{"x" * LARGE}", "n": {rng.getrandbits(30)}}}'


def _drawn_by(kind: Kind, draw: Callable[[random.Random], str], sql: str | None = None) -> Kind:
    return replace(kind, sql=sql or kind.sql, draw=draw, literals=())


_LARGE = {
    "body": _drawn_by(KINDS["c_varchar"], large_text, "text"),
    "blob": _drawn_by(KINDS["c_bytea"], _large_bytes),
    "words": _drawn_by(KINDS["c_texts"], large_texts),
    "numbers": _drawn_by(KINDS["c_ints"], _large_numbers),
    "document": _drawn_by(KINDS["c_json"], _large_json),
    "object": _drawn_by(KINDS["c_jsonb"], _large_json),
}

SOURCES: dict[str, SourceTable] = {
    "kinds": SourceTable("kinds", ("id",), {"id": KINDS["c_bigint"], **KINDS}),
    "notes": SourceTable(
        "notes",
        ("id",),
        {
            "id": KINDS["c_bigint"],
            "title": KINDS["c_varchar"],
            "version": KINDS["c_integer"],
            **_LARGE,
        },
        tuple(_LARGE),
    ),
    "moves": SourceTable(
        "moves",
        ("place", "number"),
        {
            "place": KINDS["c_varchar"],
            "number": KINDS["c_numeric_9_2"],
            "day": KINDS["c_date"],
            "amount": KINDS["c_numeric_38_10"],
        },
        # A table with large values would not do: PostgreSQL may not decode changes from before such
        # a table was rewritten ("could not open toast relation").
        alterations=(
            ("extra", KINDS["c_integer"], "ALTER TABLE moves ADD COLUMN extra integer"),
            ("extra", KINDS["c_bigint"], "ALTER TABLE moves ALTER COLUMN extra TYPE bigint"),
        ),
        partition_by=("place",),
    ),
    "wide": SourceTable(
        "wide",
        ("id",),
        {
            "id": KINDS["c_uuid"],
            "seen": KINDS["c_timestamptz"],
            "body": _LARGE["body"],
            "title": KINDS["c_varchar"],
        },
        ("body",),
        ("ALTER TABLE wide REPLICA IDENTITY FULL",),
        partition_by=("bucket(4, id)",),
    ),
}
BROAD = SourceTable(
    "broad",
    ("id",),
    {"id": KINDS["c_bigint"], **{f"n{number}": KINDS["c_integer"] for number in range(1599)}},
)
"""As many columns as PostgreSQL can have."""


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

    def alter(self, number: int) -> None:
        """Change columns of tables for the first time (0), or again."""
        for name, table in self.sources.items():
            for column, kind, statement in table.alterations[number : number + 1]:
                self.cursor.execute(statement)
                now = self._now[name]
                self._now[name] = replace(now, columns={**now.columns, column: kind})
                self.done["columns altered"] += 1

    def ask_for_snapshot(self) -> None:
        """Let the connector read all tables again, in chunks between the changes."""
        tables = [f"public.{name}" for name in self.sources]
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
        elif table.large and table.name != "wide":
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
        names = ", ".join(values)
        marks = ", ".join(table.columns[name].mark for name in values)
        self.cursor.execute(
            f"INSERT INTO {table.name} ({names}) VALUES ({marks})",  # noqa: S608  # our own names
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
        sets = ", ".join(f"{name} = {table.columns[name].mark}" for name in values)
        where = " AND ".join(f"{name} = %s" for name in table.key)
        self.cursor.execute(
            f"UPDATE {table.name} SET {sets} WHERE {where}",  # noqa: S608  # our own names
            [*values.values(), *key],
        )

    def _delete(self, table: SourceTable, key: tuple[str, ...]) -> None:
        where = " AND ".join(f"{name} = %s" for name in table.key)
        self.cursor.execute(f"DELETE FROM {table.name} WHERE {where}", key)  # noqa: S608  # as above
        self._keys[table.name].remove(key)
        self.done["deleted"] += 1

    def _delete_and_insert(self, table: SourceTable, key: tuple[str, ...]) -> None:
        self._delete(table, key)
        self._insert(table, key)

    def _new_key(self, table: SourceTable) -> tuple[str, ...]:
        """Return a key: of few, so that rows come back under keys that others had."""
        number = self._rng.randrange(3 * KEYS)
        whole = {
            "id": str(number) if table.name != "wide" else f"00000000-0000-0000-0000-{number:012}",
            "place": ("north", "süd", "")[number % 3],
            "number": f"{number / 4:.2f}",
        }
        return tuple(whole[name] for name in table.key)

    def _draw(self, kind: Kind) -> str | None:
        if self._rng.random() < 0.12:
            return None
        if kind.literals and self._rng.random() < 0.3:
            return self._rng.choice(kind.literals)
        return kind.draw(self._rng)


def source_rows(cursor: Any, table: SourceTable) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the rows of the source by key, as ``Kind.parse`` has their values."""
    texts = ", ".join(
        f"CASE WHEN {name} IS NOT NULL THEN {kind.text.format(name)} END"
        for name, kind in table.columns.items()
    )
    cursor.execute(f"SELECT {texts} FROM {table.name}")  # noqa: S608  # our own names
    rows: Sequence[Sequence[str | None]] = cursor.fetchall()
    parsed = [
        {
            name: None if text is None else kind.parse(text)
            for (name, kind), text in zip(table.columns.items(), row, strict=True)
        }
        for row in rows
    ]
    return {tuple(row[name] for name in table.key): row for row in parsed}
