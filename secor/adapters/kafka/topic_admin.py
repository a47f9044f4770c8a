"""Topics of a cluster: making them, their settings; through kafka-python's admin client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

from secor.adapters.kafka.failures import translated

_BROKERS_DEFAULT = -1


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """What a topic is made with; ``settings`` are those that differ from the brokers' defaults."""

    partitions: int
    settings: Mapping[str, str]


class TopicAdmin:
    """Makes and describes topics.  Raises ``Unavailable``, ``AccessDenied``."""

    def __init__(self, options: Mapping[str, Any], *, timeout: float = 30.0) -> None:
        try:
            self._admin = KafkaAdminClient(**options, request_timeout_ms=int(timeout * 1000))
        except kafka_errors.KafkaError as error:
            raise translated(error, "the target cluster") from error

    def close(self) -> None:
        """End the connection."""
        self._admin.close()

    def create(
        self, topic: str, settings: TopicSettings, replication_factor: int | None = None
    ) -> bool:
        """Make a topic; False when it exists already."""
        new = NewTopic(
            name=topic,
            num_partitions=settings.partitions,
            replication_factor=replication_factor or _BROKERS_DEFAULT,
            topic_configs=dict(settings.settings),
        )
        try:
            self._admin.create_topics([new], wait_for_metadata=True)
        except kafka_errors.TopicAlreadyExistsError:
            return False
        except kafka_errors.KafkaError as error:
            raise translated(error, f"making the topic {topic}") from error
        return True

    def describe(self, topic: str) -> dict[str, str]:
        """Return the settings of a topic with their values now; empty ones are left out."""
        try:
            answer = self._admin.describe_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all"
            )
        except kafka_errors.KafkaError as error:
            raise translated(error, f"the settings of {topic}") from error
        described = answer["topic"][topic]
        return {name: value["value"] for name, value in described.items() if value["value"]}
