"""Verifying a partition group: every message in data, in quarantine, or filtered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from crc32c import crc32c

from secor.archive.kept_schemas import KeptSchema
from secor.archive.quarantine.listing import marker_key, quarantined
from secor.archive.repair.stored_ranges import with_extents
from secor.batch.plan import TopicPlan
from secor.core.naming import ConnectName
from secor.formats.typed.parquet import TypedParquetFormat
from secor.verify.archive.parsed_objects import Parsing
from secor.verify.archive.report import ArchiveReport, PartitionReport
from secor.verify.archive.verifier import Verifier, verify_archive_only
from secor.verify.finding import FindingKind
from secor.wiring.archives import archive_of, earlier_routes
from secor.wiring.plans import plan_for
from tests.fakes.archive import MemoryLog, messages
from tests.unit.archive.parsed_world import HERE, NO_BOTS, VALUES, WHEN, World, config

TIME = {"time_field": "time"}
BARE = TypedParquetFormat(schema=KeptSchema().rows)
WITH_OFFSETS = TypedParquetFormat(schema=KeptSchema().rows, metadata_columns=("_offset",))


def plan_of(how: str) -> TopicPlan:
    if how in ("sequencefile", "text"):
        tree = config({**TIME, "transforms": [NO_BOTS]}, format=how)
        return plan_for(tree, "clicks")
    plan = plan_for(config({**TIME, "transforms": [NO_BOTS]}, format="parquet"), "clicks")
    return replace(plan, log_format=WITH_OFFSETS if how == "offsets" else BARE)


def verified(world: World, parser: Mapping[str, object]) -> PartitionReport:
    log = MemoryLog(step=2)
    log.put(HERE, messages(range(6), VALUES.get), 6)
    parsing = Parsing(plan_for(config(parser), "clicks", limited=False).parser)
    verifier = Verifier(world.archive, log, world.ledger, parsing=parsing)
    [report] = verifier.verify("clicks", [0])
    return report


@pytest.mark.parametrize("how", ["sequencefile", "text"])
def test_values_that_a_plugin_gave_are_not_compared_with_kafkas(how: str, tmp_path: Path) -> None:
    parser = {"plugin": "tests.unit.parsing.plugins_for_tests:WithoutDigits"}
    world = World(tmp_path / "local")
    plan = plan_for(config(parser, format=how), "clicks")
    world.consume(plan)
    log = MemoryLog(step=2)
    log.put(HERE, messages(range(6), VALUES.get), 6)
    parsing = Parsing(plan.parser, other_values=True)
    [report] = Verifier(world.archive, log, world.ledger, parsing=parsing).verify("clicks", [0])
    assert not report.counts, report.findings


HOWS = ("sequencefile", "text", "offsets", "bare")


@pytest.mark.parametrize("how", HOWS)
def test_every_message_is_in_data_in_quarantine_or_filtered(how: str, tmp_path: Path) -> None:
    world = World(tmp_path / "local")
    world.consume(plan_of(how))
    report = verified(world, {**TIME, "transforms": [NO_BOTS]})
    assert not report.counts, report.findings
    assert (report.compared, report.quarantined, report.filtered) == (5, 3, 1)
    assert report.offsets_only == (2 if how in ("offsets", "bare") else 0)
    assert report.counted == (2 if how == "bare" else 0)
    assert report.values_only == (2 if how == "text" else 0)
    remarks = " ".join(ArchiveReport([report]).remarks)
    assert ("compared by offset only" in remarks) == (how == "offsets")
    assert ("only counted" in remarks) == (how == "bare")


@pytest.mark.parametrize("how", HOWS)
def test_a_message_that_vanished_is_missing_in_every_format(how: str, tmp_path: Path) -> None:
    world = World(tmp_path / "local")
    world.consume(plan_of(how))
    for key in [key for key in world.store.objects if key.startswith("p/clicks/")]:
        world.store.delete(key)
    report = verified(world, {**TIME, "transforms": [NO_BOTS]})
    assert report.counts == {FindingKind.MISSING: 2}


def test_a_message_that_no_filter_names_is_missing_not_filtered(tmp_path: Path) -> None:
    world = World(tmp_path / "local")
    world.consume(plan_of("sequencefile"))
    report = verified(world, TIME)
    assert report.counts == {FindingKind.MISSING: 1}
    assert report.filtered == 0


@pytest.mark.parametrize("how", ["sequencefile", "text"])
def test_after_a_replay_every_message_is_there_once(how: str, tmp_path: Path) -> None:
    world = World(tmp_path / "local", format=how)
    world.consume(plan_of(how))
    world.replay({**WHEN, "transforms": [NO_BOTS]})
    report = verified(world, {**TIME, "transforms": [NO_BOTS]})
    assert not report.counts, report.findings
    assert (report.compared, report.quarantined, report.filtered) == (5, 1, 1)


class Crash(BaseException):
    """The process is killed."""


@pytest.mark.parametrize("number", range(1, 5))
@pytest.mark.parametrize("how", ["sequencefile", "text", "bare"])
def test_in_the_middle_of_a_replay_no_message_counts_twice(
    how: str, number: int, tmp_path: Path
) -> None:
    """The marker, two files and a successor are put, then the object is deleted."""
    world = World(tmp_path / "local", format="jsonlines" if how == "bare" else how)
    world.consume(plan_of(how))
    calls = iter(range(10))

    def crash(call: str, key: str) -> None:
        if call in ("put", "delete") and next(calls) == number:
            raise Crash(key)

    world.store.before = crash
    with pytest.raises(Crash):
        world.replay(WHEN)
    [alone] = verify_archive_only(world.archive, "clicks", parsed=True)
    compared = verified(world, {**TIME, "transforms": [NO_BOTS]})
    assert compared.quarantined == 3  # not once more in what the replay has put
    for report in (compared, alone):
        assert not report.counts, report.findings
        assert any("say secor quarantine replay again" in note for note in report.notes)


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff"])
def test_a_damaged_marker_of_a_replay_is_a_finding_and_the_rest_is_verified(
    body: bytes, tmp_path: Path
) -> None:
    world = World(tmp_path / "local")
    world.consume(plan_of("sequencefile"))
    [bad] = quarantined(world.archive, "clicks")
    key, path = marker_key(bad.name), tmp_path / "marker"
    path.write_bytes(body)
    world.store.put(key, path, crc32c(body), {})
    [alone] = verify_archive_only(world.archive, "clicks", parsed=True)
    compared = verified(world, {**TIME, "transforms": [NO_BOTS]})
    assert (compared.compared, compared.quarantined, compared.filtered) == (5, 3, 1)
    for report in (compared, alone):
        assert ArchiveReport([report]).is_right is False
        [finding] = report.findings
        assert (finding.kind, finding.details["key"]) == (FindingKind.CORRUPT, key)
        assert finding.details["text"].startswith("is no marker of a replay")


def test_a_message_in_data_and_in_quarantine_is_there_twice(tmp_path: Path) -> None:
    world = World(tmp_path / "local")
    world.consume()
    saved = dict(world.store.objects)
    world.replay(WHEN)
    for key, stored in saved.items():
        world.store.objects.setdefault(key, stored)
    for key in [key for key in world.store.objects if "_replay_" in key]:
        world.store.delete(key)
    assert verified(world, TIME).counts == {FindingKind.TWICE: 4}


@pytest.mark.parametrize("how", HOWS)
def test_the_archive_alone_is_read_in_every_format(how: str, tmp_path: Path) -> None:
    world = World(tmp_path / "local")
    world.consume(plan_of(how))
    [report] = verify_archive_only(world.archive, "clicks", parsed=True)
    assert not report.counts, report.findings
    assert report.compared == 5


def test_messages_that_were_routed_elsewhere_are_found_there(tmp_path: Path) -> None:
    world = World(tmp_path / "local")
    route = {"kind": "route", "to": "views"}
    world.consume(plan_for(config({**TIME, "transforms": [route]}), "clicks"))
    assert world.data == {}
    world.targets = ("views",)
    report = verified(world, {**TIME, "transforms": [route]})
    assert not report.counts, report.findings
    assert (report.compared, report.quarantined) == (6, 4)
    parsing = Parsing(plan_for(config(TIME), "views", limited=False).parser)
    views = Verifier(world.archive, MemoryLog(), world.ledger, parsing=parsing)
    assert [one.objects for one in views.verify("views", [0])] == [0]


def test_what_an_earlier_route_sent_elsewhere_is_found_by_its_keys(tmp_path: Path) -> None:
    world = World(tmp_path / "local")
    settings = config(TIME)
    route = {"kind": "route", "to": "views"}
    world.consume(plan_for(config({**TIME, "transforms": [route]}), "clicks"))
    routes = earlier_routes(settings, world.store)
    assert routes == {"clicks": {"views"}}
    world.targets = archive_of(settings, "clicks", world.store, routes).targets
    report = verified(world, TIME)
    # They were not parsed as the present configuration has it, but none is missing.
    assert FindingKind.MISSING not in report.counts, report.findings
    assert report.compared == 6


def connectors(world: World, directory: str, offset: int, rows: int) -> None:
    """Put an object as Confluent's S3 sink does: without metadata."""
    body = b'{"time": 1}\n' * rows
    key = f"p/clicks/{directory}/clicks+0+{offset:010d}.json"
    world.store.put(key, body, crc32c(body), {})


