"""The targets of a daemon that runs: topics come to the archive, and partitions to a target."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from secor.core.errors import Unavailable
from secor.core.model import TopicPartition
from secor.restore.model import Piece, SourcePartition, TargetRecords
from secor.restore.routing import Routing


class Targets:
    """A ``Router`` that knows new targets in time; for any number of threads.

    ``topics`` are the archived ones that get their targets prepared.  ``prepare`` checks and makes
    the target of another one, or raises an error of its source partitions; ``count`` asks how
    many partitions a target has now; ``keep`` records the id of one that is about to be written.
    """

    def __init__(
        self,
        routing: Routing,
        topics: Iterable[str],
        prepare: Callable[[str], None],
        count: Callable[[str], int],
        keep: Callable[[str], None],
    ) -> None:
        self._routing = routing
        self._topics = set(topics)
        self._prepare = prepare
        self._count = count
        self._keep = keep
        self._lock = threading.Lock()

    def __call__(self, source: SourcePartition, piece: Piece) -> Sequence[TargetRecords]:
        """Return what is written of a piece."""
        return self._routing(source, piece)

    def places(self, source: SourcePartition) -> Sequence[TopicPartition]:
        """Return where messages of a source partition may be."""
        return self._routing.places(source)

    def ready(self, source: SourcePartition) -> None:
        """Look at the target before a source partition is read, where it may not do as known.

        Raises ``Unavailable`` while the brokers do not know the target, and what ``prepare`` and
        ``keep`` do.
        """
        if self._does(source):
            return
        with self._lock:
            if source.topic not in self._topics:
                self._prepare(source.topic)
            name = self._routing.target(source.topic)
            count = self._count(name)
            if not count:
                raise Unavailable(f"{source}: the brokers do not know the target {name} (yet)")
            # The id is recorded before the first message: a target that is deleted and made again
            # later must not be taken for this one.
            self._keep(name)
            known = {**self._routing.partitions, name: count}
            self._routing = replace(self._routing, partitions=known)
            self._topics.add(source.topic)

    def _does(self, source: SourcePartition) -> bool:
        """Return whether the target is prepared and, as far as it is known, large enough."""
        return source.topic in self._topics and self._routing.has_room(source)
