"""What objects say of themselves in their user metadata."""

from dataclasses import replace
from typing import Any

import pytest

from secor.core.errors import CorruptFile
from secor.core.model import OffsetRange, TopicPartition
from secor.core.object_info import ObjectInfo

INFO = ObjectInfo(
    TopicPartition("t", 3), OffsetRange(5, 9), 6, 2, 1, "f" * 16, "id", -1, 7, None, 2
)


@pytest.mark.parametrize(
    ("changed", "same"),
    [
        ({"first_offset": 8, "records": 1}, True),
        ({"topic_id": None}, True),
        ({"topic_id": "another"}, False),
        ({"batch": OffsetRange(5, 8)}, False),
        ({"fingerprint": "g" * 16}, False),
        ({"topic_partition": TopicPartition("t", 4)}, False),
    ],
    ids=str,
)
def test_what_stands_for_the_same_range_is_the_same(changed: dict[str, Any], same: bool) -> None:
    """Compaction may have taken messages from the one that came later."""
    assert INFO.same_content(replace(INFO, **changed)) is same


def test_metadata_is_ascii_and_read_back() -> None:
    metadata = INFO.metadata()
    assert all(text.isascii() for pair in metadata.items() for text in pair)
    assert ObjectInfo.of(metadata, "k") == INFO


@pytest.mark.parametrize("damage", [{"records": "many"}, {"batch-end": "1"}])
def test_foreign_metadata_is_told_with_the_key(damage: dict[str, str]) -> None:
    with pytest.raises(CorruptFile, match="the/key"):
        ObjectInfo.of({**INFO.metadata(), **damage}, "the/key")
    with pytest.raises(CorruptFile, match="the/key"):
        ObjectInfo.of({}, "the/key")
