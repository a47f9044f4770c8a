"""What a newcomer needs besides servers: a configuration for them, and messages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from secor.errors import Unavailable
from secor.sandbox.sandbox import Sandbox

PARTITIONS = 4

_CONFIGURATION = """\
# The backup group over the sandbox in {directory}; config/backup.toml explains every key.

[group]
name = "try"

[kafka]
bootstrap_servers = ["{kafka}"]
topics_pattern = ".*"
topics_exclude = "_.*"
session_timeout = "6s"
heartbeat_interval = "2s"

[ledger.zookeeper]
hosts = ["{zookeeper}"]

[store.s3]
bucket = "{bucket}"
endpoint_url = "{endpoint_url}"
region = "{region}"
path_style = true
access_key = "{access_key}"
secret_key = "{secret_key}"

[policy]
# Small and quick, to see something happen.
max_age = "5s"

[local]
directory = "{local}"

[metrics]
port = 0
"""


def configuration(sandbox: Sandbox) -> str:
    """Return a complete configuration of a backup group, as TOML."""
    access = sandbox.s3
    directory = Path(sandbox.directory).resolve()
    return _CONFIGURATION.format(
        directory=directory,
        kafka=sandbox.kafka,
        zookeeper=sandbox.zookeeper,
        bucket=access.bucket,
        endpoint_url=access.endpoint_url,
        region=access.region,
        access_key=access.access_key,
        secret_key=access.secret_key,
        local=directory / "local",
    )


def produce(sandbox: Sandbox, topic: str, values: Iterable[bytes]) -> int:
    """Send one message per value, after making the topic if need be; return how many.

    Raises ``Unavailable`` when the broker does not take them.
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
    except KafkaError as error:
        raise Unavailable(
            f"{sandbox.kafka} did not take the messages ({error}); see 'secor sandbox status'"
        ) from error
    return len(sent)
