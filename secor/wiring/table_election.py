"""Who coordinates among several ``secor tables run``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import structlog

from secor.adapters.kafka import KafkaSource
from secor.config.model import Config
from secor.core.clock import SystemClock
from secor.core.errors import AccessDenied
from secor.tables.election import ASK_AGAIN, StandbyElection
from secor.wiring.clients import kafka_options

SESSION = 10.0
"""Most seconds after which one that is dead is followed; ``kafka.session_timeout`` may be less."""

METADATA_MAX_AGE = 5.0
"""Seconds after which a control topic that was just made is seen."""


def members_of(config: Config) -> str:
    """Return the consumer group of those that coordinate alone."""
    return f"secor-control-{config.group.name}"


@contextmanager
def elected(config: Config) -> Iterator[Callable[[], bool]]:
    """Give what tells whether this process leads; without a control topic it always does.

    The consumer group is this group's own, also where several share a control topic; it reads
    nothing.
    Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError``.
    """
    topic = config.commit.topic_of(config.group.name)
    if topic is None:
        yield lambda: True
        return
    members = members_of(config)
    log = structlog.get_logger("secor.tables.run")

    def warn(error: AccessDenied) -> None:
        log.warning(
            "no_election",
            why=str(error),
            next=f"this process leads, whoever does beside it; allow Read on the group {members}"
            f" and on the topic {topic}; it is tried again every {ASK_AGAIN / 60:.0f} minutes",
        )

    session = min(config.kafka.session_timeout, SESSION)
    source = KafkaSource(
        kafka_options(config),
        group=members,
        topics=[topic],
        session_timeout=session,
        heartbeat_interval=min(config.kafka.heartbeat_interval, session / 4),
        metadata_max_age=METADATA_MAX_AGE,
    )
    with closing(source):
        election = StandbyElection(
            source,
            topic,
            SystemClock(),
            stands_by=lambda: log.info("stands_by", group=members),
            denied=warn,
        )
        yield election.leads
