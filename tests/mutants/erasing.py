"""The safety steps of an erasure, and the text that takes each out."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

TESTS = ("tests/unit/archive/test_erase.py",)
LIFECYCLE = ("tests/simulation/test_lifecycle.py",)
STORM = ("tests/simulation/test_erasures.py",)
ROWS = ("tests/unit/tables/test_recorded_erasure.py",)
VERIFY = ("tests/unit/verify/test_archive.py",)
LISTS = "secor/archive/erasures.py"
ONE_RANGE = "secor/archive/rewrite/one_range.py"
SEARCH = "secor/archive/rewrite/erasure_search.py"

ERASING_MUTANTS = (
    Mutant(
        "keys are hashed without the secret",
        LISTS,
        '        padded = secret.ljust(_BLOCK, b"\\0")\n',
        '        padded = secret[:0].ljust(_BLOCK, b"\\0")\n',
        TESTS,
    ),
    Mutant(
        "another secret is not noticed",
        LISTS,
        "            if erasure.secret != self.secret.id:\n",
        "            if not self.secret.id:\n",
        TESTS,
    ),
    Mutant(
        "a null key is an empty one",
        LISTS,
        '            within.update(b"null" if key is None else b"key\\0" + key)\n',
        '            within.update(b"key\\0" + (key or b""))\n',
        TESTS,
    ),
    Mutant(
        "a list counts for messages that come later, too",
        LISTS,
        "                erased = listed[indices] & ((offsets < end) | self.beyond) & ~unknown\n",
        "                erased = listed[indices] & ~unknown\n",
        TESTS,
    ),
    Mutant(
        "a verification finds what daemons stored before they applied a list",
        LISTS,
        "replace(self, beyond=False).erased(records)",
        "self.erased(records)",
        ("tests/unit/archive/test_applied_erasures.py",),
    ),
    Mutant(
        "what is not committed yet is written again",
        SEARCH,
        "                elif batch.range.end > end:\n",
        "                elif end < 0:\n",
        TESTS,
    ),
    Mutant(
        "a batch is written again that overlaps another",
        SEARCH,
        "    if batch.overlaps or len(places) < len(batch.objects):\n",
        "    if len(places) < len(batch.objects):\n",
        TESTS,
    ),
    Mutant(
        "a plan of others is taken for that of this list",
        "secor/archive/rewrite/erasing.py",
        "        while not outcomes or outcomes[-1].plan.erasure != erasures.newest:\n",
        "        while not outcomes:\n",
        STORM,
    ),
    Mutant(
        "what was joined counts as written without what only a part of it was",
        "secor/archive/rewrite/planning.py",
        "        erasures=min(info.erasures or 0 for info in infos) or None,\n",
        "        erasures=max(info.erasures or 0 for info in infos) or None,\n",
        TESTS,
    ),
    Mutant(
        "whoever finishes a plan copies what it erases",
        ONE_RANGE,
        "            erasures = known.upto(plan.erasure).require()\n",
        "            known.upto(plan.erasure).require()\n",
        TESTS,
    ),
    Mutant(
        "a lost ledger begins a batch again of which messages were erased",
        "secor/archive/repair/recover_ledger.py",
        "    if any(extent.archived.name.end is not None for extent in of_last):\n",
        "    if not of_last:\n",
        LIFECYCLE,
    ),
    Mutant(
        "a stream that is started anew goes back before a batch that was rewritten",
        "secor/spark/cursor.py",
        "        latest = last.get(log_of(archived))\n",
        "        latest = last.get(log_of(archived))\n"
        "        if archived.name.end is not None:\n            continue\n",
        LIFECYCLE,
    ),
    Mutant(
        "what was put of a range counts though the rest of it has expired",
        ONE_RANGE,
        "            if expired is None:\n",
        "            if part:\n",
        ("tests/unit/archive/test_expire.py",),
    ),
    Mutant(
        "rows of a later message of an erased key are erased, too",
        "secor/tables/erased_rows.py",
        "        return all(offset < below.get(key, 0) for key, offset in last)\n",
        "        return bool(below)\n",
        ROWS,
    ),
    Mutant(
        "rows that were to be deleted count as deleted",
        "secor/tables/erased_rows.py",
        "                records = planned if match[2] else done\n",
        "                records = done\n",
        ROWS,
    ),
    Mutant(
        "what others have deleted since a killed run is erased, too",
        "secor/tables/recorded_erasure.py",
        "                rows &= note.rows\n",
        "                pass\n",
        ROWS,
    ),
    Mutant(
        "pieces of a topic partition are cut within a batch",
        "secor/verify/archive/partition_work.py",
        "            if size >= least and inside and reached <= batch.start:\n",
        "            if size >= least and inside:\n",
        VERIFY,
    ),
    Mutant(
        "lines of text are numbered though some may be left out",
        ONE_RANGE,
        "        if info.left_out != 0 or info.records != info.batch.end - info.batch.start:\n",
        "        if info.records != info.batch.end - info.batch.start:\n",
        ("tests/unit/archive/test_rewrite.py",),
    ),
)
