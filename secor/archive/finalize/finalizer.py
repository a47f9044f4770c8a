"""Marks directories ``_SUCCESS`` when every kafka partition has passed their time."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from secor.archive.finalize.periods import Period, Periods
from secor.archive.finalize.stored_time import StoredTime, offsets, slowest
from secor.core.errors import ActionFailed, ConfigurationError, CorruptFile
from secor.core.model import StoredObject
from secor.core.naming import ROUTED, ObjectName, parse_key
from secor.core.ports import ObjectStore
from secor.core.small_objects import put_bytes
from secor.core.text import load_json

SUCCESS = "_SUCCESS"
CLOSE = 3600.0
"""Seconds before a marker in which an object may have come after its offsets were read."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """An output partition with objects, as a user's command or a catalogue wants it.

    ``topic`` names the directory that it is in, ``output_partition`` its path below that, and
    ``key`` the directory's key, without a slash at the end.
    """

    topic: str
    output_partition: str
    key: str


Action = Callable[[Leaf], None]
"""Done for each output partition before it is marked; done again whenever the marker could not
be put afterwards.  Raises ``ActionFailed``, or ``ConfigurationError`` where it does not suit."""


@dataclass
class PeriodObjects:
    """A period of a topic: its objects, and its marker if there is one."""

    period: Period
    objects: list[tuple[ObjectName, StoredObject]] = field(default_factory=list)
    marker: StoredObject | None = None

    @property
    def output_partitions(self) -> list[str]:
        """The output partitions in it that have objects."""
        return sorted({name.output_partition for name, _ in self.objects})


@dataclass(frozen=True, slots=True)
class Late:
    """Objects that came after a period had been marked."""

    path: str
    keys: tuple[str, ...]


@dataclass
class FinalizedTopic:
    """The result for one topic; ``delay`` in seconds.

    ``periods`` counts those with objects or marks, ``failed`` has paths and reasons, ``strange``
    counts objects that another layout made.
    """

    topic: str
    root: str
    slowest_partition: StoredTime | None
    delay: float = 0.0
    marked: list[PeriodObjects] = field(default_factory=list)
    waiting: list[PeriodObjects] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)
    strange: int = 0
    periods: int = 0


class Finalizer:
    """Finalizes one topic's directory, or what its route has sent to another's."""

    def __init__(
        self,
        store: ObjectStore,
        root: str,
        topic: str,
        periods: Periods,
        *,
        delay: float,
        now: Callable[[], float],
        by: str,
        target: str | None = None,
        actions: Sequence[Action] = (),
    ) -> None:
        """``root`` has messages of ``topic``: where it is not its own, in the directory of the
        topic ``target``.  ``delay`` in seconds is given to stragglers; ``by`` names the program.
        """
        self._store = store
        self._root = root
        self._topic = topic
        self._periods = periods
        self._delay = delay
        self._now = now
        self._by = by
        self._target = target or topic
        self._actions = tuple(actions)

    def run(self, progress: Sequence[StoredTime], *, dry_run: bool = False) -> FinalizedTopic:
        """Mark what is complete.  ``progress`` was read before: of every partition."""
        slowest_partition = slowest(progress)
        outcome = FinalizedTopic(self._topic, self._root, slowest_partition, self._delay)
        through = slowest_partition.through if slowest_partition is not None else None
        # After the progress was read: what is listed now has all that was committed then.
        periods = self._read_periods(outcome)
        outcome.periods = len(periods)
        for period_objects in periods:
            if period_objects.marker is not None:
                self._look(period_objects, period_objects.marker, outcome)
            elif not period_objects.objects:
                continue
            # The slowest partition decides: one without a message of this hour may still bring
            # some.
            elif through is None or period_objects.period.end + self._delay > through:
                outcome.waiting.append(period_objects)
            elif dry_run:
                outcome.marked.append(period_objects)
            else:
                self._finish(period_objects, progress, outcome)
        return outcome

    def _read_periods(self, outcome: FinalizedTopic) -> list[PeriodObjects]:
        """List the directory: its periods in the order of time."""
        periods: dict[str, PeriodObjects] = {}
        markers: dict[str, StoredObject] = {}
        for stored in self._store.list(f"{self._root}/"):
            directory, _, last = stored.key.rpartition("/")
            if last == SUCCESS:
                markers[directory.removeprefix(f"{self._root}/")] = stored
                continue
            name = parse_key(self._root, stored.key)
            if name is None:
                continue
            period = self._periods.of(name.output_partition)
            if period is None:
                # What routes bring from other topics is finalized with those.
                outcome.strange += not name.output_partition.startswith(ROUTED)
                continue
            period_objects = periods.setdefault(period.path, PeriodObjects(period))
            period_objects.objects.append((name, stored))
        for path, marker in markers.items():
            # A marker whose objects are gone, expired perhaps, is nobody's.
            if path in periods:
                periods[path].marker = marker
        return sorted(
            periods.values(), key=lambda by_time: (by_time.period.start, by_time.period.path)
        )

    def _finish(
        self, period_objects: PeriodObjects, progress: Sequence[StoredTime], outcome: FinalizedTopic
    ) -> None:
        path = period_objects.period.path
        try:
            for output_partition in period_objects.output_partitions:
                leaf = self._leaf(output_partition)
                # Actions first, the marker last: a run that ends in between does them again, and
                # the mark never promises what is not done.
                for action in self._actions:
                    action(leaf)
        except (ActionFailed, ConfigurationError) as error:
            # A table that is missing, or of other columns, is one topic's: the others go on.
            outcome.failed.append((path, str(error)))
            return
        self._put(f"{self._root}/{path}/{SUCCESS}", self._body(period_objects, progress))
        outcome.marked.append(period_objects)

    def _leaf(self, output_partition: str) -> Leaf:
        key = f"{self._root}/{output_partition}"
        if self._target != self._topic:
            output_partition = f"{ROUTED}{self._topic}/{output_partition}"
        return Leaf(self._target, output_partition, key)

    def _body(self, period_objects: PeriodObjects, progress: Sequence[StoredTime]) -> bytes:
        content = {
            "topic": self._topic,
            "partition": period_objects.period.path,
            "at": datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="seconds"),
            "by": self._by,
            "objects": len(period_objects.objects),
            "offsets": offsets(progress),
        }
        return json.dumps(content, indent=1).encode() + b"\n"

    def _put(self, key: str, body: bytes) -> None:
        """Put the marker; one that another run has put already says the same."""
        put_bytes(self._store, key, body)

    def _look(
        self, period_objects: PeriodObjects, marker: StoredObject, outcome: FinalizedTopic
    ) -> None:
        try:
            late = self._late(period_objects, marker)
        except CorruptFile as error:
            outcome.failed.append((period_objects.period.path, str(error)))
            return
        outcome.late += [late] if late.keys else []

    def _late(self, period_objects: PeriodObjects, marker: StoredObject) -> Late:
        # A rewritten object has the messages of others that were there.
        suspects = [
            (name, stored)
            for name, stored in period_objects.objects
            # Clocks of store and machine differ, and an object may have come while the marker was
            # made: those around it are looked up by their offsets.
            if stored.modified > marker.modified - CLOSE and name.end is None
        ]
        recorded = self._recorded(marker) if suspects else None
        keys = tuple(
            stored.key
            for name, stored in suspects
            if stored.modified > marker.modified or _beyond(name, recorded)
        )
        return Late(period_objects.period.path, keys)

    def _recorded(self, marker: StoredObject) -> dict[str, int] | None:
        """Return the offsets, by partition, up to which everything was there."""
        with self._store.open(marker.key) as file:
            content = file.read()
        if not content:
            return None  # somebody else's empty marker
        try:
            recorded = load_json(content)["offsets"].get(self._topic)
            return None if recorded is None else {key: int(recorded[key]) for key in recorded}
        except (AttributeError, ValueError, KeyError, TypeError) as error:
            raise CorruptFile(
                f"{marker.key}: is no marker of Secor's ({error}); delete it to mark anew"
            ) from error


def _beyond(name: ObjectName, recorded: dict[str, int] | None) -> bool:
    if recorded is None:
        return False
    return name.start_offset >= recorded.get(str(name.partition), 0)
