from __future__ import annotations

from pathlib import Path

import pytest

from secor.config import schema
from secor.config.examples import full_example
from secor.config.load import load_as
from secor.config.restore import RestoreConfig
from secor.core.errors import ConfigurationError
from tests.unit.config.test_examples import CONFIG, KEY, keys_in, uncommented

FULL = full_example("restore")


def loaded(text: str, folder: Path) -> RestoreConfig:
    path = folder / "job.toml"
    path.write_text(text)
    return load_as(RestoreConfig, path, {})[0]


def test_the_example_loads_and_names_every_key_once() -> None:
    config, _ = load_as(RestoreConfig, CONFIG / "restore.toml", {})
    assert config.group.kind == "restore"
    assert sorted(keys_in(FULL)) == sorted(schema.every_key(RestoreConfig))


def test_every_commented_value_is_the_default(tmp_path: Path) -> None:
    whole = loaded(uncommented(FULL), tmp_path)
    assert whole.model_dump() == load_as(RestoreConfig, CONFIG / "restore.toml", {})[0].model_dump()


def test_every_key_has_a_comment_above_it_or_above_its_neighbours() -> None:
    explained = False
    for line in FULL.splitlines():
        if line.startswith("# "):
            explained = True
        elif not line or line.startswith("["):
            explained = False
        elif KEY.match(line):
            assert explained, line


def test_the_ranges_in_the_closing_comment_work(tmp_path: Path) -> None:
    text = FULL
    closing = text[text.index("# [[source.ranges]]") :].replace("# ", "")
    (chosen,) = loaded(text + closing, tmp_path).source.ranges
    assert (chosen.topic, chosen.partition, chosen.start, chosen.end) == ("clicks", 0, 1000, 2000)


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ('topics = ["clicks"]', 'topic = ["clicks"]', "did you mean source.topics?"),
        ('#topics_pattern = "none"', 'topics_pattern = "c.*"', "named in source.topics already"),
        *(
            ('#topic = "{topic}"', f'topic = "{name}"', "use {topic} for the archived name")
            for name in (
                "{name}",
                "{topic.name}",
                "{topic.__class__}",
                "{topic:>1000000000}",
                "{{topic}}",
                "{topic",
                "../{topic}",
                "a b",
                "",
                ".",
                "x" * 250,
            )
        ),
        ('#topic = "{topic}"', 'topic = "__consumer_offsets"', "is the brokers' own"),
        ("#partitions = []", "partitions = [-1]", "source.partitions.0"),
        ("#generations = []", "generations = [-1]", "source.generations.0"),
        ('#interval = "5s"', 'interval = "40s"', "at most half of writing.transaction_timeout"),
        ('#since = "none"', "since = 2026-11-01T00:00:00", "needs a zone"),
        ('#kind = "archive"', 'kind = "json-lines"', 'belongs to source.kind = "json-lines"'),
        ('#kind = "archive"', 'kind = "plugin"', 'belongs to source.kind = "plugin"'),
        ('#partitioning = "same"', 'partitioning = "mapping"', 'partitioning = "mapping"'),
        ("#mapping = {}", "mapping = {0 = 3}", "target.mapping: belongs to"),
        ("#mapping = {}", "mapping = {0 = -3}", "target.mapping"),
        (
            '#exactly_once = "required"',
            'exactly_once = "disabled"\nboundary = "source"',
            "what a source takes back is visible already",
        ),
        (
            '#shared_offsets_topic = "none"',
            'shared_offsets_topic = "a b"',
            "writing.shared_offsets_topic",
        ),
        ('name = "clicks-2026-11"', 'name = "a:b"', "group.name"),
        ('kind = "restore"', 'kind = "backup"', "group.kind"),
    ],
)
def test_faults_are_named_with_what_to_do(
    before: str, after: str, told: str, tmp_path: Path
) -> None:
    text = FULL
    assert before in text
    with pytest.raises(ConfigurationError) as raised:
        loaded(text.replace(before, after, 1), tmp_path)
    assert told in str(raised.value)


def test_the_environment_sets_keys_of_a_job() -> None:
    config, sources = load_as(
        RestoreConfig, CONFIG / "restore.toml", {"SECOR_WRITING__CODEC": "zstd"}
    )
    assert config.writing.codec == "zstd"
    assert sources["writing.codec"] == "environment SECOR_WRITING__CODEC"
