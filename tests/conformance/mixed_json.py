"""A topic of mixed JSON as people have them: forty shapes of one field and of whole messages.

``corpus`` gives the messages, each with its shape and whether some column can hold it.  The
rule that this holds to is in docs/tables.md, "Rows": what is in quarantine is what no column holds.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

MESSAGES = 10_000
RARE = 0.004
"""Share of messages whose field is of another kind than in all others."""

Numbers = Literal["as seen", "double", "decimal"]

Make = Callable[[random.Random, int], Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a field of some messages holds.

    ``rare`` values are of another kind than the rest: ``fits`` says that the column takes them,
    ``of_numbers`` that it does unless ``rows.numbers`` is "as seen".
    """

    name: str
    usual: Make
    rare: Make | None = None
    fits: bool = True
    of_numbers: bool = False


@dataclass(frozen=True, slots=True)
class MixedMessage:
    """A message of the corpus; ``storable`` unless no column can hold it."""

    shape: str
    value: bytes
    storable: bool


def _integer(rng: random.Random, _: int) -> int:
    return rng.randrange(-(10**6), 10**6)


def _fraction(rng: random.Random, _: int) -> float:
    return rng.randrange(10**6) / 128


def _word(rng: random.Random, _: int) -> str:
    return "".join(rng.choices("abcdefghijk é表😀", k=rng.randrange(12)))


def _object(rng: random.Random, number: int) -> dict[str, Any]:
    return {"x": rng.randrange(100), "y": _word(rng, number)}


def _objects(rng: random.Random, number: int) -> list[dict[str, Any]]:
    return [_object(rng, number) for _ in range(rng.randrange(1, 4))]


def _time(zone: str) -> Make:
    def make(rng: random.Random, _: int) -> str:
        month, day, second = rng.randrange(1, 13), rng.randrange(1, 29), rng.randrange(60)
        return f"2026-{month:02}-{day:02}T03:17:{second:02}.{rng.randrange(1000):03}{zone}"

    return make


def _constant(value: Any) -> Make:
    return lambda *_: value


def _either(*makes: Make) -> Make:
    return lambda rng, number: rng.choice(makes)(rng, number)


SHAPES: Sequence[Shape] = (
    Shape("integers", _integer),
    Shape("fractions", _fraction),
    Shape("fractions written as integers now and then", _either(_fraction, _integer)),
    Shape("integers and now and then a fraction without digits", _either(_integer, _constant(7.0))),
    Shape("exponents", _either(_constant(1e3), _constant(-2.5e-7), _fraction)),
    Shape("integers of 64 bits", lambda rng, _: rng.randrange(-(2**63), 2**63)),
    Shape("ids beyond 64 bits", lambda rng, _: rng.randrange(2**63, 2**80)),
    Shape("ids, half of them beyond 64 bits", lambda rng, _: rng.randrange(2**64)),
    Shape("text", _word),
    Shape("text and null", _either(_word, _constant(None))),
    Shape("text with digits", lambda rng, _: f"{rng.randrange(1000):05}"),
    Shape("long text", lambda rng, _: "x" * rng.randrange(5000)),
    Shape("text with every control character", lambda rng, _: chr(rng.randrange(32)) + "\x7f"),
    Shape("booleans", lambda rng, _: rng.random() < 0.5),
    Shape("booleans and null", lambda rng, _: rng.choice([True, False, None])),
    Shape("always null", _constant(None)),
    Shape("instants", _time("Z")),
    Shape("instants with offsets", _time("+05:30")),
    Shape("local times", _time("")),
    Shape("dates", lambda rng, _: f"2026-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"),
    Shape("objects", _object),
    Shape("objects of objects", lambda rng, n: {"a": {"b": {"c": _integer(rng, n)}}}),
    Shape("empty objects", _constant({})),
    Shape("objects, empty now and then", _either(_object, _constant({}))),
    Shape("objects with other fields each", lambda rng, _: {f"f{rng.randrange(20)}": 1}),
    Shape("lists of integers", lambda rng, n: [_integer(rng, n) for _ in range(rng.randrange(5))]),
    Shape("lists of text", lambda rng, n: [_word(rng, n) for _ in range(rng.randrange(5))]),
    Shape("lists of lists", lambda rng, n: [[_integer(rng, n)], []]),
    Shape("lists of objects", _objects),
    Shape("lists with null", lambda rng, n: [None, _integer(rng, n)]),
    Shape("lists of several kinds", lambda rng, n: [_integer(rng, n), _word(rng, n), {"x": 1}]),
    Shape("numbers and text", _either(_integer, _word)),
    Shape("objects and numbers", _either(_object, _integer)),
    Shape("objects, lists and text", _either(_object, _objects, _word)),
    Shape("anything", _either(_object, _objects, _word, _integer, _fraction, _constant(True))),
    Shape("text, rarely an object", _word, _object),
    Shape("objects, rarely a number", _object, _integer, fits=False),
    Shape("integers, rarely text", _integer, _constant("n/a"), fits=False),
    Shape("integers, rarely a fraction", _integer, _fraction, of_numbers=True),
    Shape("instants, rarely a word", _time("Z"), _constant("yesterday"), fits=False),
)
"""All in one topic; each message has some of the fields, named after their shape."""

assert len(SHAPES) == 40

FIELDS = 4
"""Shapes in one message."""

WHOLE: Sequence[bytes] = (b"", b"null", b"[1]", b"7", b'"text"', b"{", b'{"a": NaN}', b"\xff")
"""Whole messages that are no JSON object; one in two hundred is such a one."""


def corpus(seed: int, messages: int, numbers: Numbers) -> Iterator[MixedMessage]:
    """Give the messages; of the same seed the same.  ``numbers`` is the setting of this name."""
    rng = random.Random(seed)
    for number in range(messages):
        if number % 200 == 199:
            yield MixedMessage("no object", rng.choice(WHOLE), storable=False)
            continue
        yield _message(rng, number, numbers)


def _message(rng: random.Random, number: int, numbers: Numbers) -> MixedMessage:
    value: dict[str, Any] = {"id": number}
    names, storable = [], True
    for place in sorted(rng.sample(range(len(SHAPES)), FIELDS)):
        shape = SHAPES[place]
        rare = shape.rare is not None and rng.random() < RARE
        make = shape.rare if rare and shape.rare is not None else shape.usual
        value[f"f{place:02}"] = make(rng, number)
        storable &= not rare or (shape.fits and (numbers != "as seen" or not shape.of_numbers))
        names.append(f"{shape.name} (rare)" if rare else shape.name)
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    return MixedMessage(", ".join(names), text.encode(), storable)
