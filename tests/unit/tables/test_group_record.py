from dataclasses import replace

import pytest

from secor.core.errors import CorruptFile
from secor.tables.commit.group_record import (
    GroupRecord,
    LastCommit,
    Lineage,
    lineage,
    property_name,
)
from secor.tables.commit.vector import TopicOffsets, Vector
from tests.fakes.table_catalog import FakeTable
from tests.unit.tables.world import GROUP

RECORD = GroupRecord(
    Vector({"c": {"clicks": TopicOffsets("id", {0: 5})}}),
    LastCommit("cycle-0", 3, 17, 1_700_000_000_000, "cycle-before"),
    1_699_999_999_000,
    ("uuid-0",),
)


def table(**properties: str) -> FakeTable:
    return FakeTable("db.t", "uuid-1", properties=properties)


def test_a_record_is_read_back_from_the_properties() -> None:
    written = table(**RECORD.properties(GROUP), other="kept")
    assert GroupRecord.of(written.describe(), GROUP) == RECORD
    assert GroupRecord.of(written.describe(), "another group") == GroupRecord()


def test_the_snapshot_names_commit_group_epoch_and_time() -> None:
    assert RECORD.summary(GROUP) == {
        "secor.group": GROUP,
        "secor.commit": "cycle-0",
        "secor.epoch": "17",
        "secor.valid-through": "1699999999000",
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("vector", "[]"),
        ("commit", "{}"),
        ("commit", "7"),
        ("valid-through", "x"),
        ("replaced", "3"),
    ],
)
def test_a_property_that_is_not_ours_is_named(name: str, text: str) -> None:
    broken = table(**{**RECORD.properties(GROUP), property_name(GROUP, name): text})
    with pytest.raises(CorruptFile, match=r"db\.t"):
        GroupRecord.of(broken.describe(), GROUP)


def committed(fake: FakeTable, name: str) -> GroupRecord:
    """Let the group commit."""
    head = fake.describe().head()
    after = head.sequence_number or 0 if head else 0
    record = GroupRecord(commit=LastCommit(name, after, 1, 0))
    fake.add((*fake.live(), name), record.summary(GROUP))
    return record


def where(fake: FakeTable, record: GroupRecord, branch: str = "main") -> Lineage:
    return lineage(fake.describe(), branch, record)


def test_a_branch_that_holds_the_commit() -> None:
    fake = table()
    assert where(fake, GroupRecord()) is Lineage.NO_COMMIT
    record = committed(fake, "c1")
    assert where(fake, record) is Lineage.PRESENT
    fake.foreign_append(["x"])
    fake.compact("all")
    assert where(fake, record) is Lineage.PRESENT


@pytest.mark.parametrize("unlink", [True, False])
def test_an_expired_commit_is_no_rollback(unlink: bool) -> None:
    fake = table()
    record = committed(fake, "c1")
    fake.foreign_append(["x"])
    fake.expire(1, unlink=unlink)
    assert where(fake, record) is Lineage.EXPIRED


def test_a_branch_set_back_before_the_commit() -> None:
    fake = table()
    fake.foreign_append(["x"])
    before = fake.refs["main"]
    record = committed(fake, "c1")
    fake.roll_back(before)
    assert where(fake, record) is Lineage.ROLLED_BACK
    fake.foreign_append(["y"])
    assert where(fake, record) is Lineage.ROLLED_BACK
    fake.expire(2)  # the commit's snapshot is gone, and that of its base is not
    assert where(fake, record) is Lineage.ROLLED_BACK


def test_a_branch_set_back_to_nothing() -> None:
    fake = table()
    record = committed(fake, "c1")
    fake.roll_back(None)
    assert where(fake, record) is Lineage.ROLLED_BACK


def test_a_branch_that_never_had_the_commit() -> None:
    fake = table()
    fake.foreign_append(["x"])
    fake.refs["audit"] = fake.refs["main"]
    record = committed(fake, "c1")
    assert where(fake, record, "audit") is Lineage.ROLLED_BACK


def test_a_replaced_table_keeps_its_uuid_and_has_lost_the_commit() -> None:
    fake = table()
    record = committed(fake, "c1")
    fake.roll_back(None)
    fake.foreign_append(["all anew"])
    assert where(fake, record) is Lineage.ROLLED_BACK


def test_format_version_1_has_no_sequence_numbers() -> None:
    fake = table()
    fake.format_version = 1
    record = committed(fake, "c1")
    fake.foreign_append(["x"])
    fake.snapshots = {key: replace(it, sequence_number=0) for key, it in fake.snapshots.items()}
    assert where(fake, record) is Lineage.PRESENT
