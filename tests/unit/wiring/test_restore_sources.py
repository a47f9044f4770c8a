from __future__ import annotations

from pathlib import Path

import pytest

from secor.adapters.local import DirectoryStore
from secor.config.restore import RestoreConfig
from secor.core.errors import ConfigurationError
from secor.jobs.restore.job_findings import colliding
from secor.restore.preflight import Severity
from secor.wiring.restore_sources import source_of, spec_of, wanted_topics

MAILS = """
class Mails:
    def __init__(self, name, directory):
        self.name, self.directory = name, directory

    def partitions(self):
        return [(self.name, self.directory)]
"""


def job(**source: object) -> RestoreConfig:
    return RestoreConfig.model_validate(
        {
            "group": {"name": "job", "kind": "restore"},
            "kafka": {"bootstrap_servers": ["localhost:9092"]},
            "store": {"kind": "local", "local": {"directory": "/tmp"}},
            "source": {"topics": ["mails"], **source},
        }
    )


def test_a_source_of_the_users_is_made_with_its_options_and_is_part_of_the_spec(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mails_of_mine.py").write_text(MAILS)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = job(kind="plugin", plugin="mails_of_mine:Mails", options={"directory": "/var/mails"})
    source = source_of(config, DirectoryStore(tmp_path))
    assert list(map(tuple, source.partitions())) == [("archive", "/var/mails")]  # type: ignore[arg-type]
    other = job(kind="plugin", plugin="mails_of_mine:Mails", options={"directory": "/srv/mails"})
    assert spec_of(config).hash != spec_of(other).hash
    wrong = job(kind="plugin", plugin="mails_of_mine:Mails", options={"folder": "/var/mails"})
    with pytest.raises(ConfigurationError, match="mails_of_mine:Mails"):
        source_of(wrong, DirectoryStore(tmp_path))


def test_a_job_that_gives_up_transactions_is_another_one() -> None:
    config = job()
    disabled = config.model_copy(
        update={"writing": config.writing.model_copy(update={"exactly_once": "disabled"})}
    )
    assert spec_of(config).hash != spec_of(disabled).hash
    assert spec_of(config).settings.keys() == {"source", "topic", "partitioning", "provenance"}
    assert "plugin" not in spec_of(config).settings["source"], "jobs from before go on"


def test_the_brokers_own_topics_are_restored_by_nobody() -> None:
    wanted = wanted_topics(job(topics=[], topics_pattern=".*").source)
    assert wanted("orders")
    assert wanted("__of_an_application")
    assert not wanted("__consumer_offsets")
    assert not wanted("__transaction_state")


def test_names_that_brokers_do_not_tell_apart_are_refused_by_name() -> None:
    (finding,) = colliding(["orders.eu", "orders_eu", "orders"])
    assert finding.severity is Severity.REFUSE
    assert finding.topic == "orders.eu"
    assert "brokers make only one of it and orders_eu" in finding.what
