"""Consumer groups, by librdkafka, that note each message, before and after a cluster is lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tests.soak.ledgers import Partition, number_of

_WAIT = 0.3
_AT_ONCE = 100


@dataclass(slots=True)
class Notes:
    """What a group has consumed: all of it, and since its cluster began; threads may share it.

    ``last_before`` is the number behind which the group goes on if its offset is one that it has
    not committed itself.  ``committed`` has the number before each offset that it committed.
    """

    consumed: dict[Partition, Counter[int]] = field(default_factory=dict)
    since: dict[Partition, list[int]] = field(default_factory=dict)
    committed: dict[Partition, dict[int, int]] = field(default_factory=dict)
    last_before: dict[Partition, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, partition: Partition, number: int, offset: int) -> None:
        """Note a message."""
        with self.lock:
            self.consumed.setdefault(partition, Counter())[number] += 1
            self.since.setdefault(partition, []).append(number)
            self.committed.setdefault(partition, {})[offset + 1] = number

    def begin_again(self, kept: Mapping[Partition, int]) -> list[str]:
        """Begin on another cluster, with the offsets that were kept; return what cannot be."""
        faults = []
        with self.lock:
            for partition, offset in kept.items():
                known = self.committed.get(partition, {})
                if offset in known:
                    self.last_before[partition] = known[offset]
                elif known and not (partition in self.last_before and offset <= min(known)):
                    faults.append(f"{partition}: offset {offset} is kept, and was never committed")
            for partition in set(self.last_before).difference(kept):
                faults.append(f"{partition}: its offset is not kept any more")
                del self.last_before[partition]
            self.since, self.committed = {}, {}
        return faults

    def expected(self, partition: Partition, present: Sequence[int]) -> list[int]:
        """Return which of the present numbers the group must consume now."""
        last = self.last_before.get(partition, -1)
        return [number for number in present if number > last]


class Group:
    """``members`` consumers, each in a thread, that commit what they have consumed."""

    def __init__(
        self, name: str, topics: Sequence[str], *, members: int = 1, most: int | None = None
    ) -> None:
        """``most``: it consumes no more than so many messages until it drains."""
        self.name = name
        self.topics = frozenset(topics)
        self.notes = Notes()
        self._members = members
        self._most = most
        self._left = 0
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, kafka: str, *, drain: bool = False) -> None:
        """Begin to consume; with ``drain`` without a limit."""
        self._stop = threading.Event()
        self._left = self._most if self._most is not None and not drain else 1 << 60
        self._threads = [
            threading.Thread(target=self._run, args=(kafka, self._stop), daemon=True)
            for _ in range(self._members)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End, all committed where the broker is there."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def abandon(self) -> None:
        """End without waiting: a commit waits for a broker that is gone."""
        self._stop.set()
        self._threads = []

    def _run(self, kafka: str, stop: threading.Event) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": kafka,
                "log_level": 0,  # that connections break is no news
                "group.id": self.name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
                "topic.metadata.refresh.interval.ms": 1000,
            }
        )
        with closing(consumer):
            consumer.subscribe(sorted(self.topics))
            while not stop.is_set():
                if self._left <= 0:
                    time.sleep(_WAIT)
                    continue
                messages = consumer.consume(min(_AT_ONCE, self._left), _WAIT)
                if stop.is_set():
                    return
                self._take([one for one in messages if one.error() is None], consumer)

    def _take(self, messages: Sequence[Message], consumer: Consumer) -> None:
        ends: dict[Partition, int] = {}
        for one in messages:
            topic, partition, offset = one.topic(), one.partition(), one.offset()
            assert topic is not None
            assert partition is not None
            assert offset is not None
            self.notes.note((topic, partition), number_of(one.value()), offset)
            ends[topic, partition] = offset + 1
        self._left -= len(messages)
        if not ends:
            return
        offsets = [TopicPartition(*place, end) for place, end in ends.items()]
        with suppress(KafkaException):
            # A member has come, and what is not committed comes again; or the broker is killed.
            consumer.commit(offsets=offsets, asynchronous=False)


def judge_group(
    group: Group, present: Mapping[Partition, Sequence[int]], *, strict: bool, exact: bool
) -> list[str]:
    """Compare what a group has consumed since its cluster came back with what it had to.

    ``strict``: nothing else, in order; ``exact``: each message that is present once in all.
    """
    faults = []
    for partition, numbers in present.items():
        expected = group.notes.expected(partition, numbers)
        seen = group.notes.since.get(partition, [])
        where = f"group {group.name}, {partition[0]}/{partition[1]}"
        if strict and seen != expected:
            faults.append(
                f"{where}: it consumed {len(seen)} from {seen[:1]} on, and had to consume"
                f" {len(expected)} from {expected[:1]} on"
            )
        elif seen[:1] != expected[:1] or set(expected).difference(seen):
            faults.append(f"{where}: it went on with {seen[:1]} instead of {expected[:1]}")
        times = group.notes.consumed.get(partition, Counter())
        never = [number for number in numbers if not times[number]]
        if never:
            faults.append(f"{where}: {len(never)} never consumed, such as {never[0]}")
        twice = [number for number in numbers if times[number] > 1]
        if exact and twice:
            faults.append(f"{where}: {len(twice)} consumed twice, such as {twice[0]}")
    return faults
