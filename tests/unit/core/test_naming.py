"""Names of objects."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.core.naming import (
    HIVE_NULL,
    LONGEST_ROOTS,
    ConnectName,
    ObjectName,
    escape_value,
    further_roots,
    is_copy,
    least_offset,
    parse_key,
    quarantine_root,
    replayed_name,
    topic_directory,
    topic_of,
    topic_root,
)

NAME = ObjectName("raw_logs/backup/clicks", "offset=0", 1, 3, 12345, ".seq")


def test_the_key_is_as_documented() -> None:
    assert NAME.key == "raw_logs/backup/clicks/offset=0/1_3_00000000000000012345.seq"


def test_a_key_is_read_back() -> None:
    assert parse_key(NAME.root, NAME.key) == NAME


def test_a_bucket_tells_where_the_second_object_of_a_batch_begins() -> None:
    over_the_edge = replace(NAME, output_partition="offset=20000")
    assert (least_offset(NAME), least_offset(over_the_edge)) == (12345, 20000)
    assert least_offset(replace(NAME, output_partition="dt=2026-11-21")) == 12345


def test_what_was_replayed_has_a_name_of_its_own_beside_its_batch() -> None:
    name = replayed_name(replace(NAME, extension=".txt.gz"), 12399)
    assert name.key.endswith("/1_3_00000000000000012345.replayed-12399.txt.gz")
    assert parse_key(name.root, name.key) == name


@pytest.mark.parametrize(
    "output_partition", ["", "dt=2026-11-21", "country=NL/dt=2026-11-21/hr=04"]
)
@pytest.mark.parametrize("extension", ["", ".txt.gz"])
def test_any_output_partition_is_read_back(output_partition: str, extension: str) -> None:
    name = ObjectName("a/b", output_partition, 0, 0, 0, extension)
    assert parse_key("a/b", name.key) == name


@pytest.mark.parametrize(
    "key",
    [
        "other/1_3_00000000000000012345.seq",
        "r/_SUCCESS",
        "r/1_3_12345.seq",
        "r/x_3_00000000000000012345",
    ],
)
def test_other_files_are_no_objects_of_ours(key: str) -> None:
    assert parse_key("r", key) is None


@pytest.mark.parametrize(
    "behind", [".bak", "~", ".1", ".OLD", ".copy", ".tmp", ".crc", ".replayed-5.seq.orig"]
)
def test_a_copy_beside_an_object_is_no_object(behind: str) -> None:
    name = ObjectName("p/clicks", "offset=0", 1, 0, 5, ".seq")
    assert parse_key("p/clicks", name.key) == name
    assert parse_key("p/clicks", name.key + behind) is None
    assert is_copy(name.key + behind)
    assert not is_copy(name.key)
    assert not is_copy("p/clicks/notes.bak")


def test_the_hash_stands_in_front_of_everything() -> None:
    assert topic_root("a/b", "t", hashed=True) == "e358/a/b/t"
    assert topic_root("a/b/", "t") == "a/b/t"


def test_names_of_confluents_sink_are_made_and_read_back() -> None:
    name = ObjectName("topics/a.b", "year=2026", 1, 3, 12345, ".json.gz", of_connect=ConnectName())
    assert name.key == "topics/a.b/year=2026/a.b+3+0000012345.json.gz"
    assert parse_key("topics/a.b", name.key) == name
    wide = 98_765_432_101
    beyond = replace(name, start_offset=wide, of_connect=ConnectName().fitting(3, wide))
    assert beyond.key == "topics/a.b/year=2026/a.b+3+98765432101.json.gz"
    assert parse_key("topics/a.b", beyond.key) == beyond
    reserved = replace(name, root="topics/%5Fquarantine")
    assert reserved.key == "topics/%5Fquarantine/year=2026/_quarantine+3+0000012345.json.gz"
    assert replayed_name(name, 7).key.endswith("/a.b+3+0000012345.replayed-7.json.gz")
    rewritten = replace(name, rewrite=1, end=12400)
    assert rewritten.key.endswith("/a.b+3+0000012345.rewrite-1-to-12400.json.gz")
    assert parse_key("topics/a.b", rewritten.key) == rewritten


@pytest.mark.parametrize(
    "name",
    [
        *("other+3+0000012345.json", "t+3-0000012345.json", "t=3=12345.json", "t-12345.json"),
        *("t-2147483648-5.json", "t-3-000000000000000000005.json"),
        *("t+3+0000012345.keys.avro", "t+3+0000012345.headers.avro", "t+3+0000012345.json.bak"),
    ],
)
def test_other_names_of_a_connector_are_no_objects(name: str) -> None:
    assert parse_key("topics/t", f"topics/t/{name}") is None


@pytest.mark.parametrize(
    ("template", "offset", "key"),
    [
        ("{topic}-{partition}-{offset}.gz", 12345, "t-1-3-12345.gz"),
        ("{topic}-{partition:010}-{offset:020}", 7, "t-1-0000000003-00000000000000000007.json.gz"),
        ("{topic}_{partition}_{offset:03}.bin.gz", 12345, "t-1_3_12345.bin.gz"),
    ],
)
def test_names_of_a_template_are_made_and_read_back(template: str, offset: int, key: str) -> None:
    names, extension = ConnectName.of_template(template)
    made = ObjectName(
        "raw/t-1", "", 1, 3, offset, extension or ".json.gz", of_connect=names.fitting(3, offset)
    )
    assert made.key == f"raw/t-1/{key}"
    assert parse_key("raw/t-1", made.key) == made
    assert parse_key("raw/t", f"raw/t/{key}") is None


@pytest.mark.parametrize(
    "template",
    [
        *("{topic}-{partition}", "{topic}-{offset}-{partition}", "{topic}-{partition}+{offset}"),
        *(
            "{topic}={partition}={offset}",
            "a{topic}-{partition}-{offset}",
            "{topic}-{partition:021}",
        ),
        *(
            "{topic}-{partition}-{offset}gz",
            "{topic}-{partition}-{offset}/x",
            "{topic}-{partition}-",
        ),
    ],
)
def test_other_templates_are_refused(template: str) -> None:
    with pytest.raises(ValueError, match="template"):
        ConnectName.of_template(template)


@pytest.mark.parametrize("topic", ["_quarantine", "_backfill", "_replaced"])
def test_a_topic_that_is_called_as_another_directory_has_a_name_that_is_nobodys(topic: str) -> None:
    assert topic_root("a", topic) == "a/%5F" + topic[1:]
    assert topic_of(topic_directory(topic)) == topic
    assert topic_of(topic) is None
    assert quarantine_root(topic_root("a", topic)) == "a/_quarantine/%5F" + topic[1:]


@given(st.text("%5F_quarntie", min_size=1), st.text("_quarntie", min_size=1))
@settings(deadline=None, derandomize=True)
def test_directories_tell_their_topics(topic: str, other: str) -> None:
    for one in ("_quarantine", "_schemas", "__consumer_offsets", topic.replace("%", "x"), other):
        assert topic_of(topic_directory(one)) == one
    assert topic_of("") is None


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        (None, HIVE_NULL),
        ("", HIVE_NULL),
        ("NL", "NL"),
        ("a/b=c", "a%2Fb%3Dc"),
        ("..", "%2E%2E"),
        (".", "%2E"),
        ("%", "%25"),
        ("ü", "ü"),
        ("a\nb", "a%0Ab"),
    ],
)
def test_values_are_escaped_as_hive_does(value: str | None, escaped: str) -> None:
    assert escape_value(value) == escaped


@given(st.text(), st.text())
@settings(deadline=None, derandomize=True)
def test_no_value_leaves_its_place_and_no_two_meet(one: str, other: str) -> None:
    escaped = escape_value(one)
    assert "/" not in escaped
    assert escaped not in ("", ".", "..")
    assert len(escaped.encode("utf-8", "surrogatepass")) <= 255
    if one != other and HIVE_NULL not in (one, other):
        assert escaped != escape_value(other)


def test_of_a_plans_directories_those_are_told_that_the_topics_own_does_not_tell() -> None:
    own = ["backup/clicks", "backup/_quarantine/clicks"]
    assert further_roots("backup/clicks", own) == ()
    routed = ["backup/views/from=clicks", "backup/alerts/from=clicks"]
    assert further_roots("backup/clicks", [*own, *routed]) == tuple(sorted(routed))


def test_too_many_directories_give_way_to_the_one_they_share() -> None:
    routed = [f"a/b/{number}/from=clicks" for number in range(100)]
    assert sum(map(len, routed)) > LONGEST_ROOTS
    assert further_roots("a/b/clicks", routed) == ("a/b",)
    hashed = [f"{number:04x}/b/{number}/from=clicks" for number in range(100)]
    assert further_roots("ffff/b/clicks", hashed) == tuple(sorted(hashed))


@pytest.mark.parametrize(
    "key",
    [
        "r/o/01_0_00000000000000000007.seq",
        "r/o/1_00_00000000000000000007.seq",
        "r/o/1_٣_00000000000000000007.seq",
        "r//1_0_00000000000000000007.seq",
        "r/o/1_0_99999999999999999999.seq",
        "r/o/1_2147483648_00000000000000000007.seq",
    ],
)
def test_a_name_that_would_lead_to_another_key_is_none(key: str) -> None:
    """A copy under such a name was read as the object beside it, whose messages came twice."""
    assert parse_key("r", key) is None
