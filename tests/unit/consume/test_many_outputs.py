"""Thousands of output partitions in one batch: few descriptors, little memory, and all is there."""

from __future__ import annotations

import ctypes
import gzip
import io
import json
import random
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from crc32c import crc32c

from secor.batch.batch import Batch
from secor.batch.local_file import SHARE_ABOVE
from secor.batch.plan import TopicPlan
from secor.batch.policy import Reason
from secor.batch.sealed import BatchFile, SealedBatch
from secor.batch.workspace import Workspace
from secor.config.load import validate
from secor.config.output import TYPED_FORMATS
from secor.core.model import Chunk, TopicPartition
from secor.core.naming import parse_key
from secor.formats.streams import FED, GZIP_STATE, UNFED_STATE, GzipStream
from secor.wiring.plans import plan_for
from tests.fakes.archive import messages
from tests.fakes.clock import FakeClock
from tests.unit.parsing.test_every_combination import rows

HERE = TopicPartition("clicks", 0)
USERS = 2000
ROUNDS = 3
OPEN = 20
DAY = 86_400


def plan(folder: Path, format: str, layout: str = "user={number}") -> TopicPlan:
    output: dict[str, object] = {"prefix": "p", "format": format}
    if format in TYPED_FORMATS:
        schema = folder / "schema.json"
        fields = [{"name": "number", "type": "int64"}, {"name": "country", "type": "string"}]
        schema.write_text(json.dumps({"fields": fields}))
        output |= {"schema_file": str(schema), "metadata_columns": ["_offset"]}
    config, faults = validate(
        {
            "group": {"name": "g", "kind": "partition"},
            "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics": ["clicks"]},
            "store": {"kind": "local", "local": {"directory": str(folder)}},
            "output": output,
            "parser": {"layout": layout, **({"time_field": "at"} if "{time" in layout else {})},
        }
    )
    assert config is not None, faults
    return plan_for(config, "clicks")


def value(offset: int) -> bytes:
    return b'{"number": %d, "country": "%d"}' % (offset % USERS, offset)


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def sealed(folder: Path, format: str) -> tuple[SealedBatch, int, int]:
    """Also the most descriptors, and the most bytes reported to be in memory."""
    workspace = Workspace(folder, "me", open_files=OPEN)
    batch = Batch(HERE, 0, plan=plan(folder, format), workspace=workspace, clock=FakeClock())
    before, opened, memory = descriptors(), 0, 0
    for first in range(0, ROUNDS * USERS, USERS):
        some = range(first, first + USERS)
        batch.append(Chunk(HERE, messages(list(some), value), some.stop))
        opened, memory = max(opened, descriptors() - before), max(memory, batch.buffered)
    return batch.seal(Reason.AGE), opened, memory


@pytest.mark.parametrize("format", ["text", "jsonlines", "parquet"])
def test_line_25_thousands_of_output_partitions_take_few_descriptors_and_little_memory(
    format: str, tmp_path: Path
) -> None:
    done, opened, memory = sealed(tmp_path, format)
    assert opened <= OPEN
    assert 0 < memory < 32 << 20
    assert len(done.files) == USERS
    for file in done.files[::97]:
        name = parse_key("p/clicks", file.key)
        assert name is not None
        user = int(name.output_partition.removeprefix("user="))
        offsets = list(range(user, ROUNDS * USERS, USERS))
        assert name.start_offset == 0
        assert file.info.first_offset == user
        content = content_of(file)
        if format == "parquet":
            assert rows(format, content) == [(at, (user, str(at))) for at in offsets]
            continue
        lines = gzip.decompress(content).splitlines()
        assert [json.loads(line)["country"] for line in lines] == [str(at) for at in offsets]


def content_of(file: BatchFile) -> bytes:
    with file.local.open() as opened:
        return opened.read()


