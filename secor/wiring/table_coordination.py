"""The coordinator in a daemon, beside its loop, and the channel to the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from secor.config.model import Config
from secor.consume.consumer import Consumer
from secor.service.monitoring.table_telemetry import TableTelemetry
from secor.tables.answering import Answering
from secor.tables.control import ControlChannel, NoChannel, SharedChannel
from secor.tables.coordinator_thread import CoordinatorThread
from secor.tables.election import Election
from secor.wiring.clients import kafka_options
from secor.wiring.table_group import clock, open_table_group

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
        opened.callback(channel.close)
        answering = Answering(
            consumer,
            channel.end(),
            group=config.group.name,
            sender=instance,
            prefix=config.output.prefix,
            heard=observer.board.hear,
        )
        if config.commit.coordinator == "alone":
            yield TableLoop(answering, None, None)
            return
        group = opened.enter_context(open_table_group(config))
        election = Election(group.topics, clock)
        coordinator = group.coordinator(channel.end(), observer, election.leads, instance)
        observer.board.watch(coordinator)
        thread = CoordinatorThread(coordinator)
        opened.callback(thread.close)
        thread.start()
        yield TableLoop(answering, election, thread)


@dataclass(frozen=True, slots=True)
class TableLoop:
    """The loop as the daemon runs it."""

    answering: Answering
    election: Election | None
    thread: CoordinatorThread | None

    def run_once(self, timeout: float) -> None:
        """Do one round; tell the election what is assigned."""
        self.answering.run_once(timeout)
        if self.election is not None:
            self.election.assign(it.topic_partition for it in self.answering.status())
        if self.thread is not None:
            self.thread.check()

    def drain(self) -> None:
        """Read no more."""
        self.answering.drain()

    @property
    def drained(self) -> bool:
        """Nothing is in work."""
        return self.answering.drained
