"""The partition group's side of the world: messages with fields, and what must become of each.

``Rules.place`` says it from the message alone, with the plainest reader of its encoding: it
shares nothing with the real pipeline that the processes run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from secor.archive.kept_schemas import KeptSchema
from secor.batch.plan import OutputStream
from secor.core.model import QUARANTINE, TopicPartition
from secor.core.naming import quarantine_root, topic_root
from secor.core.ports import LogFormat
from secor.formats import make_format
from secor.parsing.decoders import make_decoder
from secor.parsing.layout import Layout
from secor.parsing.pipeline import Pipeline, Step, stream_of
from secor.parsing.placement import ByLayout
from secor.parsing.timestamps import TimeReader
from secor.parsing.transforms import Filter, RouteTransform
from secor.schema.growth import GrowthFinder, Propose
from tests.fakes.format import PlainFormat
from tests.simulation.encodings import Encoding, encoded, fields_of, settings_of
from tests.simulation.log import Message

DAY = 86_400
MIDDAY = 1_795_262_400
"""2026-11-21, 12:00 UTC."""

CYCLE: Sequence[dict[str, object] | str] = (
    {"kind": "sale", "at": MIDDAY},
    "broken",
    {"kind": "sale", "at": MIDDAY - DAY, "to": "views"},
    {"kind": "debug", "at": MIDDAY},
    {"kind": "debug", "at": "late"},
    {"kind": "debug", "at": MIDDAY - DAY},
    {"kind": "sale", "at": MIDDAY - DAY},
    {"kind": "sale", "at": "soon"},
    {"kind": "trace", "at": MIDDAY},
    {"kind": "sale", "at": MIDDAY, "to": "alerts"},
    {"kind": "trace", "at": MIDDAY + DAY, "to": "views"},
)
"""Messages 1, 2, …: two days out of order, and three in a row that the filter leaves out."""


GROWING: Sequence[dict[str, object] | str] = (
    {"kind": "sale", "at": MIDDAY, "n": 1},
    {"kind": "sale", "at": MIDDAY - DAY, "n": 2},
    {"kind": "debug", "at": MIDDAY, "filtered": 1},
    {"kind": "sale", "at": MIDDAY, "n": 2.5},
    {"kind": "sale", "at": MIDDAY, "n": "many"},
    "broken",
    {"kind": "sale", "at": "soon", "placeless": 1},
    {"kind": "sale", "at": MIDDAY, "tags": []},
    {"kind": "sale", "at": MIDDAY, "to": "views", "tags": ["x"]},
    {"kind": "sale", "at": MIDDAY, "user": "me", "n": 7},
)
"""Messages by which a schema grows: new fields, wider types, conflicts, and what grows nothing."""

BY_NAME: Mapping[str, tuple[type, ...]] = {
    "int64": (int,),
    "double": (int, float),
    "string": (object,),
    "list<item: string>": (list,),
    "extension<arrow.json>": (object,),
}


def fits(fields: Mapping[str, str], values: Mapping[str, object]) -> bool:
    """Tell whether a message fits fields of these types.  Raises if it needs more."""
    known = [(fields[name], value) for name, value in values.items() if name in fields]
    if not all(isinstance(value, BY_NAME[kind]) for kind, value in known):
        return False  # a conflict is for quarantine, and what else it has grows nothing
    for name, value in values.items():
        if name not in fields and value != []:
            raise AssertionError(f"{name} has no column among {sorted(fields)}")
    return True


def messages(encoding: Encoding, *, growing: bool) -> Message:
    """Return what says the value of a log's first, second, … message; each is another."""
    return partial(_message, GROWING if growing else CYCLE, encoding)


def _message(
    cycle: Sequence[dict[str, object] | str],
    encoding: Encoding,
    topic_partition: TopicPartition,
    number: int,
) -> bytes:
    fields = cycle[(number - 1) % len(cycle)]
    own = {"id": f"{topic_partition}#{number}"}
    if isinstance(fields, str):
        return encoded(encoding, own)[:-1]
    return encoded(encoding, own | fields)


@dataclass(frozen=True)
class Rules:
    """What parsing is configured to do; ``day`` is a template of ``strftime``.

    With ``growing`` the schema of the fields is kept with the objects.
    """

    day: str = "dt=%Y-%m-%d"
    dropped: str = "debug"
    targets: tuple[str, ...] = ("alerts", "views")
    growing: bool = False
    encoding: Encoding = "json"

    def parser(self, schema: KeptSchema | None = None, propose: Propose | None = None) -> Pipeline:
        """Return the real one; ``schema`` is the version that rows must fit."""
        steps: list[Step] = [Filter("kind", (self.dropped,), negated=True)]
        if self.targets:
            steps.append(RouteTransform(self.targets, "to"))
        name, _, pattern = self.day.partition("=")
        layout = Layout(f"{name}={{time:{pattern}}}")
        decoder = make_decoder(self.encoding, **settings_of(self.encoding))
        placement = ByLayout(layout, TimeReader("s"), "at")
        if schema is None:
            return Pipeline(decoder, steps, placement)
        rows = schema.rows
        growth = GrowthFinder(rows, propose) if propose is not None else None
        return Pipeline(decoder, steps, placement, typed=True, schema=rows, growth=growth)

    def streams(self, prefix: str, topic: str, log_format: LogFormat) -> dict[str, OutputStream]:
        """Return the streams of a plan: quarantine and routes."""
        quarantine = quarantine_root(topic_root(prefix, topic))
        streams = {QUARANTINE: OutputStream(quarantine, make_format("sequencefile"))}
        for target in self.targets:
            root = f"{topic_root(prefix, target)}/from={topic}"
            streams[stream_of(target)] = OutputStream(root, log_format)
        return streams

    def place(
        self, prefix: str, topic: str, value: bytes, schema: KeptSchema | None = None
    ) -> str | None:
        """Return the directory that a message belongs into; None if the filter leaves it out."""
        quarantine = f"{prefix}/_quarantine/{topic}"
        fields = fields_of(self.encoding, value)
        if fields is None:
            return quarantine
        if fields["kind"] == self.dropped:
            return None
        target = fields.get("to") if self.targets else None
        if isinstance(fields["at"], str) or target not in {None, *self.targets}:
            return quarantine
        kept = {} if schema is None else {field.name: str(field.type) for field in schema.fields}
        if schema is not None and not fits(kept, fields):
            return quarantine
        root = f"{prefix}/{topic}" if target is None else f"{prefix}/{target}/from={topic}"
        return f"{root}/{datetime.fromtimestamp(fields['at'], UTC):{self.day}}"


def other_extension() -> PlainFormat:
    """The same lines under another name."""
    changed = PlainFormat("other")
    changed.extension = ".other"
    return changed


BASE = Rules()
PARSED: tuple[Callable[[], dict[str, object]], ...] = (
    lambda: {"rules": BASE},
    lambda: {"rules": replace(BASE, day="month=%Y-%m")},
    lambda: {"rules": replace(BASE, dropped="trace")},
    lambda: {"rules": replace(BASE, targets=())},
    lambda: {"rules": replace(BASE, targets=("pages", "views"))},
    lambda: {"rules": replace(BASE, targets=()), "prefix": "elsewhere"},
    lambda: {"rules": BASE, "generation": 2},
    lambda: {"rules": BASE, "log_format": other_extension()},
    lambda: {"rules": replace(BASE, growing=True)},
    lambda: {"rules": replace(BASE, growing=True, dropped="trace")},
    lambda: {"rules": replace(BASE, growing=True), "earlier": True},
)
"""Configurations that make other objects of the same messages; the first is where one begins."""
