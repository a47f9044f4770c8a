"""The sources that a restore's configuration names: the source, plug-ins, kept topics."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from secor.adapters.kafka.topics import topic_pattern
from secor.archive.kept_topics import DIRECTORY, KeptTopic, KeptTopics
from secor.archive.objects import Archive
from secor.config.restore import BROKERS_OWN, RestoreConfig
from secor.config.restore_source import LAST_OFFSET, Source
from secor.config.stores import Store
from secor.core.model import OffsetRange
from secor.core.naming import topic_root
from secor.core.ports import ObjectStore
from secor.formats import format_of_key
from secor.parsing.plugins import identity_of, load_plugin
from secor.parsing.user_classes import import_class
from secor.restore.model import JobSpec
from secor.restore.ports import RestoreSource
from secor.restore.sources.archive import ArchiveSource
from secor.wiring.archives import secret_of


def spec_of(config: RestoreConfig) -> JobSpec:
    """Return what decides which records are written where.

    Of plug-ins the bytes of their modules count, as under another name they may be others.
    Raises ``ConfigurationError`` where one cannot be imported.
    """
    source, target = config.source, config.target
    named = {"filter": source.filter, "transform": source.transform, "source": source.plugin}
    plugins = {name: _identity(path) for name, path in named.items() if path is not None}
    # Under another promise its offsets mean something else.
    promise = config.writing.exactly_once
    return JobSpec(
        config.group.name,
        {
            # Only where it is used: a new key for all would change the hash of every job that has
            # begun.
            **({"plugins": plugins} if plugins else {}),
            **({"exactly_once": promise} if promise != "required" else {}),
            "source": source.model_dump(mode="json", exclude=_not_of_the_spec(source)),
            "topic": target.topic,
            "partitioning": target.partitioning,
            **({"mapping": _numbered(target.mapping)} if target.mapping else {}),
            "provenance": config.writing.provenance,
        },
        None if source.kind in _WITHOUT_STORE else _place_of(config.store),
    )


_WITHOUT_STORE = frozenset({"json-lines", "plugin"})


def _place_of(store: Store) -> str:
    """Return which store is read: neither the way to it nor the rights count.

    An endpoint may be a mirror, or another name of the same servers.
    """
    local = store.local.directory if store.kind == "local" else None
    return f"{store.kind}://{store.place if local is None else local.absolute()}"


def _numbered(mapping: Mapping[int, int]) -> dict[str, int]:
    return {str(source): partition for source, partition in mapping.items()}


def _not_of_the_spec(source: Source) -> set[str]:
    """Return the keys that change no record; of jobs without a plug-in, also the plug-in's."""
    always = {"lossy", "holes", "delimiter"}
    return always if source.plugin is not None else always | {"plugin", "options"}


def kept_topic(store: ObjectStore, config: RestoreConfig, topic: str) -> KeptTopic | None:
    """Return what the backup has kept of a topic's settings.  Raises ``CorruptFile``."""
    source = config.source
    if source.kind != "archive" or not config.target.archived_settings:
        return None
    return KeptTopics(store, topic_root(source.prefix, topic, hashed=source.hash_prefix)).newest()


def described_topics(store: ObjectStore, config: RestoreConfig) -> list[str]:
    """Return the topics of the job whose settings the backup has kept, with messages or without.

    None where ranges or partitions are selected, or the kept settings are not to be used.
    """
    source = config.source
    if source.kind != "archive" or not config.target.archived_settings:
        return []
    if source.ranges or source.partitions:
        return []
    if source.topics:
        roots = {
            name: topic_root(source.prefix, name, hashed=source.hash_prefix)
            for name in source.topics
        }
        return sorted(name for name, root in roots.items() if KeptTopics(store, root).is_kept())
    wanted = wanted_topics(source)
    archive = Archive(store, source.prefix, hashed=source.hash_prefix)
    return [topic for topic in archive.topics_with(DIRECTORY) if wanted(topic)]


def wanted_topics(source: Source) -> Callable[[str], bool]:
    """Return the test whether a topic is to be restored."""
    if source.topics:
        return source.topics.__contains__
    pattern = re.compile(topic_pattern(source.topics_pattern or ".*", source.topics_exclude))
    # The target's brokers keep their own, and do not take those of other brokers.
    return lambda topic: topic not in BROKERS_OWN and bool(pattern.match(topic))


def ranges_of(source: Source) -> dict[tuple[str, int], list[OffsetRange]]:
    """Return ``[[source.ranges]]`` by topic and partition."""
    ranges: dict[tuple[str, int], list[OffsetRange]] = {}
    for selected in source.ranges:
        end = selected.end if selected.end is not None else LAST_OFFSET
        ranges.setdefault((selected.topic, selected.partition), []).append(
            OffsetRange(selected.start, end)
        )
    return ranges


def source_of(config: RestoreConfig, store: ObjectStore) -> RestoreSource:
    """Return the source that the configuration names.  Raises ``ConfigurationError``."""
    source = config.source
    wanted = wanted_topics(source)
    if source.kind == "plugin":
        assert source.plugin is not None
        options = {"name": source.name, **source.options}
        plugin: RestoreSource = load_plugin(source.plugin, "partitions", options)
        return plugin
    if source.kind == "json-lines":
        from secor.restore.sources.json_lines import JsonLinesSource

        assert source.directory is not None
        return JsonLinesSource(source.name, source.directory, wanted)

    if source.kind != "archive":
        return _foreign(source, store, wanted)
    archive = Archive(
        store,
        source.prefix,
        hashed=source.hash_prefix,
        formats=partial(format_of_key, delimiter=source.delimiter.encode()),
    )

    def topics() -> list[str]:
        return list(source.topics) or [topic for topic in archive.topics() if wanted(topic)]

    return ArchiveSource(
        source.name,
        lambda _topic: archive,
        topics,
        lossy=source.lossy,
        holes=source.holes,
        generations=source.generations or None,
        secret=secret_of(config),
    )


def _foreign(source: Source, store: ObjectStore, wanted: Callable[[str], bool]) -> RestoreSource:
    """Return the source of another program's archive; its libraries are loaded for it alone."""
    from secor.restore.sources.aiven import AivenLayout
    from secor.restore.sources.confluent import ConfluentLayout
    from secor.restore.sources.foreign import ForeignLayout, ForeignSource
    from secor.restore.sources.lenses import LensesLayout

    layouts: dict[str, ForeignLayout] = {
        "confluent-s3": ConfluentLayout(source.delimiter.encode()),
        "aiven-s3": AivenLayout(),
        "lenses-s3": LensesLayout(),
    }
    layout = layouts[source.kind]
    return ForeignSource(source.name, store, source.prefix, layout, wanted, lossy=source.lossy)


def _identity(path: str) -> str:
    import_class("plug-in", path)
    return identity_of(path, {})


def plugin_method(name: str | None, method: str) -> Callable[..., Any] | None:
    """Return a method of a plug-in, None where none is named.  Raises ``ConfigurationError``."""
    return None if name is None else getattr(load_plugin(name, method, {}), method)
