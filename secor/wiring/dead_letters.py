"""An uploader that also tells a topic of what went into quarantine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import structlog

from secor.adapters.kafka.dead_letter_producer import DeadLetters
from secor.batch.sealed import SealedBatch
from secor.commit.uploader import Committed, Outcome, Uploader
from secor.core.errors import SecorError
from secor.core.model import QUARANTINE


class LetterWriter(Uploader):
    """Sends copies after the commit: no commit waits for them.

    A process that dies in between leaves copies out, one whose answer was lost may have
    sent them twice.  What counts are the objects.
    """

    def __init__(
        self, letters: DeadLetters, topic_of: Callable[[str], str | None], **ports: Any
    ) -> None:
        """``topic_of`` gives the dead-letter topic of a topic; ``ports`` are ``Uploader``'s."""
        super().__init__(**ports)
        self._letters = letters
        self._topic_of = topic_of
        self._log = structlog.get_logger("secor.letters")

    def upload(self, batch: SealedBatch, wanted: Callable[[], bool]) -> Outcome:
        """Commit; then send, and only tell if that fails."""
        outcome = super().upload(batch, wanted)
        topic = self._topic_of(batch.topic_partition.topic)
        if topic is not None and isinstance(outcome, Committed):
            where: Mapping[str, object] = {
                "topic": batch.topic_partition.topic,
                "partition": batch.topic_partition.partition,
                "batch": str(batch.range),
            }
            try:
                sent = self._letters.send(topic, batch.topic_partition, _bad(batch))
            except SecorError as error:
                self._log.warning("dead_letters_failed", error=str(error), **where)
            else:
                self._log.debug("dead_letters", messages=sent, **where)
        return outcome


def _bad(batch: SealedBatch) -> Iterator[pa.RecordBatch]:
    stream = batch.plan.stream(QUARANTINE)
    for file in batch.files:
        if file.name.root == stream.root:
            with file.local.open() as opened:
                yield from stream.log_format.read(opened, file.key)
