import json
import ssl
import struct
import time
from pathlib import Path

import pytest

from secor.core.errors import AccessDenied, ConfigurationError, NotFound, Unavailable
from secor.parsing.decoders import make_decoder
from secor.parsing.decoders.avro import AvroDecoder
from secor.parsing.registry import LAST_DELAY, MOST_IN_VAIN, SchemaRegistry
from secor.parsing.registry_server import ConfluentSource, Credentials, RegistryServer
from tests.certificates import Authority
from tests.fakes.registry import running_registry
from tests.unit.parsing.decoder_cases import batch, decode, rows

SCHEMA = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}
PAYLOAD = struct.pack(">bI", 0, 17) + b"\x04NL"


def client(url: str, **settings: str) -> tuple[SchemaRegistry, list[float]]:
    waits: list[float] = []
    access = Credentials(**settings)
    server = RegistryServer(url, access, sleep=waits.append, timeout=20)
    return SchemaRegistry(ConfluentSource(server)), waits


def source(url: str) -> ConfluentSource:
    return ConfluentSource(RegistryServer(url, Credentials(), timeout=20))


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
        client("file:///etc/passwd")


def test_unknown_ids_are_asked_for_side_by_side_and_never_again() -> None:
    payloads = [struct.pack(">bI", 0, schema_id) for schema_id in range(60)]
    with running_registry() as registry:
        registry.delay = 0.05
        asked, _ = client(registry.url)
        decoder = AvroDecoder(asked)
        began = time.monotonic()
        while True:
            try:
                groups = decoder.decode_apart(batch(payloads), None)
                break
            except Unavailable:
                time.sleep(0.01)
        assert time.monotonic() - began < 60 * 0.05
        assert sum(len(found.bad) for _, found in groups) == 60
        decoder.decode_apart(batch(payloads), None)
        assert sorted(registry.requests) == sorted(f"/schemas/ids/{at}" for at in range(60))


def test_a_chunk_of_very_many_ids_is_asked_for_in_turns() -> None:
    with running_registry() as registry:
        asked = SchemaRegistry(source(registry.url), most_at_once=10, patience=20)
        for _ in range(2):
            with pytest.raises(Unavailable, match="trying again"):
                asked.prefetch(range(25))
        asked.prefetch(range(25))
        assert len(registry.requests) == 25


def test_a_slow_registry_does_not_hold_up_the_loop() -> None:
    with running_registry() as registry:
        registry.register(17, SCHEMA)
        registry.delay = 1.0
        asked = SchemaRegistry(source(registry.url), patience=0.01)
        with pytest.raises(Unavailable, match="is being asked for 1 schemas"):
            asked.prefetch([17])
        while True:
            try:
                asked.prefetch([17])
                break
            except Unavailable:
                time.sleep(0.05)
        assert json.loads(asked.schema(17).text) == SCHEMA
        assert registry.requests == ["/schemas/ids/17"]


def test_a_token_is_sent_to_a_registry_that_asks_for_it() -> None:
    with running_registry() as registry:
        registry.register(17, SCHEMA)
        registry.token = "t0ken"
        asked, _ = client(registry.url, token="t0ken")
        assert json.loads(asked.schema(17).text) == SCHEMA
        refused, _ = client(registry.url, token="other")
        with pytest.raises(AccessDenied, match="or the token"):
            refused.schema(17)


def test_a_registry_may_have_an_authority_of_its_own_and_ask_for_certificates(
    tmp_path: Path,
) -> None:
    ours, foreign = Authority(tmp_path, "ours"), Authority(tmp_path, "foreign")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(ours.issue("server", hosts=("127.0.0.1",)))
    server.load_verify_locations(ours.path)
    server.verify_mode = ssl.CERT_REQUIRED
    own = str(ours.issue("secor"))
    with running_registry(server) as registry:
        registry.register(17, SCHEMA)
        decoder = make_decoder(
            "avro", registry=registry.url, cafile=str(ours.path), certfile=own, keyfile=own
        )
        assert rows(decoder, [PAYLOAD]) == [{"a": "NL"}]
        stranger, _ = client(registry.url, cafile=str(ours.path))
        with pytest.raises(Unavailable, match="did not answer"):
            stranger.schema(17)
        doubtful, _ = client(registry.url, cafile=str(foreign.path), certfile=own)
        with pytest.raises(Unavailable, match="put its authority into"):
            doubtful.schema(17)
        assert registry.requests == ["/schemas/ids/17"]


