"""The way over from Java Secor and back, on real servers: its offsets, objects and settings."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic
from kazoo.client import KazooClient
from pyspark.sql import Row, SparkSession

from secor.cli.main import cli
from secor.sandbox import Sandbox
from tests.integration.daemons import (
    Daemon,
    daemons,
    wait_until,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning"
    ),  # PySpark leaves its sockets to the garbage collector
]

VECTORS = Path(__file__).parents[1] / "vectors" / "java-secor"
ROOT = "/kafka/eu"
BEFORE, AFTER = 40, 75
"""Offsets that Java Secor stored in each partition, and those that there are in the end."""


IMPL = "com.pinterest.secor.io.impl"
PARSER = "com.pinterest.secor.parser"


@dataclass(frozen=True)
class Story:
    """A configuration that Java Secor ran with, and what it left: vectors by our topic."""

    name: str
    source: str
    left: dict[str, str]
    settings: str

    @property
    def prefix(self) -> str:
        return f"raw_logs/{self.name}"


BACKUP = Story(
    "over-backup",
    "c_raw",
    {"over-legacy": "seq_default", "over-messagepack": "msgpack", "over-text": "text_raw"},
    f"""
    secor.message.parser.class={PARSER}.OffsetMessageParser
    secor.file.reader.writer.factory={IMPL}.MessagePackSequenceFileReaderWriterFactory
    secor.compression.codec=org.apache.hadoop.io.compress.GzipCodec
    secor.offsets.per.partition=25
    """,
)
PARTITION = Story(
    "over-partition",
    "c_json",
    {"over-json": "json_dt_gz"},
    f"""
    secor.message.parser.class={PARSER}.JsonMessageParser
    secor.file.reader.writer.factory={IMPL}.DelimitedTextFileReaderWriterFactory
    secor.compression.codec=org.apache.hadoop.io.compress.GzipCodec
    message.timestamp.name=timestamp
    """,
)


@pytest.fixture
def start() -> Iterator[Callable[[Path, Path], Daemon]]:
    with daemons() as start:
        yield start


@pytest.fixture
def zookeeper(sandbox: Sandbox) -> Iterator[KazooClient]:
    client = KazooClient(sandbox.zookeeper)
    client.start()
    yield client
    client.stop()
    client.close()


def source(name: str) -> dict[tuple[int, int], dict[str, Any]]:
    lines = (VECTORS / f"source/{name}.jsonl").read_text().splitlines()
    return {(one["partition"], one["offset"]): one for one in map(json.loads, lines)}


def produce(sandbox: Sandbox, story: Story, wanted: range) -> None:
    """Send the messages that Java Secor had, in their places; beyond them those again."""
    known = source(story.source)
    sent = []
    with closing(KafkaProducer(bootstrap_servers=sandbox.kafka)) as producer:
        for topic, partition, offset in product(story.left, (0, 1), wanted):
            one = known[partition, offset % BEFORE]
            key, value = unhex(one["key"]), unhex(one["value"])
            if key is None and value is None:
                key = b""  # this client sends no message without both
            sending = producer.send(
                topic,
                key=key,
                value=value,
                headers=[(name, unhex(it) or b"") for name, it in one["headers"]],
                partition=partition,
                timestamp_ms=one["timestamp"],
            )
            sent.append((sending, offset))
        assert all(sending.get(60).offset == offset for sending, offset in sent)


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


def objects(vectors: str) -> list[Path]:
    return sorted(path for path in (VECTORS / "s3" / vectors).rglob("*") if path.is_file())


def leave_what_java_secor_leaves(sandbox: Sandbox, zookeeper: KazooClient, story: Story) -> None:
    """Put its objects under their keys and its offsets into their nodes."""
    nodes = map(json.loads, (VECTORS / "zookeeper.jsonl").read_text().splitlines())
    offsets = {node["path"]: node["data"].encode() for node in nodes}
    with bucket(sandbox) as put:
        for topic, vectors in story.left.items():
            for path in objects(vectors):
                below = path.relative_to(VECTORS / "s3" / vectors / story.source)
                put(f"{story.prefix}/{topic}/{below}", path.read_bytes())
            for partition in (0, 1):
                theirs = f"/consumers/g_{vectors}/offsets/{story.source}/{partition}"
                zookeeper.create(node_of(story, topic, partition), offsets[theirs], makepath=True)


def node_of(story: Story, topic: str, partition: int) -> str:
    return f"{ROOT}/consumers/{story.name}/offsets/{topic}/{partition}"


@contextmanager
def bucket(sandbox: Sandbox) -> Iterator[Callable[[str, bytes], None]]:
    """Give a function that puts objects as any client does, without metadata of ours."""
    access = sandbox.s3
    client = boto3.client(
        "s3",
        endpoint_url=access.endpoint_url,
        aws_access_key_id=access.access_key,
        aws_secret_access_key=access.secret_key,
        region_name=access.region,
    )
    try:
        yield lambda key, body: client.put_object(Bucket=access.bucket, Key=key, Body=body) and None
    finally:
        client.close()


def import_configuration(folder: Path, sandbox: Sandbox, story: Story) -> Path:
    """Write its properties, and have them imported."""
    access = sandbox.s3
    (folder / "secor.common.properties").write_text(
        f"secor.generation=1\nkafka.zookeeper.path={ROOT}\nsecor.zookeeper.path=/\n"
        "kafka.consumer.auto.offset.reset=smallest\nsecor.consumer.threads=1\n"
        "aws.client.pathstyleaccess=true\nsecor.offsets.prefix=offset=\n"
        f"aws.region={access.region}\nzookeeper.session.timeout.ms=3000\n"
    )
    properties = folder / "secor.properties"
    properties.write_text(
        "include=secor.common.properties\n"
        f"secor.kafka.group={story.name}\nsecor.s3.path={story.prefix}\n"
        f"secor.local.path={folder / 'local'}\nostrich.port=0\n"
        f"secor.max.file.size.bytes=3000\nsecor.max.file.age.seconds=2\n{story.settings}\n"
    )
    config = folder / "over.toml"
    host, _, port = sandbox.kafka.partition(":")
    given = {
        "kafka.seed.broker.host": host,
        "kafka.seed.broker.port": port,
        "zookeeper.quorum": sandbox.zookeeper,
        "secor.s3.bucket": access.bucket,
        "aws.endpoint": access.endpoint_url,
        "secor.kafka.topic_filter": "|".join(map(re.escape, story.left)),
    }
    options = [part for name, value in given.items() for part in ("-D", f"{name}={value}")]
    done = ask("config", "import", str(properties), *options, "-o", str(config))
    assert done.return_value == 0, done.stderr
    return config


@pytest.mark.parametrize("story", [BACKUP, PARTITION], ids=lambda story: story.name)
def test_the_way_over_and_back(
    story: Story,
    sandbox: Sandbox,
    zookeeper: KazooClient,
    spark: SparkSession,
    tmp_path: Path,
    start: Callable[[Path, Path], Daemon],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECOR_STORE__S3__ACCESS_KEY", sandbox.s3.access_key)
    monkeypatch.setenv("SECOR_STORE__S3__SECRET_KEY", sandbox.s3.secret_key)
    create_topics(sandbox, story)
    produce(sandbox, story, range(BEFORE))
    leave_what_java_secor_leaves(sandbox, zookeeper, story)
    config = import_configuration(tmp_path, sandbox, story)
    assert f"verified {2 * BEFORE * len(story.left)} messages" in verified(config)

    nodes = [node_of(story, *one) for one in product(story.left, (0, 1))]
    daemon = start(config, tmp_path / "log")
    produce(sandbox, story, range(BEFORE, AFTER))
    wait_until(lambda: all(zookeeper.get(node)[0] == b"%d" % AFTER for node in nodes), "commits")
    daemon.send(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.text()

    assert f"verified {2 * AFTER * len(story.left)} messages" in verified(config)
    rows = spark_rows(spark, sandbox, story)
    for topic, vectors in story.left.items():
        the_listing_has_both(config, topic, vectors)
        is_read_whole(config, topic, [one for one in rows if one.topic == topic], vectors)
        for partition in (0, 1):
            can_be_handed_back(zookeeper, story, topic, partition)


def ask(*arguments: str) -> Result:
    """Run a command in this process, which has imported everything already."""
    return CliRunner().invoke(cli, arguments, catch_exceptions=False, standalone_mode=False)


def create_topics(sandbox: Sandbox, story: Story) -> None:
    """Create them; the messages are old, and must stay."""
    admin = KafkaAdminClient(bootstrap_servers=sandbox.kafka)
    settings = {"retention.ms": "-1"}
    admin.create_topics([NewTopic(name, 2, 1, topic_configs=settings) for name in story.left])
    admin.close()


def verified(config: Path) -> str:
    done = ask("verify", str(config))
    assert done.return_value == 0, done.output
    assert "nothing missing, nothing twice, nothing different" in done.stdout
    return done.stdout


def the_listing_has_both(config: Path, topic: str, vectors: str) -> None:
    listed = json.loads(ask("ls", str(config), topic, "--json").stdout)["objects"]
    ours = [one for one in listed if one["fingerprint"]]
    assert min(one["start"] for one in ours) == BEFORE
    assert sum(one["records"] for one in ours) == 2 * (AFTER - BEFORE)
    assert len(listed) - len(ours) == len(objects(vectors))


def spark_rows(spark: SparkSession, sandbox: Sandbox, story: Story) -> list[Row]:
    access = sandbox.s3
    reader = spark.read.format("secor").options(
        endpoint=access.endpoint_url,
        accessKey=access.access_key,
        secretKey=access.secret_key,
        pathStyle="true",
        columns="topic,partition,offset,value",
    )
    return reader.load(f"s3://{access.bucket}/{story.prefix}").collect()


def is_read_whole(config: Path, topic: str, rows: list[Row], vectors: str) -> None:
    """``cat`` and Spark give the same messages, each once where offsets are recorded."""
    printed = ask("cat", str(config), topic)
    lines = [json.loads(line) for line in printed.stdout.splitlines()]
    in_spark = sorted((one.partition, -1 if one.offset is None else one.offset) for one in rows)
    assert in_spark == sorted(
        (one["partition"], -1 if one["offset"] is None else one["offset"]) for one in lines
    )
    if vectors in ("seq_default", "msgpack"):
        assert in_spark == [*product((0, 1), range(AFTER))]


def can_be_handed_back(zookeeper: KazooClient, story: Story, topic: str, partition: int) -> None:
    """Java Secor finds what it needs, and nothing in its way."""
    base = f"{ROOT}/consumers/{story.name}"
    assert zookeeper.get_children(base) == ["offsets"]
    assert set(zookeeper.get_children(f"{base}/offsets")) == set(story.left)
    assert sorted(zookeeper.get_children(f"{base}/offsets/{topic}")) == ["0", "1"]
    node = node_of(story, topic, partition)
    data, stat = zookeeper.get(node)
    assert data == b"%d" % AFTER
    assert (stat.ephemeralOwner, stat.numChildren) == (0, 0)
    [entry] = zookeeper.get_acls(node)[0]
    assert (entry.perms, entry.id.scheme, entry.id.id) == (31, "world", "anyone")
    own = f"{ROOT}/secor/{story.name}"
    assert not zookeeper.exists(f"{own}/intents/{topic}/{partition}")
    assert not zookeeper.get_children(f"{own}/locks/{topic}/{partition}")
    assert not zookeeper.exists(f"/secor/locks/{topic}/{partition}")
