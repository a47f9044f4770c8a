"""The archive of a configuration, for the commands that read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from secor.archive.objects import Archive
from secor.core.errors import ConfigurationError
from secor.core.model import TopicPartition
from secor.core.ports import ObjectStore
from secor.wiring.archives import archive_of, earlier_routes, places_of

if TYPE_CHECKING:
    from secor.config.model import Config

__all__ = ["archive_of", "archived_topics", "earlier_routes", "human_size", "of_topic", "table"]

_NAMED = 10
"""Most topics that an error names."""


def refuse_tables(config: Config, where: object) -> None:
    """Raise ``ConfigurationError`` for a table group: its objects are files of tables."""
    if config.group.kind == "table":
        raise ConfigurationError(
            f"{where}: the messages of a table group are rows of its tables: use 'secor tables ls',"
            " 'secor quarantine ls', and an engine for SQL"
        )


def archived_topics(config: Config, store: ObjectStore) -> list[str]:
    """Return the topics that have objects where the configuration puts them, by name."""
    return _own_topics(config, store, lambda place: place)


def quarantined_topics(config: Config, store: ObjectStore) -> list[str]:
    """Return the topics that have messages in quarantine, by name."""
    return _own_topics(config, store, lambda place: place.quarantine)


def _own_topics(
    config: Config, store: ObjectStore, looked_at: Callable[[Archive], Archive]
) -> list[str]:
    """Leave out topics that the configuration puts elsewhere."""
    topics = []
    for place in places_of(config, store):
        for topic in looked_at(place).topics():
            own = config.for_topic(topic).output
            if (own.prefix, own.hash_prefix) == (place.prefix, place.hashed):
                topics.append(topic)
    return sorted(topics)


def require_stored(config: Config, store: ObjectStore, topic: str) -> None:
    """Raise ``ConfigurationError``, with the topics that are stored, when this one is not."""
    stored = archived_topics(config, store)
    if topic in stored:
        return
    named = ", ".join(stored[:_NAMED]) + (", …" if len(stored) > _NAMED else "")
    there = f"stored are: {named}" if stored else "no topic is stored yet"
    raise ConfigurationError(f"nothing is stored for topic {topic!r}; {there}")


def of_topic(topic_partitions: list[TopicPartition], topic: str) -> list[TopicPartition]:
    """Return the partitions.  Raises ``ConfigurationError`` when the broker knows none."""
    if not topic_partitions:
        raise ConfigurationError(f"the broker has no topic {topic!r}: look at the spelling")
    return topic_partitions


def no_topic_matches(config: Config) -> str:
    """Return what to say of a pattern that no topic of the cluster matches."""
    pattern = config.kafka.topics_pattern
    return f"no topic matches kafka.topics_pattern {pattern!r}: correct it, or make the topic"


def absent_topics(config: Config, partitions: Iterable[TopicPartition]) -> list[str]:
    """Return what to say of topics that the configuration names and the cluster does not have.

    ``partitions`` are those of the topics that it has.
    """
    present = {topic_partition.topic for topic_partition in partitions}
    if not config.kafka.topics:
        return [] if present else [no_topic_matches(config)]
    absent = [name for name in config.kafka.topics if name not in present]
    return [f"the broker has no topic {name!r}: look at the spelling" for name in absent]


def human_size(size: int) -> str:
    """Return bytes as people read them."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def table(rows: Sequence[tuple[str, ...]], left: frozenset[int] = frozenset()) -> Iterator[str]:
    """Give lines with aligned columns; those in ``left`` to the left."""
    if not rows:
        return
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    for row in rows:
        cells = [
            cell.ljust(width) if index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()
