"""Regular expressions over the values of messages: RE2, in linear time on any value.

Python's ``re`` may not come to an end on a value that somebody chose: ``(a+)+$``.
RE2 (https://github.com/google/re2/wiki/Syntax) has no look-around and no back-references.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def compile_expression(pattern: str) -> None:
    """See that RE2 knows ``pattern``.  Raises ``ValueError`` saying what it does not know."""
    try:
        # As in fullmatches, too: what is around it counts for its size.
        for text in (pattern, _whole(pattern)):
            pc.match_substring_regex(pa.array([""]), text)
    except pa.ArrowInvalid as error:
        raise ValueError(str(error).removeprefix("Invalid regular expression: ")) from error


def fullmatches(pattern: str, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return for each text whether ``pattern`` matches the whole of it."""
    # Texts of messages may have half a surrogate pair, which a conversion to strings refuses. A
    # view of bytes is not checked.
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    column = pa.array(encoded, pa.large_binary()).view(pa.large_string())
    matched: npt.NDArray[np.bool_] = pc.match_substring_regex(column, _whole(pattern)).to_numpy(
        zero_copy_only=False
    )
    return matched


def _whole(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"
