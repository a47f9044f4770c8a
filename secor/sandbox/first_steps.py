"""A configuration and messages for a newcomer's first trial with the sandbox."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import InvalidTopicError, KafkaError, TopicAlreadyExistsError

from secor.core.errors import ConfigurationError, Unavailable
from secor.sandbox.sandbox import Sandbox

Settings = Mapping[str, Mapping[str, object]]
"""By section (``"ledger.zookeeper"``), its keys and their values."""


def configuration(sandbox: Sandbox, local: Path, settings: Settings, *, about: str) -> str:
    """Return ``settings`` of a daemon, with those for the servers, as TOML.

    ``about`` becomes the comment at the top, ``local`` the directory of local files.
    Where both name a key, ``settings`` have the last word.
    """
    servers: Settings = {
        "kafka": {"bootstrap_servers": [sandbox.kafka]},
        "ledger.zookeeper": {"hosts": [sandbox.zookeeper]},
        "store.s3": _store(sandbox),
        "local": {"directory": str(local.resolve())},
        "metrics": {"port": 0},
    }
    return _toml(servers, settings, about)


def restore_job(sandbox: Sandbox, settings: Settings, *, about: str) -> str:
    """Return ``settings`` of a restore job likewise; it has no ledger and no local files."""
    servers: Settings = {
        "kafka": {"bootstrap_servers": [sandbox.kafka]},
        "store.s3": _store(sandbox),
    }
    return _toml(servers, settings, about)


def _store(sandbox: Sandbox) -> Mapping[str, object]:
    access = sandbox.s3
    return {
        "bucket": access.bucket,
        "endpoint_url": access.endpoint_url,
        "region": access.region,
        "path_style": True,
        "access_key": access.access_key,
        "secret_key": access.secret_key,
    }


def _toml(servers: Settings, settings: Settings, about: str) -> str:
    names = [*settings, *(name for name in servers if name not in settings)]
    sections = [
        "\n".join([f"[{name}]", *_lines({**servers.get(name, {}), **settings.get(name, {})})])
        for name in names
    ]
    return "\n\n".join([f"# {about}", *sections]) + "\n"


def _lines(keys: Mapping[str, object]) -> list[str]:
    """Write values as JSON, which TOML reads alike."""
    return [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()]


PARTITIONS = 4


BEGINNINGS: Mapping[str, Settings] = {
    "backup": {"group": {"name": "try"}},
    "partition": {
        "group": {"name": "try-partition", "kind": "partition"},
        "parser": {"decoder": "json", "layout": "dt={time:%Y-%m-%d}/hr={time:%H}"},
        "output": {"format": "parquet", "metadata_columns": ["_partition", "_offset"]},
    },
}
"""By the kind of group, what a newcomer begins with."""


def _tables(sandbox: Sandbox) -> Settings:
    """Return tables in the sandbox's catalog, with files in its bucket."""
    return {
        "group": {"name": "try-table", "kind": "table"},
        "catalog.properties": sandbox.catalog,
        "rows": {"metadata_columns": ["_topic", "_kafka_partition", "_offset"]},
        "commit": {"interval": "5s", "timeout": "10s"},
        "[tables]": {"table": "try.{topic}", "auto_create": True, "evolve": True},
    }


def _restore(sandbox: Sandbox) -> str:
    """Return a job that writes the archive of the backup group next to its topics."""
    return restore_job(
        sandbox,
        {
            "group": {"name": "try-restore", "kind": "restore"},
            "source": {
                "prefix": "backup",
                "topics_pattern": ".*",
                "topics_exclude": "restored-.*",
            },
            "target": {"topic": "restored-{topic}"},
        },
        about="A restore of what the backup group has stored; docs/configuration.md explains every"
        " key.",
    )


def try_out(sandbox: Sandbox, kind: str) -> str:
    """Return the configuration of a group of ``kind`` to begin with, as TOML."""
    if kind == "restore":
        return _restore(sandbox)
    return configuration(
        sandbox,
        Path(sandbox.directory) / "local" / kind,
        {
            **(_tables(sandbox) if kind == "table" else BEGINNINGS[kind]),
            "kafka": {
                "topics_pattern": ".*",
                "topics_exclude": "_.*|secor-(control|restore)-.*",
                "session_timeout": "6s",
                "heartbeat_interval": "2s",
            },
            "policy": {"max_age": "5s"},
        },
        about=f"A {kind} group that uploads soon; docs/configuration.md explains every key.",
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
