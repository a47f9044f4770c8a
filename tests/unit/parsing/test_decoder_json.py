import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.core import variant_json
from secor.core.variant_json import MIXED
from secor.parsing.decoders import json_text
from secor.parsing.decoders.columns import MAX_DEPTH, everything
from secor.parsing.decoders.extent import MAX_FIELDS
from secor.parsing.decoders.json import JsonDecoder
from tests.unit.parsing.decoder_cases import decode, reason, rows, survives

VECTORS = Path(__file__).parents[2] / "vectors" / "java-secor" / "source" / "c_json.jsonl"


@pytest.fixture
def decoder() -> JsonDecoder:
    return JsonDecoder()


def vector_payloads() -> list[bytes]:
    lines = VECTORS.read_text().splitlines()
    return [bytes.fromhex(json.loads(line)["value"]) for line in lines]


def nested(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def test_java_secors_messages_decode_to_what_python_reads_in_them(decoder: JsonDecoder) -> None:
    payloads = vector_payloads()
    assert len(payloads) > 50
    assert rows(decoder, payloads) == [json.loads(payload) for payload in payloads]
    found = rows(decoder, payloads, "timestamp", "m.ts", "nested.e", "no.such")
    for payload, row in zip(payloads, found, strict=True):
        item = json.loads(payload)
        assert list(row.values()) == [item["timestamp"], item["m"]["ts"], item["nested"]["e"], None]


def test_text_that_looks_like_a_date_stays_text(decoder: JsonDecoder) -> None:
    payload = b'{"t":"2024-12-31T23:00:01Z","in":{"d":["2024-01-01"]},"n":null}'
    assert rows(decoder, [payload]) == [json.loads(payload)]
    late = [b'{"n":1}'] * 100 + [b'{"n":1,"t":"2024-01-01"}']
    assert rows(decoder, late)[-1] == {"n": 1, "t": "2024-01-01"}


def test_asked_for_fields_have_scalar_types(decoder: JsonDecoder) -> None:
    payload = b'{"i":1,"d":0.5,"b":true,"s":"x","l":[1,"a"],"o":{"k":"\xc3\xa9"},"n":null}'
    found = decode(decoder, [payload], "i", "d", "b", "s", "l", "o", "n", "o.k")
    types = [field.type for field in found.rows.type]
    text = pa.string()
    assert types == [pa.int64(), pa.float64(), pa.bool_(), text, text, text, text, text]
    row = found.rows.to_pylist()[0]
    assert (row["l"], row["o"], row["n"], row["o.k"]) == ('[1,"a"]', '{"k":"é"}', None, "é")


def test_numbers_of_mixed_kinds_become_doubles_only_where_they_stay_exact(
    decoder: JsonDecoder,
) -> None:
    assert rows(decoder, [b'{"a":1}', b'{"a":0.5}'], "a") == [{"a": 1.0}, {"a": 0.5}]
    big = [b'{"a":9007199254740993}', b'{"a":0.5}']
    assert rows(decoder, big, "a") == [{"a": "9007199254740993"}, {"a": "0.5"}]
    assert rows(decoder, big) == [{"a": "9007199254740993"}, {"a": "0.5"}]


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "1" + "0" * 400])
def test_an_integer_beyond_int64_keeps_its_digits(decoder: JsonDecoder, number: str) -> None:
    payloads = [b'{"a":%s}' % number.encode(), b'{"a":1}']
    assert rows(decoder, payloads, "a") == [{"a": number}, {"a": "1"}]
    found = decode(decoder, payloads)
    assert found.rows.to_pylist() == [{"a": number}, {"a": "1"}]
    assert found.rows.type.field("a").metadata == MIXED


def test_the_largest_integers_are_exact(decoder: JsonDecoder) -> None:
    for number in (2**63 - 1, -(2**63), 2**53 + 1):
        assert rows(decoder, [b'{"a":%d}' % number], "a") == [{"a": number}]
        assert rows(decoder, [b'{"a":%d}' % number]) == [{"a": number}]


def test_a_field_of_several_kinds_becomes_json_text(decoder: JsonDecoder) -> None:
    payloads = [b'{"a":1}', b'{"a":"1"}', b'{"a":{"b":[]}}', b'{"a":null}', b"{}"]
    found = decode(decoder, payloads)
    assert [row["a"] for row in found.rows.to_pylist()] == ["1", '"1"', '{"b":[]}', None, None]
    assert found.rows.type.field("a").metadata == MIXED
    asked = [row["a"] for row in rows(decoder, payloads, "a")]
    assert asked == ["1", "1", '{"b":[]}', None, None]


