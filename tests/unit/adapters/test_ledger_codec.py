from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.adapters.ledger_codec import (
    decode_intent,
    decode_metadata,
    decode_offset,
    encode_intent,
    encode_metadata,
    encode_offset,
)
from secor.core.errors import LedgerCorrupt
from secor.core.model import Intent, Superseded

PLAIN = Intent(10, 20, "f" * 32, "host-1", 1790000000.25, "backup/clicks")
FIXED = settings(deadline=None, max_examples=100, derandomize=True)

_texts = st.text(max_size=20)


@st.composite
def intents(draw: st.DrawFn) -> Intent:
    start = draw(st.integers(0, 2**62))
    root = draw(_texts)
    roots = st.lists(_texts, max_size=2).map(tuple)
    also = draw(roots)
    superseded = st.builds(
        Superseded, _texts, st.one_of(st.just(root), _texts), st.one_of(st.just(also), roots)
    )
    return Intent(
        start=start,
        end=start + draw(st.integers(1, 2**61)),
        fingerprint=draw(_texts),
        owner=draw(_texts),
        at=draw(st.floats(allow_nan=False, allow_infinity=False)),
        root=root,
        supersedes=tuple(draw(st.lists(superseded, max_size=3))),
        also=also,
    )


@FIXED
@given(intents(), st.none() | _texts)
def test_every_intent_and_metadata_comes_back_as_it_was(
    intent: Intent, topic_id: str | None
) -> None:
    assert decode_intent(encode_intent(intent)) == intent
    assert encode_intent(intent).isascii()
    assert decode_metadata(encode_metadata(intent, topic_id)) == (intent, topic_id)
    assert decode_metadata(encode_metadata(None, topic_id)) == (None, topic_id)


def test_an_intent_is_compact_json_without_what_need_not_be_said() -> None:
    assert encode_intent(PLAIN) == (
        '{"start":10,"end":20,"fingerprint":"ffffffffffffffffffffffffffffffff",'
        '"owner":"host-1","at":1790000000.25,"root":"backup/clicks"}'
    )
    same, other = Superseded("a", PLAIN.root), Superseded("b", "elsewhere")
    text = encode_intent(Intent(1, 2, "f", "o", 3.0, PLAIN.root, (same, other)))
    assert json.loads(text)["supersedes"] == [
        {"fingerprint": "a"},
        {"fingerprint": "b", "root": "elsewhere"},
    ]


def test_further_directories_are_said_where_there_are_some() -> None:
    routed = Superseded("a", PLAIN.root, ("backup/views/from=clicks",))
    text = encode_intent(Intent(1, 2, "f", "o", 3.0, PLAIN.root, (routed,)))
    assert json.loads(text)["supersedes"] == [{"fingerprint": "a", "also": list(routed.also)}]
    assert "also" not in json.loads(text)
    same = encode_intent(Intent(1, 2, "f", "o", 3.0, PLAIN.root, (routed,), routed.also))
    assert json.loads(same)["also"] == list(routed.also)
    assert json.loads(same)["supersedes"] == [{"fingerprint": "a"}]


def test_no_intent_and_no_topic_id_are_the_empty_metadata_that_other_clients_write() -> None:
    assert encode_metadata(None, None) == ""
    assert decode_metadata("") == (None, None)


def _with(**changes: object) -> str:
    fields = json.loads(encode_intent(PLAIN)) | changes
    return json.dumps({name: value for name, value in fields.items() if value is not ...})


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "not an object"),
        ("null", "not an object"),
        (_with(start=-1), "'start' is no offset"),
        (_with(start=1.5), "'start' is no offset"),
        (_with(start=True), "'start' is no offset"),
        (_with(start="10"), "'start' is no offset"),
        (_with(end=2**63), "'end' is no offset"),
        (_with(end=...), "'end' is no offset: None"),
        (_with(end=10), r"\[10, 10\) is no range"),
        (_with(end=9), r"\[10, 9\) is no range"),
        (_with(fingerprint=...), "'fingerprint' is no text"),
        (_with(fingerprint=7), "'fingerprint' is no text"),
        (_with(owner=None), "'owner' is no text"),
        (_with(root=[]), "'root' is no text"),
        (_with(at="now"), "'at' is no number"),
        (_with(at=True), "'at' is no number"),
        (_with(at=float("nan")), "'at' is no number"),
        (_with(surprise=1), "unknown fields 'surprise'"),
        (_with(supersedes={}), "'supersedes' is not a list"),
        (_with(supersedes=["x"]), "an item of 'supersedes'"),
        (_with(supersedes=[{}]), "'fingerprint' is no text"),
        (_with(supersedes=[{"fingerprint": "a", "root": 1}]), "'root' is no text"),
        (_with(supersedes=[{"fingerprint": "a", "end": 1}]), "unknown fields 'end'"),
        (_with(also="backup/views"), "'also' is no list of texts"),
        (_with(also=[1]), "'also' is no list of texts"),
        (_with(supersedes=[{"fingerprint": "a", "also": None}]), "'also' is no list of texts"),
    ],
)
def test_a_damaged_intent_is_refused_with_the_place_and_the_remedy(text: str, fault: str) -> None:
    with pytest.raises(LedgerCorrupt, match=fault) as caught:
        decode_intent(text, "/secor/g/intents/clicks/0")
    assert "/secor/g/intents/clicks/0" in str(caught.value)
    assert "secor offsets" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["host-7", "7", '"x"', "{}", '{"secor":2}', '{"secor":1,"more":0}', '{"secor":1,"topic_id":1}'],
)
def test_metadata_of_another_program_stops_instead_of_being_overwritten(text: str) -> None:
    with pytest.raises(LedgerCorrupt, match="clicks/0 in group g"):
        decode_metadata(text, "clicks/0 in group g")


def test_an_intent_without_a_range_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="needs a range"):
        encode_intent(Intent(5, 5, "f", "o", 0.0, "r"))


@pytest.mark.parametrize("offset", [0, 7, 2**63 - 1])
def test_an_offset_is_ascii_digits(offset: int) -> None:
    assert encode_offset(offset) == str(offset).encode()
    assert decode_offset(encode_offset(offset), "n") == offset


@pytest.mark.parametrize(
    "data", [b"", b"192.168.0.7", b"-1", b"+1", b" 1", b"1\n", b"1_0", "\u0661".encode(), b"9" * 19]
)
def test_a_node_that_holds_no_offset_is_refused_by_name(data: bytes) -> None:
    with pytest.raises(LedgerCorrupt, match=r"^/consumers/g/offsets/t/0 holds .*secor offsets"):
        decode_offset(data, "/consumers/g/offsets/t/0")


def test_a_negative_offset_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="-1 is no offset"):
        encode_offset(-1)
