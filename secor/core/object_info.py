"""User metadata of an object: its batch, its messages and its settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from secor.core.errors import CorruptFile
from secor.core.model import OffsetRange, TopicPartition

_NUMBER = re.compile(r"-?[0-9]{1,20}")
_MOST = 2**63


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """The description of an object in its user metadata.

    ``batch`` is the whole batch's range, ``first_offset`` and ``records`` this object's;
    timestamps in milliseconds, None where no message had one.  ``group`` is in a batch's
    last file alone: its name has nothing of the settings that made it.  ``left_out`` of the
    ``records`` have no value and are not in the object; None where its format leaves none out, or
    its writer did not count them.  What the lists up to number ``erasures`` name was taken out.
    """

    topic_partition: TopicPartition
    batch: OffsetRange
    first_offset: int
    records: int
    generation: int
    fingerprint: str
    topic_id: str | None = None
    least_timestamp: int | None = None
    greatest_timestamp: int | None = None
    group: str | None = None
    left_out: int | None = None
    erasures: int | None = None

    def metadata(self) -> dict[str, str]:
        """Return it as user metadata: ASCII names and values."""
        optional = {
            "topic-id": self.topic_id,
            "least-timestamp": self.least_timestamp,
            "greatest-timestamp": self.greatest_timestamp,
            "group": self.group,
            "left-out": self.left_out,
            "erasures": self.erasures,
        }
        return {
            "topic": self.topic_partition.topic,
            "partition": str(self.topic_partition.partition),
            "batch-start": str(self.batch.start),
            "batch-end": str(self.batch.end),
            "first-offset": str(self.first_offset),
            "records": str(self.records),
            "generation": str(self.generation),
            "fingerprint": self.fingerprint,
            **{name: str(value) for name, value in optional.items() if value is not None},
        }

    @classmethod
    def of(cls, metadata: Mapping[str, str], key: str) -> ObjectInfo:
        """Read it back.  Raises ``CorruptFile`` naming ``key`` when it is not ours."""

        def number(name: str) -> int:
            text = metadata[name]
            # ``int`` takes more than we write ("1_000", " 7", digits of other scripts), and
            # metadata is anybody's who may write to the bucket.
            if _NUMBER.fullmatch(text) is None or not -_MOST <= int(text) < _MOST:
                raise ValueError(f"{name} is {text[:40]!r}")
            return int(text)

        def optional(name: str) -> int | None:
            return number(name) if name in metadata else None

        try:
            return cls(
                topic_partition=TopicPartition(metadata["topic"], number("partition")),
                batch=OffsetRange(number("batch-start"), number("batch-end")),
                first_offset=number("first-offset"),
                records=number("records"),
                generation=number("generation"),
                fingerprint=metadata["fingerprint"],
                topic_id=metadata.get("topic-id"),
                least_timestamp=optional("least-timestamp"),
                greatest_timestamp=optional("greatest-timestamp"),
                group=metadata.get("group"),
                left_out=optional("left-out"),
                erasures=optional("erasures"),
            )
        except KeyError as error:
            raise CorruptFile(
                f"{key}: its metadata is not Secor's ({error.args[0]} is missing)"
            ) from error
        except ValueError as error:
            raise CorruptFile(f"{key}: its metadata is not Secor's ({error})") from error

    def same_range(self, other: ObjectInfo) -> bool:
        """Return whether both are of one range of one topic, and of one group if both name it.

        A topic that was deleted and made again has the same offsets but another id.
        """
        ids = {self.topic_id, other.topic_id} - {None}
        groups = {self.group, other.group} - {None}
        same = self.topic_partition == other.topic_partition and self.batch == other.batch
        return same and len(ids) <= 1 and len(groups) <= 1

    def same_content(self, other: ObjectInfo) -> bool:
        """Return whether both are of the same range of the same topic under one configuration.

        Not their records: of two that read the range, the later one may have found fewer
        messages in a log that was compacted meanwhile.
        """
        return self.fingerprint == other.fingerprint and self.same_range(other)
