"""What a person sees of a backfill that goes on."""

from __future__ import annotations

import io

import pytest

from secor.cli.backfill.publish import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("offsets", "shown"),
    [(1_000_000, "250,000 of 1,000,000 offsets"), (None, "2 of 8 batches")],
)
def test_a_person_sees_total_rate_and_time_left(
    monkeypatch: pytest.MonkeyPatch, offsets: int | None, shown: str
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "160")
    with progress("parsing", offsets) as show:
        assert show is not None
        show(0, 8)
        show(2, 8)
    text = terminal.getvalue()
    assert "parsing" in text
    assert shown in text
    assert "/s" in text
    assert "left:" in text


def test_a_script_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = io.StringIO()
    monkeypatch.setattr("sys.stderr", errors)
    with progress("parsing") as show:
        assert show is None
    assert errors.getvalue() == ""
