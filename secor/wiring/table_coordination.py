"""The coordinator in a daemon, in its own thread, and the channel to the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass

import structlog

from secor.adapters.kafka import KafkaSource
from secor.adapters.kafka.group_admin import GroupAdmin
from secor.adapters.kafka.topic_admin import TopicAdmin, TopicDefinition
from secor.config.model import Config
from secor.consume.consumer import Consumer
from secor.core.clock import SystemClock
from secor.core.errors import AccessDenied, ConfigurationError
from secor.service.monitoring.table_telemetry import TableTelemetry
from secor.tables.control import ControlChannel, NoChannel, SharedChannel
from secor.tables.coordinator import CoordinatorThread
from secor.tables.cycle_responder import CycleResponder
from secor.tables.election import ASK_AGAIN, Election, StandbyElection
from secor.wiring.clients import kafka_options
from secor.wiring.table_group import clock, open_table_group

SESSION = 10.0
"""Most seconds after which one that is dead is followed; ``kafka.session_timeout`` may be less."""

METADATA_MAX_AGE = 5.0
"""Seconds after which a control topic that was just made is seen."""


def members_of(config: Config) -> str:
    """Return the consumer group of those that coordinate alone."""
    return f"secor-control-{config.group.name}"


@contextmanager
def elected(config: Config) -> Iterator[Callable[[], bool]]:
    """Give a function: does this process lead?  Without a control topic it always does.

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
            next=f"this process leads, even if another one does; allow Read on the group {members}"
            f" and on the topic {topic}; it is tried again every {ASK_AGAIN / 60:.0f} minutes",
        )

    # Shorter than the readers': while nobody leads no table gets a commit, and a late leader harms
    # nothing, for its commits are refused by the tables.
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
            on_standby=lambda: log.info("stands_by", group=members),
            denied=warn,
        )
        yield election.leads


_RIGHTS = ("READ", "WRITE")
_ONE_PARTITION = TopicDefinition(partitions=1, settings={})


def check_control_topic(config: Config, topic: str) -> str:
    """Return what the brokers say of the control topic.

    Raises ``AccessDenied``, ``ConfigurationError``, ``Unavailable``.
    """
    needed = f"allow this user Read and Write on the topic {topic}"
    with closing(TopicAdmin(kafka_options(config))) as admin:
        try:
            described = admin.describe([topic]).get(topic)
        except AccessDenied as error:
            raise AccessDenied(f"{needed}, and Create unless it exists") from error
        if described is None:
            refusal = admin.refusal(topic, _ONE_PARTITION)
            if refusal is not None:
                raise ConfigurationError(f"the topic {topic} does not exist: {refusal}")
            return f"{topic} does not exist: the first process makes it"
    # Brokers before 2.3 return no rights.
    if described.rights and not described.rights.issuperset(_RIGHTS):
        raise AccessDenied(needed)
    return f"{topic} may be read and written"


def check_election(config: Config, members: str) -> str:
    """See that processes that coordinate alone may elect one.

    ``members`` is their consumer group.  Raises ``AccessDenied``, ``Unavailable``.
    """
    with closing(GroupAdmin(kafka_options(config))) as groups:
        if not groups.may_join(members):
            raise AccessDenied(
                f"allow this user Read on the group {members}: without it several secor tables"
                " run elect nobody, and each coordinates"
            )
    return f"the group {members} may be joined"


Count = Callable[[str, str], None]


def open_channel(config: Config, count: Count) -> ControlChannel:
    """Return the channel of a group; it connects by itself."""
    topic = config.commit.topic_of(config.group.name)
    if topic is None:
        return NoChannel()
    from secor.adapters.kafka.control_topic import ControlTopic

    return ControlTopic(kafka_options(config), topic, config.group.name, count)


@contextmanager
def coordinating(
    config: Config, consumer: Consumer, instance: str, observer: TableTelemetry
) -> Iterator[TableLoop]:
    """Give the loop of a table group: it answers cycles, and coordinates where it is elected.

    Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError``.
    """
    with ExitStack() as opened:
        channel = SharedChannel(open_channel(config, observer.event))
        # Closed last: the coordinator's thread still sends when it ends.
        opened.callback(channel.close)
        responder = CycleResponder(
            consumer,
            channel.end(),
            group=config.group.name,
            sender=instance,
            prefix=config.output.prefix,
            heard=observer.board.hear,
        )
        if config.commit.coordinator == "alone":
            yield TableLoop(responder, None)
            return
        group = opened.enter_context(open_table_group(config))
        election = Election(group.topics, clock)
        coordinator = group.coordinator(channel.end(), observer, election.leads, instance)
        observer.board.watch(coordinator)
        thread = CoordinatorThread(coordinator)
        opened.callback(thread.close)
        thread.start()
        yield TableLoop(responder, election)


@dataclass(frozen=True, slots=True)
class TableLoop:
    """The loop as the daemon runs it."""

    responder: CycleResponder
    election: Election | None

    def run_once(self, timeout: float) -> None:
        """Do one round; pass the assignment to the election."""
        self.responder.run_once(timeout)
        if self.election is not None:
            # After the round, in which partitions come and go: the owner of the first one
            # coordinates.
            self.election.assign(status.topic_partition for status in self.responder.status())

    def drain(self) -> None:
        """Read no more."""
        self.responder.drain()

    @property
    def drained(self) -> bool:
        """Nothing is in work."""
        return self.responder.drained
