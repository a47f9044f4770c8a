"""Plug-ins as users write them, good and bad; imported by path."""

from __future__ import annotations

import errno
import json
import random

import pyarrow as pa
import pyarrow.compute as pc

from secor.plugins import Decoded, Message, Placed


class ByFirstByte:
    """Places by the first byte, leaves empty values out, fails on null ones."""

    def __init__(self, prefix: str = "b=") -> None:
        self._prefix = prefix

    def place(self, message: Message) -> str | None:
        if message.value == b"":
            return None
        return f"{self._prefix}{message.value[0]}"  # type: ignore[index]


class Returns:
    """Gives one path whatever comes."""

    def __init__(self, path: object) -> None:
        self._path = path

    def place(self, message: Message) -> object:
        return self._path


class WithoutDigits:
    """Stores values without their digits."""

    gives_values = True

    def place(self, message: Message) -> Placed:
        value = message.value
        return Placed("all", value if value is None else value.translate(None, b"0123456789"))


class GivesWithoutSayingSo:
    def place(self, message: Message) -> Placed:
        return Placed("all", b"other")


class GivesText:
    gives_values = True

    def place(self, message: Message) -> Placed:
        return Placed("all", "text")  # type: ignore[arg-type]


class OfTheMessage:
    """Makes fields of what the message itself is."""

    identity = "of the message"
    paths = ()

    def apply(self, decoded: Decoded) -> Decoded:
        value = pc.struct_field(decoded.rows, "value").cast(pa.string())
        size = pc.binary_length(value)
        return Decoded(pa.StructArray.from_arrays([value, size], ["text", "size"]))


class ForTheLayout(OfTheMessage):
    for_layout_only = True


class Random:
    def place(self, message: Message) -> str:
        return f"r={random.random()}"


class Counting:
    """Depends on how many came before."""

    def __init__(self) -> None:
        self._seen = 0

    def place(self, message: Message) -> str:
        self._seen += 1
        return f"n={self._seen // 5}"


class Ticking:
    """Depends on a clock that a test moves."""

    now = 0

    def place(self, message: Message) -> str:
        return f"dt={Ticking.now}"


class Broken:
    def place(self, message: Message) -> str:
        raise FileNotFoundError(errno.ENOENT, "no such file")


class Absent:
    """Needs a server that does not answer; its error has no number."""

    def place(self, message: Message) -> str:
        raise TimeoutError("no answer")


class Upper:
    """Writes a field in capitals; a message that lacks it is bad."""

    identity = "upper-1"

    def __init__(self, field: str) -> None:
        self.paths = (field,)

    def apply(self, decoded: Decoded) -> Decoded:
        [name] = self.paths
        column = pc.utf8_upper(pc.struct_field(decoded.rows, name))
        bad = {row: f"no {name}" for row, it in enumerate(column.to_pylist()) if it is None}
        return Decoded(pa.StructArray.from_arrays([column], names=[name]), bad)


class Ranked(Upper):
    """Depends on the message's place in the chunk."""

    identity = "ranked-1"

    def apply(self, decoded: Decoded) -> Decoded:
        ranks = pa.array([str(row) for row in range(len(decoded.rows))])
        return Decoded(pa.StructArray.from_arrays([ranks], names=list(self.paths)))


class Short(Upper):
    identity = "short-1"

    def apply(self, decoded: Decoded) -> Decoded:
        return Decoded(decoded.rows.slice(1))


class Failing(Upper):
    identity = "failing-1"

    def apply(self, decoded: Decoded) -> Decoded:
        raise KeyError("oops")


class ByKind:
    """Places JSON by its field ``kind``; what is no JSON is bad."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def place(self, message: Message) -> str:
        return f"{self._prefix}{json.loads(message.value or b'')['kind']}"


class Misnamed(Upper):
    """Names its field as a text, where a tuple of texts belongs."""

    def __init__(self, field: str) -> None:
        super().__init__(field)
        self.paths = field  # type: ignore[assignment]


class Nameless(Upper):
    identity = None  # type: ignore[assignment]


class Answering(Upper):
    """Returns what it is told to, whatever comes."""

    def __init__(self, field: str, answer: str) -> None:
        super().__init__(field)
        self._answer = answer

    def apply(self, decoded: Decoded) -> Decoded:
        spans = pa.array([[(1, 2, 3)]] * len(decoded.rows), pa.list_(pa.month_day_nano_interval()))
        answers: dict[str, object] = {
            "nothing": None,
            "an array": Decoded(pa.array([1] * len(decoded.rows))),
            "a row beyond": Decoded(decoded.rows, {len(decoded.rows): "bad"}),
            "a row before": Decoded(decoded.rows, {-1: "bad"}),
            "intervals": Decoded(pa.StructArray.from_arrays([spans], ["spans"])),
        }
        return answers[self._answer]  # type: ignore[return-value]


class Talking(Upper):
    """Prints wherever it can."""

    def __init__(self, field: str = "c") -> None:
        super().__init__(field)
        print("made")

    def apply(self, decoded: Decoded) -> Decoded:
        print("applied")
        return decoded

    def place(self, message: Message) -> str:
        print("placed")
        return "x"


class Outer:
    class Inner:
        def place(self, message: Message) -> str:
            return "inner"
