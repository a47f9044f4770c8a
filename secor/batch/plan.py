"""The plan of a topic: parser, formats, naming, policy, and the fingerprint of all of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from secor.batch.parse_trail import ParseTrail
from secor.batch.policy import Policy
from secor.core.model import DATA, OffsetRange, Part, TopicPartition
from secor.core.naming import ConnectName, ObjectName
from secor.core.ports import FileWriter, LogFormat, MessageParser


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A closed file of a batch: ``size`` in bytes; the writer may say more about it."""

    stream: str
    output_partition: str
    key: str
    size: int
    writer: FileWriter


@dataclass(frozen=True, slots=True)
class WrittenBatch:
    """The content of a batch's last file; ``greatest_timestamp`` is of all its messages."""

    topic_partition: TopicPartition
    range: OffsetRange
    fingerprint: str
    topic_id: str | None
    greatest_timestamp: int | None
    files: Sequence[WrittenFile]


class LastFile(Protocol):
    """An object that is put after all others of its batch: it says which they are.

    Its key is that of the range, under every configuration.  Whichever comes first is right,
    with the files that it names.
    """

    def key(self, topic_partition: TopicPartition, offsets: OffsetRange) -> str:
        """Return its key."""

    def body(self, batch: WrittenBatch) -> bytes:
        """Return its bytes."""


NAMING = "names by range"
"""How objects are named: another scheme gives other objects, so it is in the fingerprint."""
NAMING_OF_CONNECT = "names of Kafka Connect by range"


@dataclass(frozen=True, slots=True)
class OutputStream:
    """A destination for parts of one kind: a directory in the store, and a format.

    ``directory`` gives the directory of an output partition.  With it, files have unique names,
    and readers take their names from the batch's last file.
    """

    root: str
    log_format: LogFormat
    directory: Callable[[str], str] | None = None


@dataclass(frozen=True)
class TopicPlan:
    """Everything that decides which objects come of a range of offsets, and when.

    ``root`` is the topic's directory in the store.  ``streams`` are further directories,
    by the names that the parser gives them: quarantine, other topics, tables.
    ``last_file`` describes what was made, where that is wanted.  ``trail`` notes which
    messages are written.  With ``names_of_connect`` objects of the topic's own directory are
    called as a sink of Kafka Connect calls them, with ``codec_extension`` before the format's own,
    or with ``extension`` instead of both.
    """

    group: str
    root: str
    generation: int
    parser: MessageParser
    log_format: LogFormat
    policy: Policy
    upload_on_shutdown: bool = True
    upload_on_revoke: bool = False
    streams: Mapping[str, OutputStream] = field(default_factory=dict)
    last_file: LastFile | None = None
    trail: ParseTrail | None = None
    names_of_connect: ConnectName | None = None
    codec_extension: str = ""
    extension: str = ""

    def stream(self, name: str) -> OutputStream:
        """Return the output stream of a part."""
        return OutputStream(self.root, self.log_format) if name == DATA else self.streams[name]

    @property
    def roots(self) -> tuple[str, ...]:
        """All directories of objects that are found by listing, the topic's own first."""
        listed = (stream.root for stream in self.streams.values() if stream.directory is None)
        return (self.root, *listed)

    def object_name(self, topic_partition: TopicPartition, start: int, part: Part) -> ObjectName:
        """Return the name of the object for ``part`` of a batch that begins at ``start``."""
        stream = self.stream(part.stream)
        extension = stream.log_format.extension
        of_connect = self.names_of_connect if part.stream == DATA else None
        if of_connect:
            of_connect = of_connect.fitting(topic_partition.partition, start)
            extension = self.extension or self.codec_extension + extension
        return ObjectName(
            root=stream.root,
            output_partition=part.output_partition,
            generation=self.generation,
            partition=topic_partition.partition,
            start_offset=start,
            extension=extension,
            of_connect=of_connect,
        )

    @property
    def fingerprint(self) -> str:
        """16 hex digits over all that changes the objects made from a range."""
        return _digest((*self._settings, self._naming))

    @property
    def _naming(self) -> str:
        if not self.names_of_connect:
            return NAMING
        # The text of versions that knew no other names of a connector: any other text would be
        # another fingerprint, and supersede every open intent at the upgrade.
        if self.names_of_connect == ConnectName():
            return NAMING_OF_CONNECT + self.codec_extension + self.extension
        return f"{NAMING_OF_CONNECT} {self.names_of_connect}{self.codec_extension}{self.extension}"

    @property
    def earlier_fingerprint(self) -> str:
        """The fingerprint of the same settings when objects were named by their first message.

        An intent that has it is superseded; its range is stored under this plan.
        """
        return _digest(self._settings)

    @property
    def _settings(self) -> tuple[str, ...]:
        return (
            self.group,
            self.root,
            str(self.generation),
            self.parser.identity,
            self.log_format.identity,
            self.log_format.extension,
            *(
                f"{name}={stream.root}={stream.log_format.identity}{stream.log_format.extension}"
                # Sorted: in which order a configuration names its routes changes no object.
                for name, stream in sorted(self.streams.items())
            ),
        )


def _digest(parts: Iterable[str]) -> str:
    # NUL is in no setting, so no two lists of settings give the same text. 64 bits are enough: only
    # fingerprints of one topic's own history are ever compared.
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


Plans = Callable[[str, str | None], TopicPlan]
"""Gives the plan of a topic: the one of this fingerprint if there is one, else the present one.

A plan is also found by its ``earlier_fingerprint``.
It may block on the store.  Raises ``Unavailable``, ``OutcomeUnknown``, ``AccessDenied``,
``SchemaLost``, ``ConfigurationError``.
"""
