from __future__ import annotations

import base64
from pathlib import Path

import pytest

from secor.core.errors import ConfigurationError
from secor.service.monitoring.health import Access, tls_context


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("header", "admitted"),
    [
        (basic("ada:pä:ss"), True),
        (basic("ada:pä:ss").replace("Basic", "bASIC"), True),
        (basic("ada:pä:s"), False),
        (basic("bob:pä:ss"), False),
        (basic(""), False),
        ("Bearer " + basic("ada:pä:ss")[6:], False),
        ("Basic !!!", False),
        ("Basic ä", False),
        ("Basic", False),
        ("", False),
        (None, False),
    ],
)
def test_only_the_name_with_its_password_is_admitted(header: str | None, admitted: bool) -> None:
    assert Access("ada", "pä:ss").admits(header) is admitted


def test_the_password_is_not_shown() -> None:
    assert "geheim" not in repr(Access("ada", "geheim"))


def test_files_that_are_no_certificate_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"absent\.pem.*No such file"):
        tls_context(str(tmp_path / "absent.pem"), None)
    (tmp_path / "a.pem").write_text("nothing")
    with pytest.raises(ConfigurationError, match=r"a\.pem.*PEM"):
        tls_context(str(tmp_path / "a.pem"), str(tmp_path / "a.pem"))
