"""Verification and search in tasks of Spark: what goes to an executor, and its work there.

Tasks read alone, so those that are repeated or run twice change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from secor.archive.rewrite.erasure_search import Searched, SearchPart
from secor.config.model import Config
from secor.verify.archive.parsed_objects import Parsing
from secor.verify.archive.partition_work import ComparedSources, PartitionWork
from secor.verify.archive.report import PartitionReport
from secor.wiring.archives import Routes, archive_of, erasures_of
from secor.wiring.clients import open_reader, open_store


@dataclass(frozen=True, slots=True)
class ReadingTask:
    """The input of a task: the configuration as it is valid on the driver, and a topic."""

    config: Config
    routes: Routes
    topic: str

    @classmethod
    def of(cls, config: Config, routes: Routes, topic: str) -> ReadingTask:
        """Return it in a form that can be sent."""
        return cls(config, {name: tuple(others) for name, others in routes.items()}, topic)


def parsing_of(config: Config, topic: str) -> Parsing | None:
    """Return the parser of a partition group, as a comparison needs it; None of other groups."""
    from secor.parsing.pipeline import Pipeline
    from secor.wiring.plans import plan_for

    if config.group.kind != "partition":
        return None
    parser = plan_for(config, topic, limited=False).parser
    return Parsing(parser, isinstance(parser, Pipeline) and parser.gives_values)


def check_pieces(
    settings: ReadingTask, works: Iterator[PartitionWork]
) -> Iterator[PartitionReport]:
    """Compare a task's pieces of topic partitions: what runs on an executor.

    Raises as ``PartitionWork.check``, and ``ConfigurationError`` as ``erasures_of``.
    """
    config, topic = settings.config, settings.topic
    with open_store(config) as store, open_reader(config) as reader:
        archive = archive_of(config, topic, store, settings.routes)
        erasures = erasures_of(config, archive, topic)
        reading = ComparedSources(archive, reader, parsing_of(config, topic), erasures)
        for work in works:
            yield work.check(reading)


def search_parts(settings: ReadingTask, parts: Iterator[SearchPart]) -> Iterator[Searched]:
    """Look for messages to erase in a task's batches: what runs on an executor.

    Raises as ``SearchPart.run``.
    """
    with open_store(settings.config) as store:
        archive = archive_of(settings.config, settings.topic, store, settings.routes)
        for part in parts:
            yield part.run(archive)
