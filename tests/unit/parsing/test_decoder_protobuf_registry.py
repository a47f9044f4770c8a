import struct
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.confluent.type import decimal_utils
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
from google.type import date_pb2, timeofday_pb2  # type: ignore[import-untyped]
from grpc_tools import protoc

from secor.core.errors import ConfigurationError
from secor.parsing.decoders import make_decoder
from secor.parsing.rows import Decoder, DividingDecoder
from tests.fakes.confluent import IN_HEADERS, Confluent
from tests.fakes.registry import Registry, running_registry
from tests.unit.parsing.decoder_cases import batch, decode, reason, rows, survives
from tests.unit.parsing.test_decoder_json_framed import with_headers

MONEY = """syntax = "proto3";
package shop.common;
message Money { string currency = 1; int64 units = 2; }
"""
ORDER = """syntax = "proto3";
package shop;
import "common/money.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Unused { int32 x = 1; }
message Order {
  enum State { NEW = 0; PAID = 1; }
  message Line { string sku = 1; uint64 count = 2; Order gift = 3; }
  int64 id = 1;
  State state = 2;
  repeated Line lines = 3;
  map<int32, string> notes = 4;
  oneof payment { string card = 5; shop.common.Money cash = 6; }
  google.protobuf.Timestamp at = 7;
  google.protobuf.Int64Value wrapped = 8;
  optional int32 maybe = 9;
  bytes raw = 10;
  google.protobuf.Duration lasting = 11;
  google.protobuf.Struct free = 12;
  uint64 most = 13;
  repeated google.protobuf.Timestamp times = 14;
}
"""
MONEY_REFERENCE = {"name": "common/money.proto", "subject": "money", "version": 1}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


def compiled(folder: Path, sources: Mapping[str, str], main: str) -> dict[str, type[Message]]:
    """The classes of a .proto file's messages, by Google's compiler and nothing of ours."""
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    google = Path(protoc.__file__).parent / "_proto"
    command = ["protoc", f"-I{folder}", f"-I{google}", "--include_imports"]
    assert protoc.main([*command, f"--descriptor_set_out={folder / 'set'}", main]) == 0
    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString((folder / "set").read_bytes()).file
    for file in files:
        pool.Add(file)
    [package] = [file.package for file in files if file.name == main]
    kinds = pool.FindFileByName(main).message_types_by_name
    assert package
    return {name: message_factory.GetMessageClass(kind) for name, kind in kinds.items()}


@pytest.fixture
def shop(tmp_path: Path) -> dict[str, type[Message]]:
    return compiled(tmp_path, {"common/money.proto": MONEY, "order.proto": ORDER}, "order.proto")


def by_registry(registry: Registry) -> Decoder:
    return make_decoder("protobuf", registry=registry.url)


def order(shop: Mapping[str, Any]) -> Any:
    made = shop["Order"](id=1 << 40, state=1, card="visa", raw=b"\xff", most=(1 << 64) - 1)
    made.lines.add(sku="a", count=2)
    made.notes[7] = "seven"
    made.at.FromDatetime(ROW["at"])
    made.times.add(seconds=1, nanos=999)
    made.wrapped.value = 0
    made.lasting.FromMicroseconds(1_500_000)
    made.free.update({"c": 0.5, "a": [1, None, "x"], "b": {"z": -0.0, "y": 0}})
    return made


ROW = {
    "id": 1 << 40,
    "state": "PAID",
    "lines": [{"sku": "a", "count": 2, "gift": None}],
    "notes": [(7, "seven")],
    "card": "visa",
    "cash": None,
    "at": datetime(2026, 11, 21, 4, 5, 6, 7, tzinfo=UTC),
    "wrapped": 0,
    "maybe": None,
    "raw": b"\xff",
    "lasting": {"seconds": 1, "nanos": 500_000_000},
    "free": '{"a":[1,null,"x"],"b":{"y":0,"z":-0.0},"c":0.5}',
    "most": (1 << 64) - 1,
    "times": [datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)],
}
EMPTY = dict.fromkeys(ROW) | {
    "id": 0, "state": "NEW", "lines": [], "notes": [], "raw": b"", "most": 0, "times": [],
}  # fmt: skip


def test_messages_of_confluents_serialiser_are_typed_rows(
    registry: Registry, shop: dict[str, Any]
) -> None:
    confluent = Confluent()
    serializer = confluent.protobuf(shop["Order"])
    values = [confluent.write(serializer, it) for it in (order(shop), shop["Order"]())]
    confluent.copy_to(registry)
    decoder = by_registry(registry)
    assert rows(decoder, values) == [ROW, EMPTY]
    assert decode(decoder, values).rows.type.field("at").type == pa.timestamp("us", "UTC")
    assert rows(decoder, values, "cash.units", "state", "at") == [
        {"cash.units": None, "state": "PAID", "at": ROW["at"]},
        {"cash.units": None, "state": "NEW", "at": None},
    ]
    assert "common/money.proto" in confluent.client.get_subjects()


