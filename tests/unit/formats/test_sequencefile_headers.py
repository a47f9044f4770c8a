"""Headers whose names are the same in all rows are packed quickly, and to the same bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from secor.core.model import HEADERS_TYPE
from secor.formats.sequencefile import layouts
from secor.formats.sequencefile.layouts import pack_headers

SAME_NAMES = {
    "values of one size": lambda row: (("traceparent", b"%032d" % row), ("tenant", b"acme")),
    "values of any size": lambda row: (("a", bytes(row * 36)), ("", b""), ("zürich", b"x" * 255)),
    "one header": lambda row: (("only", b"%d" % row),),
    "no bytes at all": lambda _: (("", b""),),
    "twenty headers": lambda row: tuple((f"name-{at}", b"v" * (at + row)) for at in range(20)),
    "a long value": lambda row: (("a", b"v" * (250 + row)), ("b", b"")),
    "null values": lambda row: (("a", None if row % 2 else b"v"),),
    "another name in one row": lambda row: (("b" if row == 5 else "a", b"v"),),
    "fewer in one row": lambda row: (("a", b"v"), ("b", b"w"))[: 1 if row == 5 else 2],
}


@pytest.mark.parametrize("headers", SAME_NAMES.values(), ids=list(SAME_NAMES))
def test_headers_of_the_same_names_give_the_bytes_that_others_give(
    headers: Callable[[int], tuple[tuple[str, bytes | None], ...]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [[{"key": key, "value": value} for key, value in headers(row)] for row in range(8)]
    column = pa.array(rows, HEADERS_TYPE)
    columns = [column, column.slice(2, 5), column.slice(7)]
    quick = [pack_headers(part) for part in columns]
    monkeypatch.setattr(layouts, "_pack_same_names", lambda *_: None)
    for part, (sizes, packed) in zip(columns, quick, strict=True):
        general_sizes, general = pack_headers(part)
        assert packed is not None
        assert packed.to_pylist() == (general.to_pylist() if general is not None else None)
        assert np.array_equal(sizes, general_sizes)
