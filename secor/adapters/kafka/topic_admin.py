"""Topics of a cluster, and its transactional ids; through kafka-python's admin client."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

from secor.adapters.kafka.failures import translated
from secor.adapters.kafka.metadata_queries import id_text
from secor.core.errors import AccessDenied, SecorError, Unavailable
from secor.core.text import error_text

MOST_PARTITIONS = 1000
"""Partitions that one request makes: controllers refuse more than 10,000, and need their time."""
MOST_ALTERED = 500
"""Topics that one request changes."""
_BROKERS_DEFAULT = -1
_DENIED = kafka_errors.TopicAuthorizationFailedError.errno
_EXISTS = kafka_errors.TopicAlreadyExistsError.errno
_SEE_SETTINGS = "DESCRIBE_CONFIGS"
_ALLOW_CREATE = "allow this user Create on the topic, or on the cluster; or make it by hand"
_OF_THE_TOPIC = "DYNAMIC_TOPIC_CONFIG"
"""Where a setting comes from that was given to the topic itself."""


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as it is.

    ``settings`` are those that were given to it, ``effective`` all with their values now;
    ``rights`` are the operations that this user may do, such as ``WRITE``.
    """

    name: str
    topic_id: str | None
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]
    effective: Mapping[str, str]
    rights: frozenset[str]


@dataclass(frozen=True, slots=True)
class TopicDefinition:
    """The settings to make a topic with; ``settings`` differ from the brokers' defaults."""

    partitions: int
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProposedTopic:
    """The brokers' opinion of a topic before it is made: ``refusal``, None if there is none.

    ``effective`` are all its settings; the given ones alone where the brokers return no more:
    before Kafka 2.4, or without DescribeConfigs on it.
    """

    refusal: str | None
    effective: Mapping[str, str]


