from __future__ import annotations

import pytest
from kafka import errors as kafka_errors

from secor.adapters.kafka.failures import contact_failure


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            kafka_errors.KafkaConnectionError("KafkaConnectionError: 111 ECONNREFUSED"),
            "connection refused",
        ),
        (
            kafka_errors.KafkaConnectionError("k:9092: OSError: 113 EHOSTUNREACH"),
            "no route to host",
        ),
        (
            kafka_errors.RequestTimedOutError("Request timed out after 29995 ms"),
            "connected, but no answer",
        ),
        (
            kafka_errors.KafkaConnectionError("DNS Resolution failure"),
            "KafkaConnectionError: DNS Resolution failure",
        ),
        (
            kafka_errors.KafkaConnectionError("1 ENOSUCHNUMBER"),
            "KafkaConnectionError: 1 ENOSUCHNUMBER",
        ),
    ],
)
def test_why_a_broker_was_not_reached_is_told_in_words(error: Exception, told: str) -> None:
    assert contact_failure(error) == told