@pytest.mark.parametrize("directories", [("a", "a"), ("a", "b")])
def test_a_connectors_objects_and_ours_are_verified_as_one_archive(
    directories: tuple[str, str], tmp_path: Path
) -> None:
    world = World(tmp_path / "local")
    first, second = directories
    connectors(world, first, 0, 3 if first == second else 2)
    connectors(world, second, 3 if first == second else 1, 3 if first == second else 4)
    report = verified(world, TIME)
    assert not report.counts, report.findings
    assert report.compared == 6
    # After a rebalance it has stored two messages again, under the name of the second.
    connectors(world, second, 4, 2)
    report = verified(world, TIME)
    kind = FindingKind.TWICE if first == second else FindingKind.EXTRA
    assert report.counts == {kind: 2}


@pytest.mark.parametrize(
    ("how", "extension"), [("jsonlines", ".json.gz"), ("parquet", ".zstd.parquet")]
)
def test_ours_go_on_below_a_connectors_names(how: str, extension: str, tmp_path: Path) -> None:
    world = World(tmp_path / "local")
    tree = {**TIME, "layout": "dt={time:%Y}", "transforms": [NO_BOTS]}
    plan = plan_for(config(tree, format=how), "clicks")
    if how == "parquet":
        plan = replace(plan, log_format=BARE)
    world.consume(replace(plan, names_of_connect=ConnectName()))
    assert [key for key in world.store.objects if "/_quarantine/" not in key] == [
        f"p/clicks/dt=2023/clicks+0+0000000000{extension}"
    ]
    assert not verified(world, tree).counts