def test_text_of_a_registry_is_compiled_with_its_references(
    registry: Registry, shop: dict[str, Any]
) -> None:
    registry.register(1, MONEY, kind="PROTOBUF", subject="money")
    registry.register(2, ORDER, kind="PROTOBUF", references=[MONEY_REFERENCE])
    payload = order(shop).SerializeToString()
    # The second message of the file; the first one is short for [0].
    assert rows(by_registry(registry), [b"\0\0\0\0\2\2\2" + payload]) == [ROW]
    assert rows(by_registry(registry), [b"\0\0\0\0\2\0\x08\x05"]) == [{"x": 5}]


def test_the_frame_names_a_nested_message(registry: Registry, shop: dict[str, Any]) -> None:
    confluent = Confluent()
    line = getattr(shop["Order"], "Line")  # noqa: B009 - made at run time
    values = [confluent.write(confluent.protobuf(line), line(sku="a", count=3))]
    values.append(confluent.write(confluent.protobuf(shop["Unused"]), shop["Unused"](x=1)))
    confluent.copy_to(registry)
    decoder = by_registry(registry)
    assert isinstance(decoder, DividingDecoder)
    groups = decoder.decode_apart(batch([values[0], values[1], values[0]]), None)
    fields = [decoded.rows.to_pylist() for _, decoded in groups]
    # Rows of schemas whose fields do not clash are rows of one type.
    [together] = fields
    assert [it["sku"] for it in together] == ["a", None, "a"]
    assert [it["x"] for it in together] == [None, 1, None]


def test_ids_in_headers_are_read_and_the_payload_may_be_empty(
    registry: Registry, shop: dict[str, Any]
) -> None:
    confluent = Confluent()
    serializer = confluent.protobuf(shop["Order"], **IN_HEADERS)
    value = confluent.write(serializer, order(shop))
    headers = list(confluent.headers)
    assert value == order(shop).SerializeToString()
    empty = confluent.write(serializer, shop["Order"]())
    assert empty == b""
    confluent.copy_to(registry)
    decoder = by_registry(registry)
    assert isinstance(decoder, DividingDecoder)
    messages = with_headers([value, empty, empty], [headers, headers, []])
    [(_, decoded)] = decoder.decode_apart(messages, None)
    assert decoded.rows.to_pylist() == [ROW, EMPTY, None]
    assert decoded.bad == {2: "empty payload"}


def test_decimals_of_confluent_have_their_scale_where_the_options_say_it(
    registry: Registry, tmp_path: Path
) -> None:
    text = """syntax = "proto3";
package bank;
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
message Booking {
  confluent.type.Decimal amount = 1 [(confluent.field_meta) = { params: [
    { key: "precision", value: "10" }, { key: "scale", value: "2" } ] }];
  confluent.type.Decimal any = 2;
}
"""
    registry.register(1, text, kind="PROTOBUF")
    decoder = by_registry(registry)

    def payload(number: int, value: str) -> bytes:
        inner = decimal_utils.to_proto_decimal(Decimal(value)).SerializeToString()
        return bytes([number << 3 | 2, len(inner)]) + inner

    [got] = rows(decoder, [b"\0\0\0\0\1\0" + payload(1, "-12.5") + payload(2, "1E+3")])
    assert got == {"amount": Decimal("-12.50"), "any": "1000"}
    kind = decode(decoder, [b"\0\0\0\0\1\0"]).rows.type
    assert kind.field("amount").type == pa.decimal128(10, 2)
    assert "schema id 1" in reason(decoder, b"\0\0\0\0\1\0" + payload(1, "0.001"))
    assert "scale" in reason(decoder, b"\0\0\0\0\1\0" + b"\x12\x06\x18" + b"\xff\xff\xff\xff\x07")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("syntax = \"proto3\"; message A { No a = 1; }", 'message.proto:1:32: "No" is not'),
        ("import \"other.proto\";", "other.proto: File not found"),
        ("{", "schema id 1: Protobuf schema"),
        ("syntax = \"proto3\";", "no message at indexes [0]"),
        ("CgJh", "schema id 1"),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_a_reason(registry: Registry, text: str, expected: str) -> None:
    registry.register(1, text, kind="PROTOBUF")
    assert expected in reason(by_registry(registry), bytes(4) + b"\1\0\x08\1")


def test_a_reference_that_is_no_path_is_refused(registry: Registry) -> None:
    registry.register(1, MONEY, kind="PROTOBUF", subject="money")
    outside = MONEY_REFERENCE | {"name": "../money.proto"}
    registry.register(2, ORDER, kind="PROTOBUF", references=[outside])
    assert "not a relative path" in reason(by_registry(registry), bytes(4) + b"\2\0\x08\1")


