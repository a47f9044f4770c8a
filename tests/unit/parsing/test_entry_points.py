"""Decoders and formats that packages offer, as their documentation shows them."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from secor.archive.kept_schemas import KeptSchema
from secor.config.load import validate
from secor.core.errors import ConfigurationError, CorruptFile, PluginFailed
from secor.core.model import QUARANTINE
from secor.formats import format_of_key
from secor.formats.plugin import reader_of
from secor.wiring.plans import keeps_schema, plan_for
from tests.unit.parsing.parsing_cases import chunk_of, places, reasons

DOCS = Path(__file__).parents[3] / "docs"
LINES = [b"<34>Oct 11 22:14:15 host su: failed", b"nothing", b"<35>Oct 12 22:14:15 other su: a,b"]
KEPT = KeptSchema(1, pa.struct({"host": pa.string(), "severity": pa.int64(), "text": pa.string()}))


def example(page: str, name: str) -> str:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    [code] = [block for block in blocks if f"class {name}" in block]
    return str(code)


Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Make a package as pip would leave it."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(version: str = "1.0", more: str = "", **modules: str) -> None:
        info = tmp_path / "acme_secor-1.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: acme-secor\nVersion: {version}\n"
        )
        (info / "entry_points.txt").write_text(
            "[secor.decoders]\nsyslog = acme_syslog:SyslogDecoder\ngone = acme_gone:Decoder\n"
            "[secor.formats]\ncsv = acme_csv:CsvFormat\n" + more
        )
        for name, text in modules.items():
            (tmp_path / f"{name}.py").write_text(text)
            sys.modules.pop(name, None)
        reader_of.cache_clear()

    yield make
    for name in ("acme_syslog", "acme_csv"):
        sys.modules.pop(name, None)
    reader_of.cache_clear()


@pytest.fixture
def both(install: Install) -> Install:
    install(
        acme_syslog=example("parsing.md", "SyslogDecoder"),
        acme_csv=example("formats.md", "CsvFormat"),
    )
    return install


def validated(**changes: Any) -> tuple[Any, dict[str, str]]:
    parser = {"decoder": "syslog", "decoder_settings": {"year": 2026}, "time_field": "at"}
    parser["time_format"] = "%Y %b %d %H:%M:%S"
    tree = {
        "group": {"name": "g", "kind": "partition"},
        "kafka": {"bootstrap_servers": ["127.0.0.1:1"], "topics": ["clicks"]},
        "store": {"kind": "local", "local": {"directory": "/nowhere"}},
        "parser": {**parser, **changes.get("parser", {})},
        "output": {"format": "csv", "metadata_columns": ["_offset"], **changes.get("output", {})},
    }
    made, faults = validate(tree)
    return made, dict(faults)


def plan(**changes: Any) -> Any:
    made, faults = validated(**changes)
    assert made is not None, faults
    return plan_for(made, "clicks", kept=KEPT)


def test_the_documented_decoder_and_format_store_messages(both: Install) -> None:
    made, _ = validated()
    assert keeps_schema(made, "clicks")
    chosen = plan()
    parts = chosen.parser.split(chunk_of(LINES))
    assert places(parts) == {"dt=2026-10-11": [0], "dt=2026-10-12": [2], "quarantine:": [1]}
    assert reasons(parts)[1] == "decode: ValueError: is no line of syslog"
    sink = io.BytesIO()
    writer = chosen.log_format.create(sink, b"seed")
    for part in parts:
        if part.stream != QUARANTINE:
            writer.append(part.records)
    writer.close()
    assert sink.getvalue() == (
        b'"_offset","host","severity","text","_extra"\n'
        b'0,"host",2,"failed","{""at"":""2026 Oct 11 22:14:15"",""process"":""su""}"\n'
        b'2,"other",3,"a,b","{""at"":""2026 Oct 12 22:14:15"",""process"":""su""}"\n'
    )
    sink.seek(0)
    reader = format_of_key("p/clicks/dt=2026-10-11/1_0_00000000000000000000.csv", sink)
    [rows] = reader.read(sink, "file")
    assert rows.column("offset").to_pylist() == [0, 2]
    assert json.loads(rows.column("value")[1].as_py())["text"] == "a,b"
    with pytest.raises(CorruptFile, match=r"^broken: "):
        list(reader.read(io.BytesIO(b"a,b\n1\n"), "broken"))


def test_code_version_and_settings_are_in_the_fingerprint(both: Install) -> None:
    plans = [plan(), plan(parser={"decoder_settings": {"year": 2025}})]
    plans.append(plan(output={"format_settings": {"delimiter": ";"}}))
    both(version="1.1")
    plans.append(plan())
    both(acme_syslog=example("parsing.md", "SyslogDecoder") + "# changed\n")
    plans.append(plan())
    both(acme_csv=example("formats.md", "CsvFormat") + "# changed\n")
    plans.append(plan())
    assert len({made.fingerprint for made in plans}) == len(plans)
    assert plan().fingerprint == plans[-1].fingerprint


@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        ({"parser": {"decoder": "syslg"}}, "parser.decoder", "do you mean 'syslog'"),
        ({"output": {"format": "cvs"}}, "output.format", "do you mean 'csv'"),
        ({"output": {"codec": "gzip", "row_group_rows": 5}}, "output.row_group_rows", "csv has no"),
        ({"output": {"codec": "none"}}, "output.codec", "format_settings"),
        ({"output": {"format": "orc", "format_settings": {"a": 1}}}, "output.format_settings", ""),
        ({"parser": {"decoder": "json"}}, "parser.decoder_settings", "packages"),
    ],
)
def test_faults_of_the_configuration_are_named(
    both: Install, changes: Any, key: str, why: str
) -> None:
    made, faults = validated(**changes)
    assert made is None
    assert why in faults[key]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"parser": {"decoder": "gone"}}, "decoder 'gone' .*ModuleNotFoundError.*install"),
        ({"parser": {"decoder_settings": {"month": 1}}}, "decoder 'syslog' .*TypeError"),
        ({"output": {"format_settings": {"quote": 1}}}, "format 'csv' .*TypeError"),
    ],
)
def test_what_cannot_be_made_is_a_fault_of_the_configuration(
    both: Install, changes: Any, why: str
) -> None:
    with pytest.raises(ConfigurationError, match=why):
        plan(**changes)


def test_two_packages_that_offer_one_name_are_refused(install: Install) -> None:
    install(more="csv = other_csv:CsvFormat\n", acme_syslog=example("parsing.md", "SyslogDecoder"))
    with pytest.raises(ConfigurationError, match="more than once"):
        plan()


def test_a_decoder_that_gives_what_no_column_holds_makes_messages_bad(install: Install) -> None:
    code = "class SyslogDecoder:\n  def decode(self, value): return eval(value)\n"
    install(acme_syslog=code)
    values = [b"{'a': float('nan')}", b"{'a': {1: 2}}", b"{'a': object()}", b"[]", b"1/0"]
    values += [b"{'a': [b'x', (1, None)]}", b"{'a': '\\ud800'}"]
    parser: dict[str, Any] = {"decoder_settings": {}, "time_field": None, "time_format": "auto"}
    output = {"format": "jsonlines", "codec": "none"}
    parts = plan(parser=parser, output=output).parser.split(chunk_of(values))
    assert sorted(reasons(parts)) == [0, 1, 2, 3, 4, 6]


def test_a_format_that_fails_stops_its_partition_by_name(install: Install) -> None:
    install(
        acme_syslog=example("parsing.md", "SyslogDecoder"),
        acme_csv="class CsvFormat:\n  extension, identity = '.csv', 'x'\n"
        "  def create(self, sink, schema): return self\n  def read(self, file): return []\n"
        "  def write(self, group): raise KeyError('x')\n  def close(self): pass\n",
    )
    chosen = plan()
    writer = chosen.log_format.create(io.BytesIO(), b"")
    writer.append(chosen.parser.split(chunk_of(LINES))[0].records)
    with pytest.raises(PluginFailed, match=r"^format csv: KeyError: 'x'"):
        writer.close()
