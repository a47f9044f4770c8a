import pytest

from secor.core.errors import ConfigurationError
from secor.parsing.decoders import DECODERS, make_decoder
from tests.unit.parsing.decoder_cases import rows


def test_a_decoder_is_made_by_its_name() -> None:
    assert rows(make_decoder("json"), [b'{"a":1}'], "a") == [{"a": 1}]
    assert rows(make_decoder("messagepack"), [b"\x81\xa1a\x01"]) == [{"a": 1}]
    assert rows(make_decoder("regex", pattern="(?P<a>.)"), [b"x"]) == [{"a": "x"}]
    assert rows(make_decoder("thrift", protocol="compact"), [b"\x11\x00"]) == [{"1": True}]
    stamp = make_decoder("protobuf", message_class="google.protobuf.timestamp_pb2:Timestamp")
    assert rows(stamp, [b"\x08\x05"], "seconds") == [{"seconds": 5}]
    avro = make_decoder("avro", registry="http://localhost:1", username="u", password="p")
    assert avro.identity == "avro-4:http://localhost:1:-:confluent"
    assert len(DECODERS) == 6


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="'jsn' is not known; do you mean 'json'"):
        make_decoder("jsn")
    with pytest.raises(ConfigurationError, match="one of json, messagepack"):
        make_decoder("???")


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'json'.*'patern'"):
        make_decoder("json", patern="x")
    with pytest.raises(ConfigurationError, match=r"'regex'.*pattern"):
        make_decoder("regex")
    with pytest.raises(ConfigurationError, match="username: for a registry"):
        make_decoder("avro", schema_file="x", username="u")
