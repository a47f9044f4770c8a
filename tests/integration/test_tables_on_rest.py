"""A table group on a REST catalog, with its tables in another bucket than its own objects."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import boto3
import pytest

from secor.sandbox import Sandbox
from secor.sandbox.catalogs import IcebergRestServer
from secor.sandbox.sandbox import quiet
from secor.sandbox.state import free_port
from tests.integration.daemons import (
    Start,
    create_topic,
    run_secor,
    secor,
    wait_until,
    write_config,
)
from tests.integration.test_table_group import PARTITIONS, ids, produce_rows, read

TOPIC = "rest_tables"
TABLE = f"logs.{TOPIC}"
LAKE = "rest-lake"


@pytest.fixture
def rest(sandbox: Sandbox, tmp_path: Path) -> Iterator[IcebergRestServer]:
    """The REST server, with a bucket of its own for tables."""
    access = sandbox.s3
    properties = {
        "warehouse": f"s3://{LAKE}/warehouse",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": access.endpoint_url,
        "s3.access-key-id": access.access_key,
        "s3.secret-access-key": access.secret_key,
        "s3.path-style-access": "true",
        "client.region": access.region,
    }
    server = IcebergRestServer(
        folder=tmp_path / "rest",
        log=tmp_path / "rest.log",
        port=free_port(),
        progress=quiet,
        properties=properties,
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()


def config_of(folder: Path, sandbox: Sandbox, rest: IcebergRestServer) -> Path:
    catalog = {
        "type": "rest",
        "uri": rest.uri,
        "credential": "me:secret",
        "oauth2-server-uri": f"{rest.uri}/v1/oauth/tokens",
    }
    properties = "\n".join(f"{key} = {json.dumps(it)}" for key, it in catalog.items())
    return write_config(
        folder,
        sandbox,
        group=TOPIC,
        topic=TOPIC,
        ledger="zookeeper",
        settings={
            "group": {"name": TOPIC, "kind": "table"},
            "parser": {"decoder": "json"},
            "policy": {"max_messages": 100, "max_age": "20s"},
            "rows": {"metadata_columns": ["_topic", "_kafka_partition", "_offset"]},
            "commit": {"interval": "1s", "timeout": "4s"},
        },
        more=f"[catalog.properties]\n{properties}\n"
        '[[tables]]\ntable = "logs.{topic}"\nauto_create = true\nevolve = true\n',
    )


def bucket_keys(sandbox: Sandbox, bucket: str) -> list[str]:
    access = sandbox.s3
    client = boto3.client(
        "s3",
        endpoint_url=access.endpoint_url,
        aws_access_key_id=access.access_key,
        aws_secret_access_key=access.secret_key,
        region_name=access.region,
    )
    try:
        if bucket not in [it["Name"] for it in client.list_buckets()["Buckets"]]:
            client.create_bucket(Bucket=bucket)
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [it["Key"] for page in pages for it in page.get("Contents", [])]
    finally:
        client.close()


@pytest.mark.timeout(900)
def test_a_group_on_rest_outlives_its_catalog_and_is_maintained_by_spark(
    sandbox: Sandbox, tmp_path: Path, start: Start, rest: IcebergRestServer
) -> None:
    bucket_keys(sandbox, LAKE)
    create_topic(sandbox, TOPIC, PARTITIONS)
    config = config_of(tmp_path, sandbox, rest)
    produce_rows(sandbox, TOPIC, range(300))
    first = start(config, tmp_path / "first")
    wait_until(lambda: read(config, TABLE) is not None, "the table is made")
    wait_until(lambda: len(ids(config, TABLE)) >= 300, "the first rows")
    rest.kill()
    produce_rows(sandbox, TOPIC, range(300, 600))
    wait_until(lambda: '"table_failed"' in first.text(), "the catalog is missed")
    first.send(signal.SIGKILL)
    first.wait()
    second = start(config, tmp_path / "second")
    rest.start()
    wait_until(lambda: len(ids(config, TABLE)) >= 600, "what came while the catalog was out")
    maintained = subprocess.run(
        [
            *secor("tables", "maintain", str(config), TABLE, "--master", "local[1]"),
            *("--step", "rewrite_data_files", "--step", "expire_snapshots", "--json"),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert maintained.returncode == 0, maintained.stdout + maintained.stderr
    steps = {it["step"]: it["changed"] for it in json.loads(maintained.stdout)["done"]}
    assert steps["rewrite_data_files"]["rewritten_data_files_count"] >= 5
    produce_rows(sandbox, TOPIC, range(600, 900))  # with a column more
    wait_until(lambda: len(ids(config, TABLE)) >= 900, "the rows after that")
    second.send(signal.SIGTERM)
    assert second.wait() == 0
    assert ids(config, TABLE) == list(range(900))
    verified = run_secor("verify", str(config))
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert "900 messages" in verified.stdout
    assert any(key.endswith(".parquet") for key in bucket_keys(sandbox, LAKE))
    own = bucket_keys(sandbox, sandbox.s3.bucket)
    assert not any(TOPIC in key and key.endswith(".parquet") for key in own)
    put_on_version_3(rest)
    produce_rows(sandbox, TOPIC, range(900, 930))
    third = start(config, tmp_path / "third")
    wait_until(lambda: '"table_stopped"' in third.text(), "the table stops")
    wait_until(lambda: third.text().count('"reason": "table"') >= PARTITIONS, "its topic, too")
    third.send(signal.SIGTERM)
    assert third.wait() == 0
    assert len(ids(config, TABLE)) == 900


def put_on_version_3(rest: IcebergRestServer) -> None:
    """Upgrade the table by the REST protocol, as Spark's ``ALTER TABLE`` does."""
    updates = [{"action": "upgrade-format-version", "format-version": 3}]
    request = Request(  # noqa: S310 - a server of this test
        f"{rest.uri}/v1/namespaces/logs/tables/{TOPIC}",
        json.dumps({"requirements": [], "updates": updates}).encode(),
        {"Content-Type": "application/json"},
    )
    with urlopen(request, timeout=60.0) as answer:  # noqa: S310
        assert json.load(answer)["metadata"]["format-version"] == 3
