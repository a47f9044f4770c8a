import pytest

from secor.core.text import load_json


def test_json_is_read() -> None:
    assert load_json(b'{"a": [1]}') == load_json('{"a": [1]}') == {"a": [1]}


@pytest.mark.parametrize("text", ["", "{", "[" * 200_000, b"\xff"])
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):
        load_json(text)
