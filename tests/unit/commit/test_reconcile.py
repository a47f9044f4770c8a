"""The table of DESIGN.md, row by row, and that no row is missing."""

import itertools

import pytest

from secor.commit.reconcile import Action, reconcile
from secor.core.model import Entry, Intent, OffsetRange

BATCH = OffsetRange(10, 20)
OURS = "ours"


def intent(start: int, end: int, fingerprint: str = OURS) -> Intent:
    return Intent(start, end, fingerprint, owner="o", at=0.0, root="backup/t")


@pytest.mark.parametrize(
    ("entry", "action"),
    [
        (Entry(None), Action.LEDGER_LOST),
        (Entry(None, intent(10, 20)), Action.LEDGER_LOST),
        (Entry(10), Action.UPLOAD),
        (Entry(10, intent(10, 20)), Action.RESUME),
        (Entry(10, intent(10, 20, "theirs")), Action.SUPERSEDE),
        (Entry(10, intent(10, 30)), Action.RESTART),
        (Entry(10, intent(10, 15)), Action.RESTART),
        (Entry(10, intent(10, 15, "theirs")), Action.RESTART),
        (Entry(5), Action.RESTART),
        (Entry(15), Action.RESTART),
        (Entry(20), Action.RESTART),
        (Entry(5, intent(5, 20)), Action.RESTART),
        (Entry(15, intent(15, 20)), Action.RESTART),
        (Entry(10, intent(5, 20)), Action.LEDGER_EDITED),
        (Entry(15, intent(10, 20)), Action.LEDGER_EDITED),
    ],
)
def test_each_row_of_the_table(entry: Entry, action: Action) -> None:
    assert reconcile(BATCH, OURS, entry).action is action


def test_nothing_is_uploaded_unless_the_batch_begins_at_committed_and_ends_at_the_intent() -> None:
    offsets = [None, 5, 10, 15, 20]
    intents = [None, *(intent(a, b, f) for a in (5, 10, 15) for b in (15, 20, 30) for f in "xy")]
    for committed, open_intent in itertools.product(offsets, intents):
        action = reconcile(BATCH, "x", Entry(committed, open_intent)).action
        if action in (Action.UPLOAD, Action.RESUME, Action.SUPERSEDE):
            assert committed == BATCH.start
            assert open_intent is None or (open_intent.start, open_intent.end) == (10, 20)
        if action is Action.RESUME:
            assert open_intent is not None
            assert open_intent.fingerprint == "x"


def test_the_decision_tells_why() -> None:
    assert "15" in reconcile(BATCH, OURS, Entry(15)).why
