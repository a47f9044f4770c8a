"""Consumer groups' committed offsets: of a cluster, of an archive, of a file; saved to one."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from secor.archive.cluster_journal import ClusterJournal, kept_clusters
from secor.config.load import load
from secor.config.servers import Brokers
from secor.core.errors import ConfigurationError
from secor.core.model import TopicPartition
from secor.restore.groups import GroupOffset
from secor.restore.offsets import offsets_topic
from secor.wiring.clients import reach_store
from secor.wiring.kept_groups import choose_cluster, decode_offsets
from secor.wiring.restore import Job, open_cluster_groups, open_cluster_reader


@dataclass(frozen=True, slots=True)
class Origin:
    """A source of groups' committed offsets for the archived topics, and its cluster.

    ``cluster`` is its id; None for offsets of a file or of an archive.  ``kept`` says from where
    and when those of an archive are.
    """

    offsets: tuple[GroupOffset, ...]
    cluster: str | None
    kept: str | None = None


@dataclass(frozen=True, slots=True)
class KeptMoment:
    """A selection of an archive's offsets.

    ``until`` is in seconds since 1970, None for the newest; ``cluster`` None for the newest that
    is not the target.
    """

    until: float | None = None
    cluster: str | None = None


def offsets_of_archive(
    job: Job, moment: KeptMoment, groups: Collection[str], *, required: bool
) -> Origin | None:
    """Return what the backup has kept of the groups' offsets of the job's topics.

    None without them unless ``required``: also where only the target itself was kept, and the
    topics have other names there, so that its groups' present offsets are at hand.
    Raises ``ConfigurationError``.
    """
    source = job.config.source
    if source.kind != "archive":
        if required:
            raise ConfigurationError(f"a source of kind {source.kind} keeps no groups: give --from")
        return None
    store = reach_store(job.config.store, connections=1)
    target = job.log.cluster_id()
    kept = kept_clusters(store, source.prefix, "groups")
    renamed = all(
        job.target_name(archived_source.topic) != archived_source.topic
        for archived_source in job.sources()
    )
    if not required and (not kept or (set(kept) == {target} and renamed)):
        return None
    cluster = choose_cluster(store, source.prefix, "groups", moment.cluster, target)
    state = ClusterJournal(store, source.prefix, "groups", cluster).state(moment.until)
    if state.minute is None:
        raise ConfigurationError(
            f"the archive has kept no groups of cluster {cluster} at that time: secor ls shows"
            " what there is"
        )
    missing = sorted(set(groups) - state.lines.keys())
    if missing:
        raise ConfigurationError(
            f"no group {', '.join(missing)} is kept of cluster {cluster}: look at the spelling;"
            " secor cat --groups shows them; --from names a cluster that has them, or a file"
        )
    topics = {archived_source.topic for archived_source in job.sources()}
    offsets = tuple(
        GroupOffset(group, place, committed.offset, committed.metadata)
        for group, content in state.contents()
        if not groups or group in groups
        for place, committed in sorted(decode_offsets(group, content).items())
        if place.topic in topics
    )
    return Origin(offsets, None, f"kept of cluster {cluster} at {state.looked_at}")


def offsets_of_cluster(
    job: Job, configuration: Path | None, environment: Mapping[str, str], groups: Collection[str]
) -> Origin:
    """Ask the brokers of ``configuration`` (those of the job without one) for groups' offsets.

    Its ``SECOR_...`` variables are the job's own: they are not used for the other file.
    """
    brokers: Brokers = job.config.kafka
    if configuration is not None:
        plain = {key: text for key, text in environment.items() if not key.startswith("SECOR_")}
        brokers = load(configuration, plain).kafka
    with open_cluster_reader(brokers) as reader:
        cluster = reader.cluster_id()
    topics = {source.topic for source in job.sources()}
    with open_cluster_groups(brokers, "the cluster of the groups") as admin:
        known = admin.states()
        missing = sorted(set(groups) - known.keys())
        if missing:
            raise ConfigurationError(
                f"no group {', '.join(missing)} has committed there: look at the spelling, and at"
                " the servers; a group loses its offsets of a topic when the topic is deleted"
            )
        offsets = tuple(
            GroupOffset(group, place, committed.offset, committed.metadata)
            for group in sorted(groups or known.keys() - {offsets_topic(job.name)})
            for place, committed in sorted(admin.offsets(group).items())
            if place.topic in topics
        )
    return Origin(offsets, cluster)


_HEADER = ["group", "topic", "partition", "offset"]


def offsets_of_file(path: Path, groups: Collection[str]) -> Origin:
    """Read lines of ``group,topic,partition,offset[,metadata]``; without a group for a single one.

    So writes ``save_offsets``, and the ``--export`` of Kafka's own ``kafka-consumer-groups``.  A
    first line with these names is left out.
    Raises ``ConfigurationError``.
    """
    offsets = []
    try:
        with path.open(newline="") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if row and not (number == 1 and row[:4] == _HEADER):
                    offsets.append(_of_row(path, number, row, groups))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    return Origin(tuple(offset for offset in offsets if not groups or offset.group in groups), None)


def _of_row(path: Path, number: int, row: list[str], groups: Collection[str]) -> GroupOffset:
    if len(row) == 3 and len(groups) == 1:
        row = [*groups, *row]
    try:
        group, topic, partition, offset, *metadata = row
        if int(partition) < 0 or int(offset) < 0 or len(metadata) > 1:
            raise ValueError
    except ValueError as error:
        hint = ": name the one group that it is of" if len(row) == 3 else ""
        raise ConfigurationError(
            f"{path}, line {number}: is no group,topic,partition,offset{hint}"
        ) from error
    place = TopicPartition(topic, int(partition))
    return GroupOffset(group, place, int(offset), "".join(metadata))


def save_offsets(path: Path, origin: Origin) -> None:
    """Write a file that ``offsets_of_file`` reads.  Raises ``ConfigurationError`` if it exists."""
    try:
        # Never over a file that is there: it may be the only copy of offsets that Kafka has
        # deleted.
        with path.open("x", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            for group_offset in origin.offsets:
                place = group_offset.topic_partition
                row = [group_offset.group, place.topic, place.partition, group_offset.offset]
                writer.writerow([*row, group_offset.metadata] if group_offset.metadata else row)
    except OSError as error:
        raise ConfigurationError(f"{path}: cannot be written ({error.strerror})") from error
