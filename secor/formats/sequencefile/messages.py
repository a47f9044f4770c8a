"""Reading of a single MessagePack key: slow, complete, and the judge of what is valid."""

from __future__ import annotations

from dataclasses import dataclass, field

_LEAST_LONG, _MOST_LONG = -(1 << 63), (1 << 63) - 1


class BadRow(ValueError):
    """Row ``row`` of the batch is not of the format."""

    def __init__(self, row: int, what: str) -> None:
        super().__init__(what)
        self.row = row


@dataclass(frozen=True, slots=True)
class MessageHeader:
    """One header as it is unpacked."""

    key: str
    value: bytes | None


@dataclass(slots=True)
class KeyFields:
    """The fields of one key, checked."""

    offset: int
    timestamp: int | None = None
    timestamp_type: int = 0
    key: bytes | None = None
    headers: list[MessageHeader] = field(default_factory=list)
    tombstone: bool = False


def unpack_key(raw: bytes, row: int) -> KeyFields:
    """Read one key of any valid form.  Raises ``BadRow``."""
    import msgpack  # rarely needed, and a hundredth of a start

    try:
        # Keys of maps are numbers here, which the library refuses by default.
        fields = msgpack.unpackb(raw, strict_map_key=False, raw=False)
    except (ValueError, TypeError, OverflowError) as error:
        raise BadRow(row, f"a key that is no MessagePack ({error})") from error
    if not isinstance(fields, dict) or not fields.keys() <= {1, 2, 3, 4, 5, 6} or 1 not in fields:
        raise BadRow(row, "a key that is no map of the fields 1 to 6 with an offset (1)")
    try:
        return KeyFields(
            offset=_long(fields[1]),
            timestamp=None if fields.get(3) is None else _long(fields[3]),
            timestamp_type=_one_of(fields.get(6, 0), (0, 1)),
            key=_bytes_or_none(fields.get(2)),
            headers=[_header(item) for item in _list(fields.get(4, []))],
            tombstone=bool(_one_of(fields.get(5, False), (False, True))),
        )
    except ValueError as error:
        raise BadRow(row, f"a key with a field of the wrong kind: {error}") from error


def _long(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and _fits(value):
        return value
    raise ValueError(f"{value!r:.50} is no 64-bit integer")


def _fits(value: int) -> bool:
    return _LEAST_LONG <= value <= _MOST_LONG


def _one_of(value: object, allowed: tuple[int, int]) -> int:
    if type(value) is type(allowed[0]) and value in allowed:
        return int(value)
    raise ValueError(f"{value!r:.50} is not one of {allowed}")


def _bytes_or_none(value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    raise ValueError(f"{value!r:.50} is no binary")


def _list(value: object) -> list[object]:
    if isinstance(value, list):
        return value
    raise ValueError(f"{value!r:.50} is no array")


def _header(item: object) -> MessageHeader:
    pair = _list(item)
    if len(pair) == 2 and isinstance(pair[0], str):
        return MessageHeader(pair[0], _bytes_or_none(pair[1]))
    raise ValueError(f"{item!r:.50} is no header [name, value]")
