"""Which Java is taken, and what it trusts."""

from __future__ import annotations

from pathlib import Path

import pytest

from secor.java.runtime import java_version, trust_options


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("command not found", None),
    ],
)
def test_javas_version_is_read(text: str, version: int | None) -> None:
    assert java_version(text) == version


def test_the_machines_java_keeps_its_own_trust() -> None:
    assert trust_options(Path("/usr/bin/java")) == []
