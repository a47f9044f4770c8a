"""Recovery of a whole cluster: topics and messages by a restore's job, then what else was kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from secor.config.restore import RestoreConfig
from secor.core.errors import ConfigurationError, CorruptFile, SpecChanged
from secor.core.text import how_many
from secor.jobs.recover.access import (
    RenamedRules,
    fault_as_obstacle,
    look_at_quotas,
    look_at_rules,
    make_quotas,
    make_rules,
    renamed_rules,
)
from secor.jobs.recover.groups import (
    RestoredGroups,
    commit_groups,
    expected_places,
    look_at_groups,
    restored_groups,
)
from secor.jobs.recover.kept import KeptCluster, check_prefix, kept_cluster
from secor.jobs.recover.schemas import (
    KeptRegistry,
    kept_registry,
    look_at_schemas,
    register_schemas,
    schema_ids,
)
from secor.jobs.restore.status import JobStatus, status_of
from secor.restore.control import RequestedState, check_record
from secor.restore.groups import GroupOffset
from secor.restore.new_topics import changed_since, held_back
from secor.restore.recovery import KindState
from secor.restore.schema_ids import undecided
from secor.restore.target_ids import remade
from secor.wiring.clients import brokers_options, reach_store
from secor.wiring.restore import Job, open_cluster_groups, open_job

if TYPE_CHECKING:
    from secor.adapters.kafka.topic_admin import TopicDescription

ReportKind = Callable[[KindState], None]


@dataclass(frozen=True, slots=True)
class Recovery:
    """A restore's job and what the archive has kept of the lost cluster."""

    job: Job
    kept: KeptCluster
    schemas: KeptRegistry

    @property
    def config(self) -> RestoreConfig:
        """The file, with the time of the recovery in ``source.until``."""
        return self.job.config

    def topics(self) -> list[str]:
        """Return the archived topics that are restored, with messages or without, by name."""
        named = {source.topic for source in self.job.sources()} | set(self.job.described_topics())
        return sorted(
            topic for topic in named if self.job.target_name(topic) not in self.job.own_topics
        )

    def wants(self, kind: str) -> bool:
        """Return whether a kind is to be brought back."""
        return kind not in self.config.recover.leave_out

    # ------------------------------------------------------------------ looking

    def states(self) -> Iterator[KindState]:
        """Give the state of every kind, in the order in which they are done; writes nothing."""
        if self.wants("schemas"):
            schemas = look_at_schemas(self.schemas, self.config.registry, self._undecided())
            yield from () if schemas is None else (schemas,)
        topics = self.topics()
        described = self.job.admin.describe([*map(self.job.target_name, topics)])
        yield self._made(topics, described)
        messages = self.messages()
        yield messages
        if self.wants("groups"):
            yield self._groups(messages, commit=False, force=False)
        if self.wants("acls"):
            rules = self._rules()
            yield self._safe("acls", len(rules.rules), lambda: look_at_rules(self._options, rules))
        if self.wants("quotas"):
            quotas = self.kept.quotas()
            yield self._safe("quotas", len(quotas), lambda: look_at_quotas(self._options, quotas))
        yield self.settings(topics, described)

    def is_written(self) -> bool:
        """Return whether all topics are made, those that they were, and all messages are written.

        Then a restore has nothing left to do, and would refuse settings that were held back.
        """
        topics = self.topics()
        made = self._made(topics, self.job.admin.describe([*map(self.job.target_name, topics)]))
        return made.is_complete and self.messages().is_complete

    def _made(self, topics: list[str], described: Mapping[str, TopicDescription]) -> KindState:
        missing = [topic for topic in topics if self.job.target_name(topic) not in described]
        count = self.job.offsets_partitions()
        record = self.job.control(count).read() if count else None
        ids = {name: described_topic.topic_id for name, described_topic in described.items()}
        again = [] if record is None else remade(record.targets, ids)
        obstacles = tuple(f"{changed.topic} {changed.what}" for changed in again)
        return KindState("topics", len(topics), len(topics) - len(missing), obstacles)

    def messages(self) -> KindState:
        """Return how many archived offsets are written."""
        if not self.job.sources():
            return KindState("messages", 0, 0)
        status = status_of(self.job)
        total = sum(
            row.extent.range.end - row.extent.range.start for row in status.rows if row.extent
        )
        notes = [] if status.record is None else [f"job {status.job}: {status.state}"]
        obstacles = ["its offsets topic is gone: see secor restore plan"] if status.gone else []
        obstacles += self._against(status)
        if status.vanished and not status.holes:
            gone = how_many(status.vanished, "source partition")
            obstacles.append(f"the archive has no object of {gone} any more: bring them back")
        return KindState(
            "messages", total, total - min(status.left, total), (*obstacles,), (*notes,)
        )

    def _against(self, status: JobStatus) -> Iterator[str]:
        """Give what the record of a job that has begun says against this file, such as its time."""
        known, job = status.record, self.job
        if known is None:
            return
        if status.left and known.requested is not RequestedState.RUNNING:
            yield f"the job is {known.requested.value}: secor restore resume with the same file"
        try:
            check_record(job.name, known, job.spec.hash, job.offsets_partitions(), job.spec.archive)
        except (SpecChanged, ConfigurationError) as error:
            yield str(error)

    def settings(
        self, topics: list[str], described: Mapping[str, TopicDescription] | None = None
    ) -> KindState:
        """Return how many topics have the settings back that were held back."""
        waiting, changed = self._held(topics, described)
        notes = [
            f"{name} is made by somebody else, or was changed since: {', '.join(settings)} stay"
            for name, settings in changed.items()
        ]
        return KindState("settings", len(topics), len(topics) - len(waiting), (), tuple(notes))

    def _held(
        self, topics: list[str], described: Mapping[str, TopicDescription] | None
    ) -> tuple[dict[str, dict[str, str | None]], dict[str, list[str]]]:
        """Return what targets must still get, and what somebody has changed there."""
        waiting: dict[str, dict[str, str | None]] = {}
        changed: dict[str, list[str]] = {}
        # Topics that others fill keep their own settings: nothing was held back there.
        if self.config.target.append:
            return waiting, changed
        wanted = self.config.target.settings
        names = [*map(self.job.target_name, topics)]
        known = self.job.admin.describe(names) if described is None else described
        for topic, name in zip(topics, names, strict=True):
            try:
                kept = self.job.kept_topic(topic)
            except CorruptFile:
                kept = None
            # Two topics in one target have two opinions of its settings, and neither is right.
            if kept is None or kept.settings is None or names.count(name) > 1:
                continue
            present = known[name].settings if name in known else None
            later = held_back(kept.settings, wanted, present)
            others = [] if present is None else changed_since(kept.settings, wanted, present)
            waiting |= {name: later} if later else {}
            changed |= {name: others} if others else {}
        return waiting, changed

    def expected_groups(self) -> Mapping[str, int]:
        """Return how many offsets of groups can be translated how exactly, before the restore."""
        places = expected_places(self.job, self.kept.group_offsets(), self.topics())
        return {
            precision.value: count
            for precision, count in sorted(places.items(), key=lambda place: place[0].name)
        }

    # ------------------------------------------------------------------ doing

    def register_schemas(self) -> KindState | None:
        """Register the kept schemas, before messages with their ids are written."""
        if not self.wants("schemas"):
            return None
        return register_schemas(self.schemas, self.config.registry, self._undecided())

    def with_schema_ids(self) -> Recovery:
        """Return the recovery that writes the ids of the new registry, where they are others."""
        if not self.wants("schemas"):
            return self
        ids = schema_ids(self.schemas, self.config.registry, self.config.recover.framed)
        return self if ids is None else replace(self, job=self.job.with_schema_ids(ids))

    def _undecided(self) -> list[str]:
        if self.config.recover.framed is not None:
            return []
        return undecided(
            sorted({source.topic for source in self.job.sources()}), self.schemas.subjects
        )

    def bring_back(self, *, force: bool, hold: bool) -> Iterator[KindState]:
        """Bring back groups, ACLs, quotas and settings, after the messages.

        ``hold`` leaves the settings that delete messages for a later time.
        """
        topics = self.topics()
        if self.wants("groups"):
            yield self._groups(self.messages(), commit=True, force=force)
        if self.wants("acls"):
            rules = self._rules()
            make = partial(make_rules, self._options, rules)
            yield self._safe("acls", len(rules.rules), make)
        if self.wants("quotas"):
            quotas = self.kept.quotas()
            set_all = partial(make_quotas, self._options, quotas, force=force)
            yield self._safe("quotas", len(quotas), set_all)
        # Last of all: retention that comes back before the groups have their offsets could delete
        # what they still have to read.
        if hold:
            yield self.settings(topics)
        else:
            yield fault_as_obstacle("settings", len(topics), partial(self._set_settings, topics))

    def _set_settings(self, topics: list[str]) -> KindState:
        waiting, _ = self._held(topics, None)
        refused = self.job.admin.alter(waiting) if waiting else {}
        obstacles = [f"{topic} refused its settings: {why}" for topic, why in refused.items()]
        return replace(self.settings(topics), obstacles=tuple(obstacles))

    def _groups(self, messages: KindState, *, commit: bool, force: bool) -> KindState:
        offsets = self.kept.group_offsets()
        # Only when all is written: the place of a message that is not there yet cannot be looked
        # up.
        if messages.left or messages.obstacles:
            groups = len({offset.group for offset in offsets})
            return self._kept("groups", lambda: KindState("groups", groups, 0))
        groups = len({offset.group for offset in offsets})
        bring = partial(self._translate, offsets, commit=commit, force=force)
        return self._safe("groups", groups, bring)

    def _translate(self, offsets: list[GroupOffset], *, commit: bool, force: bool) -> KindState:
        restored = self._restored(offsets)
        with open_cluster_groups(self.config.kafka, "the target") as admin:
            if commit:
                return commit_groups(admin, restored, force=force)
            return look_at_groups(admin, restored)

    def _restored(self, offsets: list[GroupOffset]) -> RestoredGroups:
        if not offsets:
            return RestoredGroups({}, {}, (), ())
        return restored_groups(self.job, offsets, self.topics())

    def _rules(self) -> RenamedRules:
        source = self.config.source
        chosen = source.topics or source.topics_pattern or source.topics_exclude
        return renamed_rules(
            self.kept.access_rules(),
            self.topics(),
            self.config.target.topic,
            is_whole=not chosen,
        )

    def _safe(self, kind: str, total: int, bring: Callable[[], KindState]) -> KindState:
        return self._kept(kind, lambda: fault_as_obstacle(kind, total, bring))

    def _kept(self, kind: str, look: Callable[[], KindState]) -> KindState:
        if kind not in self.kept.states:
            what = (
                f"nothing is kept of {kind}"
                + (f" of cluster {self.kept.cluster}" if self.kept.cluster else "")
                + (f" at {self.config.source.until}" if self.config.source.until else "")
                + f': bring them back by hand, then put "{kind}" into recover.leave_out'
            )
            return KindState(kind, 0, 0, (what,), (), is_kept=False)
        state = look()
        damaged = [
            f"{key} cannot be read and is left out: bring a good copy back"
            for key in self.kept.damaged(kind)
        ]
        return replace(state, obstacles=(*state.obstacles, *damaged))

    @property
    def _options(self) -> Mapping[str, object]:
        return brokers_options(self.config.kafka)