def test_json_lines_are_verified_whose_names_do_not_tell_them(tmp_path: Path) -> None:
    made = config({**TIME, "layout": "dt={time:%Y}"}, format="jsonlines")
    output = made.output.model_copy(update={"naming": "{topic}-{partition}-{offset}.gz"})
    made = made.model_copy(update={"output": output})
    world = World(tmp_path / "local")
    world.consume(plan_for(made, "clicks"))
    keys = [key for key in world.store.objects if "/_quarantine/" not in key]
    assert keys == ["p/clicks/dt=2023/clicks-0-0.gz"]
    archive = archive_of(made, "clicks", world.store)
    [archived] = archive.objects("clicks")
    assert archive.format_of(archived).identity.startswith("jsonlines:")
    log = MemoryLog(step=2)
    log.put(HERE, messages(range(6), VALUES.get), 6)
    parsing = Parsing(plan_for(made, "clicks", limited=False).parser)
    [report] = Verifier(archive, log, world.ledger, parsing=parsing).verify("clicks", [0])
    assert not report.counts, report.findings


def test_a_connectors_object_reaches_to_the_next_of_its_directory(tmp_path: Path) -> None:
    world = World(tmp_path / "local")
    for directory, offset in [("a", 0), ("b", 1), ("a", 4)]:
        connectors(world, directory, offset, 2)
    extents = with_extents(list(world.archive.everything("clicks")))
    assert [(extent.start, extent.end) for extent in extents] == [(0, 4), (1, None), (4, None)]