def test_bad_messages_say_their_schema(registry: Registry) -> None:
    registry.register(1, MONEY, kind="PROTOBUF")
    registry.register(2, {"type": "object"}, kind="JSON")
    decoder = by_registry(registry)
    assert reason(decoder, None) == "null payload"
    assert reason(decoder, bytes(4) + b"\1\0\x0a").endswith("(schema id 1)")
    assert "no message at indexes [1]" in reason(decoder, bytes(4) + b"\1\2\2")
    assert "no message at indexes [0, 5]" in reason(decoder, bytes(4) + b"\1\4\0\x0a")
    assert reason(decoder, bytes(4) + b"\2\0") == "schema id 2 is of type JSON, not PROTOBUF"
    assert reason(decoder, bytes(4) + b"\3\0") == "schema id 3 is not in the registry"


def test_a_time_beyond_all_years_is_bad(registry: Registry, shop: dict[str, Any]) -> None:
    confluent = Confluent()
    late = shop["Order"]()
    late.at.seconds = 1 << 60
    value = confluent.write(confluent.protobuf(shop["Order"]), late)
    confluent.copy_to(registry)
    assert "is no time (schema id" in reason(by_registry(registry), value)


def test_damaged_messages_are_bad_and_never_a_crash(registry: Registry) -> None:
    registry.register(1, MONEY, kind="PROTOBUF")
    money = b"\x0a\x03" + b"\xff" * 3 + b"\x10\x05"
    assert "invalid protobuf" in reason(by_registry(registry), bytes(4) + b"\1\0" + money)
    deep = bytes(4) + b"\1\0" + b"\x0a\x02NL" + b"\x10" + b"\xff" * 9 + b"\x01"
    survives(by_registry(registry), deep, "currency")


def test_settings_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="encoding 'json'"):
        make_decoder("protobuf", registry="http://localhost:1", encoding="json")
    with pytest.raises(ConfigurationError, match="have no framing"):
        make_decoder("protobuf", registry="http://localhost:1", framing="none")


def test_the_input_that_was_refused_once_is_read(registry: Registry) -> None:
    text = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
message Other { int32 a = 1; }
message Event { int64 id = 1; string name = 2; Other other = 3; google.protobuf.Timestamp at = 4; }
"""
    registry.register(17, text, kind="PROTOBUF")
    value = struct.pack(">bI", 0, 17) + b"\x02\x02\x08\x07\x12\x05seven\x1a\x00"
    [got] = rows(by_registry(registry), [value])
    assert got == {"id": 7, "name": "seven", "other": {"a": 0}, "at": None}


def test_a_type_that_unfolds_into_too_many_fields_is_a_reason(registry: Registry) -> None:
    kinds = ["message K0 { int32 a = 1; }"]
    kinds += [f"message K{n} {{ K{n - 1} a = 1; K{n - 1} b = 2; }}" for n in range(1, 20)]
    registry.register(1, "\n".join(['syntax = "proto3";', *kinds]), kind="PROTOBUF")
    value = bytes(4) + b"\1\2\x26"  # the last of the types
    assert "more than 10000 fields" in reason(by_registry(registry), value)


CONNECT_TYPES = """syntax = "proto3";
package db.t;
import "google/type/date.proto";
import "google/type/timeofday.proto";
message Value {
  optional int64 id = 1;
  google.type.Date day = 2;
  google.type.TimeOfDay clock = 3;
  repeated google.type.Date days = 4;
}
"""


def test_dates_and_times_of_connects_converter_are_columns_of_their_own(
    registry: Registry,
) -> None:
    registry.register(1, CONNECT_TYPES, kind="PROTOBUF")
    day = date_pb2.Date(year=2018, month=6, day=20).SerializeToString()
    clock = timeofday_pb2.TimeOfDay(hours=15, minutes=13, seconds=16, nanos=945_104_999)
    month = date_pb2.Date(year=2018, month=6).SerializeToString()

    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    clock_field = field(3, clock.SerializeToString())
    good = b"\0\0\0\0\1\0" + b"\x08\x01" + field(2, day) + clock_field + field(4, day)
    bad = b"\0\0\0\0\1\0" + field(2, month)
    found = decode(by_registry(registry), [good, b"\0\0\0\0\1\0\x08\x02", bad])
    assert found.rows.type == pa.struct(
        [
            ("id", pa.int64()),
            ("day", pa.date32()),
            ("clock", pa.time64("us")),
            ("days", pa.list_(pa.date32())),
        ]
    )
    assert found.rows.to_pylist() == [
        {
            "id": 1,
            "day": date(2018, 6, 20),
            "clock": time(15, 13, 16, 945104),
            "days": [date(2018, 6, 20)],
        },
        {"id": 2, "day": None, "clock": None, "days": []},
        None,
    ]
    assert "a Date of 2018-6-0 is no day" in found.bad[2]
