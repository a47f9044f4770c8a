"""What a newcomer needs besides servers: a configuration for them, and messages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import InvalidTopicError, KafkaError, TopicAlreadyExistsError

from secor.errors import ConfigurationError, Unavailable
from secor.sandbox.configuration import configuration
from secor.sandbox.sandbox import Sandbox

PARTITIONS = 4


def try_out(sandbox: Sandbox) -> str:
    """Return the configuration of a backup group to begin with, as TOML."""
    return configuration(
        sandbox,
        Path(sandbox.directory) / "local",
        {
            "group": {"name": "try"},
            "kafka": {
                "topics_pattern": ".*",
                "topics_exclude": "_.*",
                "session_timeout": "6s",
                "heartbeat_interval": "2s",
            },
            "policy": {"max_age": "5s"},
        },
        about="A backup group that uploads soon; config/backup.toml explains every key.",
    )


def produce(sandbox: Sandbox, topic: str, values: Iterable[bytes]) -> int:
    """Send one message per value, after making the topic if need be; return how many.

    Raises ``ConfigurationError`` for a name that no topic may have, ``Unavailable`` when the
    broker does not take them.
    """
    try:
        admin = KafkaAdminClient(bootstrap_servers=sandbox.kafka)
        try:
            admin.create_topics(
                [NewTopic(name=topic, num_partitions=PARTITIONS, replication_factor=1)]
            )
        except TopicAlreadyExistsError:
            pass  # more messages for it
        finally:
            admin.close()
        producer = KafkaProducer(bootstrap_servers=sandbox.kafka, linger_ms=20)
        try:
            sent = [producer.send(topic, value) for value in values]
            producer.flush()
            for future in sent:
                future.get(0)
        finally:
            producer.close()
    except InvalidTopicError as error:
        raise ConfigurationError(
            f"{topic!r} is no name of a topic: letters, digits, '.', '_' and '-', at most 249"
        ) from error
    except KafkaError as error:
        raise Unavailable(
            f"{sandbox.kafka} did not take the messages ({error}); see 'secor sandbox status'"
        ) from error
    return len(sent)
