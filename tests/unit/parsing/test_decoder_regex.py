import pytest

from secor.core.errors import ConfigurationError
from secor.parsing.decoders.regex import RegexDecoder
from tests.unit.parsing.decoder_cases import decode, reason, rows, survives

PATTERN = r"ts=(?P<ts>\d+)(?: country=(?P<country>\w*))?"


@pytest.fixture
def decoder() -> RegexDecoder:
    return RegexDecoder(PATTERN)


def test_named_groups_are_fields(decoder: RegexDecoder) -> None:
    payloads = [b"x ts=17 country=NL y", b"ts=18", b"ts=19 country="]
    expected = [
        {"ts": "17", "country": "NL"},
        {"ts": "18", "country": None},
        {"ts": "19", "country": None},
    ]
    assert rows(decoder, payloads) == expected
    assert rows(decoder, payloads[:1], "country", "no") == [{"country": "NL", "no": None}]


def test_what_does_not_match_is_bad(decoder: RegexDecoder) -> None:
    assert reason(decoder, None) == "null payload"
    assert reason(decoder, b"") == "empty payload"
    assert reason(decoder, b"tx=17", "ts") == "the regular expression does not match"
    assert reason(decoder, b"ts=17 \xff") == "invalid UTF-8 at byte 6"
    found = decode(decoder, [b"ts=1", None, b"\xff", b"", b"no", b"ts=2"], "ts", slack=2)
    assert list(found.bad) == [1, 2, 3, 4]
    assert found.rows.field("ts").to_pylist()[::5] == ["1", "2"]


@pytest.mark.parametrize(
    "pattern", ["(", "(a)", "(?P<a>x)(?=y)", r"(?P<a>x)\1", "(?P<a>x)(?P<a>y)"]
)
def test_an_expression_that_cannot_be_used_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="regular expression"):
        RegexDecoder(pattern)


def test_an_expression_that_backtracks_elsewhere_takes_linear_time_here() -> None:
    decoder = RegexDecoder(r"^(?P<a>(?:x+x+)+)y$")
    assert "does not match" in reason(decoder, b"x" * 50_000)


def test_the_identity_tells_expressions_apart(decoder: RegexDecoder) -> None:
    assert decoder.identity == RegexDecoder(PATTERN).identity
    assert decoder.identity != RegexDecoder(r"(?P<ts>\d+)").identity


def test_damaged_messages_are_bad_and_never_a_crash() -> None:
    decoder = RegexDecoder(r"^ts=(?P<ts>\d+) country=(?P<country>\w+) end$")
    survives(decoder, b"ts=1735686001000 country=NL end", "ts", "country")
