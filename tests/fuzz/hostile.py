"""Hostile messages from a seed: values, keys, timestamps and headers at their edges."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from tests.fuzz.messages import PLAIN_TIME, Message

CHARACTERS = (
    *("\ud7ff", "\ud800", "\udbff", "\udc00", "\udfff", "\ue000", "\uffff", "\U0010ffff"),
    *("\U0001f600", "\x00", "\x7f", "\u0080", "\u00e9", "e\u0301", "\u2028", "\ufeff", "\u202e"),
    *("/", "..", ".", "=", "%", "%2F", "'", '"', "\\", "\n", "\r\n", "\t", " ", "_", "~", "{}"),
    *("a", "b", "z", "\u00fe", "$", "*", "?", "#", ":", ";", "&", "+", ","),
)
LENGTHS = (0, 1, 2, 3, 15, 16, 17, 18, 64, 255, 256, 5000)
TEXTS = (
    *("", " ", "null", "None", "__HIVE_DEFAULT_PARTITION__", "NaN", "true", "0", "-0", "1e400"),
    *("..", "/", "a/../b", "\ud7ff" * 17, "\U0010ffff" * 17, "\udbff", "x" * 70_000),
)
WHOLE = (
    *(0, -1, 1, 127, 128, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**53, 2**53 + 1),
    *(2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 10**38, 10**400),
)
NUMBERS = (
    *("-0.0", "5e-324", "1e308", "1e309", "-1e309", "1e-400", "NaN", "Infinity", "-Infinity"),
    *("0.1", "2826.0", "1e3", "99999999999999999999.5", "9999999999999999999999999999.9999999999"),
    *("-9999999999999999999999999999.9999999999", "0.00000000001", "1E+2", "1" + "0" * 4400, "1.5"),
    *map(str, WHOLE),
)
DAYS = (
    *("1970-01-01", "1969-12-31", "0001-01-01", "9999-12-31", "1900-02-28", "2024-02-29"),
    *("0000-01-01", "10000-01-01", "-0001-01-01", "2023-02-29", "+2024-01-01", "1582-10-10"),
)
TIMES = (
    *(f"{day}T{clock}" for day in DAYS for clock in ("00:00:00Z", "23:59:59.999999Z")),
    *("2026-03-31T03:17:37.260514+0000", "2026-03-31T03:17:37.260514-00:00", "1969-12-31 22:30Z"),
    *("2026-03-31T03:17:37,260514Z", "2026-03-31T03:17:37.260514123Z", "2016-12-31T23:59:60Z"),
    *("2026-03-31T24:00:00Z", "0001-01-01T00:00:00+18:00", "9999-12-31T23:59:59.999999-18:00"),
)
TIMESTAMPS = (
    *(-1, 0, 1, -2, -86_400_000, 253_402_300_799_999, 253_402_300_800_000, -62_135_596_800_001),
    *(1_763_694_245, 1_763_694_245_123_456, 1_763_694_245_123_456_789, 2**31, 2**53, 2**62),
    *(9_223_372_036_854_775, 9_223_372_036_854_776, 2**63 - 1, -(2**63), -(2**62)),
)
RAW: Sequence[bytes | None] = (
    *(
        None,
        b"",
        b" ",
        b"null",
        b"[]",
        b"{}",
        b"1",
        b'"x"',
        b"{",
        b'{"id": 1',
        b"\xff\xfe",
        b"\x00",
    ),
    *(b"\xef\xbb\xbf{}", '{"id": 1}'.encode("utf-16"), b"[" * 20_000, b'{"a":' * 20_000, b"{} {}"),
    *(b'{"s": "\xed\xa0\x80"}', b'{"s": "\xff"}', b'{"l": 1, "l": "x"}', b'{"l": 01}', b'{"": 1}'),
    *(b'{"l": ' + b"9" * 10_000 + b"}", b'{"_offset": "x", "_timestamp": [], "_topic": {}}'),
    *(
        b'{"L": 1, "l": 2}',
        b'{"o": {"k": {"k": {}}}}',
        b'{"a.b": 1, "a": {"b": 2}}',
        b'{"a\\u0000": 1}',
    ),
    *(b'{"many": [[]], "o": {}, "m": {"": null}}', b'{"s": {}}', b'{"s": []}', b'{"many": [null]}'),
)
NAMES = (b"", b"a", b"a", b"\xff", b"\xed\xa0\x80", b"\x00", "\U0010ffff".encode(), b"x" * 300)
KEYS = (None, b"", b"\xff", b"\x00" * 40, b"key", b"{}", "\ud7ff".encode("utf-8", "surrogatepass"))


def text(rng: random.Random) -> str:
    """Return a text at an edge: few characters, repeated to a length where readers cut."""
    if rng.random() < 0.3:
        return rng.choice(TEXTS)
    some = [rng.choice(CHARACTERS) for _ in range(rng.randint(1, 3))]
    length = rng.choice(LENGTHS)
    return (rng.choice("ab ") * rng.choice((0, 0, 14, 15, 16)) + "".join(some) * length)[:length]


def plain_fields(number: int) -> dict[str, Any]:
    """Return the fields of a message that every path takes."""
    return {
        "id": number,
        "s": f"plain {number}",
        "l": number,
        "i": number,
        "d": number + 0.5,
        "dec": f"{number}.25",
        "day": "2026-11-21",
        "ts": f"2026-11-21T04:05:{number % 60:02d}Z",
        "b": f"bytes {number}",
        "yes": number % 2 == 0,
        "many": ["a", f"b{number}"],
        "o": {"k": number, "t": "x"},
        "m": {"x": 0.5},
    }


def plain(number: int) -> Message:
    """Return the message of this number that every path takes."""
    fields = json.dumps(plain_fields(number)).encode()
    return Message(fields, b"%d" % number, PLAIN_TIME + number, ((b"h", b"v"),), plain=True)


def hostile(rng: random.Random, number: int) -> Message:
    """Return a message with something at an edge, often in one place only."""
    value = rng.choice(RAW) if rng.random() < 0.15 else _object(rng, number)
    timestamp = rng.choice(TIMESTAMPS) if rng.random() < 0.2 else PLAIN_TIME + number
    key = rng.choice(KEYS) if rng.random() < 0.3 else b"%d" % number
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    if rng.random() < 0.3:
        names = [rng.choice(NAMES) for _ in range(rng.randint(1, 3))]
        headers = tuple((name, rng.choice((None, b"", b"\xff", b"v"))) for name in names)
    return Message(value, key, timestamp, headers)


def _object(rng: random.Random, number: int) -> bytes:
    fields: dict[str, str] = {
        name: json.dumps(value) for name, value in plain_fields(number).items()
    }
    names = [name for name in fields if name != "id"]
    for name in rng.sample(names, rng.choice((1, 1, 2, 4, len(names)))):
        fields[name] = _value(rng, name)
    if rng.random() < 0.1:
        del fields[rng.choice(names)]
    if rng.random() < 0.1:
        fields[text(rng)[:40] or "new"] = _value(rng, "s")
    pairs = (f"{json.dumps(name)}: {value}" for name, value in fields.items())
    return ("{" + ", ".join(pairs) + "}").encode()


OF_COLUMNS: Mapping[str, Sequence[object]] = {"day": DAYS, "ts": TIMES, "yes": (True, False, 0)}


def _value(rng: random.Random, name: str) -> str:
    """Return the JSON text of a value: of the column's own type, mostly."""
    if rng.random() < 0.08:
        return rng.choice(("null", "[]", "{}", "[null]", "true", '""', "0", '{"k": []}', "[[1]]"))
    match name:
        case "s" | "b":
            return json.dumps(text(rng))
        case "l" | "i":
            return str(rng.choice(WHOLE)) if rng.random() < 0.8 else rng.choice(NUMBERS)
        case "d" | "dec":
            number = rng.choice(NUMBERS)
            return number if rng.random() < 0.6 else json.dumps(number)
        case "many":
            return json.dumps([rng.choice((None, text(rng))) for _ in range(rng.randint(0, 3))])
        case "o":
            return f'{{"k": {rng.choice(NUMBERS)}, "t": {json.dumps(text(rng))}}}'
        case "m":
            return f"{{{json.dumps(text(rng))}: {rng.choice(NUMBERS)}}}"
        case _:
            return json.dumps(rng.choice(OF_COLUMNS[name]))


def messages(rng: random.Random) -> list[Message]:
    """Return the messages of one case: a few hostile ones among plain ones."""
    count = rng.randint(3, 40)
    bad = set(rng.sample(range(count), rng.randint(1, max(1, count // 3))))
    return [hostile(rng, it) if it in bad else plain(it) for it in range(count)]
