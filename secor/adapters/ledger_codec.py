"""Codec of the ledger's texts: an offset in ASCII, an intent in JSON.

Both ledgers share them.  Decoding is strict: what cannot be understood whole stops the
partition, because a guess at a committed offset loses or repeats messages.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from secor.core.errors import LedgerCorrupt
from secor.core.model import Intent, Superseded
from secor.core.relocation import Direction, Relocation

_OFFSET = re.compile(rb"[0-9]{1,19}")
_EPOCH = re.compile(rb"([0-9]{1,10}) ([0-9]{1,19})")
_GREATEST_OFFSET = 2**63 - 1
_METADATA_MARK = "secor"
_METADATA_VERSION = 1
_MARKED_VERSION = 2
"""Earlier versions refuse an entry of a version that they do not know."""
_WHAT_TO_DO = (
    "rebuild the entry from the objects with 'secor offsets recover', "
    "or give it a value with 'secor offsets set'"
)


def encode_offset(offset: int) -> bytes:
    """Return ``offset`` in ASCII digits, as Java Secor writes it."""
    if not 0 <= offset <= _GREATEST_OFFSET:
        raise ValueError(f"{offset} is no offset")
    return b"%d" % offset


def decode_offset(data: bytes, where: str) -> int:
    """Read an offset; ``where`` names the place in the error.

    Raises ``LedgerCorrupt`` for anything else than ASCII digits: a node that Java Secor
    left behind in the middle of its creation holds the client's address instead.
    """
    if _OFFSET.fullmatch(data):
        offset = int(data)
        if offset <= _GREATEST_OFFSET:
            return offset
    raise LedgerCorrupt(f"{where} holds {data[:80]!r}, which is no offset; {_WHAT_TO_DO}")


def encode_epoch(leader_epoch: int, offset: int) -> str:
    """Return the epoch of the batch below ``offset`` with that offset: ``<epoch> <offset>``.

    Writers that know no epochs move the offset alone: the epoch is then that of another one.
    """
    return f"{leader_epoch} {offset}"


def decode_epoch(data: bytes, offset: int | None) -> int | None:
    """Read the epoch of ``offset``; None where the text says nothing of that offset."""
    match = _EPOCH.fullmatch(data)
    return int(match[1]) if match is not None and int(match[2]) == offset else None


def encode_intent(intent: Intent) -> str:
    """Return the intent as compact JSON in ASCII.

    ``{"start", "end", "fingerprint", "owner", "at", "root", "also", "supersedes"}``; the last
    two are left out when empty, and root and ``also`` of an item when they are the intent's.
    """
    return _dump(_intent_fields(intent))


def decode_intent(text: str, where: str = "the intent") -> Intent:
    """Read what ``encode_intent`` wrote.  Raises ``LedgerCorrupt`` naming ``where``."""
    return _Reader(where).intent(_load(text, where))


def encode_metadata(
    intent: Intent | None, topic_id: str | None, relocation: Relocation | None = None
) -> str:
    """Return the metadata text of a Kafka offset commit; empty when there is nothing to say.

    ``{"secor": 1, "topic_id", "intent"}``, absent parts left out; with ``relocation`` it is
    ``{"secor": 2, <relocation>, "topic_id", "intent"}``.
    """
    if intent is None and topic_id is None and relocation is None:
        return ""
    fields: dict[str, object] = {_METADATA_MARK: _METADATA_VERSION}
    if relocation is not None:
        fields = {_METADATA_MARK: _MARKED_VERSION, **_relocation_fields(relocation)}
    if topic_id is not None:
        fields["topic_id"] = topic_id
    if intent is not None:
        fields["intent"] = _intent_fields(intent)
    return _dump(fields)


def decode_metadata(
    text: str, where: str = "the commit's metadata"
) -> tuple[Intent | None, str | None]:
    """Read what ``encode_metadata`` wrote without a relocation: the intent and the topic's id.

    An empty text means neither (Java Secor and most clients write that).  Another
    program's text raises ``LedgerCorrupt``: two programs would share one group.
    """
    intent, topic_id, relocation = decode_kept_metadata(text, where)
    if relocation is not None:
        raise LedgerCorrupt(f"{where} says that the ledger is closed: {text[:80]!r}")
    return intent, topic_id


def decode_kept_metadata(
    text: str, where: str
) -> tuple[Intent | None, str | None, Relocation | None]:
    """Read what ``encode_metadata`` wrote, with or without a relocation.

    Raises ``LedgerCorrupt`` as ``decode_metadata`` does.
    """
    if not text:
        return None, None, None
    read = _Reader(where)
    fields = read.mapping(_load(text, where), "the text")
    known = {_METADATA_MARK, "topic_id", "intent"}
    relocation = None
    if fields.get(_METADATA_MARK) == _MARKED_VERSION:
        relocation = read.relocation(fields)
        known |= _relocation_fields(relocation).keys()
    elif fields.get(_METADATA_MARK) != _METADATA_VERSION:
        raise read.corrupt(f"it is not Secor's of version {_METADATA_VERSION}: {text[:80]!r}")
    read.known(fields, known)
    topic_id = read.text(fields, "topic_id") if "topic_id" in fields else None
    intent = read.intent(fields["intent"]) if "intent" in fields else None
    return intent, topic_id, relocation


def encode_kept_offset(offset: int, relocation: Relocation | None) -> bytes:
    """Return the text of ZooKeeper's offset node; with a relocation nobody takes it for one.

    Java Secor and earlier versions refuse it: ``{"secor": 2, <relocation>, "offset"}``.
    """
    if relocation is None:
        return encode_offset(offset)
    marked = {_METADATA_MARK: _MARKED_VERSION, **_relocation_fields(relocation), "offset": offset}
    return _dump(marked).encode()


def decode_kept_offset(data: bytes, where: str) -> tuple[int, Relocation | None]:
    """Read what ``encode_kept_offset`` wrote.  Raises ``LedgerCorrupt``."""
    if not data.startswith(b"{"):
        return decode_offset(data, where), None
    read = _Reader(where)
    fields = read.mapping(_load(data.decode("utf-8", "replace"), where), "the text")
    if fields.get(_METADATA_MARK) != _MARKED_VERSION:
        raise read.corrupt(f"it is no offset: {data[:80]!r}")
    relocation = read.relocation(fields)
    read.known(fields, {_METADATA_MARK, "offset", *_relocation_fields(relocation)})
    return read.offset(fields, "offset"), relocation


def encode_record(ledger_id: str, relocation: Relocation | None) -> bytes:
    """Return the text of the node that represents a whole ledger in ZooKeeper.

    ``{"id"}``, and with a relocation ``{"secor": 2, <relocation>, "id"}``.
    """
    if relocation is None:
        return _dump({"id": ledger_id}).encode()
    fields = {_METADATA_MARK: _MARKED_VERSION, **_relocation_fields(relocation)}
    return _dump({**fields, "id": ledger_id}).encode()


def decode_record(data: bytes, where: str) -> tuple[str, Relocation | None]:
    """Read what ``encode_record`` wrote.  Raises ``LedgerCorrupt``."""
    read = _Reader(where)
    fields = read.mapping(_load(data.decode("utf-8", "replace"), where), "the text")
    relocation = None if fields.keys() == {"id"} else read.relocation(fields)
    return read.text(fields, "id"), relocation


def _relocation_fields(relocation: Relocation) -> dict[str, object]:
    return {
        str(relocation.direction): relocation.ledger,
        "ledger_id": relocation.ledger_id,
        "at": relocation.at,
        "by": relocation.by,
    }


def _intent_fields(intent: Intent) -> dict[str, object]:
    if not 0 <= intent.start < intent.end:
        raise ValueError(f"an intent needs a range, not [{intent.start}, {intent.end})")
    fields: dict[str, object] = {
        "start": intent.start,
        "end": intent.end,
        "fingerprint": intent.fingerprint,
        "owner": intent.owner,
        "at": intent.at,
        "root": intent.root,
    }
    if intent.also:
        fields["also"] = list(intent.also)
    if intent.supersedes:
        fields["supersedes"] = [_superseded(item, intent) for item in intent.supersedes]
    return fields


def _superseded(item: Superseded, intent: Intent) -> dict[str, object]:
    fields: dict[str, object] = {"fingerprint": item.fingerprint}
    # Left out where it is that of the intent: all of it has to fit into 4,096 characters in Kafka.
    if item.root != intent.root:
        fields["root"] = item.root
    if item.also != intent.also:
        fields["also"] = list(item.also)
    return fields


def _dump(fields: Mapping[str, object]) -> str:
    return json.dumps(fields, separators=(",", ":"), allow_nan=False)


def _load(text: str, where: str) -> object:
    try:
        loaded: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LedgerCorrupt(
            f"{where} is not JSON ({error}): {text[:80]!r}; {_WHAT_TO_DO}"
        ) from error
    return loaded


class _Reader:
    """Takes typed fields out of loaded JSON; every fault becomes ``LedgerCorrupt``."""

    def __init__(self, where: str) -> None:
        self._where = where

    def corrupt(self, fault: str) -> LedgerCorrupt:
        return LedgerCorrupt(f"{self._where} cannot be used: {fault}; {_WHAT_TO_DO}")

    def intent(self, loaded: object) -> Intent:
        fields = self.mapping(loaded, "the intent")
        needed = {"start", "end", "fingerprint", "owner", "at", "root"}
        self.known(fields, needed | {"also", "supersedes"})
        start, end = self.offset(fields, "start"), self.offset(fields, "end")
        if end <= start:
            raise self.corrupt(f"[{start}, {end}) is no range")
        root, also = self.text(fields, "root"), self.roots(fields, ())
        return Intent(
            start=start,
            end=end,
            fingerprint=self.text(fields, "fingerprint"),
            owner=self.text(fields, "owner"),
            at=self.seconds(fields, "at"),
            root=root,
            supersedes=self.supersedes(fields.get("supersedes", []), root, also),
            also=also,
        )

    def relocation(self, fields: Mapping[str, object]) -> Relocation:
        for direction in Direction:
            if direction in fields:
                texts = (self.text(fields, name) for name in (direction, "ledger_id", "at", "by"))
                return Relocation(direction, *texts)
        raise self.corrupt("it says neither where the ledger was moved nor from where")

    def supersedes(
        self, loaded: object, root: str, also: tuple[str, ...]
    ) -> tuple[Superseded, ...]:
        if not isinstance(loaded, list):
            raise self.corrupt("'supersedes' is not a list")
        return tuple(self.superseded(item, root, also) for item in loaded)

    def superseded(self, loaded: object, root: str, also: tuple[str, ...]) -> Superseded:
        fields = self.mapping(loaded, "an item of 'supersedes'")
        self.known(fields, {"fingerprint", "root", "also"})
        own_root = self.text(fields, "root") if "root" in fields else root
        return Superseded(self.text(fields, "fingerprint"), own_root, self.roots(fields, also))

    def roots(self, fields: Mapping[str, object], missing: tuple[str, ...]) -> tuple[str, ...]:
        loaded = fields.get("also", list(missing))
        if not isinstance(loaded, list) or not all(isinstance(root, str) for root in loaded):
            raise self.corrupt(f"'also' is no list of texts: {loaded!r}")
        return tuple(loaded)

    def mapping(self, loaded: object, name: str) -> Mapping[str, object]:
        if not isinstance(loaded, dict):
            raise self.corrupt(f"{name} is not an object of JSON")
        return loaded

    def known(self, fields: Mapping[str, object], names: set[str]) -> None:
        # A newer version's field may change what the entry means: refuse rather than ignore.
        unknown = sorted(set(fields) - names)
        if unknown:
            raise self.corrupt(f"unknown fields {', '.join(map(repr, unknown))}")

    def offset(self, fields: Mapping[str, object], name: str) -> int:
        value = fields.get(name)
        # ``isinstance`` would take true for 1.
        if type(value) is int and 0 <= value <= _GREATEST_OFFSET:
            return value
        raise self.corrupt(f"{name!r} is no offset: {value!r}")

    def text(self, fields: Mapping[str, object], name: str) -> str:
        value = fields.get(name)
        if isinstance(value, str):
            return value
        raise self.corrupt(f"{name!r} is no text: {value!r}")

    def seconds(self, fields: Mapping[str, object], name: str) -> float:
        value = fields.get(name)
        if type(value) in (int, float) and isinstance(value, int | float) and math.isfinite(value):
            return value
        raise self.corrupt(f"{name!r} is no number: {value!r}")
