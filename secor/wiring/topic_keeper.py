"""The backup's record of its topics: partitions and settings, next to their objects."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime

import structlog

from secor.adapters.kafka import KafkaReader
from secor.adapters.kafka.topic_admin import TopicAdmin, TopicDescription
from secor.archive.kept_topics import KeptTopic, KeptTopics
from secor.config.model import Config
from secor.core.errors import SecorError
from secor.core.naming import topic_root
from secor.core.ports import ObjectStore
from secor.wiring.clients import kafka_options

EVERY = 600.0
"""Seconds between two looks at the topics."""
AT_ONCE = 100
"""Topics that are asked for in one request."""


class TopicKeeper:
    """A thread that looks at the group's topics; whatever fails is tried again at the next look.

    It holds no connection between two looks.  Nothing of it ever delays or ends the daemon.
    """

    def __init__(self, config: Config, store: ObjectStore) -> None:
        """Begin."""
        self._config = config
        self._store = store
        self._kept: dict[str, KeptTopic] = {}
        self._warned = ""
        self._log = structlog.get_logger("secor.topics")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topic-keeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more; does not wait for a look that is going on."""
        self._over.set()

    def _run(self) -> None:
        while True:
            try:
                keep_topics(self._config, self._store, self._kept, self._over)
                self._warned = ""
            except SecorError as error:
                if str(error) != self._warned:
                    self._log.warning("topics_not_kept", why=str(error), next="tried again")
                self._warned = str(error)
            if self._over.wait(EVERY):
                return


def keep_topics(
    config: Config,
    store: ObjectStore,
    known: dict[str, KeptTopic],
    over: threading.Event | None = None,
) -> None:
    """Keep what the group's topics are like now; ``known`` is what was kept before.

    Raises ``Unavailable``, ``AccessDenied``, ``CorruptFile``.
    """
    options = kafka_options(config)
    with closing(KafkaReader(options)) as reader:
        kafka = config.kafka
        topics = list(kafka.topics) or reader.topics(kafka.topics_pattern, kafka.topics_exclude)
    with closing(TopicAdmin(options)) as admin:
        for begin in range(0, len(topics), AT_ONCE):
            if over is not None and over.is_set():
                return
            described = admin.describe(topics[begin : begin + AT_ONCE])
            _keep(config, store, known, described.values())


def _keep(
    config: Config,
    store: ObjectStore,
    known: dict[str, KeptTopic],
    described: Iterable[TopicDescription],
) -> None:
    for topic_description in described:
        # Without this right brokers return no settings at all: that means that they are not known,
        # not that there are none.
        readable = "DESCRIBE_CONFIGS" in topic_description.rights
        topic = KeptTopic(
            topic_description.name,
            topic_description.topic_id,
            topic_description.partitions,
            topic_description.replication_factor,
            dict(topic_description.settings) if readable else None,
        )
        if known.get(topic_description.name) == topic:
            continue
        output = config.for_topic(topic_description.name).output
        root = topic_root(output.prefix, topic_description.name, hashed=output.hash_prefix)
        now = datetime.now(UTC).isoformat(timespec="seconds")
        KeptTopics(store, root).keep(topic, now)
        known[topic_description.name] = topic
