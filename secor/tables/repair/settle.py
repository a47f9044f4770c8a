"""A person's decisions about a stopped table: go on as it is now, or put lost rows back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from secor.core.text import how_many
from secor.tables.catalog import Table
from secor.tables.commit.commit_history import CommitHistory
from secor.tables.commit.commit_result import Attempts, CommitRequest, Done, Proposal
from secor.tables.commit.group_record import GroupRecord, Lineage, lineage
from secor.tables.commit.recommit import files_of, lost_commits
from secor.tables.commit.selection import is_below, select
from secor.tables.commit.table_commit import TableCommitter
from secor.tables.commit.vector import TopicOffsets, Vector
from secor.tables.staging.manifest import Manifest, Operation
from secor.tables.staging.staged_manifests import Staged


@dataclass(frozen=True, slots=True)
class Settlement:
    """The decisions, in sentences; without a ``commit`` there was nothing to decide."""

    changes: tuple[str, ...]
    commit: Done | None


class StateAcceptance:
    """Both decisions are commits of their own, so that nobody can commit across them."""

    def __init__(self, committer: TableCommitter, history: CommitHistory, branch: str) -> None:
        self._committer = committer
        self._history = history
        self._branch = branch

    def accept(
        self, table: str, staged: Sequence[Staged], request: CommitRequest, *, dry_run: bool
    ) -> Settlement:
        """Go on with the table, topics and clusters as they are now.

        Rows of a rolled back commit stay away; files staged for a dropped table are given up;
        topics that were recreated, or are another cluster's, begin anew next to what is there.
        """
        changes: list[str] = []
        attempts = Attempts()

        def propose(loaded: Table, record: GroupRecord) -> Proposal | None:
            changes.clear()
            rolled_back = lineage(loaded, self._branch, record) is Lineage.ROLLED_BACK
            if rolled_back and record.commit is not None:
                changes.append(
                    f"the rows that left the branch {self._branch} with commit"
                    f" {record.commit.id} stay away"
                )
            is_finished = self._history.replays.has
            operations = self._committer.operations
            proposal = _accepted(loaded, record, staged, changes, operations, is_finished)
            if not changes or dry_run:
                return None
            return self._committer.leave_out_refused(table, proposal, staged, attempts)

        done = self._committer.attempt(table, request, propose, attempts, settles=True)
        return Settlement(tuple(changes), done)

    def replay(self, table: str, request: CommitRequest, *, dry_run: bool) -> Settlement:
        """Commit the files again that a rollback removed.

        Raises ``ConfigurationError`` where nothing was rolled back, ``TableStopped`` where the
        removed files may be deleted already, or are not known any more.
        """
        changes: list[str] = []

        def propose(loaded: Table, record: GroupRecord) -> Proposal | None:
            changes.clear()
            removed = lost_commits(loaded, self._branch, record, self._history)
            for commit in removed:
                count = sum(len(of_table.files) for of_table in commit.files)
                changes.append(f"commit {commit.id} is repeated: {how_many(count, 'file')}")
            if dry_run:
                return None
            return Proposal(*files_of(removed), record)

        done = self._committer.attempt(table, request, propose, Attempts(), settles=True)
        return Settlement(tuple(changes), done)


def _accepted(
    table: Table,
    record: GroupRecord,
    staged: Sequence[Staged],
    changes: list[str],
    operations: frozenset[Operation],
    is_finished: Callable[[str], bool],
) -> Proposal:
    """Return what makes the present table, topics and clusters right; describe ``changes``."""
    manifests = [
        (item, item.manifest)
        for item in staged
        if item.manifest is not None
        and any(
            table_files.table == table.identifier and table_files.files
            for table_files in item.manifest.tables
        )
    ]
    given_up = {
        files.uuid
        for item, manifest in manifests
        for files in manifest.tables
        if files.table == table.identifier
        and files.uuid != table.uuid
        and not _is_settled(record, item, manifest, is_finished)
    }
    changes += [f"files staged for the dropped table {uuid} are given up" for uuid in given_up]
    known, foreign = _apart(record, manifests)
    # What is left of a source as the table knows it is committed first: afterwards it is foreign.
    chosen = select(table.identifier, table.uuid, record, known, operations, is_finished, given_up)
    vector = chosen.vector
    replaced = list(record.replaced_topics)
    for manifest in foreign:
        if why := _foreign(vector, manifest):
            changes.append(why)
            earlier = vector.topic(manifest.cluster, manifest.topic)
            if earlier is not None and earlier.id is not None:
                replaced.append(earlier.id)
            vector = vector.with_topic(
                manifest.cluster, manifest.topic, TopicOffsets(manifest.topic_id)
            )
    for topic_partition, why in sorted(chosen.stopped.items()):
        if changes and topic_partition.topic in {manifest.topic for manifest in foreign}:
            changes.append(f"what is left of {topic_partition} before that is given up: {why}")
    record = replace(
        record,
        vector=vector,
        replays=chosen.replays,
        replaced_topics=tuple(dict.fromkeys(replaced)),
    )
    return Proposal(chosen.files, chosen.manifests, record)


def _is_settled(
    record: GroupRecord, item: Staged, manifest: Manifest, is_finished: Callable[[str], bool]
) -> bool:
    """Return whether the table has a manifest, or has given it up."""
    if item.listed.replay:
        return item.listed.key in record.replays or is_finished(item.listed.key)
    return is_below(record.vector, manifest)


def _apart(
    record: GroupRecord, manifests: Sequence[tuple[Staged, Manifest]]
) -> tuple[list[Staged], list[Manifest]]:
    """Return what is of the sources that the table knows, and the first manifest of each other.

    Of each topic at most one source is next, the one that was staged first: another that came
    after it is a decision of its own.  Replays are of batches that the table had before.
    """
    known: list[Staged] = []
    foreign: dict[tuple[str, str], Manifest] = {}
    first_ids: dict[tuple[str, str], str | None] = {}
    for item, manifest in sorted(
        manifests, key=lambda pair: (pair[0].listed.modified, pair[1].start)
    ):
        source = manifest.cluster, manifest.topic
        first_id = first_ids.setdefault(source, manifest.topic_id)
        is_second = record.vector.topic(*source) is None and (
            first_id != manifest.topic_id and None not in (first_id, manifest.topic_id)
        )
        if item.listed.replay or manifest.topic_id in record.replaced_topics:
            known.append(item)
        elif is_second or _foreign(record.vector, manifest):
            foreign.setdefault(source, manifest)
        else:
            known.append(item)
    return known, list(foreign.values())


def _foreign(vector: Vector, manifest: Manifest) -> str:
    """Return how a manifest's source differs from what the vector knows of it."""
    known = vector.topic(manifest.cluster, manifest.topic)
    if known is None:
        others = vector.clusters_of(manifest.topic)
        return (
            f"topic {manifest.topic} of cluster {manifest.cluster} comes next to that of"
            f" {', '.join(sorted(others))}"
            if others
            else ""
        )
    if None in (known.id, manifest.topic_id) or known.id == manifest.topic_id:
        return ""
    return f"topic {manifest.topic} was {known.id} and is {manifest.topic_id} from now on"
