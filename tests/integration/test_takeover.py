"""A topic that a sink of Kafka Connect has stored is taken over, and handed back.

The sink's objects are written by PyArrow, under Confluent's names, as a sink that was killed twice
leaves them.  ``scripts/conformance takeover`` does the same with the real sinks.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from secor.sandbox import Sandbox
from tests.integration.daemons import Start, committed, create_topic, run_secor, wait_until

TOPIC = "taken-over"
GROUP = f"connect-{TOPIC}"
PARTITIONS = 2
EACH = 200
STORED = 90
"""Messages of each partition that the sink has stored and committed."""

NOT_YET = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
"""Answers of a broker that has just started."""

REGIONS = ("eu", "us", "a b")
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": ["null", "long"], "default": None},
        {"name": "region", "type": ["null", "string"], "default": None},
        {"name": "size", "type": ["null", "int"], "default": None},
    ],
}
TYPES = pa.schema(
    [("id", pa.int64()), ("region", pa.string()), ("size", pa.int32())],
    metadata={"parquet.avro.schema": json.dumps(AVRO)},
)

pytestmark = pytest.mark.slow


def row(partition: int, offset: int) -> dict[str, Any]:
    number = offset * PARTITIONS + partition
    return {"id": number, "region": REGIONS[number % 5 % 3], "size": number % 100}


class Bucket:
    """The sandbox's bucket, by Amazon's library."""

    def __init__(self, sandbox: Sandbox) -> None:
        s3 = sandbox.s3
        self.name = s3.bucket
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=s3.endpoint_url,
            aws_access_key_id=s3.access_key,
            aws_secret_access_key=s3.secret_key,
            region_name=s3.region,
        )

    def put_as_sink(self, partition: int, offsets: Sequence[int]) -> dict[str, Sequence[int]]:
        """Put what a sink makes of some messages, an object a region; return them by key."""
        objects: dict[str, Sequence[int]] = {}
        for region in REGIONS:
            own = [offset for offset in offsets if row(partition, offset)["region"] == region]
            if own:
                key = f"topics/{TOPIC}/region={region}/{TOPIC}+{partition}+{own[0]:010d}"
                file = io.BytesIO()
                rows = [row(partition, offset) for offset in own]
                pq.write_table(pa.Table.from_pylist(rows, TYPES), file, compression="snappy")
                key += ".snappy.parquet"
                self.client.put_object(Bucket=self.name, Key=key, Body=file.getvalue())
                objects[key] = own
        return objects

    def download(self, folder: Path) -> list[Path]:
        """Bring the topic's objects into a folder."""
        paths = []
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=self.name, Prefix=f"topics/{TOPIC}/"
        )
        for item in (item for page in pages for item in page["Contents"]):
            path = folder / item["Key"]
            path.parent.mkdir(parents=True, exist_ok=True)
            self.client.download_file(self.name, item["Key"], str(path))
            paths.append(path)
        return paths


