"""What decodes is shown of both decoders, where the extension was built."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from secor.wire import compiled

DECODERS = {"numpy": None} | ({"compiled": compiled.extension} if compiled.extension else {})


def use_decoder(patch: pytest.MonkeyPatch, name: str) -> None:
    """Let the wire decode by this one."""
    patch.setattr(compiled, "extension", DECODERS[name])


@pytest.fixture(scope="module", params=list(DECODERS))
def decoder(request: pytest.FixtureRequest) -> Iterator[str]:
    """Decode by this one: its name."""
    with pytest.MonkeyPatch.context() as patch:
        use_decoder(patch, request.param)
        yield request.param
