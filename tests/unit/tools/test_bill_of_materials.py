"""The bill of materials of a release: what is refused in it, and what is taken out of it."""

from __future__ import annotations

from typing import Any

import pytest

from tools.bill_of_materials import finish, locked_versions

LOCKED = locked_versions("lz4==4.4.5\nPure_SASL==0.6.2 ; python_version > '3'\n")


def component(name: str, version: str, *urls: str) -> dict[str, Any]:
    references = [{"type": "distribution", "url": url} for url in urls]
    return {"name": name, "version": version, "externalReferences": references}


def bill(*components: dict[str, Any]) -> dict[str, Any]:
    return {"components": list(components)}


def test_where_things_were_on_this_machine_is_taken_out() -> None:
    secor = component("secor", "1.0", "file:///somewhere/dist/secor.whl", "https://example.org")
    made = bill(secor, component("pure-sasl", "0.6.2"), component("LZ4", "4.4.5"))
    finish(made, LOCKED)
    kept = [[each["url"] for each in it["externalReferences"]] for it in made["components"]]
    assert kept == [["https://example.org"], [], []]


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (component("lz4", "4.4.4"), r"lz4 4\.4\.4 is installed, and not what"),
        (component("stranger", "1"), r"stranger 1 is installed, and not what"),
    ],
)
def test_what_is_not_locked_is_refused(other: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        finish(bill(component("secor", "1.0"), other), LOCKED)


def test_a_bill_without_secor_is_refused() -> None:
    with pytest.raises(ValueError, match="does not name secor"):
        finish(bill(component("lz4", "4.4.5")), LOCKED)
