from __future__ import annotations

import pytest
from kafka import errors as kafka_errors

from secor.core.model import TopicPartition
from secor.core.text import (
    MASK,
    error_text,
    how_many,
    is_secret_name,
    iso_time,
    mask_command,
    mask_urls,
)
from secor.verify.archive.report import ArchiveReport, PartitionReport


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0 messages are"),
        (1, "1 message is"),
        (2, "2 messages are"),
        (1000, "1,000 messages are"),
    ],
)
def test_a_number_and_its_noun_agree(number: int, said: str) -> None:
    assert how_many(number, "message is", "messages are") == said
    assert how_many(number, "message") == said.rpartition(" ")[0]


def test_what_verify_remarks_agrees_with_the_number() -> None:
    report = ArchiveReport([PartitionReport(TopicPartition("t", 0), quarantined=1, in_progress=1)])
    assert report.remarks == [
        "1 message is in quarantine; see secor quarantine ls",
        "1 message belongs to batches that are being uploaded",
    ]
    report.partitions[0].quarantined = 2
    assert report.remarks[0] == "2 messages are in quarantine; see secor quarantine ls"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://u:pw@proxy:3128", f"http://{MASK}@proxy:3128"),
        ("http://u:p/w@x@proxy:3128/a", f"http://{MASK}@proxy:3128/a"),
        ("to jdbc:hive2://u:p@h, then http://h/", f"to jdbc:hive2://{MASK}@h, then http://h/"),
        ("http://proxy:3128/a@b", f"http://{MASK}@b"),
        ("user@example.org and http://h:1", "user@example.org and http://h:1"),
        ("my.tokens:Provider", "my.tokens:Provider"),
    ],
)
def test_users_of_addresses_are_masked_whatever_is_in_their_passwords(
    text: str, shown: str
) -> None:
    assert mask_urls(text) == shown


@pytest.mark.parametrize(
    "command",
    [
        "load --password geheim x",
        "load --password=geheim x",
        "load --db-password 'geheim' x",
        "env PGPASSWORD=geheim psql x",
        "curl -u ada:geheim x",
        "curl -uada:geheim x",
        "curl --user ada:geheim x",
        "curl -H 'Authorization: Bearer geheim' x",
        "curl -H 'X-Api-Key: geheim' x",
        'load "token=geheim" x',
        "hive 'jdbc:hive2://h/;password=geheim' x",
        "curl https://ada:ge/geheim@h/ x",
    ],
)
def test_what_looks_like_a_password_in_a_command_is_masked(command: str) -> None:
    masked = mask_command(command)
    assert "geheim" not in masked
    assert MASK in masked
    assert masked.endswith(" x")


@pytest.mark.parametrize(
    "command",
    ["hive -e 'ALTER TABLE {topic} ADD PARTITION ({partition})'", "sudo -u secor touch {path}"],
)
def test_a_command_without_a_password_is_shown_as_it_is(command: str) -> None:
    assert mask_command(command) == command


def test_names_of_settings_tell_whether_they_are_secret() -> None:
    assert all(map(is_secret_name, ("password", "api_key", "db.Secret", "auth-token")))
    assert not any(map(is_secret_name, ("country", "key", "fields", "table")))


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    try:
        raise error from cause
    except Exception as caught:  # noqa: BLE001  # the test's own
        return caught


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            OSError(111, "Connection refused"),
            "ConnectionRefusedError: [Errno 111] Connection refused",
        ),
        (TimeoutError(), "TimeoutError"),
        (ValueError("None"), "ValueError"),
        (raised(TimeoutError(), OSError("no route")), "TimeoutError, because of OSError: no route"),
        (KeyError("topics"), "KeyError: 'topics'"),
        (kafka_errors.NodeNotReadyError(None), "NodeNotReadyError"),
        (kafka_errors.KafkaConnectionError("x: refused"), "KafkaConnectionError: x: refused"),
        (
            kafka_errors.NotCoordinatorError(),
            f"NotCoordinatorError: {kafka_errors.NotCoordinatorError.description}",
        ),
        (
            kafka_errors.UnknownTopicOrPartitionError("clicks/0"),
            "UnknownTopicOrPartitionError: clicks/0",
        ),
        (
            ValueError('Failed to connect to proxy "http://me:a/b@proxy:3128"'),
            f'ValueError: Failed to connect to proxy "http://{MASK}@proxy:3128"',
        ),
    ],
)
def test_an_error_of_a_library_is_told_with_its_class_and_cause(
    error: Exception, text: str
) -> None:
    assert error_text(error) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "1970-01-01T00:00:00+00:00"),
        (-62_135_596_800.0, "0001-01-01T00:00:00+00:00"),
        (1_763_694_245_123_456.789, "1763694245123457 seconds since 1970"),
        (-9_223_372_036_854_775.808, "-9223372036854776 seconds since 1970"),
    ],
)
def test_a_time_that_no_calendar_has_is_shown_as_seconds(seconds: float, text: str) -> None:
    assert iso_time(seconds) == text