def commit_as_sink(sandbox: Sandbox, offset: int) -> bool:
    """Commit an offset for each partition by Kafka's own client; return whether it could."""
    consumer = Consumer({"bootstrap.servers": sandbox.kafka, "group.id": GROUP})
    places = [TopicPartition(TOPIC, number, offset) for number in range(PARTITIONS)]
    try:
        consumer.commit(offsets=places, asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() not in NOT_YET:
            raise
        return False
    finally:
        consumer.close()
    return True


def offsets_of_sink(sandbox: Sandbox) -> list[int]:
    """Return the offsets that the sink would begin with."""
    consumer = Consumer({"bootstrap.servers": sandbox.kafka, "group.id": GROUP})
    places = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
    try:
        return [place.offset for place in consumer.committed(places, 30)]
    finally:
        consumer.close()


def run(*arguments: str, code: int = 0) -> str:
    finished = run_secor(*arguments)
    assert finished.returncode == code, finished.stdout + finished.stderr
    return finished.stdout


def imported(folder: Path, sandbox: Sandbox) -> Path:
    """Import the sink's settings, and take its types over."""
    s3 = sandbox.s3
    settings = {
        "name": TOPIC,
        "connector.class": "io.confluent.connect.s3.S3SinkConnector",
        "topics": TOPIC,
        "s3.bucket.name": s3.bucket,
        "s3.region": s3.region,
        "store.url": s3.endpoint_url,
        "storage.class": "io.confluent.connect.s3.storage.S3Storage",
        "format.class": "io.confluent.connect.s3.format.parquet.ParquetFormat",
        "partitioner.class": "io.confluent.connect.storage.partitioner.FieldPartitioner",
        "partition.field.name": "region",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "consumer.override.bootstrap.servers": sandbox.kafka,
        "flush.size": "60",
        "rotate.interval.ms": "2000",
    }
    (folder / "sink.json").write_text(json.dumps({"name": TOPIC, "config": settings}))
    config = folder / "orders.toml"
    run("config", "import", str(folder / "sink.json"), "-o", str(config))
    schema = folder / "orders.avsc"
    run("schema", "stored", str(config), TOPIC, "-o", str(schema))
    text = config.read_text()
    text = text.replace("\n[output]\n", f'\n[output]\nschema_file = "{schema}"\n')
    text += f'\n[local]\ndirectory = "{folder / "local"}"\n[metrics]\nport = 0\n'
    config.write_text(text + '[logs]\nformat = "json"\n')
    return config


def change_ledger(config: Path, sandbox: Sandbox) -> None:
    """Take another group than the sink's, and another ledger."""
    text = config.read_text().replace(f'"{GROUP}"', '"orders"')
    hosts = json.dumps([sandbox.zookeeper])
    text = text.replace('kind = "kafka"', f'kind = "zookeeper"\nzookeeper.hosts = {hosts}')
    config.write_text(text)
    run("config", "check", str(config))


def findings(config: Path) -> dict[str, Counter[Any]]:
    """Return what `secor verify` finds: messages twice by their objects, the others by key."""
    answer = json.loads(run("verify", str(config), "--json", code=5))
    kinds: dict[str, Counter[Any]] = {}
    for finding in (item for part in answer["partitions"] for item in part["findings"]):
        keys = tuple(sorted(finding["text"].removeprefix("in ").split(", ")))
        owner = keys if finding["kind"] == "twice" else finding["key"]
        kinds.setdefault(finding["kind"], Counter())[owner] += finding["count"]
    return kinds


def doubled(*runs: Mapping[str, Sequence[int]]) -> Counter[Any]:
    """Return how many messages the same objects have, by their keys."""
    keys: dict[int, list[str]] = {}
    for key, offsets in (pair for objects in runs for pair in objects.items()):
        for offset in offsets:
            keys.setdefault(offset, []).append(key)
    return Counter(tuple(sorted(own)) for own in keys.values() if len(own) > 1)


def test_a_sinks_topic_is_taken_over_and_handed_back(
    sandbox: Sandbox, tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECOR_STORE__S3__ACCESS_KEY", sandbox.s3.access_key)
    monkeypatch.setenv("SECOR_STORE__S3__SECRET_KEY", sandbox.s3.secret_key)
    bucket = Bucket(sandbox)
    create_topic(sandbox, TOPIC, PARTITIONS)
    producer = Producer({"bootstrap.servers": sandbox.kafka})
    for offset in range(EACH):
        for partition in range(PARTITIONS):
            value = json.dumps(row(partition, offset))
            producer.produce(TOPIC, value.encode(), partition=partition)
    assert producer.flush(60) == 0

    # Partition 0 is as it should be.  In partition 1 the sink was killed after it had stored up to
    # 80 and committed 0, went on with other files up to 90, and was killed again behind that.
    bucket.put_as_sink(0, range(STORED))
    first = [bucket.put_as_sink(1, range(begin, begin + 40)) for begin in (0, 40)]
    second = [bucket.put_as_sink(1, range(begin, begin + 30)) for begin in (0, 30, 60)]
    uncommitted = bucket.put_as_sink(1, range(STORED, 100))
    wait_until(lambda: commit_as_sink(sandbox, STORED), "the sink's offsets are committed")

    config = imported(tmp_path, sandbox)
    # The second run has overwritten objects of the first that begin alike.
    kept = {key: own for objects in (*first, *second) for key, own in objects.items()}
    twice = doubled(kept)
    assert twice
    extra = Counter({key: len(own) for key, own in uncommitted.items()})
    assert findings(config) == {"twice": twice, "extra": extra}
    for key in uncommitted:
        bucket.client.delete_object(Bucket=bucket.name, Key=key)
    change_ledger(config, sandbox)
    run("offsets", "import", str(config), "--from-group", GROUP, "--yes")

    daemon = start(config, tmp_path / "log")
    wait_until(lambda: committed(config, TOPIC, PARTITIONS) == PARTITIONS * EACH, "all is stored")
    assert daemon.stop() == 0, daemon.text()
    assert findings(config) == {"twice": twice}

    paths = bucket.download(tmp_path)
    types = {str(pq.read_schema(path).remove_metadata()) for path in paths}
    assert len(types) == 1, types
    table = f"read_parquet('{tmp_path}/topics/{TOPIC}/**/*.parquet', hive_partitioning = true)"
    counts = duckdb.sql(f"SELECT count(*), count(DISTINCT id) FROM {table}")  # noqa: S608
    assert counts.fetchone() == (PARTITIONS * EACH + twice.total(), PARTITIONS * EACH)

    run("offsets", "export", str(config), "--to-group", GROUP, "--yes")
    assert offsets_of_sink(sandbox) == [EACH] * PARTITIONS
