"""How the messages of one topic are stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from secor.batch.policy import Policy
from secor.core.model import DATA
from secor.core.ports import LogFormat, Parser


@dataclass(frozen=True, slots=True)
class Lane:
    """Where parts of one kind go: a directory in the store, and a format."""

    root: str
    log_format: LogFormat


@dataclass(frozen=True)
class TopicPlan:
    """Everything that decides which objects come of a range of offsets, and when.

    ``root`` is the topic's directory in the store.  ``lanes`` are further directories,
    by the names that the parser gives them: quarantine, other topics.
    """

    group: str
    root: str
    generation: int
    parser: Parser
    log_format: LogFormat
    policy: Policy
    upload_on_shutdown: bool = True
    upload_on_revoke: bool = False
    lanes: Mapping[str, Lane] = field(default_factory=dict)

    def lane(self, name: str) -> Lane:
        """Return the lane of a part."""
        return Lane(self.root, self.log_format) if name == DATA else self.lanes[name]

    @property
    def roots(self) -> tuple[str, ...]:
        """All directories, the topic's own first."""
        return (self.root, *(lane.root for lane in self.lanes.values()))

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
            *(
                f"{name}={lane.root}={lane.log_format.identity}{lane.log_format.extension}"
                for name, lane in sorted(self.lanes.items())
            ),
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


Plans = Callable[[str, str | None], TopicPlan]
"""Gives the plan of a topic: the one of this fingerprint if there is one, else the present one.

It may block on the store.  Raises ``Unavailable``, ``OutcomeUnknown``, ``AccessDenied``,
``SchemaLost``, ``ConfigurationError``.
"""
