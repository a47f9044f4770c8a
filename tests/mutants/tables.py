"""The safety steps of table commits, and the text that takes each out."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

UNIT = ("tests/unit/tables",)
TABLES = (*UNIT, "tests/simulation/test_tables.py")
ICEBERG = ("tests/unit/adapters/test_iceberg_commits.py",)

SELECTION = "secor/tables/selection.py"
STAGING = "secor/tables/staging.py"
COMMIT = "secor/tables/table_commit.py"
MERGING = "secor/tables/merging.py"
BACKLOG = "secor/tables/backlog.py"
COORDINATOR = "secor/tables/coordinator.py"
RECORD = "secor/tables/group_record.py"
SETTLE = "secor/tables/settle.py"
CYCLE = "secor/tables/cycle.py"
LOST = "secor/tables/lost_entries.py"
ANSWERING = "secor/tables/answering.py"
ICEBERG_COMMITS = "secor/adapters/iceberg/commits.py"

TABLE_MUTANTS = (
    Mutant(
        "manifests above the ledger's offset are committed",
        STAGING,
        "if item.replay or item.range.end <= committed.get(item.topic_partition, 0)",
        "if item.replay or item.topic_partition in committed",
        TABLES,
    ),
    Mutant(
        "the listing is older than the ledger's offsets",
        COORDINATOR,
        "        committed = self._read_ledger(partitions | self._sources)\n",
        "        listed = self._staging.find()\n"
        "        self._staging.find = lambda: (self._staging.__dict__.pop('find'), listed)[1]\n"
        "        committed = self._read_ledger(partitions | self._sources)\n",
        TABLES,
    ),
    Mutant(
        "the vector is not looked at",
        SELECTION,
        "        next_offset = record.vector.next_offset("
        "manifest.cluster, manifest.topic_partition)\n",
        "        next_offset = None\n",
        TABLES,
    ),
    Mutant(
        "a manifest that ends at the vector is not in the table",
        SELECTION,
        "manifest.end <= next_offset",
        "manifest.end < next_offset",
        TABLES,
    ),
    Mutant(
        "a manifest across the vector is committed",
        SELECTION,
        "manifest.start < next_offset",
        "manifest.end < next_offset",
        TABLES,
    ),
    Mutant(
        "manifests that overlap are committed both",
        SELECTION,
        "            if cluster == manifest.cluster and same and manifest.start < end:\n",
        "            if cluster == manifest.cluster and same and manifest.end < end:\n",
        TABLES,
    ),
    Mutant(
        "manifests of a topic that was made again since are taken for the present one's",
        SELECTION,
        "        if manifest.topic_id is not None and manifest.topic_id in record.replaced:\n",
        "        if False:\n",
        TABLES,
    ),
    Mutant(
        "a table does not look which replays it has",
        SELECTION,
        "if not of_table or key in self._record.replays or self._is_finished(key):",
        "if not of_table or self._is_finished(key):",
        TABLES,
    ),
    Mutant(
        "a replay that is finished is committed again",
        SELECTION,
        "if not of_table or key in self._record.replays or self._is_finished(key):",
        "if not of_table or key in self._record.replays:",
        TABLES,
    ),
    Mutant(
        "a table forgets a replay that is not finished",
        SELECTION,
        "key for key in self._record.replays if key in staged or not self._is_finished(key)",
        "key for key in self._record.replays if key in staged",
        TABLES,
    ),
    Mutant(
        "the manifest of a replay is deleted before its end is noted",
        COORDINATOR,
        "                    self._committer.finish_replay(item)\n",
        "                    pass\n",
        TABLES,
    ),
    Mutant(
        "what the other replay left in quarantine is not looked at",
        "secor/tables/quarantine_replay.py",
        "        winner = self._begun(archived)\n",
        "        winner = replay\n",
        UNIT,
    ),
    Mutant(
        "a damaged manifest is passed over",
        SELECTION,
        "            return _Chosen(tuple(take), frozenset(done), item.fault)\n",
        "            continue\n",
        TABLES,
    ),
    Mutant(
        "files of a dropped table are committed to its successor",
        SELECTION,
        "        if files.uuid != uuid:\n",
        "        if not files.uuid:\n",
        TABLES,
    ),
    Mutant(
        "a topic that was made again is not noticed",
        SELECTION,
        "    if known is not None and len(ids) > 1:\n",
        "    if known is not None and len(ids) > 2:\n",
        TABLES,
    ),
    Mutant(
        "another cluster is not noticed",
        SELECTION,
        "    if known is None and others:\n",
        "    if known is None and len(others) > 1:\n",
        TABLES,
    ),
    Mutant(
        "a commit does not say which snapshot it is based on",
        COMMIT,
        "                base=head.snapshot_id if head is not None else None,\n",
        "                base=self._catalog.load_table(table.identifier).refs.get(self._branch),\n",
        TABLES,
    ),
    Mutant(
        "a table that was rolled back is committed to",
        COMMIT,
        "        if not settles and lineage(table, self._branch, record) is Lineage.ROLLED_BACK:\n",
        "        if settles and lineage(table, self._branch, record) is Lineage.NO_COMMIT:\n",
        TABLES,
    ),
    Mutant(
        "a commit without an answer is not looked for",
        COMMIT,
        "            done = self._settle(table, record, attempts)\n",
        "            done = None\n",
        TABLES,
    ),
    Mutant(
        "a commit has no object that keeps its vector",
        COMMIT,
        "        self._history.put(\n",
        "        repr(\n",
        TABLES,
    ),
    Mutant(
        "valid-through passes over a stopped partition",
        COMMIT,
        "            if not chosen.stopped:\n",
        "            if chosen.files:\n",
        UNIT,
    ),
    Mutant(
        "a commit that was rolled back stays the predecessor",
        COMMIT,
        "            previous = newest_commit(table, self._branch, self._group)\n",
        "            pass\n",
        TABLES,
    ),
    Mutant(
        "a replay does not see which commits the branch still holds",
        SETTLE,
        "            if commit.id in present_commits:\n",
        "            if commit.id in ():\n",
        TABLES,
    ),
    Mutant(
        "files that may be deleted are replayed",
        SETTLE,
        "            if find_commit(table, commit.id) is None:\n",
        "            if find_commit(table, commit.id) is ...:\n",
        UNIT,
    ),
    Mutant(
        "an expired commit is taken for a rollback",
        RECORD,
        "    return Lineage.EXPIRED\n",
        "    return Lineage.ROLLED_BACK\n",
        TABLES,
    ),
    Mutant(
        "a rollback is taken for expiry",
        RECORD,
        "            return Lineage.ROLLED_BACK\n",
        "            return Lineage.EXPIRED\n",
        TABLES,
    ),
    Mutant(
        "manifests are deleted at once",
        COORDINATOR,
        "if now - item.listed.modified >= self._keep or is_of",
        "if True or is_of",
        TABLES,
    ),
    Mutant(
        "manifests of an earlier topic stay in the way",
        BACKLOG,
        " and was != present\n",
        " and False\n",
        UNIT,
    ),
    Mutant(
        "an outline of a manifest is committed",
        SELECTION,
        "        elif item.outlined:\n            raise ManifestNeeded(table, key)\n",
        "",
        UNIT,
    ),
    Mutant(
        "a manifest that is needed again is not read again",
        COORDINATOR,
        "                self._staging.forget([result.error.key])\n",
        "                pass\n",
        UNIT,
    ),
    Mutant(
        "a partition that tables know begins anew where its entry is lost",
        "secor/consume/positioning.py",
        "            self._refuse_lost(topic_partition, topic_id, since)\n",
        "",
        ("tests/unit/consume/test_positioning.py",),
    ),
    Mutant(
        "a lost entry is rebuilt without manifests",
        LOST,
        "        offsets += [(it.range.end, it.listed.key) for it in self.manifests]\n",
        "",
        TABLES,
    ),
    Mutant(
        "a lost entry is rebuilt behind a batch of which only quarantine tells",
        LOST,
        "        return later[-1].start, later[-1]\n",
        "        return later[-1].end, None\n",
        TABLES,
    ),
    Mutant(
        "a lost entry is rebuilt without quarantine",
        LOST,
        "    later = sorted(it for it in set(quarantined) if it.end > reached)\n",
        "    later: list[OffsetRange] = []\n",
        TABLES,
    ),
    Mutant(
        "a lost entry is rebuilt from what an earlier topic has left",
        LOST,
        "    return topic_id == other or None in (topic_id, other)\n",
        "    return True\n",
        UNIT,
    ),
    Mutant(
        "manifests are deleted when one of their tables has them",
        BACKLOG,
        "    return all(table in results and item.listed.key in results[table].done"
        " for table in tables)\n",
        "    return any(table in results and item.listed.key in results[table].done"
        " for table in tables)\n",
        TABLES,
    ),
    Mutant(
        "a partial commit moves valid-through",
        COORDINATOR,
        "            if missing:\n",
        "            if not partitions:\n",
        UNIT,
    ),
    Mutant(
        "answers are counted",
        CYCLE,
        "    missing = partitions - cycle.answered\n",
        "    missing = frozenset(sorted(partitions)[len(cycle.answered) :])\n",
        UNIT,
    ),
    Mutant(
        "answers of an older cycle count",
        CYCLE,
        "        if self.state is not State.COLLECTING or commit != self.commit:\n",
        "        if self.state is not State.COLLECTING:\n",
        UNIT,
    ),
    Mutant(
        "valid-through goes back",
        CYCLE,
        "    return reached if previous is None else max(previous, reached)\n",
        "    return reached\n",
        UNIT,
    ),
    Mutant(
        "a worker answers before what it held is committed",
        ANSWERING,
        "            if status.committed >= target:\n",
        "            if status.committed >= 0:\n",
        UNIT,
    ),
    Mutant(
        "the catalog is not asked to check the snapshot",
        ICEBERG_COMMITS,
        "            AssertRefSnapshotId(ref=self.commit.branch, snapshot_id=self.commit.base),\n",
        "",
        ICEBERG,
    ),
    Mutant(
        "the files of an attempt that was refused after it was done are deleted",
        ICEBERG_COMMITS,
        "            if self._may_be_there(publication):\n",
        "            if not publication:\n",
        ICEBERG,
    ),
    Mutant(
        "the catalog is not asked to check the table",
        ICEBERG_COMMITS,
        "            AssertTableUUID(uuid=self.table.metadata.table_uuid),\n",
        "",
        ICEBERG,
    ),
    Mutant(
        "a snapshot that was only staged is taken for a commit",
        COMMIT,
        "            snapshot = published.get(commit_id)\n",
        "            snapshot = find_commit(table, commit_id)\n",
        TABLES,
    ),
    Mutant(
        "what was merged on another snapshot is published",
        MERGING,
        "staged is None or staged.parent_id != commit.base",
        "staged is None",
        TABLES,
    ),
    Mutant(
        "a snapshot below the one of its commit has the commit's id",
        MERGING,
        "        summary[SUMMARY_PART] = summary.pop(SUMMARY_COMMIT)\n",
        "        summary[SUMMARY_PART] = summary[SUMMARY_COMMIT]\n",
        TABLES,
    ),
    Mutant(
        "rows are merged where a reader sees them at once",
        MERGING,
        "        table = catalog.allow_staging(table, commit.branch)\n",
        "        table = catalog.load_table(table.identifier)\n",
        TABLES,
    ),
    Mutant(
        "a commit without an answer is taken for refused",
        ICEBERG_COMMITS,
        "\n            return CommitResult(Outcome.UNKNOWN, why=str(error))\n",
        "\n            self._discard(publication)\n"
        "            return CommitResult(Outcome.REFUSED, why=str(error))\n",
        ICEBERG,
    ),
    Mutant(
        "another group's manifest is taken for ours",
        "secor/core/object_info.py",
        "        return same and len(ids) <= 1 and len(groups) <= 1\n",
        "        return same and len(ids) <= 1\n",
        ("tests/unit/commit/test_last_file.py",),
    ),
    Mutant(
        "topics whose names make one table's are mixed",
        "secor/wiring/tables.py",
        "        self._check_name(topic)\n",
        "",
        ("tests/unit/tables/test_worker_routes.py",),
    ),
    Mutant(
        "snapshots of a table that was rolled back expire",
        "secor/cli/tables_maintain.py",
        "            stopped[name] = str(error)\n            continue\n",
        "            table = group.catalog.load_table(name)\n",
        ("tests/unit/cli/test_tables_maintain.py",),
    ),
    Mutant(
        "a Hudi table that has moved is written all the same",
        "secor/adapters/hudi/fence.py",
        "    if added.get(SUMMARY_COMMIT) != expected:\n",
        "    if False:\n",
        ("tests/unit/tables/test_hudi_commits.py",),
    ),
    Mutant(
        "a Hudi table is written beside another write",
        "secor/adapters/hudi/fence.py",
        "    if len(timeline.writing) != 1:\n",
        "    if False:\n",
        ("tests/unit/tables/test_hudi_commits.py",),
    ),
    Mutant(
        "files of a write that was rolled back while it went on stay",
        "secor/adapters/hudi/catalog.py",
        "                self._tidy(table)\n                raise\n",
        "                raise\n",
        ("tests/unit/tables/test_hudi_commits.py",),
    ),
    Mutant(
        "files of a write that goes on are deleted",
        "secor/adapters/hudi/leftovers.py",
        " | timeline.pending\n",
        "\n",
        ("tests/unit/tables/test_hudi_commits.py",),
    ),
    Mutant(
        "files of archived commits are deleted",
        "secor/adapters/hudi/leftovers.py",
        "    if not archived:\n",
        "    if True:\n",
        ("tests/unit/tables/test_hudi_commits.py",),
    ),
    Mutant(
        "nobody notes the commits of a Hudi table",
        "secor/adapters/hudi/catalog.py",
        "        self._note(committed)\n",
        "",
        ("tests/unit/tables/test_hudi_commits.py",),
    ),
)
