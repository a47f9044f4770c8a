"""The source tables of PostgreSQL, and what it takes to make and to change them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from tests.conformance.columns import LARGE, TEXTS, Kind, large_text, numeric
from tests.conformance.postgresql_columns import KINDS

STEPS = 3
"""Times at which tables are altered."""

RETYPED, FORMER = "retyped", "n_before"
"""The table whose column ``n`` gets another type at last, and what a person calls it then."""

EMPTIED = "emptied"
"""The table that is truncated at last: its topic stops until a person deletes the rows."""


@dataclass(frozen=True, slots=True)
class Alteration:
    """A statement that alters a table while its rows change: the ``step`` at which it is done, the
    columns that are there then and the names of those that are not.

    ``touches``: every row is written again, so that it has the values of the new columns.
    ``by_schema``: only messages with a schema say what the column is then.
    """

    step: int
    statement: str
    columns: Mapping[str, Kind] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    touches: bool = False
    by_schema: bool = False


def _usual_key(number: int) -> dict[str, str]:
    return {
        "id": str(number),
        "place": ("north", "süd", "")[number % 3],
        "number": f"{number / 4:.2f}",
    }


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

    alterations: tuple[Alteration, ...] = ()
    """What becomes of the columns while rows change."""

    partition_by: tuple[str, ...] = ()
    """Terms of the Iceberg table that is made."""

    key_of: Callable[[int], Mapping[str, str]] = _usual_key
    """The key of a number."""

    primary: str = "PRIMARY KEY ({})"
    """The constraint of the key."""

    as_parts: str = ""
    """What comes after the columns of a table that has parts."""

    keeps_former: bool = False
    """A change of the key keeps all values, for the former row is sent whole."""

    gone: tuple[str, ...] = ()
    """Columns that the source has no more."""

    truncate: str = ""
    """The setting of its tables, where the source is emptied."""

    keep_deletes: bool = False
    """Deleted rows stay in the table, marked."""

    strange: bool = False
    """Its names are none of Avro's, nor of declarations in Avro: only JSON's schemas have them."""

    iceberg_only: bool = False

    in_no_chunks: bool = False
    """The connector cannot read it in chunks: its query compares a timestamptz of the key with
    text, fails, and the connector passes over the table.
    """

    @property
    def topic(self) -> str:
        """The last part of the topic's name, and that of the table that is made."""
        return re.sub(r"[^\w]", "_", self.name)

    def altered(self, steps: int = STEPS) -> SourceTable:
        """Return the table as it is after some steps."""
        columns, gone = dict(self.columns), list(self.gone)
        for alteration in self.alterations:
            if alteration.step < steps:
                columns.update(alteration.columns)
                for name in alteration.gone:
                    columns.pop(name, None)
                    gone.append(name)
        return replace(self, columns=columns, gone=tuple(gone))

    def without_schema(self) -> SourceTable:
        """Return the table without the columns whose later types no message would say."""
        typed = {name for it in self.alterations if it.by_schema for name in it.columns}
        columns = {name: kind for name, kind in self.columns.items() if name not in typed}
        kept = tuple(it for it in self.alterations if not it.by_schema)
        return replace(self, columns=columns, alterations=kept)

    @property
    def statements(self) -> list[str]:
        """SQL that makes it."""
        columns = ", ".join(f"{quoted(name)} {kind.sql}" for name, kind in self.columns.items())
        external = [
            f"ALTER TABLE {quoted(self.name)} ALTER COLUMN {name} SET STORAGE EXTERNAL"
            for name in self.large
        ]
        key = self.primary.format(", ".join(map(quoted, self.key)))
        return [
            f"CREATE TABLE {quoted(self.name)} ({columns}, {key}) {self.as_parts}",
            *external,
            *self.more,
        ]


def quoted(name: str) -> str:
    """Return a name as SQL has it, whatever its letters are."""
    return f'"{name}"'


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


