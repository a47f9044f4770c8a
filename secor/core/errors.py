"""Every error of the program, in one tree ordered by what the caller does about it."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path

_OF_VALUES = frozenset({None, errno.EDOM, errno.EILSEQ, errno.EOVERFLOW, errno.ERANGE})
"""Numbers of errors that values cause; Arrow raises ``OSError`` for them, without a number."""


class SecorError(Exception):
    """Base of all; the message says what, where and what to do."""


class ConfigurationError(SecorError):
    """The configuration or the command line is wrong: report and exit 2."""


class LedgerMoved(ConfigurationError):
    """The group's offsets are in another ledger, or on their way into this one."""


class UnsupportedTable(ConfigurationError):
    """A table is of a format version that cannot be written here."""


class FilesRefused(ConfigurationError):
    """Staged files cannot be in a commit, whose table is as it was: ask which of them."""


class Unavailable(SecorError):
    """A server did not answer, refused for now, or timed out *without effect*: try again."""


class OffsetsTopicGone(Unavailable):
    """A restore's offsets topic is not there: perhaps this broker has not heard of it yet."""


class OutcomeUnknown(SecorError):
    """A write was sent and its answer lost: read back before anything else."""


class AccessDenied(SecorError):
    """Credentials or permissions are wrong, or a bucket is missing: a person must act."""


class LocalFilesExhausted(SecorError):
    """This machine cannot hold more local files now: drop the batch, wait, read again."""


class DiskFull(LocalFilesExhausted):
    """There is no room on the file system of the local files."""


class DescriptorsExhausted(LocalFilesExhausted):
    """The process or the machine has no free file descriptor."""


class LocalFilesRefused(LocalFilesExhausted):
    """The directory of local files is gone, read-only, broken, or not this user's any more."""


class RestartPartition(SecorError):
    """Drop the local files of the topic partition and begin again at its ledger entry."""


class Refused(RestartPartition):
    """A compare-and-set lost: the entry is not as it was read."""


class LeaseLost(RestartPartition):
    """The right to write this ledger entry is gone or cannot be had."""


class WriterFenced(LeaseLost):
    """A later initialisation of the transactional id has fenced this writer."""


class TransactionBroken(RestartPartition):
    """A transaction cannot go on, or its outcome is not known: initialise, read the offset."""


class TransactionAborted(TransactionBroken):
    """The broker asked for an abort, which was done: write the same records again."""


class MessagesUnwritable(RestartPartition):
    """Messages of ``[start, end)`` cannot be parsed or written, perhaps for their values.

    ``refused`` has the reason of each that is known to be the cause, by offset.
    """

    def __init__(
        self, why: str, start: int, end: int, refused: Mapping[int, str] | None = None
    ) -> None:
        super().__init__(f"messages in [{start}, {end}): {why}")
        self.why = why
        self.start = start
        self.end = end
        self.refused = dict(refused or {})


class SchemaGrew(RestartPartition):
    """The message at ``offset`` needs a wider schema: what comes before it is kept."""

    def __init__(self, offset: int) -> None:
        super().__init__(
            f"the message at offset {offset} has fields or values for which the kept schema is"
            " widened; reading goes on there"
        )
        self.offset = offset


class StopPartition(SecorError):
    """Go no further with this topic partition until a person has looked."""

    reason = "error"


class LedgerLost(StopPartition):
    """An entry that was read before is gone, or objects exist without an entry."""

    reason = "ledger_lost"


class LedgerEdited(StopPartition):
    """``committed`` is not where the open intent begins."""

    reason = "ledger_edited"


class LedgerCorrupt(StopPartition):
    """The entry's content cannot be read as an offset or an intent."""

    reason = "ledger_corrupt"


class ObjectConflict(StopPartition):
    """Another object has a name that is ours: never overwrite it."""

    reason = "object_conflict"


class TopicRecreated(StopPartition):
    """The topic was deleted and made again, or ends below the committed offset."""

    reason = "topic_recreated"


class LogDiverged(StopPartition):
    """The log was cut below the committed offset and has grown again: other messages are there."""

    reason = "log_diverged"


class DataLost(StopPartition):
    """Retention passed the committed offset and ``on_data_loss`` is ``stop``."""

    reason = "data_lost"


class NoStartingOffset(StopPartition):
    """There is no entry and ``reset`` is ``none``."""

    reason = "no_offset"


class CorruptBatch(StopPartition):
    """A record batch from the broker fails its CRC or cannot be decoded."""

    reason = "corrupt_batch"


class RecordRefused(StopPartition):
    """A message cannot be written in this format and the configuration refuses it."""

    reason = "record_refused"


class TargetRefused(StopPartition):
    """The target cluster will not take a record or a transaction, however often it is sent."""

    reason = "target_refused"


class SpecChanged(StopPartition):
    """An offset was written under another spec of the job."""

    reason = "spec_changed"


class ArchiveIncomplete(StopPartition):
    """Archived offsets are missing, or an object cannot be read."""

    reason = "archive_incomplete"


class NotDeterministic(StopPartition):
    """A plug-in gave two results for one message."""

    reason = "not_deterministic"


class PluginFailed(StopPartition):
    """A plug-in over columns failed, or broke its promise."""

    reason = "plugin_failed"


class FormatFailed(PluginFailed):
    """A plug-in's format failed over the rows of a file, or when it was closed."""


class TooManyBad(StopPartition):
    """More messages go into quarantine than the configuration allows."""

    reason = "too_many_bad"


class SchemaLost(StopPartition):
    """A kept schema cannot be read as one."""

    reason = "schema_lost"


class TableUnusable(StopPartition):
    """A table that messages go to is missing, or cannot be written."""

    reason = "table"


class TableStopped(SecorError):
    """Commit nothing more to this table until a person has looked; other tables go on.

    ``reason`` is a short name for metrics, such as ``rolled_back``.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class ActionFailed(SecorError):
    """An action of the user for a complete partition failed."""


class CorruptFile(SecorError):
    """A stored file's bytes are not of its format; names the file and the place."""


class NotFound(SecorError):
    """No object of that key."""


class AlreadyExists(SecorError):
    """A put-if-absent met an object of that key: perhaps our own; look at it."""


def no_starting_offset(topic_partition: object) -> NoStartingOffset:
    """Return what stops a partition that has no entry and is given none."""
    return NoStartingOffset(
        f"{topic_partition}: the group has no offset and kafka.reset is none; set one"
        " with 'secor offsets set', or set kafka.reset to earliest or latest"
    )


def damaged_content(name: Path | str, seen: int, expected: int) -> RestartPartition:
    """Return the error for content with another CRC32C than when it was written."""
    return RestartPartition(
        f"{name} has CRC32C {seen:08x} instead of {expected:08x}: it was damaged after it was"
        " written; its messages are read again, but look at the disk"
    )


def is_of_values(error: OSError) -> bool:
    """Return whether values may be the cause, and not files, servers or the machine.

    Errors of servers are of classes derived from ``OSError``.
    """
    return type(error) is OSError and error.errno in _OF_VALUES
