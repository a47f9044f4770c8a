"""Records of the offsets topic that the job has not written."""

import pytest

from secor.core.errors import LedgerCorrupt
from secor.core.model import TopicPartition
from secor.restore.control import _decode
from secor.restore.model import SourcePartition
from secor.restore.offsets import OffsetTable, StoredOffset, offset_key
from secor.restore.pairs import pairs_of

SOURCE = SourcePartition("archive", "clicks", 0)
KEY = offset_key("job", SOURCE)
STORED = StoredOffset(5, "spec")
DEEP = b"[" * 200_000


def described(archive: str, partition: str, topic: str) -> bytes:
    fields = f'{{"archive":{archive},"partition":{partition},"topic":{topic}}}'
    return f'["job",{fields}]'.encode()


@pytest.mark.parametrize(
    "key",
    [
        DEEP,
        described('"archive"', "1e999", '"clicks"'),
        described("[1]", "0", '"clicks"'),
        described('"archive"', "0", '{"a":1}'),
        described("null", "0", "null"),
        described('"archive"', "true", '"clicks"'),
    ],
)
def test_a_forged_key_is_counted_and_never_an_error(key: bytes) -> None:
    table = OffsetTable("job")
    table.add([(KEY, STORED.encode()), (key, STORED.encode())])
    assert table.offsets == {SOURCE: STORED}
    assert table.foreign == 1
    assert pairs_of("job", [(key, b'{"placed":[]}')]) == []


@pytest.mark.parametrize(
    "value", [DEEP, b"", b"5", b'{"next_offset":%d,"spec":"x"}' % (2**63), b"\xff\xfe"]
)
def test_a_forged_value_leaves_the_offset_before_it(value: bytes) -> None:
    table = OffsetTable("job")
    table.add([(KEY, STORED.encode()), (KEY, value)])
    assert table.offsets == {SOURCE: STORED}
    assert table.foreign == 1


@pytest.mark.parametrize(
    "value", [DEEP, b'{"state":"running","generation":1e999,"spec":"","partitions":1}']
)
def test_a_forged_record_of_the_job_is_named(value: bytes) -> None:
    with pytest.raises(LedgerCorrupt, match="secor restore stop"):
        _decode(TopicPartition("secor-restore-job", 1), value)