_numeric_38_2 = numeric(38, 2)
_LARGE = {
    "body": _drawn_by(KINDS["c_varchar"], large_text, "text"),
    "blob": _drawn_by(KINDS["c_bytea"], _large_bytes),
    "words": _drawn_by(KINDS["c_texts"], large_texts),
    "numbers": _drawn_by(KINDS["c_ints"], _large_numbers),
    "document": _drawn_by(KINDS["c_json"], _large_json),
    "object": _drawn_by(KINDS["c_jsonb"], _large_json),
}

_RESERVED = {
    "Uuid": KINDS["c_uuid"],
    "order": KINDS["c_timestamptz"],
    "Bytes": KINDS["c_bytea"],
    "number": KINDS["c_numeric_9_2"],
    "group": KINDS["c_varchar"],
}


def _reserved_key(number: int) -> dict[str, str]:
    return {
        "Uuid": f"00000000-0000-0000-0000-{number % 5:012}",
        "order": f"1969-12-31 23:59:59.{number % 2:06}+00",
        "Bytes": f"\\x00ff{number % 11:02x}",
        "number": f"{-(number % 3) / 4 - 1:.2f}",
        "group": TEXTS[number % 4],
    }


_SOURCES: dict[str, SourceTable] = {
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
            Alteration(
                0, "ALTER TABLE moves ADD COLUMN extra integer", {"extra": KINDS["c_integer"]}
            ),
            Alteration(
                1,
                "ALTER TABLE moves ALTER COLUMN extra TYPE bigint",
                {"extra": KINDS["c_bigint"]},
                touches=True,  # else a short workload may end before a message has the new type
            ),
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
        key_of=lambda number: {"id": f"00000000-0000-0000-0000-{number:012}"},
        keeps_former=True,
    ),
    # Capitals, words of SQL, and a key of several types.
    "select": SourceTable(
        "select",
        tuple(_RESERVED),
        {
            **_RESERVED,
            "from": KINDS["c_date"],
            "User": KINDS["c_varchar"],
            "table": KINDS["c_double"],
            "timestamp": KINDS["c_timestamp"],
        },
        key_of=_reserved_key,
        keep_deletes=True,
        in_no_chunks=True,
    ),
    # No primary key: the connector's message.key.columns names the key.
    "shifts": SourceTable(
        "shifts",
        ("place", "number"),
        {
            "place": KINDS["c_varchar"],
            "number": KINDS["c_numeric_9_2"],
            "person": replace(KINDS["c_varchar"], sql="varchar(60)"),
            "hours": KINDS["c_integer"],
            "notes": KINDS["c_varchar"],
            "rate": KINDS["c_real"],
            "price": KINDS["c_numeric_9_2"],
            "mood": KINDS["c_enum"],
        },
        more=("ALTER TABLE shifts REPLICA IDENTITY FULL",),
        primary="CHECK (number >= 0)",
        keeps_former=True,
        alterations=(
            Alteration(0, "ALTER TABLE shifts DROP COLUMN notes", gone=("notes",)),
            Alteration(
                0,
                "ALTER TABLE shifts RENAME COLUMN person TO worker",
                {"worker": KINDS["c_varchar"]},
                ("person",),
                touches=True,
            ),
            Alteration(
                0,
                "ALTER TYPE mood ADD VALUE 'new'",
                {"mood": replace(KINDS["c_enum"], literals=("new",))},
            ),
            Alteration(
                1,
                "ALTER TABLE shifts ALTER COLUMN worker TYPE text",
                {"worker": replace(KINDS["c_varchar"], sql="text", literals=("w" * 500,))},
            ),
            Alteration(
                1,
                "ALTER TABLE shifts ALTER COLUMN hours TYPE bigint",
                {"hours": KINDS["c_bigint"]},
                touches=True,
            ),
            Alteration(
                1,
                "ALTER TABLE shifts ALTER COLUMN rate TYPE double precision",
                {"rate": KINDS["c_double"]},
                by_schema=True,
            ),
            Alteration(
                1,
                "ALTER TABLE shifts ALTER COLUMN price TYPE numeric(38,2)",
                {"price": _numeric_38_2},
                by_schema=True,
            ),
        ),
    ),
    # No primary key but an index, and it is emptied once.
    "indexed": SourceTable(
        "indexed",
        ("code",),
        {
            "code": replace(KINDS["c_varchar"], sql="text NOT NULL"),
            "amount": KINDS["c_numeric_9_2"],
            "body": _LARGE["body"],
        },
        ("body",),
        (
            "CREATE UNIQUE INDEX by_code ON indexed (code)",
            "ALTER TABLE indexed REPLICA IDENTITY USING INDEX by_code",
        ),
        primary="CHECK (code <> 'none')",
        key_of=lambda number: {"code": f"{TEXTS[number % len(TEXTS)]}{number}"},
        truncate="ignore",
    ),
    "parts": SourceTable(
        "parts",
        ("id",),
        {"id": KINDS["c_bigint"], "title": KINDS["c_varchar"], "body": _LARGE["body"]},
        ("body",),
        (
            "CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
            "CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        ),
        as_parts="PARTITION BY HASH (id)",
    ),
    # Its primary key becomes another one; the connector goes on to write the same keys.
    "rekeyed": SourceTable(
        "rekeyed",
        ("id",),
        {
            "id": KINDS["c_bigint"],
            "rank": replace(KINDS["c_integer"], sql="integer NOT NULL", literals=()),
            "title": KINDS["c_varchar"],
            "body": _LARGE["body"],
        },
        ("body",),
        ("ALTER TABLE rekeyed REPLICA IDENTITY FULL",),
        keeps_former=True,
        alterations=(
            Alteration(
                1,
                "ALTER TABLE rekeyed DROP CONSTRAINT rekeyed_pkey, ADD PRIMARY KEY (id, rank)",
            ),
        ),
    ),
    # Of one topic partition: else changes after the truncation would be committed before it.
    EMPTIED: SourceTable(
        EMPTIED,
        ("id",),
        {"id": KINDS["c_bigint"], "title": KINDS["c_varchar"], "body": _LARGE["body"]},
        ("body",),
        truncate="stop",
        iceberg_only=True,
    ),
    # No table follows the last change of its type: a person renames the column of the table.
    RETYPED: SourceTable(
        RETYPED,
        ("id",),
        {"id": KINDS["c_bigint"], "n": KINDS["c_integer"]},
        alterations=(
            Alteration(
                STEPS - 1,
                f"ALTER TABLE {RETYPED} ALTER COLUMN n TYPE text USING 'number ' || n",
                {"n": replace(KINDS["c_varchar"], sql="text")},
                (FORMER,),
                touches=True,
            ),
        ),
        iceberg_only=True,
    ),
    "Order Lines": SourceTable(
        "Order Lines",
        ("Line Id",),
        {
            "Line Id": KINDS["c_bigint"],
            "Select": KINDS["c_integer"],
            "x.y": KINDS["c_varchar"],
            "Größe": KINDS["c_numeric_9_2"],
            "a-b": KINDS["c_date"],
            "$cost": KINDS["c_varchar"],
        },
        key_of=lambda number: {"Line Id": str(number)},
        strange=True,
        iceberg_only=True,
    ),
}
SOURCES: Mapping[str, SourceTable] = MappingProxyType(_SOURCES)

PARTS = ("parts_0", "parts_1")
"""Tables whose changes come as those of the one whose parts they are."""

KEYS_OF_MESSAGES = "public.shifts:place,number;public.rekeyed:id"
"""What the connector's ``message.key.columns`` says of tables without a key."""

BROAD = SourceTable(
    "broad",
    ("id",),
    {"id": KINDS["c_bigint"], **{f"n{number}": KINDS["c_integer"] for number in range(1599)}},
)
"""As many columns as PostgreSQL can have."""
