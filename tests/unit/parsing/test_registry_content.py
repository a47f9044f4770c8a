"""The whole content of a schema registry."""

from __future__ import annotations

import pytest

from secor.core.errors import AccessDenied
from secor.parsing import registry_content as content
from secor.parsing.registry_content import registry_content
from secor.parsing.registry_server import Credentials, RegistryServer
from tests.fakes.confluent import Confluent
from tests.fakes.registry import running_registry

ADDRESS = '{"type":"record","name":"Address","fields":[{"name":"city","type":"string"}]}'


def test_subjects_versions_ids_references_and_compatibility_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(content, "AT_ONCE", 2)
    with running_registry() as registry:
        writer = Confluent()
        writer.write(writer.avro(ADDRESS), {"city": "Delft"}, topic="addresses")
        writer.copy_to(registry)
        named = [{"name": "Address", "subject": "addresses-value", "version": 1}]
        registry.register(7, "{}", kind="JSON", subject="a/b", version=3, references=named)
        registry.register(8, "{}", kind="JSON", subject="a/b", version=4)
        registry.deleted = {("a/b", 3)}
        registry.compatibility["a/b"] = "NONE"
        listed = dict(registry_content(RegistryServer(registry.url, Credentials())))
        registry.credentials = ("u", "p")
        with pytest.raises(AccessDenied):
            list(registry_content(RegistryServer(registry.url, Credentials())))
    assert list(listed) == ["", "a/b", "addresses-value"]
    assert listed[""] == {"compatibility": "BACKWARD"}
    assert listed["a/b"] == {
        "compatibility": "NONE",
        "versions": {
            "3": {
                "id": 7,
                "schema": "{}",
                "type": "JSON",
                "references": named,
                "deleted": True,
            },
            "4": {"id": 8, "schema": "{}", "type": "JSON"},
        },
    }
    [known] = writer.client.get_subjects()
    of_library = writer.client.get_version(known, 1)
    assert listed[known]["compatibility"] is None
    assert listed[known]["versions"]["1"]["id"] == of_library.schema_id
    assert listed[known]["versions"]["1"]["schema"] == of_library.schema.schema_str