class TopicAdmin:
    """Makes and describes topics, lists ids.  Raises ``Unavailable``, ``AccessDenied``."""

    def __init__(self, options: Mapping[str, Any], *, timeout: float = 30.0) -> None:
        self._timeout_ms = int(timeout * 1000)
        try:
            self._admin = KafkaAdminClient(**options, request_timeout_ms=self._timeout_ms)
        except kafka_errors.KafkaError as error:
            raise translated(error, "the target cluster") from error

    def close(self) -> None:
        """End the connection."""
        self._admin.close()

    def create(
        self, topics: Mapping[str, TopicDefinition], replication_factor: int | None = None
    ) -> None:
        """Make those topics that do not exist, and wait until they can be used.

        Raises one error that names each topic which was refused; the others are made.
        """
        refused: list[SecorError] = []
        for together in _requests_of(topics):
            made = []
            for answer in self._send_create(together, replication_factor, validate_only=False):
                if not answer["error_code"]:
                    made.append(answer["name"])
                # One that exists is no fault: a request whose answer was lost is sent again, and
                # two daemons may begin together.
                elif answer["error_code"] != _EXISTS:
                    refused.append(_not_made(answer))
            try:
                # The controller answers before every broker knows the topic: a producer would be
                # refused there.
                self._admin.wait_for_topics(made, timeout_ms=self._timeout_ms)
            except kafka_errors.KafkaError as error:
                refused.append(translated(error, _making(made)))
        if refused:
            # An error that only a person can fix decides for all.
            kind = min(
                (type(refusal) for refusal in refused),
                key=lambda error_class: issubclass(error_class, Unavailable),
            )
            raise kind("; ".join(map(str, refused)))

    def refusal(
        self, topic: str, settings: TopicDefinition, replication_factor: int | None = None
    ) -> str | None:
        """Return why the brokers would not make a topic, None when they would; makes nothing."""
        return self.proposed({topic: settings}, replication_factor)[topic].refusal

    def proposed(
        self, topics: Mapping[str, TopicDefinition], replication_factor: int | None = None
    ) -> dict[str, ProposedTopic]:
        """Return what the brokers would make of topics, by name; makes nothing."""
        # With ``validate_only`` brokers check rights, policies and replication as they would, and
        # make nothing.
        return {
            answer["name"]: _proposed(answer, topics[answer["name"]])
            for together in _requests_of(topics)
            for answer in self._send_create(together, replication_factor, validate_only=True)
        }

    def _send_create(
        self,
        topics: Mapping[str, TopicDefinition],
        replication_factor: int | None,
        *,
        validate_only: bool,
    ) -> Sequence[Mapping[str, Any]]:
        """Return the brokers' answers, one about each topic."""
        new = [
            NewTopic(
                name=topic,
                num_partitions=settings.partitions,
                replication_factor=replication_factor or _BROKERS_DEFAULT,
                topic_configs=dict(settings.settings),
            )
            for topic, settings in topics.items()
        ]
        try:
            answer = self._admin.create_topics(new, validate_only=validate_only, raise_errors=False)
        except kafka_errors.KafkaError as error:
            raise translated(error, _making(topics)) from error
        about_topics: Sequence[Mapping[str, Any]] = answer["topics"]
        return about_topics

    def transactional_ids(self, prefix: str) -> list[str]:
        """Return the transactional ids that the brokers still know, as far as this user may.

        They forget one some days after its last transaction (``transactional.id.expiration.ms``).
        """
        try:
            by_broker = self._admin.list_transactions()
        except kafka_errors.KafkaError as error:
            raise translated(error, "the transactional ids") from error
        ids = {listing.transactional_id for listed in by_broker.values() for listing in listed}
        return sorted(name for name in ids if name.startswith(prefix))

    def free_bytes(self) -> int | None:
        """Return the bytes that are free on all brokers' disks; None where that is not known.

        It needs Describe on the cluster, and brokers from 3.3 on.
        """
        try:
            answers = self._admin.describe_log_dirs({})
        except kafka_errors.KafkaError:
            return None
        free = [_free_bytes(answer["log_dirs"]) for answer in answers]
        known = [size for size in free if size is not None]
        # A sum without one broker would look like too little room: better none.
        return sum(known) if known and len(known) == len(free) else None

    def alter(self, topics: Mapping[str, Mapping[str, str | None]]) -> dict[str, str]:
        """Change settings of topics, None to take one away; return why some were refused.

        Settings that are not named stay as they are.
        """
        resources = [
            ConfigResource(
                ConfigResourceType.TOPIC,
                topic,
                configs={
                    name: ("DELETE", None) if value is None else ("SET", value)
                    for name, value in settings.items()
                },
            )
            for topic, settings in topics.items()
        ]
        refused: dict[str, str] = {}
        for begin in range(0, len(resources), MOST_ALTERED):
            together = resources[begin : begin + MOST_ALTERED]
            what = "changing settings of topics (allow this user AlterConfigs on them)"
            try:
                # Brokers refuse settings that they do not know, each by name.
                answer = self._admin.alter_configs(together, raise_on_unknown=False)
            except kafka_errors.KafkaError as error:
                raise translated(error, what) from error
            refused |= {
                refused_topic: why for refused_topic, why in answer["topic"].items() if why != "OK"
            }
        return refused

    def describe(self, topics: Sequence[str]) -> dict[str, TopicDescription]:
        """Describe topics; absent ones are left out.

        Without the right to see settings there are none, as ``rights`` reports.
        """
        what = "the target's topics" if len(topics) != 1 else f"the topic {topics[0]}"
        try:
            answer = self._admin.describe_topics(list(topics))
        except kafka_errors.KafkaError as error:
            raise translated(error, what) from error
        hidden = [answered["name"] for answered in answer if answered["error_code"] == _DENIED]
        if hidden:
            raise AccessDenied(f"topics {', '.join(hidden)}: allow this user Describe on them")
        # Absent topics are in the answer, too, with an error and no partitions.
        described = [answered for answered in answer if answered["partitions"]]
        readable = [
            topic["name"] for topic in described if _SEE_SETTINGS in topic["authorized_operations"]
        ]
        values = self._values(readable)
        return {
            topic["name"]: _description(topic, values.get(topic["name"], {})) for topic in described
        }

    def _values(self, topics: Sequence[str]) -> Mapping[str, Mapping[str, Any]]:
        if not topics:
            return {}
        wanted = [ConfigResource(ConfigResourceType.TOPIC, topic) for topic in topics]
        try:
            answer = self._admin.describe_configs(wanted, config_filter="all")
        except kafka_errors.KafkaError as error:
            raise translated(error, "the settings of topics") from error
        values: Mapping[str, Mapping[str, Any]] = answer["topic"]
        return values


