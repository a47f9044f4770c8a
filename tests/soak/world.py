"""Everything that a run stands on: servers, proxy, disk, configuration, daemons, writers."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from secor.sandbox import Sandbox
from tests.soak import parsed, tables
from tests.soak.audit import Audit, AuditingProxy
from tests.soak.fleet import Fleet
from tests.soak.load import LATE, PATTERN, TOPICS, Load, Value, plain_value
from tests.soak.mischief import SESSION
from tests.soak.rewrites import SECRET, Files
from tests.soak.row_changes import PREFIX as ROWS
from tests.soak.row_changes import TOPIC, ChangedRows, is_of_changed_rows
from tests.soak.story import Story

PREFIX = "soak"
_DISK = "64m"
_CONFIG = """
[group]
name = "soak"
kind = "{group}"
[kafka]
bootstrap_servers = ["{kafka}"]
topics_pattern = "{pattern}"
session_timeout = "{session:g}s"
heartbeat_interval = "1s"
metadata_max_age = "5s"
[ledger]
kind = "{ledger}"
{zookeeper}
[store.s3]
bucket = "{bucket}"
endpoint_url = "{url}"
region = "us-east-1"
path_style = true
access_key = "{access_key}"
secret_key = "{secret_key}"
connect_timeout = "3s"
read_timeout = "10s"
max_attempts = 3
multipart_threshold = "128KiB"
[output]
prefix = "{prefix}"
{output}
[policy]
max_messages = 1500
max_age = "4s"
[limits]
local_bytes = "16MiB"
[local]
directory = "{local}"
[metrics]
port = 0
[logs]
format = "json"
{topics}
"""

_BACKUP_TOPICS = f"""
[erase]
secret = "{SECRET}"
[[topics]]
match = "soak-lines"
output.format = "text"
output.null_values = "empty"
[[topics]]
match = "soak-transactions"
output.format = "parquet"
"""

_ZOOKEEPER = """
[ledger.zookeeper]
hosts = ["{hosts}"]
session_timeout = "4s"
"""


@dataclass(frozen=True, slots=True)
class World:
    """The parts; ``url`` is the store without faults, ``disk`` None where none was mounted."""

    sandbox: Sandbox
    config: Path
    audit: Audit
    proxy: AuditingProxy
    disk: Path | None
    local: Path
    fleet: Fleet
    load: Load
    tables: tables.Tables | None
    changed: ChangedRows | None
    rewritten: Files | None


@contextmanager
def built(
    folder: Path,
    story: Story,
    *,
    group: str,
    ledger: str,
    store: str,
    daemons: int,
    seed: int,
    control: str,
    coordinator: str,
    changes: bool,
    older: Path | None,
) -> Iterator[World]:
    """Start everything, the daemons last; end everything in the other order."""
    with ExitStack() as opened:
        services = ("kafka", "s3") if ledger == "kafka" else ("kafka", "zookeeper", "s3")
        sandbox = opened.enter_context(
            Sandbox.up(
                folder / "servers",
                services=services,
                s3_server=store,
                kafka_settings={
                    "log.cleaner.backoff.ms": 1000,
                    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 2000,
                },
                progress=story.say,
            )
        )
        audit = Audit(
            sandbox.s3.bucket,
            story.violated,
            of_others=_is_of_the_catalog,
            may_be_deleted=lambda key: key.startswith(f"{PREFIX}/_staged/"),
        )
        proxy = opened.enter_context(AuditingProxy(sandbox.s3.endpoint_url, audit, seed))
        disk = opened.enter_context(_small_disk(folder / "disk", story))
        local = (disk or folder) / "local"
        config = folder / "soak.toml"
        text = _configuration(sandbox, folder, group, ledger, proxy.url, local)
        catalog, changed = None, None
        value: Value = parsed.value if group == "partition" else plain_value
        if group == "table":
            catalog = tables.open_catalog(opened, folder, sandbox, seed)
            value = catalog.values
            text += tables.configuration(catalog, folder, sandbox.s3.bucket, control, coordinator)
            if changes:
                texts = {
                    name: _configuration_of_changed_rows(name, sandbox, ledger, proxy.url, folder)
                    for name in ("iceberg", "hudi")
                }
                changed = ChangedRows(opened, folder, sandbox, texts, catalog.values, story, seed)
        config.write_text(text)
        rewritten = None
        if group == "backup" and older is None:  # which may not know what compaction makes
            direct = folder / "direct.toml"
            direct.write_text(text.replace(proxy.url, sandbox.s3.endpoint_url))
            rewritten = Files(config, direct, folder / "rewrites", sandbox.kafka)
            audit.rewritten = True
        load = Load(sandbox.kafka, seed, value)
        opened.callback(load.end)
        for topic in TOPICS:
            if topic.name != LATE:
                load.begin(topic)
        alone = 2 if group == "table" and coordinator == "alone" else 0
        fleet = Fleet(config, folder / "logs", daemons, story, coordinators=alone, older=older)
        opened.callback(fleet.kill)
        for slot in range(fleet.size):
            fleet.fill(slot)
        yield World(
            sandbox, config, audit, proxy, disk, local, fleet, load, catalog, changed, rewritten
        )


def _is_of_the_catalog(key: str) -> bool:
    """Tell whether others write a key: metadata, rows of another writer, groups of changed rows."""
    if is_of_changed_rows(key):
        return True
    if not key.startswith(f"{tables.WAREHOUSE}/"):
        return False
    return "/metadata/" in key or key.rpartition("/")[2].startswith("00000-")


def _configuration(
    sandbox: Sandbox, folder: Path, group: str, ledger: str, url: str, local: Path
) -> str:
    if group == "backup":
        return configuration_of(sandbox, group, ledger, url, local, topics=_BACKUP_TOPICS)
    if group == "table":
        return configuration_of(sandbox, group, ledger, url, local)
    schema = folder / "event.avsc"
    schema.write_text(json.dumps(parsed.SCHEMA))
    output = parsed.OUTPUT.format(schema=schema)
    return configuration_of(sandbox, group, ledger, url, local, output=output, topics=parsed.TOPICS)


def _configuration_of_changed_rows(
    name: str, sandbox: Sandbox, ledger: str, url: str, folder: Path
) -> str:
    """Return the configuration of a group that changes rows, but for its tables."""
    text = configuration_of(sandbox, "table", ledger, url, folder / f"rows-{name}")
    for usual, own in (
        ('name = "soak"', f'name = "{ROWS}-{name}"'),
        (f'prefix = "{PREFIX}"', f'prefix = "{ROWS}/{name}"'),
        (f'topics_pattern = "{PATTERN}"', f'topics = ["{TOPIC.name}"]'),
    ):
        assert usual in text, usual
        text = text.replace(usual, own)
    return text


def configuration_of(
    sandbox: Sandbox,
    group: str,
    ledger: str,
    url: str,
    local: Path,
    *,
    output: str = "",
    topics: str = "",
) -> str:
    """Return a configuration of daemons; ``url`` is the store's, behind its proxy."""
    zookeeper = _ZOOKEEPER.format(hosts=sandbox.zookeeper) if ledger == "zookeeper" else ""
    return _CONFIG.format(
        group=group,
        prefix=PREFIX,
        output=output,
        topics=topics,
        kafka=sandbox.kafka,
        pattern=PATTERN,
        session=SESSION,
        ledger=ledger,
        zookeeper=zookeeper,
        bucket=sandbox.s3.bucket,
        url=url,
        access_key=sandbox.s3.access_key,
        secret_key=sandbox.s3.secret_key,
        local=local,
    )


@contextmanager
def _small_disk(folder: Path, story: Story) -> Iterator[Path | None]:
    """Mount a small file system, where that is allowed."""
    if os.geteuid() != 0:
        story.say("no small disk: mounting one takes root; the disk will not be full")
        yield None
        return
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK}", "secor-soak", str(folder)]
    answer = subprocess.run(mount, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        story.say(f"no small disk: {answer.stderr.strip()}; the disk will not be full")
        yield None
        return
    try:
        yield folder
    finally:
        # Lazily: a process that was killed just now may still hold a file.
        subprocess.run(["umount", "-l", str(folder)], check=True)
        with suppress(OSError):
            folder.rmdir()
