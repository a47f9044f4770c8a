"""What frames is shown of the extension and of numpy, where the extension was built."""

from __future__ import annotations

import pytest

from secor.formats.sequencefile import framing


@pytest.fixture(params=["numpy", "compiled"] if framing.extension else ["numpy"])
def framer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Frame by this one: its name."""
    name: str = request.param
    if name == "numpy":
        monkeypatch.setattr(framing, "extension", None)
    return name