BAD = {
    "null": (None, "null payload"),
    "empty": (b"", "empty payload"),
    "array": (b"[1]", "not a JSON object"),
    "number": (b"1", "not a JSON object"),
    "spaces": (b"  ", "not a JSON object"),
    "text": (b"hello {}", "not a JSON object"),
    "byte order mark": (b'\xef\xbb\xbf{"a":1}', "not a JSON object"),
    "two objects": (b'{"a":1}{"a":2}', "trailing characters"),
    "two lines": (b'{"a":1}\n{"a":2}', "trailing characters"),
    "nan": (b'{"a":NaN}', "byte 5"),
    "infinity": (b'{"a":-Infinity}', "invalid JSON"),
    "huge exponent": (b'{"a":1e999}', "out of range"),
    "leading zero": (b'{"a":01}', "byte"),
    "trailing comma": (b'{"a":1,}', "byte"),
    "comment": (b'{"a":1 /* x */}', "byte"),
    "control character": (b'{"a":"x\ny"}', "byte"),
    "half an object": (b'{"a":"}', "truncated"),
    "invalid utf-8": (b'{"a":"\xff"}', "invalid UTF-8 at byte 6"),
    "invalid utf-8, not asked for": (b'{"z":"\xc0\xaf"}', "invalid UTF-8 at byte 6"),
    "surrogate": (b'{"a":"\\ud800"}', "invalid JSON"),
    "utf-16": ('{"a":1}'.encode("utf-16-le"), "does not end with }"),
    "cut short": (b'{"a":[1', "does not end with }"),
    "one brace": (b"{", "does not end with }"),
    "deep": (nested(MAX_DEPTH + 1), "nested deeper than 64"),
    "very deep": (nested(200_000), "nested deeper than 64"),
    "very deep, unclosed": (b'{"a":' + b"[" * 300_000 + b"}", "nested deeper than 64"),
}


@pytest.mark.parametrize(("payload", "expected"), list(BAD.values()), ids=list(BAD))
def test_what_is_no_json_object_is_bad(
    decoder: JsonDecoder, payload: bytes | None, expected: str
) -> None:
    assert expected in reason(decoder, payload)
    assert expected in reason(decoder, payload, "a")
    good = b'{"a":5,"b":"x"}'
    for asked in ((), ("a",), ("a", "b.c")):
        found = decode(decoder, [good, payload, good], *asked)
        assert list(found.bad) == [1]
        assert [row and row["a"] for row in found.rows.to_pylist()] == [5, None, 5]


def test_bad_messages_do_not_complete_each_other(decoder: JsonDecoder) -> None:
    pairs = [
        (b'{"a":"}', b'{"}'),
        (b'{"a":{"b":1}', b'{"c":1}}'),
        (b'{"a":1}{"a":2}', b""),
        (b'{"a":[{}', b"{}]}"),
        (b'{"a":1}\n{"a":2}', b"   "),
    ]
    for one, other in pairs:
        for asked in ((), ("a",)):
            assert list(decode(decoder, [one, other], *asked).bad) == [0, 1]


def test_a_name_twice_is_bad_where_one_of_the_two_would_be_lost(decoder: JsonDecoder) -> None:
    payload = b'{"x":{"a":1,"a":2}}'
    assert reason(decoder, payload) == "name 'a' twice in one object"
    assert rows(decoder, [payload], "x.a") == [{"x.a": 2}]


def test_depth_is_counted_outside_strings(decoder: JsonDecoder) -> None:
    text = "[{" * 500 + '"'
    payload = json.dumps({"a": text, "b": [[]] * 100}).encode()
    assert rows(decoder, [payload], "a") == [{"a": text}]
    assert rows(decoder, [payload])[0]["a"] == text
    assert rows(decoder, [nested(MAX_DEPTH)], "b") == [{"b": None}]


def test_something_else_in_an_objects_place_is_null(decoder: JsonDecoder) -> None:
    payloads = [b'{"u":{"c":"NL"}}', b'{"u":"x"}', b'{"u":null}', b'{"u":[1]}', b"{}"]
    found = [row["u.c"] for row in rows(decoder, payloads, "u.c")]
    assert found == ["NL", None, None, None, None]


def test_a_path_and_a_part_of_it_can_both_be_asked_for(decoder: JsonDecoder) -> None:
    payload = b'{"u":{"c":{"d":1},"e":2}}'
    found = rows(decoder, [payload], "u.c.d", "u", "u.e")
    assert found == [{"u.c.d": 1, "u": '{"c":{"d":1},"e":2}', "u.e": 2}]


def test_space_and_line_breaks_around_values_are_json(decoder: JsonDecoder) -> None:
    payloads = [b'\n {\n "a" :\t1\r\n}\n', b'{"a":2}']
    assert rows(decoder, payloads, "a") == [{"a": 1}, {"a": 2}]
    assert rows(decoder, payloads) == [{"a": 1}, {"a": 2}]


