"""The exit codes that service units and scripts may rely on."""

from __future__ import annotations

from enum import IntEnum

from secor.core.errors import (
    AccessDenied,
    ConfigurationError,
    CorruptFile,
    OutcomeUnknown,
    RestartPartition,
    SecorError,
    StopPartition,
    TableStopped,
    Unavailable,
)


class Exit(IntEnum):
    """The exit codes of every command."""

    OK = 0
    ERROR = 1
    """Something unexpected: a defect, until shown otherwise."""
    CONFIGURATION = 2
    """The command line or the configuration is wrong: trying again will not help."""
    DENIED = 3
    """A server refuses the credentials, or the bucket is missing."""
    UNAVAILABLE = 4
    """A server does not answer: trying again may help."""
    DIFFERENT = 5
    """Differences were found, a partition is stopped, or the group is running: a person must
    look.
    """
    INTERRUPTED = 130
    """Ctrl-C, as shells count it."""
    PIPE_CLOSED = 141
    """The reader of our output went away, as shells count it."""


_BY_ERROR: tuple[tuple[type[SecorError], Exit], ...] = (
    (ConfigurationError, Exit.CONFIGURATION),
    (AccessDenied, Exit.DENIED),
    (Unavailable, Exit.UNAVAILABLE),
    (OutcomeUnknown, Exit.UNAVAILABLE),
    (StopPartition, Exit.DIFFERENT),
    (TableStopped, Exit.DIFFERENT),
    (RestartPartition, Exit.DIFFERENT),
    (CorruptFile, Exit.DIFFERENT),
)


def exit_of(error: SecorError) -> Exit:
    """Return how a command ends that let ``error`` escape."""
    for kind, code in _BY_ERROR:
        if isinstance(error, kind):
            return code
    return Exit.ERROR
