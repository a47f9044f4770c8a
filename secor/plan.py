"""How the messages of one topic are stored."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from secor.policy import Policy
from secor.ports import LogFormat, Parser


@dataclass(frozen=True)
class TopicPlan:
    """Everything that decides which objects come of a range of offsets, and when.

    ``root`` is the topic's directory in the store.
    """

    group: str
    root: str
    generation: int
    parser: Parser
    log_format: LogFormat
    policy: Policy
    upload_on_shutdown: bool = True
    upload_on_revoke: bool = False

    @property
    def fingerprint(self) -> str:
        """16 hex digits over all that changes the objects made from a range."""
        parts = (
            self.group,
            self.root,
            str(self.generation),
            self.parser.identity,
            self.log_format.identity,
            self.log_format.extension,
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
