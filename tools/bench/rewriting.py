"""What compact, erase and verify cost: MB a CPU second and memory, beside plain PyArrow.

``python -m tools.bench.rewriting --gigabytes 1``: an archive of small objects in a directory, of
messages with keys; each step is a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa

from secor.adapters.local import DirectoryStore
from secor.archive.objects import Archive
from secor.archive.rewrite.carrying_out import Rewriter
from secor.archive.rewrite.erasing import Eraser
from secor.archive.rewrite.planning import RewriteLimits, plan_of
from secor.batch.local_file import LocalFile
from secor.batch.workspace import Workspace
from secor.core.model import SCHEMA, Entry, OffsetRange, TopicPartition
from secor.core.naming import ObjectName
from secor.core.object_info import ObjectInfo
from secor.formats import make_format
from secor.formats.sequencefile import SequenceFileFormat
from secor.verify.archive.verifier import verify_archive_only
from tools.bench.archive import PREFIX, SECRET, TARGET, TOPIC
from tools.bench.fill import BATCH_MESSAGES, FIRST_TIMESTAMP, values

OBJECT_MESSAGES = 25_000
"""Messages of an object: about 5 MB of values."""
KEYS = 100_000


def fill(bucket: Path, size: int, name: str, codec: str) -> int:
    """Put objects with ``size`` bytes of values; return how many messages they have."""
    store, log_format = DirectoryStore(bucket), make_format(name, codec=codec)
    workspace = Workspace(bucket.parent / "local", "fill")
    blocks = [pa.array(values(BATCH_MESSAGES, seed), pa.binary()) for seed in range(16)]
    done, offset, rng = 0, 0, np.random.default_rng(1)
    while done < size:
        batch = OffsetRange(offset, offset + OBJECT_MESSAGES)
        info = ObjectInfo(TopicPartition(TOPIC, 0), batch, offset, OBJECT_MESSAGES, 1, "f" * 16)
        root = f"{PREFIX}/{TOPIC}"
        object_name = ObjectName(root, "offset=0", 1, 0, offset, log_format.extension)
        local: LocalFile = workspace.create()
        writer = log_format.create(local, object_name.key.encode())
        while offset < batch.end:
            block = blocks[offset // BATCH_MESSAGES % len(blocks)]
            block = block.slice(0, min(BATCH_MESSAGES, batch.end - offset))
            offsets = np.arange(offset, offset + len(block))
            keys = pa.array([b"key-%d" % key for key in rng.integers(0, KEYS, len(block))])
            columns = [
                pa.array(offsets),
                pa.array(FIRST_TIMESTAMP + offsets),
                pa.array(np.zeros(len(block), np.int8)),
                keys.cast(pa.binary()),
                block,
                pa.array([[]] * len(block), SCHEMA.field("headers").type),
            ]
            writer.append(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))
            done, offset = done + block.nbytes, offset + len(block)
        writer.close()
        local.finish()
        store.put(object_name.key, local.content(), local.crc32c, info.metadata())
        local.delete()
    workspace.close()
    return offset


def compact(bucket: Path) -> None:
    """Join all but the newest object."""

    def choose(objects: Any, waiting: Any) -> Any:
        return plan_of(TOPIC, objects, waiting, RewriteLimits(time.time() + 60, TARGET))

    workspace = Workspace(bucket.parent / "local", "compact")
    Rewriter(Archive(DirectoryStore(bucket), PREFIX), TOPIC, workspace, choose).run()
    workspace.close()


def erase(bucket: Path) -> None:
    """Erase ten keys of a hundred thousand: some messages of each object."""
    archive = Archive(DirectoryStore(bucket), PREFIX)
    eraser = Eraser(archive, TOPIC, SECRET, lambda _: Entry(1 << 60), "now", "a measurement")
    workspace = Workspace(bucket.parent / "local", "erase")
    eraser.run([b"key-%d" % key for key in range(10)], workspace, tombstones=False)
    workspace.close()


def verify(bucket: Path) -> None:
    """Read all objects and compare them with their metadata."""
    archive = Archive(DirectoryStore(bucket), PREFIX)
    for report in verify_archive_only(archive, TOPIC, secret=SECRET):
        if report.findings:
            raise click.ClickException(str(report.findings[0]))


def copy(bucket: Path) -> None:
    """Read all objects once and write them to one, and nothing else: the floor of a rewrite."""
    archive = Archive(DirectoryStore(bucket), PREFIX)
    objects = sorted(archive.objects(TOPIC), key=lambda archived: archived.name.start_offset)
    with archive.store.open(objects[0].key) as file:
        is_parquet = file.read(4) == b"PAR1"
        file.seek(0)
        log_format = (
            make_format("parquet")
            if is_parquet
            else SequenceFileFormat.of_file(file, objects[0].key)
        )
    workspace = Workspace(bucket.parent / "local", "copy")
    local = workspace.create()
    writer = log_format.create(local, b"copy")
    for archived in objects:
        for records in archive.read(archived):
            writer.append(records)
    writer.close()
    local.finish()
    local.delete()
    workspace.close()


STEPS: dict[str, Callable[[Path], None]] = {
    "copy": copy,
    "verify": verify,
    "compact": compact,
    "erase": erase,
}


ON_SPARK = "on-spark"


@click.command()
@click.option("--gigabytes", type=float, default=1.0, show_default=True, help="Bytes of values.")
@click.option("--format", "name", type=click.Choice(["sequencefile", "parquet"]), default="parquet")
@click.option("--codec", default="zstd", show_default=True)
@click.option(
    "--spark",
    "workers",
    type=click.IntRange(1),
    metavar="N",
    help="Then the same in tasks of local[N], beside a plain Spark job, and queries before and"
    " after; for Parquet.",
)
@click.option("--step", type=click.Choice([*STEPS, ON_SPARK]), hidden=True)
@click.option("--bucket", type=click.Path(path_type=Path), hidden=True)
@click.option("--messages", type=int, default=0, hidden=True)
def main(
    gigabytes: float,
    name: str,
    codec: str,
    workers: int | None,
    step: str | None,
    bucket: Path | None,
    messages: int,
) -> None:
    """Fill a directory, run the steps, print MB of values a CPU second and MiB of memory."""
    if workers is not None and name != "parquet":
        raise click.UsageError("--spark is for --format parquet, which plain Spark reads, too")
    if step == ON_SPARK and bucket is not None:
        from tools.bench.rewriting_on_spark import measure

        for cost in measure(bucket, workers or 1, messages):
            click.echo(f"{cost.name}\t{cost.seconds}\t{cost.cpu}\t{cost.peak}")
        return
    if step is not None and bucket is not None:
        STEPS[step](bucket)
        used = resource.getrusage(resource.RUSAGE_SELF)
        figures = {"cpu": used.ru_utime + used.ru_stime, "rss": used.ru_maxrss >> 10}
        click.echo(json.dumps(figures))
        return
    size = int(gigabytes * 1e9)
    with tempfile.TemporaryDirectory(prefix="secor-rewriting-") as folder:
        place = Path(folder) / "bucket"
        messages = fill(place, size, name, codec)
        stored = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        click.echo(
            f"{name} {codec}: {size / 1e6:,.0f} MB of values, {messages:,} messages,"
            f" {stored / 1e6:,.0f} MB stored"
        )
        again = Path(folder) / "again" / "bucket"
        if workers is not None:
            shutil.copytree(place, again)
        for one in STEPS:
            click.echo(_line(one, _run(one, place), size, stored))
        if workers is not None:
            _on_spark(again, workers, messages, size)


def _on_spark(bucket: Path, workers: int, messages: int, size: int) -> None:
    command = [sys.executable, "-m", "tools.bench.rewriting", "--step", ON_SPARK]
    options = ["--bucket", str(bucket), "--spark", str(workers), "--messages", str(messages)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(done.stderr[-2000:])
    click.echo(f"in tasks of local[{workers}], the JVM and all workers counted:")
    for line in done.stdout.splitlines():
        step, seconds, cpu, peak = line.split("\t")
        rate = size / 1e6 / float(cpu)
        click.echo(
            f"  {step:<26} {rate:7.0f} MB of values a CPU second; {float(cpu):6.1f} s of CPU,"
            f" {float(seconds):6.1f} s; {int(peak):5} MiB"
        )


def _run(step: str, bucket: Path) -> dict[str, float]:
    began = time.perf_counter()
    command = [sys.executable, "-m", "tools.bench.rewriting", "--step", step, "--bucket", bucket]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"{step}: {done.stderr}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {**figures, "wall": time.perf_counter() - began}


def _line(step: str, figures: dict[str, float], size: int, stored: int) -> str:
    cpu, wall = figures["cpu"], figures["wall"]
    return (
        f"  {step:<8} {size / 1e6 / cpu:7.0f} MB of values, {stored / 1e6 / cpu:6.0f} MB stored a"
        f" CPU second; {cpu:6.1f} s of CPU, {wall:6.1f} s; {figures['rss']:5.0f} MiB"
    )


if __name__ == "__main__":
    main()
