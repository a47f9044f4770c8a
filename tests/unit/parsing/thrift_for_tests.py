"""Classes as the Thrift compiler writes them for Python, of

struct User { 1: required string country, 2: optional i32 id, 3: optional User friend }
struct Event {
  1: i64 ts, 2: User user, 3: list<i16> shorts, 4: map<string, bool> flags, 5: bool paid,
  6: double share = 0.25, 7: i8 small, 9: string country = "NL", 10: list<User> friends,
  11: set<string> words = ["b", "a"], 12: User owner = {"country": "DE"},
  13: map<string, binary> raw = {"x": "y"}, 300: set<binary> blobs
}
struct Odd { 1: set<Odd> others, 2: string old }
"""

from __future__ import annotations

from typing import Any

BOOL, BYTE, DOUBLE, I16, I32, I64 = 2, 3, 4, 6, 8, 10
STRING, STRUCT, MAP, SET, LIST = 11, 12, 13, 14, 15


class User:
    thrift_spec: Any = ()

    def __init__(
        self, country: str | None = None, id: int | None = None, friend: User | None = None
    ) -> None:
        self.country = country
        self.id = id
        self.friend = friend


User.thrift_spec = (
    None,
    (1, STRING, "country", "UTF8", None),
    (2, I32, "id", None, None),
    (3, STRUCT, "friend", [User, None], None),
)


class Event:
    thrift_spec = (
        None,
        (1, I64, "ts", None, None),
        (2, STRUCT, "user", [User, User.thrift_spec], None),
        (3, LIST, "shorts", (I16, None, False), None),
        (4, MAP, "flags", (STRING, "UTF8", BOOL, None, False), None),
        (5, BOOL, "paid", None, None),
        (6, DOUBLE, "share", None, 0.25),
        (7, BYTE, "small", None, None),
        None,
        (9, STRING, "country", "UTF8", "NL"),
        (10, LIST, "friends", (STRUCT, [User, User.thrift_spec], False), None),
        (11, SET, "words", (STRING, "UTF8", False), {"b", "a"}),
        (12, STRUCT, "owner", [User, User.thrift_spec], User(country="DE")),
        (13, MAP, "raw", (STRING, "UTF8", STRING, "BINARY", False), {"x": "y"}),
        (300, SET, "blobs", (STRING, "BINARY", False), None),
    )


class Odd:
    thrift_spec: Any = ()


Odd.thrift_spec = (
    None,
    (1, SET, "others", (STRUCT, [Odd, None], False), None),
    (2, STRING, "old", None, None),
)


class Unknown:
    thrift_spec = (None, (1, 99, "what", None, None))


class NoStruct:
    """Written by hand."""


class Every:
    """``tests.unit.parsing.encodings``' fields."""

    thrift_spec = (
        None,
        (1, I64, "number", None, None),
        (2, STRING, "country", "UTF8", None),
        (3, I64, "s", None, None),
        (4, I64, "ms", None, None),
        (5, I64, "us", None, None),
        (6, I64, "ns", None, None),
        (7, STRING, "iso", "UTF8", None),
        (8, STRING, "log", "UTF8", None),
        (9, STRING, "java", "UTF8", None),
    )