def test_files_for_tls_that_are_none_are_refused_at_the_start(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.pem")
    with pytest.raises(ConfigurationError, match=r"authorities .*none\.pem"):
        client("https://registry", cafile=missing)
    with pytest.raises(ConfigurationError, match=r"client certificate .*none\.pem"):
        client("https://registry", certfile=missing)


def test_credentials_do_not_follow_a_redirect_to_another_server() -> None:
    with running_registry() as other, running_registry() as registry:
        other.register(17, SCHEMA)
        registry.redirect = other.url
        asked, _ = client(registry.url, username="secor", password="s3cret")
        with pytest.raises(Unavailable, match="leads to another server") as caught:
            asked.schema(17)
        assert other.url in str(caught.value)
        assert "s3cret" not in str(caught.value)
        assert other.requests == []


def test_a_redirect_within_the_server_is_followed() -> None:
    with running_registry() as registry:
        registry.register(17, SCHEMA)
        registry.redirect = registry.url
        registry.credentials = ("secor", "s3cret")
        asked, _ = client(registry.url, username="secor", password="s3cret")
        assert json.loads(asked.schema(17).text) == SCHEMA


class Hand:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


def waiting(url: str, clock: Hand, wait: float = 60.0) -> AvroDecoder:
    settings = {"wait": wait, "patience": 20, "monotonic": clock.monotonic}
    return AvroDecoder(SchemaRegistry(source(url), **settings))  # type: ignore[arg-type]


def bad_of(decoder: AvroDecoder, payloads: list[bytes]) -> int:
    groups = decoder.decode_apart(batch(payloads), None)
    return sum(len(decoded.bad) for _, decoded in groups)


def test_messages_of_an_unknown_id_wait_until_the_registry_knows_it() -> None:
    clock = Hand()
    with running_registry() as registry:
        decoder = waiting(registry.url, clock)
        for seconds in (0, 1, 3):
            clock.now = 1000.0 + seconds
            with pytest.raises(Unavailable, match="does not know schema id 17; messages that have"):
                bad_of(decoder, [PAYLOAD])
        assert len(registry.requests) == 1
        registry.register(17, SCHEMA)
        clock.now = 1005.0
        assert bad_of(decoder, [PAYLOAD]) == 0
        assert len(registry.requests) == 2


def test_an_unknown_id_is_bad_after_the_wait_and_good_again_once_it_is_known() -> None:
    clock = Hand()
    with running_registry() as registry:
        decoder = waiting(registry.url, clock)
        for seconds in range(0, 60, 5):
            clock.now = 1000.0 + seconds
            with pytest.raises(Unavailable):
                bad_of(decoder, [PAYLOAD])
        clock.now = 1060.0
        assert bad_of(decoder, [PAYLOAD, PAYLOAD]) == 2
        asked = len(registry.requests)
        assert asked <= 6
        clock.now = 1061.0
        assert bad_of(decoder, [PAYLOAD]) == 1
        assert len(registry.requests) == asked
        registry.register(17, SCHEMA)
        clock.now = 1061.0 + LAST_DELAY
        assert bad_of(decoder, [PAYLOAD]) == 0


def test_without_a_wait_an_unknown_id_is_bad_at_once_and_asked_for_again() -> None:
    clock = Hand()
    with running_registry() as registry:
        decoder = waiting(registry.url, clock, wait=0.0)
        assert bad_of(decoder, [PAYLOAD]) == 1
        registry.register(17, SCHEMA)
        assert bad_of(decoder, [PAYLOAD]) == 1
        clock.now += 5
        assert bad_of(decoder, [PAYLOAD]) == 0


def test_a_producer_of_nonsense_does_not_have_each_id_waited_for() -> None:
    clock = Hand()
    with running_registry() as registry:
        decoder = waiting(registry.url, clock)
        nonsense = [struct.pack(">bI", 0, schema_id) for schema_id in range(MOST_IN_VAIN)]
        with pytest.raises(Unavailable):
            bad_of(decoder, nonsense)
        clock.now += 60
        assert bad_of(decoder, nonsense) == MOST_IN_VAIN
        assert bad_of(decoder, [PAYLOAD]) == 1


def test_an_answer_does_not_change_while_a_chunk_is_decoded() -> None:
    clock = Hand()
    with running_registry() as registry:
        asked = SchemaRegistry(source(registry.url), monotonic=clock.monotonic, patience=20)
        asked.prefetch([17])
        registry.register(17, SCHEMA)
        clock.now += LAST_DELAY
        with pytest.raises(NotFound):
            asked.schema(17)
        asked.prefetch([17])
        assert asked.schema(17).kind == "AVRO"


def test_apicurios_own_interface_is_asked_by_both_kinds_of_ids() -> None:
    user = {"type": "record", "name": "User", "fields": [{"name": "b", "type": "string"}]}
    event = {"type": "record", "name": "Event", "fields": [{"name": "user", "type": "User"}]}
    with running_registry() as registry:
        registry.register(17, user, subject="user")
        reference = {"name": "User", "subject": "user", "version": 1}
        registry.register(18, event, references=[reference])
        decoder = make_decoder("avro", registry=registry.url, framing="apicurio")
        values = [struct.pack(">BI", 0, 18) + b"\x04NL", struct.pack(">BQ", 0, 18) + b"\x04FR"]
        assert rows(decoder, values) == [{"user": {"b": "NL"}}, {"user": {"b": "FR"}}]
        assert registry.requests[0] == "/ids/contentIds/18/references"
        assert "/ids/globalIds/18" in registry.requests
        assert "/groups/default/artifacts/user/versions/1/content" in registry.requests
        found = decode(decoder, [struct.pack(">BI", 0, 99) + b"\x04NL"])
        assert found.bad == {0: "schema contentId 99 is not in the registry"}


def test_types_that_apicurios_serialiser_names_are_read() -> None:
    text = 'syntax = "proto3"; package shop; message A { int32 a = 1; } message B { string b = 1; }'
    with running_registry() as registry:
        registry.register(18, text)
        decoder = make_decoder("protobuf", registry=registry.url, framing="apicurio")
        value = struct.pack(">BI", 0, 18) + b"\x03\x0a\x01B" + b"\x0a\x02NL"
        assert rows(decoder, [value]) == [{"b": "NL"}]


def test_schemas_that_refer_to_each_other_are_asked_for_once() -> None:
    with running_registry() as registry:
        reference = {"name": "a", "subject": "a", "version": 1}
        registry.register(17, SCHEMA, subject="a", references=[reference])
        asked, _ = client(registry.url)
        assert list(asked.schema(17).references) == ["a"]


def test_an_answer_that_is_not_usable_ends_nothing() -> None:
    with running_registry() as registry:
        registry.register(17, SCHEMA, references=[{"subject": "a"}])
        asked, _ = client(registry.url)
        with pytest.raises(Unavailable, match="not usable"):
            asked.schema(17)
