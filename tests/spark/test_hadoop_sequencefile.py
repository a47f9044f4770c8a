"""Hadoop's own classes read what we write, and we read what they write."""

from __future__ import annotations

import itertools
import struct
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from secor.formats.sequencefile import SequenceFileFormat
from tests.unit.formats.sequencefile_messages import Row, batch, expected, varied, write

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning"
    ),  # PySpark leaves sockets to the collector
]

CODECS = ("none", "gzip", "default", "snappy", "lz4", "bzip2")
"""Of those we write: zstd needs native Hadoop."""

WRITTEN = [
    ("NONE", "DefaultCodec"),
    *itertools.product(
        ("RECORD", "BLOCK"), ("DefaultCodec", "SnappyCodec", "Lz4Codec", "BZip2Codec")
    ),
]
"""What Hadoop writes without native code: not gzip."""

ROWS = varied(2500)
SMALL = varied(120)
SPLIT = 200_000
KEY_CLASSES = {"messagepack": "BytesWritable", "legacy": "LongWritable"}


def _raw(keys: Any, rows: list[Row]) -> list[tuple[Any, bytes]]:
    """Return what Hadoop should see: each key as Spark gives it, each value."""
    plain = write(SequenceFileFormat(keys, "none"), batch(rows))
    marker = b"\xff\xff\xff\xff"
    at = len(write(SequenceFileFormat(keys, "none")))
    found: list[tuple[Any, bytes]] = []
    while at < len(plain):
        if plain[at : at + 4] == marker:
            at += 20
            continue
        size, key_size = struct.unpack_from(">ii", plain, at)
        key = plain[at + 8 : at + 8 + key_size]
        value = plain[at + 8 + key_size + 4 : at + 8 + size]
        found.append((int.from_bytes(key, "big") if keys == "legacy" else key[4:], value))
        at += 8 + size
    return found


def _plain(pairs: list[tuple[Any, Any]]) -> list[tuple[Any, bytes]]:
    return [(key if isinstance(key, int) else bytes(key), bytes(value)) for key, value in pairs]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("keys", ["messagepack", "legacy"])
def test_hadoop_reads_what_we_write_in_the_splits_that_we_give(
    spark: SparkSession, tmp_path: Path, keys: Any, codec: Any
) -> None:
    form = SequenceFileFormat(keys, codec)
    path = tmp_path / "1_0_00000000000000000200.seq"
    path.write_bytes(write(form, batch(ROWS)))
    splits = spark.sparkContext.newAPIHadoopFile(
        str(path),
        "org.apache.hadoop.mapreduce.lib.input.SequenceFileInputFormat",
        "org.apache.hadoop.io." + KEY_CLASSES[keys],
        "org.apache.hadoop.io.BytesWritable",
        conf={"mapreduce.input.fileinputformat.split.maxsize": str(SPLIT)},
    )
    parts = [_plain(part) for part in splits.glom().collect()]
    assert [pair for part in parts for pair in part] == _raw(keys, ROWS)
    bounds = [index * SPLIT for index in range(len(parts))] + [path.stat().st_size]
    with path.open("rb") as file:
        ours = [
            sum(one.num_rows for one in form.read_split(file, start, end, path.name))
            for start, end in itertools.pairwise(bounds)
        ]
    assert ours == [len(part) for part in parts]
    assert len([count for count in ours if count]) > 1


@pytest.mark.parametrize(("mode", "codec"), WRITTEN)
@pytest.mark.parametrize("keys", ["messagepack", "legacy"])
def test_we_read_what_hadoop_writes(
    spark: SparkSession, tmp_path: Path, keys: Any, mode: str, codec: str
) -> None:
    path = tmp_path / "file"
    _write_by_hadoop(spark, path, keys, mode, codec)
    with path.open("rb") as file:
        batches = list(SequenceFileFormat().read(file, path.name))
    rows = [row for one in batches for row in one.to_pylist()]
    assert rows == expected(keys, SMALL)


def _write_by_hadoop(spark: SparkSession, path: Path, keys: str, mode: str, codec: str) -> None:
    jvm: Any = spark.sparkContext._jvm
    io = jvm.org.apache.hadoop.io
    conf = jvm.org.apache.hadoop.conf.Configuration()
    conf.set("io.seqfile.compress.blocksize", "100000")
    file = jvm.org.apache.hadoop.fs.Path(f"file://{path}")
    key_class = jvm.java.lang.Class.forName("org.apache.hadoop.io." + KEY_CLASSES[keys])
    value_class = jvm.java.lang.Class.forName("org.apache.hadoop.io.BytesWritable")
    implementation = getattr(jvm.org.apache.hadoop.io.compress, codec)()
    if hasattr(implementation, "setConf"):
        implementation.setConf(conf)
    writer = io.SequenceFile.createWriter(
        file.getFileSystem(conf),
        conf,
        file,
        key_class,
        value_class,
        getattr(jvm.org.apache.hadoop.io.SequenceFile.CompressionType, mode),
        implementation,
    )
    for key, value in _raw(keys, SMALL):
        written = io.LongWritable(key) if keys == "legacy" else io.BytesWritable(key)
        writer.append(written, io.BytesWritable(value))
    writer.close()


def test_spark_saves_a_sequence_file_that_we_read(spark: SparkSession, tmp_path: Path) -> None:
    pairs = [(bytearray(key), bytearray(value)) for key, value in _raw("messagepack", SMALL)]
    target = tmp_path / "saved"
    spark.sparkContext.parallelize(pairs, 1).saveAsSequenceFile(
        str(target), "org.apache.hadoop.io.compress.BZip2Codec"
    )
    [path] = target.glob("part-*")
    with path.open("rb") as file:
        batches = list(SequenceFileFormat().read(file, path.name))
    assert [row for one in batches for row in one.to_pylist()] == SMALL


def test_spark_reads_a_whole_folder_of_ours(spark: SparkSession, tmp_path: Path) -> None:
    for index, codec in enumerate(CODECS):
        form = SequenceFileFormat(codec=codec)  # type: ignore[arg-type]
        (tmp_path / f"1_{index}_00000000000000000200.seq").write_bytes(write(form, batch(SMALL)))
    count = spark.sparkContext.sequenceFile(str(tmp_path / "*.seq")).count()
    assert count == len(CODECS) * len(SMALL)
