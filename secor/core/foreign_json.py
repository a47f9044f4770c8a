"""JSON that anybody may have written: in objects, in records, in properties of tables."""

from __future__ import annotations

import json
from typing import Any


def load_json(text: str | bytes) -> Any:
    """Return the value.  Raises ``ValueError``, also where it is nested too deep."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("its JSON is nested too deep") from error