@pytest.mark.parametrize("format", ["text", "jsonlines"])
def test_hundreds_of_compressed_files_have_no_compressor_each(format: str, tmp_path: Path) -> None:
    outputs, lines = SHARE_ABOVE + 40, 3
    text = random.Random(1).randbytes(3 * FED // 4).hex()  # a file has more than one block

    def line(offset: int) -> bytes:
        number = offset % outputs
        return b'{"number": %d, "country": "%s"}' % (number, text[number:].encode())

    workspace = Workspace(tmp_path, "me", open_files=OPEN)
    stored = plan(tmp_path, format)
    batch = Batch(HERE, 0, plan=stored, workspace=workspace, clock=FakeClock())
    for first in range(0, lines * outputs, outputs):
        some = range(first, first + outputs)
        batch.append(Chunk(HERE, messages(list(some), line), some.stop))
    assert batch.buffered < outputs * (FED + GZIP_STATE) // 2
    whole = lines * outputs * (len(text) - outputs)
    assert batch.size > whole, "what is spilled is not counted"
    for file in batch.seal(Reason.AGE).files:
        content = content_of(file)
        assert (len(content), crc32c(content)) == (file.local.size, file.local.crc32c)
        alone = io.BytesIO()
        stream = GzipStream(alone)
        stream.write(gzip.decompress(content))
        stream.close()
        assert content == alone.getvalue()
        assert len(gzip.decompress(content).splitlines()) == lines


def test_each_message_of_another_user_bounds_the_files_of_a_batch_within_a_chunk(
    tmp_path: Path,
) -> None:
    workspace = Workspace(tmp_path, "me", open_files=OPEN)
    stored = plan(tmp_path, "text")
    opened: list[Batch] = []

    def begin(start: int) -> Batch:
        opened.append(
            Batch(HERE, start, plan=stored, workspace=workspace, clock=FakeClock(), max_files=50)
        )
        return opened[-1]

    batch = begin(0)
    for first in range(0, 2 * USERS, USERS):
        some = range(first, first + USERS)
        values = {offset: b'{"number": %d}' % offset for offset in some}
        rest: Chunk | None = Chunk(HERE, messages(list(some), values.get), some.stop)
        while rest is not None and (rest := batch.append(rest)) is not None:
            assert batch.due() is Reason.FILES
            batch = begin(batch.next_offset)
    assert {batch.files for batch in opened} == {50}
    assert [batch.start for batch in opened] == list(range(0, 2 * USERS, 50))
    assert min(batch.buffered for batch in opened) > 50 * UNFED_STATE


def measure(folder: Path, format: str, outputs: int) -> tuple[int, int]:
    """Return the bytes that a batch reports to hold in memory, and those that the process took."""

    def filled(rounds: int) -> Batch:
        stored = plan(folder, format, "user={number}")
        batch = Batch(HERE, 0, plan=stored, workspace=workspace, clock=FakeClock())
        for first in range(0, rounds * USERS, USERS):
            some = range(first, first + USERS)
            of_output = {at: b'{"number": %d, "country": "%d"}' % (at % outputs, at) for at in some}
            batch.append(Chunk(HERE, messages(list(some), of_output.get), some.stop))
        return batch

    workspace = Workspace(folder, "me", open_files=OPEN)
    # What is imported, cached and compiled at the first time is not what rows take.
    filled(1).seal(Reason.AGE)
    before = resident()
    batch = filled(10 * ROUNDS)
    return batch.buffered, resident() - before


def resident() -> int:
    ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/status").read_text().split("RssAnon:")[1]
    return 1024 * int(status.split()[0])


@pytest.mark.parametrize("outputs", [24, pytest.param(500, marks=pytest.mark.long)])
@pytest.mark.parametrize("format", ["text", "sequencefile", "parquet"])
def test_line_25_what_is_told_to_be_in_memory_is_what_the_process_takes(
    format: str, outputs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In a process of its own: what others have freed would hide what is taken here.
    monkeypatch.setenv("ARROW_DEFAULT_MEMORY_POOL", "system")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        reported, taken = pool.submit(measure, tmp_path, format, outputs).result()
    assert taken < 1.5 * reported + (8 << 20)


def test_line_22_late_messages_are_in_their_days_directory_in_an_object_of_their_own(
    tmp_path: Path,
) -> None:
    stored = plan(tmp_path, "sequencefile", "dt={time:%Y-%m-%d}")
    workspace = Workspace(tmp_path, "me")
    keys = []
    for start, days in ((0, [0, 0, 1, 1]), (4, [2, 0, 2, 1])):
        batch = Batch(HERE, start, plan=stored, workspace=workspace, clock=FakeClock())
        midnights = enumerate((1_795_219_200 + day * DAY for day in days), start)
        values = {offset: b'{"at": %d}' % at for offset, at in midnights}
        batch.append(Chunk(HERE, messages(list(values), values.get), start + len(values)))
        keys += [file.key.removeprefix("p/clicks/") for file in batch.seal(Reason.AGE).files]
    assert sorted(keys) == [
        f"dt=2026-11-{day}/1_0_{first:020d}.seq"
        for day, first in ((21, 0), (21, 4), (22, 0), (22, 4), (23, 4))
    ]
