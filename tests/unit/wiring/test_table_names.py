from types import SimpleNamespace
from typing import cast

import pytest

from secor.config.model import Config
from secor.wiring.table_entries import fixed_tables, has_unknown_namespaces, namespaces_of


def config_of(*tables: str) -> Config:
    return cast(Config, SimpleNamespace(tables=[SimpleNamespace(table=name) for name in tables]))


def test_tables_that_are_named_as_they_are_need_no_namespace() -> None:
    config = config_of("db.events", "db.sales")
    assert fixed_tables(config) == ["db.events", "db.sales"]
    assert namespaces_of(config) == set()
    assert not has_unknown_namespaces(config)


@pytest.mark.parametrize("template", ["logs.{topic}", "logs.{fields.kind}", "logs.x_{fields.a.b}"])
def test_a_template_shows_the_namespace_of_its_tables(template: str) -> None:
    config = config_of(template, "db.events")
    assert fixed_tables(config) == ["db.events"]
    assert namespaces_of(config) == {"logs"}
    assert not has_unknown_namespaces(config)


@pytest.mark.parametrize("template", ["{fields.table}", "{fields.db}.events", "a.{topic}.{topic}"])
def test_a_namespace_that_messages_name_is_unknown(template: str) -> None:
    config = config_of(template)
    assert namespaces_of(config) == set()
    assert has_unknown_namespaces(config)
