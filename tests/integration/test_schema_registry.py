import json
import struct

import pytest

from secor.core.errors import AccessDenied, ConfigurationError, NotFound, Unavailable
from secor.parsing.decoders import make_decoder
from secor.parsing.registry import SchemaRegistry
from tests.fakes.registry import running_registry
from tests.unit.parsing.decoder_cases import decode, rows

SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
PAYLOAD = struct.pack(">bI", 0, 17) + b"\x04NL"


def client(url: str, **settings: str) -> tuple[SchemaRegistry, list[float]]:
    waits: list[float] = []
    return SchemaRegistry(url, sleep=waits.append, timeout=20, **settings), waits  # type: ignore[arg-type]


def test_a_schema_is_asked_for_once() -> None:
    with running_registry() as registry:
        registry.register(17, SCHEMA)
        decoder = make_decoder("avro", registry=registry.url + "/")
        assert rows(decoder, [PAYLOAD] * 3, "a") == [{"a": "NL"}] * 3
        assert rows(decoder, [PAYLOAD]) == [{"a": "NL"}]
        assert registry.requests == ["/schemas/ids/17"]


def test_an_unknown_id_is_bad_and_asked_for_once() -> None:
    with running_registry() as registry:
        decoder = make_decoder("avro", registry=registry.url)
        assert list(decode(decoder, [PAYLOAD, PAYLOAD]).bad) == [0, 1]
        assert registry.requests == ["/schemas/ids/17"]


def test_a_fault_is_tried_again_and_then_given_up_without_a_verdict() -> None:
    with running_registry() as registry:
        registry.register(17, SCHEMA)
        asked, waits = client(registry.url)
        registry.failures = [500, 429]
        assert json.loads(asked.schema(17).text) == SCHEMA
        assert len(waits) == 2
        registry.failures = [503] * 3
        with pytest.raises(Unavailable, match="answered 503"):
            asked.schema(18)
        with pytest.raises(NotFound):
            asked.schema(18)


def test_a_registry_that_is_not_there_is_unavailable() -> None:
    with running_registry() as registry:
        gone, waits = client(registry.url)
    with pytest.raises(Unavailable, match="did not answer"):
        gone.schema(1)
    assert len(waits) == 2


def test_an_address_that_is_no_registry_quarantines_nothing() -> None:
    with running_registry() as registry:
        asked, _ = client(registry.url + "/elsewhere")
        with pytest.raises(Unavailable, match="answered 404; check that the address"):
            asked.schema(1)


def test_credentials_are_sent_and_their_refusal_is_said() -> None:
    with running_registry() as registry:
        registry.register(17, SCHEMA)
        registry.credentials = ("secor", "s3cret")
        asked, _ = client(registry.url, username="secor", password="s3cret")
        assert asked.schema(17).kind == "AVRO"
        refused, waits = client(registry.url, username="secor", password="wrong")
        with pytest.raises(AccessDenied, match="username and password"):
            refused.schema(17)
        assert waits == []


def test_references_are_followed_to_the_end() -> None:
    with running_registry() as registry:
        registry.register(1, '"leaf"', subject="a leaf/x")
        leaf = {"name": "Leaf", "subject": "a leaf/x", "version": 1}
        registry.subjects["a%20leaf%2Fx", 1] = registry.subjects["a leaf/x", 1]
        registry.register(2, '"middle"', subject="middle", references=[leaf])
        middle = {"name": "Middle", "subject": "middle", "version": 1}
        registry.register(3, '"top"', kind="PROTOBUF", references=[middle, leaf])
        asked, _ = client(registry.url)
        found = asked.schema(3)
        assert (found.kind, found.text) == ("PROTOBUF", '"top"')
        assert list(found.references.items()) == [("Leaf", '"leaf"'), ("Middle", '"middle"')]


def test_an_address_of_another_kind_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="http"):
        SchemaRegistry("file:///etc/passwd")
