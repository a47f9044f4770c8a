"""One comparison of messages: the Apache Iceberg sink and a table group, case by case."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from secor.sandbox import Sandbox
from tests.conformance.iceberg_sink import running_sink, send
from tests.conformance.message_cases import Case, cases
from tests.conformance.message_tables import Outcome, differences, outcome_of, run_group

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Difference:
    """What the sink and Secor have of a case."""

    case: Case
    sink: str
    ours: str


def run(folder: Path, say: Say, only: str = "") -> list[Difference]:
    """Store every case whose name has ``only`` in it in both; return what differs.

    Raises ``Unavailable``.
    """
    corpus = [case for case in cases() if only in case.name]
    say(f"starting Kafka, the store, the catalog and Kafka Connect for {len(corpus)} cases")
    with (
        Sandbox.up(folder / "servers", catalog="rest") as sandbox,
        running_sink(folder, sandbox, say) as sink,
    ):
        say("the sink reads")
        theirs = sink.run(corpus)
        say("the table group reads")
        ours = _by_group(folder, sandbox, corpus, sink.settings("any", schemas=False))
    found = []
    for case in corpus:
        texts = differences(case, theirs[case.table], ours[case.table])
        if texts is not None:
            found.append(Difference(case, *texts))
    return found


def _by_group(
    folder: Path, sandbox: Sandbox, corpus: list[Case], sink: dict[str, str]
) -> dict[str, Outcome]:
    admin = AdminClient({"bootstrap.servers": sandbox.kafka})
    topics = {case.table: case for case in corpus}
    # A topic for each: types of messages that are read together may be wider than their own.
    for topic, future in admin.create_topics([NewTopic(it, 1, 1) for it in topics]).items():
        future.result()
        send(sandbox, topic, [topics[topic]])
    place = folder / "group"
    place.mkdir()
    catalog, refused = run_group(place, sandbox, sink, corpus)
    outcomes = {}
    for case in corpus:
        outcomes[case.table] = outcome_of(catalog, case)
        outcomes[case.table].refused = {
            number: why for (table, number), why in refused.items() if table == case.table
        }
    return outcomes
