"""Numbers as decimals: exactly the number that was written, or none."""

from __future__ import annotations

import random
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest

from secor.arrow.decimals import as_decimal
from secor.schema.schema import RowSchema


def digits(rng: random.Random, most: int) -> str:
    return "".join(rng.choice("0123456789") for _ in range(rng.randrange(1, most)))


def text(rng: random.Random) -> tuple[pa.Array, Decimal]:
    number = rng.choice(["", "-", "+"]) + digits(rng, 45)
    number += rng.choice(["", f".{digits(rng, 45)}"])
    number += rng.choice(["", f"e{rng.randrange(-60, 60)}", f"e-{rng.randrange(300, 900)}"])
    return pa.array([number]), Decimal(number)


def double(rng: random.Random) -> tuple[pa.Array, Decimal]:
    number = float(f"{digits(rng, 12)}e{rng.randrange(-30, 30)}")
    return pa.array([number]), Decimal(repr(number))


def integer(rng: random.Random) -> tuple[pa.Array, Decimal]:
    number = rng.randrange(-(1 << 63), 1 << 63) >> rng.randrange(63)
    return pa.array([number]), Decimal(number)


def decimal(rng: random.Random) -> tuple[pa.Array, Decimal]:
    scale = rng.randrange(38)
    number = Decimal(digits(rng, 39)).scaleb(-scale)
    return pa.array([number], pa.decimal128(38, scale)), number


def can_hold(kind: pa.Decimal128Type, number: Decimal) -> bool:
    with localcontext(prec=2000):
        scaled = number.scaleb(kind.scale)
        return abs(scaled) < Decimal(10) ** kind.precision and scaled == int(scaled)


@pytest.mark.parametrize("source", [text, double, integer, decimal])
def test_a_number_is_exactly_what_was_written_or_is_refused(source: Any) -> None:
    rng = random.Random(17)
    taken = 0
    for _ in range(3000):
        array, number = source(rng)
        scale = rng.randrange(39)
        kind = pa.decimal128(rng.randrange(max(scale, 1), 39), scale)
        fits = can_hold(kind, number)
        try:
            (found,) = as_decimal(array, kind).to_pylist()
        except (ValueError, pa.ArrowException):
            assert not fits or not number, (array, kind)
            continue
        assert (found, fits) == (number, True), (array, kind)
        taken += 1
    assert taken > 100


def test_every_price_in_cents_fits_whatever_the_bits_of_its_double() -> None:
    prices = [cents / 100 for cents in range(200_000)]
    for kind in (pa.decimal128(9, 2), pa.decimal128(18, 4), pa.decimal128(38, 25)):
        found = as_decimal(pa.array(prices), kind).to_pylist()
        assert found == [Decimal(repr(price)) for price in prices]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (1e23, Decimal(10) ** 23),
        (9007199254740991.0, Decimal(9007199254740991)),
        (1234567890123456789.25, None),  # which of its digits were written nobody knows any more
        (float("nan"), None),
        (float("inf"), None),
    ],
)
def test_digits_that_a_double_has_lost_are_not_made_up(value: float, found: Decimal | None) -> None:
    schema = RowSchema(pa.struct({"a": pa.decimal128(38, 5)}))
    rows, bad = schema.fit(pa.StructArray.from_arrays([pa.array([value, 0.5])], ["a"]))
    assert rows.field("a").to_pylist() == [found, Decimal("0.5")]
    assert [*bad] == ([0] if found is None else [])


def test_schemas_with_decimals_are_new_ones_to_open_intents() -> None:
    assert RowSchema(pa.struct({"a": pa.decimal128(9, 2)})).identity.startswith("declared-5:")
    assert RowSchema(pa.struct({"a": pa.int64()})).identity.startswith("declared-3:")
