import pytest

from secor.core.errors import CorruptFile
from secor.core.model import TopicPartition
from secor.tables.commit.vector import TopicOffsets, Vector

CLICKS = TopicPartition("clicks", 0)
VECTOR = Vector({"c": {"clicks": TopicOffsets("id", {0: 5, 10: 7})}})


def test_a_vector_is_read_back_as_it_was_written() -> None:
    assert Vector.parse(VECTOR.dump(), "t") == VECTOR
    assert VECTOR.dump() == '{"c":{"clicks":{"id":"id","partitions":{"0":5,"10":7}}}}'


def test_a_partition_that_is_not_named_has_given_nothing() -> None:
    assert VECTOR.next_offset("c", CLICKS) == 5
    assert VECTOR.next_offset("c", TopicPartition("clicks", 1)) is None
    assert VECTOR.next_offset("other", CLICKS) is None
    assert VECTOR.clusters_of("clicks") == {"c"}


def test_it_moves_on_and_keeps_the_rest() -> None:
    after = VECTOR.advance("c", "id", {CLICKS: 9}, CLICKS.topic)
    assert list(after.offsets()) == [("c", CLICKS, 9), ("c", TopicPartition("clicks", 10), 7)]
    assert VECTOR.next_offset("c", CLICKS) == 5


def test_it_never_goes_back() -> None:
    with pytest.raises(ValueError, match="go back from 5 to 4"):
        VECTOR.advance("c", "id", {CLICKS: 4}, CLICKS.topic)


@pytest.mark.parametrize("offset", ["1e400", "NaN", "1.7", "true", "null", '"5"', str(2**63)])
def test_an_offset_that_a_person_has_edited_is_named(offset: str) -> None:
    text = '{"c":{"t":{"id":null,"partitions":{"0":' + offset + "}}}}"
    with pytest.raises(CorruptFile, match="the table"):
        Vector.parse(text, "the table")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "7", '{"c":[]}', '{"c":{"t":{"id":null,"partitions":{"0":-1}}}}', '{"c":{"t":{}}}'],
)
def test_what_is_no_vector_is_named(text: str) -> None:
    with pytest.raises(CorruptFile, match="the table"):
        Vector.parse(text, "the table")