def test_lists_of_nothing_but_nulls_are_whole(decoder: JsonDecoder) -> None:
    payloads = [b'{"a":[null,null],"b":[]}', b'{"a":[],"b":[]}', b'{"a":[null],"b":[]}']
    assert rows(decoder, payloads) == [json.loads(payload) for payload in payloads]


def test_an_object_used_as_a_dictionary_is_json_text(decoder: JsonDecoder) -> None:
    payloads = [b'{"u":{"k%d":1}}' % number for number in range(MAX_FIELDS + 1)]
    found = decode(decoder, payloads)
    assert found.rows.type.field("u").metadata == MIXED
    assert found.rows[7].as_py() == {"u": '{"k7":1}'}
    assert decode(decoder, payloads[1:]).rows.type.field("u").type.num_fields == MAX_FIELDS


def test_names_that_are_data_are_seen_in_a_sample() -> None:
    def messages(names: int) -> pa.Array:
        return pa.array([b'{"u":[{"k%d":1}]}' % (row % names) for row in range(2 * MAX_FIELDS)])

    assert json_text.read(messages(MAX_FIELDS)) is None
    assert json_text.read(messages(40)) is not None


@pytest.mark.parametrize("rare", [b'{"errors":[{"code":10}]}', b'{"geo":{"a":1,"b":2,"c":3}}'])
def test_an_object_that_is_seldom_there_is_no_reason_to_read_slowly(rare: bytes) -> None:
    often = [b'{"x":1}'] * 40
    assert json_text.read(pa.array([*often, rare, *often * 125])) is not None


def test_no_messages_give_no_rows(decoder: JsonDecoder) -> None:
    assert rows(decoder, []) == []
    assert rows(decoder, [], "a") == []
    assert rows(decoder, [b"{}", b"{}"]) == [{}, {}]
    assert list(decode(decoder, [None, b""], "a").bad) == [0, 1]
    assert list(decode(decoder, [None, b""]).bad) == [0, 1]


def test_a_slice_of_a_batch_is_decoded_at_its_own_place(decoder: JsonDecoder) -> None:
    payloads: list[bytes | None] = [b'{"a":1}', None, b"[]", b'{"a":"\xff"}', b'{"a":4}']
    for asked in ((), ("a",)):
        found = decode(decoder, payloads, *asked, slack=3)
        assert list(found.bad) == [1, 2, 3]
        assert [row and row["a"] for row in found.rows.to_pylist()] == [1, None, None, None, 4]


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    | st.just("2024-01-01"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=6,
)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), max_size=4))
def test_arrows_reader_and_ours_agree(items: list[dict[str, Any]]) -> None:
    payloads = [json.dumps(item, ensure_ascii=False).encode() for item in items]
    found = decode(JsonDecoder(), payloads)
    assert found.bad == {}
    expected = everything(
        [json.loads(payload, parse_float=variant_json.number) for payload in payloads], {}
    )
    assert found.rows.equals(expected)
    assert found.rows.type.equals(expected.type, check_metadata=True)


def test_damaged_messages_are_bad_and_never_a_crash(decoder: JsonDecoder) -> None:
    survives(decoder, vector_payloads()[3], "timestamp", "m.ts", "country")


def test_a_message_of_too_many_values_is_bad_before_it_is_built() -> None:
    decoder = JsonDecoder(max_elements=10)
    many = b'{"a":[' + b",".join([b"0"] * 10) + b"]}"
    for asked in ((), ("b",)):
        assert reason(decoder, many, *asked) == "has more than 10 values (parser.max_elements)"
    text = json.dumps({"a": "[,{" * 30, "b": 1}).encode()
    assert rows(decoder, [text], "b") == [{"b": 1}]


ROWS_OF_BRACKETS = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 3000), st.booleans()), min_size=1, max_size=60
)


@given(ROWS_OF_BRACKETS)
def test_rows_with_many_brackets_are_found_wherever_they_stand(
    rows: list[tuple[int, int, bool]],
) -> None:
    texts = [
        b"".join([b"x" * (filler // 2), (b"[{" * opening)[:opening], b"y" * filler])
        if first
        else b"x" * filler + b"{" * opening
        for opening, filler, first in rows
    ]
    content = np.frombuffer(b"".join(texts), np.uint8)
    ends = np.cumsum([len(text) for text in texts])
    starts = ends - [len(text) for text in texts]
    crowded: list[int] = []
    if len(content):
        crowded = json_text.find_crowded(content, starts, ends).tolist()
    assert crowded == [row for row, (opening, *_) in enumerate(rows) if opening > MAX_DEPTH]
    assert json_text.opening_brackets(content).sum() == sum(opening for opening, *_ in rows)
