"""Lists of erased keys as daemons apply them to what they store from now on (``erase.apply``).

Messages of a listed key are left out, or lose their value, at whatever offset they come.  Lists are
read before the first message of a topic, and then once a minute, in a thread: the loop never waits.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from secor.archive.erasures import NO_ERASURES, Erasures, LogErasures, Secret, read_erasures
from secor.batch.unwritable import LimitedParser
from secor.core.errors import SecorError
from secor.core.model import Chunk, Part, TopicPartition
from secor.core.ports import MessageParser, ObjectStore
from secor.parsing.pipeline import ERASED, Count

EVERY = 60.0
"""Seconds between two looks at the lists."""


class AppliedErasures:
    """The present lists of each topic; ``close`` ends the thread."""

    def __init__(self, store: ObjectStore, secret: Secret, count: Count) -> None:
        """Begin; nothing is read yet.  ``count`` is called with messages that are left out."""
        self._store = store
        self._count = count
        self._secret = secret
        self._known: dict[str, Erasures] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._log = structlog.get_logger("secor.erasures")
        self._thread = threading.Thread(target=self._run, name="erasures", daemon=True)
        self._thread.start()

    def parser(self, root: str, generation: int, parser: MessageParser) -> ErasingParser:
        """Return ``parser`` without what is erased below the topic's directory ``root``.

        Reads the lists.  Raises ``Unavailable``, ``ConfigurationError`` as ``Erasures.require``.
        """
        self._read(root)
        if isinstance(parser, LimitedParser):
            return LimitedErasingParser(parser, root, generation, self)
        return ErasingParser(parser, root, generation, self)

    def of(self, root: str, partition: int, generation: int) -> LogErasures:
        """Return what is not stored of a log.  Lists of offsets are what readers leave out."""
        erasures = self._known.get(root, NO_ERASURES)
        return replace(erasures.of(partition, generation, None, beyond=True), offsets=())

    def count(self, topic_partition: TopicPartition, messages: int) -> None:
        """Count messages that are left out."""
        self._count(topic_partition, ERASED, messages)

    def close(self) -> None:
        """Look no more; does not wait for a look that is going on."""
        self._over.set()

    def _read(self, root: str) -> None:
        # One read at a time: two that end in the other order would put an older list over a newer
        # one.
        with self._lock:
            known = self._known.get(root, NO_ERASURES)
            self._known[root] = read_erasures(self._store, root, self._secret, known).require()

    def _run(self) -> None:
        # An error is logged and tried again: the lists of before stay in force meanwhile.
        while not self._over.wait(EVERY):
            for root in list(self._known):
                try:
                    self._read(root)
                except SecorError as error:
                    self._log.warning("erasures_not_read", why=str(error), next="tried again")


@dataclass(frozen=True, slots=True)
class ErasingParser:
    """A parser that never sees what is erased."""

    parser: MessageParser
    root: str
    generation: int
    erasures: AppliedErasures

    @property
    def identity(self) -> str:
        """The settings of the parser, and that lists are applied; lists themselves may come."""
        return f"{self.parser.identity}|without-erased"

    def split(self, chunk: Chunk) -> Sequence[Part]:
        """Split what is left of a chunk."""
        erased = self.erasures.of(self.root, chunk.topic_partition.partition, self.generation)
        if not erased or not chunk.records.num_rows:
            return self.parser.split(chunk)
        left = erased.without(chunk.records)
        if left.num_rows < chunk.records.num_rows:
            self.erasures.count(chunk.topic_partition, chunk.records.num_rows - left.num_rows)
        return self.parser.split(replace(chunk, records=left)) if left.num_rows else []


@dataclass(frozen=True, slots=True)
class LimitedErasingParser(ErasingParser):
    """One that allows a partition only so many messages in quarantine; what is erased is none."""

    def count_bad(self, chunk: Chunk, bad: Mapping[int, str]) -> None:
        """Count messages that go into quarantine unparsed.  Raises ``TooManyBad``."""
        assert isinstance(self.parser, LimitedParser)
        self.parser.count_bad(chunk, bad)

    def refuse_share(
        self, topic_partition: TopicPartition, messages: int, bad: int, reason: str
    ) -> None:
        """Raise ``TooManyBad`` if so many of so many messages are more than is allowed."""
        assert isinstance(self.parser, LimitedParser)
        self.parser.refuse_share(topic_partition, messages, bad, reason)
