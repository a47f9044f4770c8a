"""The regular expression decoder: its named groups as fields."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from secor.core.errors import ConfigurationError
from secor.parsing.decoders.columns import EMPTY_PAYLOAD, NULL_PAYLOAD, struct_of
from secor.parsing.rows import Decoded


class RegexDecoder:
    """Each group ``(?P<name>…)`` is a text field; the first match anywhere counts.

    The expression is RE2's (https://github.com/google/re2/wiki/Syntax): without look-around
    and back-references, and therefore in linear time on any message.  A group that matched
    nothing, or the empty text, is null.  Bad: no match, null payloads, invalid UTF-8.
    """

    def __init__(self, pattern: str) -> None:
        self.identity = f"regex:{pattern}"
        self._pattern = pattern
        try:
            kind = pc.extract_regex(pa.array([""]), pattern=pattern).type
        except pa.ArrowInvalid as error:
            raise ConfigurationError(
                f"regular expression {pattern!r}: {error}; every group must be named, "
                "(?P<name>…) or (?:…), and look-around is not supported"
            ) from error
        self.names = tuple(field.name for field in kind)
        if len(set(self.names)) != len(self.names):
            raise ConfigurationError(f"regular expression {pattern!r}: two groups of one name")

    def decode(self, messages: pa.RecordBatch, paths: tuple[str, ...] | None) -> Decoded:
        """See ``rows.Decoder``."""
        texts, bad = _texts(messages.column("value"))
        groups = pc.extract_regex(texts, pattern=self._pattern)
        for row in pc.indices_nonzero(pc.is_null(groups)).to_pylist():
            bad.setdefault(row, "the regular expression does not match")
        names = self.names if paths is None else paths
        columns = [self._column(groups, name) for name in names]
        return Decoded(struct_of(columns, names, len(texts), bad), dict(sorted(bad.items())))

    def _column(self, groups: pa.StructArray, name: str) -> pa.Array:
        if name not in self.names:
            return pa.nulls(len(groups), pa.string())
        column = pc.struct_field(groups, name)
        return pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)


def _texts(values: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """Return the payloads as text, null where bad."""
    bad: dict[int, str] = {}
    for row in pc.indices_nonzero(pc.is_null(values)).to_pylist():
        bad[row] = NULL_PAYLOAD
    for row in pc.indices_nonzero(pc.equal(pc.binary_length(values), 0)).to_pylist():
        bad[row] = EMPTY_PAYLOAD
    try:
        return values.cast(pa.string()), bad
    except pa.ArrowInvalid:
        texts: list[str | None] = []
    for row, raw in enumerate(values.to_pylist()):
        try:
            texts.append(None if raw is None else raw.decode())
        except UnicodeDecodeError as error:
            texts.append(None)
            bad[row] = f"invalid UTF-8 at byte {error.start}"
    return pa.array(texts, pa.string()), bad
