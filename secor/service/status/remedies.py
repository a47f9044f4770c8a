"""Remedies: what a person does about an error, if anything."""

from __future__ import annotations

from collections.abc import Mapping

from secor.core.errors import (
    AccessDenied,
    ActionFailed,
    AlreadyExists,
    ArchiveIncomplete,
    ConfigurationError,
    CorruptBatch,
    CorruptFile,
    DataLost,
    DescriptorsExhausted,
    DiskFull,
    FilesRefused,
    FormatFailed,
    LedgerCorrupt,
    LedgerEdited,
    LedgerLost,
    LedgerMoved,
    LocalFilesExhausted,
    LocalFilesRefused,
    LogDiverged,
    MessagesUnwritable,
    NoStartingOffset,
    NotDeterministic,
    NotFound,
    ObjectConflict,
    OffsetsTopicGone,
    OutcomeUnknown,
    PluginFailed,
    RecordRefused,
    RestartPartition,
    SchemaLost,
    SecorError,
    SpecChanged,
    StopPartition,
    TableStopped,
    TableUnusable,
    TargetRefused,
    TooManyBad,
    TopicRecreated,
    Unavailable,
    UnsupportedTable,
)

_LOOK = "The message says what is wrong and where."

REMEDIES: Mapping[type[SecorError], str] = {
    SecorError: _LOOK,
    StopPartition: f"{_LOOK} It is looked at again every minute.",
    ConfigurationError: "Correct the configuration (secor config check) and restart.",
    LedgerMoved: "Configure the ledger that the message names, or finish the move with secor "
    "offsets move, and restart.",
    OffsetsTopicGone: "Find out who deleted the offsets topic; secor restore plan says more.",
    UnsupportedTable: "Use a table of format version 2, or change its rows by key, which takes "
    "version 3, too; this one is stopped, the others go on.",
    FilesRefused: "secor tables status says why; the table takes nothing until that is corrected.",
    Unavailable: "Nothing at first: it is tried again. If it stays, look at the server and the "
    "network, and run secor doctor.",
    OutcomeUnknown: "Nothing: what was written is read back and settled.",
    AccessDenied: "Correct credentials or rights (secor doctor); it is tried again.",
    LocalFilesExhausted: "Look at local.directory and at the limits of this process; the messages "
    "are read again.",
    DescriptorsExhausted: "Raise the limit of open files (LimitNOFILE= of the unit), or lower "
    "limits.open_files; the messages are read again.",
    LocalFilesRefused: "Give this user the rights in local.directory, and let nobody else delete "
    "there; the messages are read again.",
    DiskFull: "Make room in local.directory, or lower limits.local_bytes; the messages are read "
    "again.",
    RestartPartition: "Nothing: reading begins again at the ledger's entry.",
    MessagesUnwritable: "Nothing: they are read again and tried one by one; those that are the "
    "cause go into quarantine.",
    LedgerLost: "Run secor offsets recover: it rebuilds the entry from the objects.",
    LedgerEdited: "Look at secor offsets show, then secor offsets set, which settles the intent.",
    LedgerCorrupt: "Correct the entry with secor offsets set.",
    ObjectConflict: "Find out who wrote the object; move it away, or raise output.generation.",
    TopicRecreated: "Raise output.generation, then run secor offsets accept.",
    LogDiverged: "Raise output.generation, then set the offset to where the logs part with secor "
    "offsets set and --new-generation.",
    DataLost: "Set the offset to where the log begins with secor offsets set: that accepts the "
    "loss.",
    NoStartingOffset: "Set the first offset with secor offsets set, or set kafka.reset.",
    CorruptBatch: "Look at the broker's disks and replicas; secor offsets set can leave the batch "
    "out.",
    RecordRefused: "Choose a format or setting that takes the message, and restart.",
    NotDeterministic: "Fix the plug-in, which must give one result for one message, and restart.",
    PluginFailed: "Fix the plug-in and restart.",
    FormatFailed: "Fix the plug-in's format, where messages fail only together, and restart.",
    TooManyBad: "The message has the last reason; these messages are not in quarantine, for their "
    "batch is not stored. Correct [parser] (secor parser try), or raise the limit, and restart.",
    ArchiveIncomplete: "Run secor verify --archive-only: it names what is missing.",
    SpecChanged: "Restore on under the settings that were used before, or into other topics.",
    TargetRefused: "Correct the target topic's limits or the rights on it, and restore on.",
    SchemaLost: "Put the object back as it was (the bucket may have its versions), or raise "
    "output.generation.",
    TableUnusable: "Make the table, or correct [[tables]] or its rights; it is tried again each "
    "minute.",
    TableStopped: f"{_LOOK} Other tables go on.",
    ActionFailed: _LOOK,
    CorruptFile: "Run secor verify: it names what is not as it was.",
    NotFound: _LOOK,
    AlreadyExists: _LOOK,
}


def remedy(error: SecorError) -> str:
    """Return what to do about ``error``: of its class, or of the nearest above it."""
    for kind in type(error).__mro__:
        if kind in REMEDIES:
            return REMEDIES[kind]
    return _LOOK
