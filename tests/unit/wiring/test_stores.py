from __future__ import annotations

from pathlib import Path

import pytest

from secor.adapters.clouds import CloudStore
from secor.cli.doctor.store_checks import with_short_timeouts
from secor.config.load import load
from secor.config.model import Config
from secor.core.errors import ConfigurationError
from secor.wiring.clients import make_store, request_lifetime
from secor.wiring.finalize_actions import base_url

GROUP = '[group]\nname = "g"\n[kafka]\nbootstrap_servers = ["k:9092"]\ntopics = ["clicks"]\n'
GCS = '[store]\nkind = "gcs"\n[store.gcs]\nbucket = "logs"\ntoken = "hidden"\n'
AZURE = (
    '[store]\nkind = "azure"\n[store.azure]\naccount = "acme"\ncontainer = "logs"\n'
    'account_key = "aGlkZGVu"\n'
)


def config_of(path: Path, store: str) -> Config:
    file = path / "secor.toml"
    file.write_text(GROUP + store)
    return load(file, {})


@pytest.mark.parametrize(
    ("store", "address"),
    [(GCS, "gs://logs"), (AZURE, "abfss://logs@acme.dfs.core.windows.net")],
    ids=["gcs", "azure"],
)
def test_the_clouds_are_made_of_their_sections(store: str, address: str, tmp_path: Path) -> None:
    config = config_of(tmp_path, store)
    made = make_store(config.store, connections=4)
    assert isinstance(made, CloudStore)
    assert made.address == base_url(config) == address


@pytest.mark.parametrize("store", [GCS, AZURE], ids=["gcs", "azure"])
def test_a_request_lives_as_long_as_all_its_attempts(store: str, tmp_path: Path) -> None:
    config = config_of(tmp_path, store + 'max_attempts = 3\nrequest_timeout = "1m"\n')
    session = config.ledger.zookeeper.session_timeout
    assert request_lifetime(config) == session + 3 * (10 + 60) + 2 * 20
    shortened = with_short_timeouts(config).store
    for section in (shortened.gcs, shortened.azure):
        assert (section.max_attempts, section.request_timeout) == (2, 10)


def test_without_the_library_it_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secor.core.installing.find_spec", lambda name: None)
    config = config_of(tmp_path, GCS)
    with pytest.raises(ConfigurationError, match=r"obstore.*\[clouds\]"):
        make_store(config.store, connections=4)


def test_a_table_group_appends_in_the_clouds_and_spark_does_not_write_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "secor.toml"
    table_group = GROUP.replace('name = "g"', 'name = "g"\nkind = "table"') + GCS
    properties = '[catalog]\nproperties = {type = "sql"}\n'
    path.write_text(table_group + properties + '[[tables]]\ntable = "a.b"\n')
    assert load(path, {}).store.kind == "gcs"
    upsert = '[[tables]]\ntable = "a.b"\nmode = "upsert"\nkey = ["id"]\n'
    path.write_text(table_group + properties + '[commit]\ncoordinator = "alone"\n' + upsert)
    with pytest.raises(ConfigurationError, match=r"store\.kind: Spark writes these tables"):
        load(path, {})