def as_of(config: RestoreConfig, until: float | None) -> RestoreConfig:
    """Return the file with the time of the recovery, in seconds since 1970, as ``source.until``.

    Raises ``ConfigurationError`` where the file names another one.
    """
    if until is None:
        return config
    time = datetime.fromtimestamp(until, UTC)
    if config.source.until is not None and config.source.until != time:
        raise ConfigurationError(
            f"--at: the file has source.until = {config.source.until.isoformat()}: name one time"
        )
    if config.source.since is not None and config.source.since >= time:
        raise ConfigurationError("--at: must be later than source.since")
    source = config.source.model_copy(update={"until": time})
    return config.model_copy(update={"source": source})


@contextmanager
def open_recovery(config: RestoreConfig, cluster: str | None) -> Iterator[Recovery]:
    """Connect to the archive and the target.  Raises ``SecorError``.

    ``cluster`` is the id of the lost one, None for the newest that is not the target.
    """
    source = config.source
    if source.kind != "archive":
        raise ConfigurationError(
            f'source.kind = "{source.kind}": only an archive of a backup group keeps a cluster;'
            " use secor restore for this one"
        )
    with open_job(config) as job:
        store = reach_store(config.store, connections=2)
        if not source.hash_prefix:
            check_prefix(
                store,
                source.prefix,
                sorted({source_partition.topic for source_partition in job.sources()})[:10],
            )
        until = None if source.until is None else source.until.timestamp()
        # The journal of the new cluster may be in the same archive already, and must not be
        # recovered onto itself.
        target = job.log.cluster_id()
        kept = kept_cluster(store, source.prefix, until=until, wanted=cluster, target=target)
        schemas = kept_registry(store, source.prefix, config.registry, until)
        yield Recovery(job, kept, schemas).with_schema_ids()