def _requests_of(topics: Mapping[str, TopicDefinition]) -> Iterator[dict[str, TopicDefinition]]:
    """Give the topics in groups of at most ``MOST_PARTITIONS``, or of one that has more."""
    together: dict[str, TopicDefinition] = {}
    count = 0
    for name, settings in topics.items():
        if together and count + settings.partitions > MOST_PARTITIONS:
            yield together
            together, count = {}, 0
        together[name] = settings
        count += settings.partitions
    if together:
        yield together


def _proposed(answer: Mapping[str, Any], settings: TopicDefinition) -> ProposedTopic:
    code = answer["error_code"]
    if code == _DENIED:
        return ProposedTopic(_ALLOW_CREATE, settings.settings)
    if code not in (0, _EXISTS):
        why = error_text(kafka_errors.for_code(code)(answer["error_message"] or ""))
        return ProposedTopic(f"the brokers would not make it: {why}", settings.settings)
    settings_of_topic = (answer.get("configs") or {}).items()
    known = {
        name: setting["value"]
        for name, setting in settings_of_topic
        if setting["value"] not in (None, "")
    }
    return ProposedTopic(None, {**known, **settings.settings})


def _making(topics: Collection[str]) -> str:
    return f"making the topic{'s' if len(topics) > 1 else ''} {', '.join(topics)}"


def _not_made(answer: Mapping[str, Any]) -> SecorError:
    what = _making([answer["name"]])
    if answer["error_code"] == _DENIED:
        return AccessDenied(f"{what}: {_ALLOW_CREATE}")
    fault = kafka_errors.for_code(answer["error_code"])
    return translated(fault(answer["error_message"] or ""), what)


def _description(described: Mapping[str, Any], values: Mapping[str, Any]) -> TopicDescription:
    known = {
        # Brokers give null for what they hide, such as passwords.
        name: setting
        for name, setting in values.items()
        if setting["value"] not in (None, "")
    }
    partitions = described["partitions"]
    return TopicDescription(
        name=described["name"],
        topic_id=id_text(UUID(described["topic_id"])) if described["topic_id"] else None,
        partitions=len(partitions),
        replication_factor=len(partitions[0]["replica_nodes"]),
        settings={
            name: setting["value"]
            for name, setting in known.items()
            # Only these are kept and made again: a default of the old brokers must not become a
            # setting at the new ones.
            if setting["config_source"] == _OF_THE_TOPIC and not setting["is_sensitive"]
        },
        effective={name: setting["value"] for name, setting in known.items()},
        rights=_names(described["authorized_operations"]),
    )


def _free_bytes(log_dirs: Sequence[Mapping[str, Any]]) -> int | None:
    """Return what is free for the logs of one broker; directories of one disk count once."""
    if not log_dirs or any(
        log_dir["error_code"] or log_dir.get("usable_bytes", -1) < 0 for log_dir in log_dirs
    ):
        return None
    return sum(
        usable
        # A set: brokers report no disk, so directories with equal sizes are taken for one.
        for _, usable in {(log_dir["total_bytes"], log_dir["usable_bytes"]) for log_dir in log_dirs}
    )


def _names(operations: Iterable[object] | None) -> frozenset[str]:
    return frozenset(map(str, operations or ()))
