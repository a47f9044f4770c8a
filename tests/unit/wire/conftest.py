"""What decodes is shown of both decoders, where the extension was built."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from secor.wire import compiled

DECODERS = {"numpy": None} | ({"compiled": compiled.decode} if compiled.decode else {})


@pytest.fixture(scope="module", params=list(DECODERS))
def decoder(request: pytest.FixtureRequest) -> Iterator[str]:
    """Decode by this one: its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "decode", DECODERS[request.param])
        yield request.param
