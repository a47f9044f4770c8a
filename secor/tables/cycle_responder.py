"""A worker's part of a cycle: it uploads what it holds when the coordinator asks, then answers.

It wraps the loop.  A request that it misses, or an answer that gets lost, only makes the
coordinator wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Protocol

from secor.core.model import OffsetRange, TopicPartition
from secor.tables.control import ControlChannel, ControlEvent, EventKind, PartitionAnswer
from secor.tables.staging.manifest import manifest_key


class WorkStatus(Protocol):
    """A part of a topic partition's status; offsets are None while they are unknown."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic partition."""

    @property
    def committed(self) -> int | None:
        """The next offset of the ledger."""

    @property
    def next_offset(self) -> int | None:
        """The next offset that is read."""

    @property
    def known_end(self) -> int | None:
        """The end of its log, as last heard of."""

    @property
    def sealed(self) -> OffsetRange | None:
        """The batch that waits for its upload."""

    @property
    def last_timestamp(self) -> int | None:
        """Of the last message, in milliseconds."""


class UploadLoop(Protocol):
    """The loop that reads and uploads."""

    def run_once(self, timeout: float) -> None:
        """Do one round; wait at most ``timeout`` seconds for messages."""

    def drain(self) -> None:
        """Read no more."""

    @property
    def drained(self) -> bool:
        """Nothing is in work."""

    def status(self) -> Sequence[WorkStatus]:
        """Return the status of every assigned topic partition."""

    def seal(self, topic_partition: TopicPartition) -> None:
        """Seal its open batch, if it may be cut where it is."""


class CycleResponder:
    """A loop that answers ``START_COMMIT``; called from the loop's thread alone."""

    def __init__(
        self,
        loop: UploadLoop,
        channel: ControlChannel,
        *,
        group: str,
        sender: str,
        prefix: str,
        heard: Callable[[ControlEvent], None] = lambda event: None,
    ) -> None:
        """``prefix`` is the group's, below which manifests are put.

        ``heard`` is given every event that comes, our own included; it must not block or raise.
        """
        self._loop = loop
        self._channel = channel
        self._group = group
        self._sender = sender
        self._prefix = prefix
        self._heard = heard
        self._request: ControlEvent | None = None
        self._targets: dict[TopicPartition, int] = {}
        self._answered: set[TopicPartition] = set()
        self._uploading: dict[TopicPartition, OffsetRange] = {}
        self._first_messages = _FirstMessages()

    def run_once(self, timeout: float) -> None:
        """Do one round of the loop, then what has been asked."""
        self._loop.run_once(timeout)
        for event in self._channel.receive():
            self._heard(event)
            self._take(event)
        if self._request is not None:
            self._answer(self._request)

    def drain(self) -> None:
        """Read no more."""
        self._loop.drain()

    @property
    def drained(self) -> bool:
        """Nothing is in work."""
        return self._loop.drained

    def status(self) -> Sequence[WorkStatus]:
        """Return the status of every assigned topic partition."""
        return self._loop.status()

    def _take(self, event: ControlEvent) -> None:
        """Begin to answer a request; answer a repeated one as before."""
        current = self._request
        if current is not None and event.commit == current.commit:
            if event.kind is EventKind.COMMIT_COMPLETE:
                self._request = None
            elif event.kind is EventKind.START_COMMIT:
                # Asked again: the coordinator may be a new one that has not heard our answers.
                self._answered = set()
        # An earlier coordinator that does not know it yet has a lower epoch, and is not obeyed.
        elif event.kind is EventKind.START_COMMIT and (
            current is None or event.epoch >= current.epoch
        ):
            self._request = event
            self._targets, self._answered = {}, set()
            self._first_messages.begin_cycle()

    def _answer(self, request: ControlEvent) -> None:
        """Upload each partition up to where it was when the request came; then answer.

        Partitions that come before the commit is complete are answered for, too.
        """
        answers = []
        statuses = self._loop.status()
        self._first_messages.forget_all_but({status.topic_partition for status in statuses})
        for status in statuses:
            key = status.topic_partition
            if status.committed is None or status.next_offset is None or key in self._answered:
                continue
            if self._first_messages.are_due(status):
                continue
            # The first look fixes it: a partition that reads on must not chase its own end.
            target = self._targets.setdefault(key, status.next_offset)
            self._report_written(status, request)
            if status.committed >= target:
                answers.append(PartitionAnswer(key, status.committed, status.last_timestamp))
            else:
                if status.sealed is None:
                    self._uploading[key] = OffsetRange(status.committed, status.next_offset)
                # Asked in each round until it is committed: a batch may not be sealed while another
                # is uploaded.
                self._loop.seal(key)
        # One event for all that are ready in this round: a thousand partitions are not a thousand
        # events.
        if answers:
            self._send(EventKind.DATA_COMPLETE, request, tuple(answers))
            self._answered |= {answer.topic_partition for answer in answers}

    def _report_written(self, status: WorkStatus, request: ControlEvent) -> None:
        """Announce the manifest of a batch that was committed since the last look."""
        key = status.topic_partition
        before = self._uploading.get(key)
        if before is not None and before.end == status.committed:
            manifest = manifest_key(self._prefix, key, before)
            self._send(EventKind.DATA_WRITTEN, request, manifest=manifest)
            del self._uploading[key]
        if status.sealed is not None:
            self._uploading[key] = status.sealed

    def _send(
        self,
        kind: EventKind,
        request: ControlEvent,
        answers: tuple[PartitionAnswer, ...] = (),
        manifest: str | None = None,
    ) -> None:
        self._channel.send(
            ControlEvent(
                kind, self._group, request.commit, request.epoch, self._sender, answers, manifest
            )
        )


class _FirstMessages:
    """The partitions that a cycle waits for: for their first messages since the assignment.

    They have waited since the last owner died.  An answer that nothing is held would leave them
    to the next cycle.  One cycle waits for a partition at most: it may be paused, or unreachable.
    """

    def __init__(self) -> None:
        self._begins: dict[TopicPartition, int | None] = {}
        """Where partitions began when they were first asked; None once nothing is due."""

    def begin_cycle(self) -> None:
        """Stop waiting for the partitions that the last cycle waited for."""
        self._begins = dict.fromkeys(self._begins)

    def are_due(self, status: WorkStatus) -> bool:
        """Return whether a partition has read nothing yet, though its log may hold something."""
        begins = self._begins.setdefault(status.topic_partition, status.next_offset)
        if begins is None:
            return False
        # An unknown end is no reason to answer: the partition was just assigned, and its log may be
        # full.
        is_at_end = status.known_end is not None and status.known_end <= begins
        due = begins == status.next_offset == status.committed and not is_at_end
        if not due:
            self._begins[status.topic_partition] = None
        return due

    def forget_all_but(self, assigned: Set[TopicPartition]) -> None:
        """Forget partitions that are no longer assigned: they may come back unread."""
        for topic_partition in self._begins.keys() - assigned:
            del self._begins[topic_partition]
