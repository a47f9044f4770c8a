from __future__ import annotations

import pytest

from secor.archive.verify.report import PartitionReport, Report
from secor.core.model import TopicPartition
from secor.core.text import how_many


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0 messages are"),
        (1, "1 message is"),
        (2, "2 messages are"),
        (1000, "1,000 messages are"),
    ],
)
def test_a_number_and_its_noun_agree(number: int, said: str) -> None:
    assert how_many(number, "message is", "messages are") == said
    assert how_many(number, "message") == said.rpartition(" ")[0]


def test_what_verify_remarks_agrees_with_the_number() -> None:
    report = Report([PartitionReport(TopicPartition("t", 0), quarantined=1, in_progress=1)])
    assert report.remarks == [
        "1 message is in quarantine; see secor quarantine ls",
        "1 message belongs to batches that are being uploaded",
    ]
    report.partitions[0].quarantined = 2
    assert report.remarks[0] == "2 messages are in quarantine; see secor quarantine ls"
