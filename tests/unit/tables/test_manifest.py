import pytest

from secor.core.errors import CorruptFile
from secor.core.model import OffsetRange, TopicPartition
from secor.tables.staging.manifest import (
    DataFile,
    Manifest,
    Statistics,
    TableFiles,
    manifest_key,
    parse_manifest_key,
)

STATISTICS = Statistics({1: 90}, {1: 3}, {1: 0}, {}, {1: "00"}, {1: "ff"}, (4,))
FILE = DataFile("s3://lake/t/data/a.parquet", "parquet", 3, 90, 5, 8, (17897, None), STATISTICS)
MANIFEST = Manifest(
    *("tables", "cluster", "clicks", "id", 3, 5, 9, "f" * 16, 1_700_000_000_000),
    (TableFiles("logs.clicks", "uuid", 0, 0, "append", (FILE,)),),
)


def test_a_manifest_is_read_back_as_it_was_written() -> None:
    assert Manifest.parse(MANIFEST.dump(), "key") == MANIFEST


def test_the_key_tells_topic_partition_and_range_and_nothing_else() -> None:
    key = MANIFEST.key("raw/tables")
    assert key == "raw/tables/_staged/clicks/3/00000000000000000005-00000000000000000009.json"
    assert parse_manifest_key("raw/tables", "clicks", key) == (3, OffsetRange(5, 9), "")
    assert manifest_key("raw/tables", TopicPartition("clicks", 3), OffsetRange(5, 9)) == key


@pytest.mark.parametrize("key", ["x", "raw/tables/_staged/clicks/3/5-9.json"])
def test_other_objects_are_no_manifests(key: str) -> None:
    assert parse_manifest_key("raw/tables", "clicks", key) is None


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", MANIFEST.dump()[:-9], MANIFEST.dump().replace(b'n":1}', b'n":2}')]
)
def test_what_is_no_manifest_is_named(body: bytes) -> None:
    with pytest.raises(CorruptFile, match="the key"):
        Manifest.parse(body, "the key")


@pytest.mark.parametrize("partition", ["03", "٣"])
def test_another_spelling_of_a_key_is_no_manifest(partition: str) -> None:
    key = MANIFEST.key("raw").replace("/3/", f"/{partition}/")
    assert parse_manifest_key("raw", "clicks", key) is None


@pytest.mark.parametrize(
    ("written", "forged"),
    [
        ('"start":5', '"start":"5"'),
        ('"start":5', '"start":-5'),
        ('"start":5', '"start":10'),
        ('"partition":3', '"partition":true'),
        ('"end":9', '"end":1e400'),
        ('"records":3', '"records":null'),
        ('"size":90', f'"size":{10**30}'),
        ('"size":90', '"size":-90'),
        ('"records":3', '"records":-3'),
        ('"value_counts":{"1":3}', '"value_counts":{"1":-3}'),
        ('"value_counts":{"1":3}', f'"value_counts":{{"1":{2**63}}}'),
        ('"value_counts":{"1":3}', f'"value_counts":{{"{2**31}":3}}'),
        ('"value_counts":{"1":3}', '"value_counts":{"-1":3}'),
        ('"path":"s3://lake/t/data/a.parquet"', '"path":["a"]'),
        ('"format":"parquet"', '"format":"exe"'),
        ('"operation":"append"', '"operation":"drop"'),
        ('"uuid":"uuid"', '"uuid":[]'),
        ('"key":[]', '"key":"12"'),
        ('"lower_bounds":{"1":"00"}', '"lower_bounds":{"1":"xyz"}'),
        ('"value_counts":{"1":3}', '"value_counts":{"1":"3"}'),
        ('"partition":[17897,null]', '"partition":{"a":1}'),
        ('"cluster":"cluster"', '"cluster":{}'),
        ('"tables":[', '"tables":' + "[" * 200_000),
    ],
)
def test_a_forged_manifest_is_named_and_never_an_error_of_python(written: str, forged: str) -> None:
    body = MANIFEST.dump().decode()
    assert written in body
    with pytest.raises(CorruptFile, match="the key"):
        Manifest.parse(body.replace(written, forged).encode(), "the key")
