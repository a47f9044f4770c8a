"""How the control topic's clients end."""

from __future__ import annotations

import pytest
from kafka.errors import KafkaTimeoutError
from kafka.producer.sender import Sender

from secor.adapters.kafka.control_topic import close_producer


class StuckProducer:
    """As ``KafkaProducer`` whose brokers take nothing: it waits for what it cannot send."""

    def __init__(self, *, helps: bool = True) -> None:
        self.closed = False
        self._stuck, self._helps = True, helps
        self._sender = self

    def force_close(self) -> None:
        self._stuck = not self._helps

    def close(self, timeout: float) -> None:
        if self._stuck:
            raise KafkaTimeoutError("Timeout waiting for future")
        self.closed = True


def test_a_producer_that_cannot_send_is_closed_all_the_same() -> None:
    """Else its thread stays, and a traceback is printed when it is collected."""
    producer = StuckProducer()
    close_producer(producer)
    assert producer.closed
    with pytest.raises(KafkaTimeoutError):
        close_producer(StuckProducer(helps=False))
    assert callable(Sender.force_close)
