"""Plug-ins of users: what they may do, and that they are caught when they are not pure."""

from __future__ import annotations

import hashlib
import json
import re
import sys
import threading
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import secor.plugins
from secor.config.parser import Parser
from secor.core.errors import ConfigurationError, NotDeterministic, PluginFailed
from secor.core.model import QUARANTINE
from secor.parsing.decoders import make_decoder
from secor.parsing.fields import field_at, texts
from secor.parsing.pipeline import Pipeline
from secor.parsing.plugins import Message, load_plugin
from secor.parsing.user_classes import quiet
from secor.wiring.parsers import pipeline_for
from tests.unit.parsing.decoder_cases import decode
from tests.unit.parsing.parsing_cases import chunk_of, json_chunk, places, reasons
from tests.unit.parsing.plugins_for_tests import Ticking

HERE = "tests.unit.parsing.plugins_for_tests"


def by_message(name: str, **settings: Any) -> Pipeline:
    parser = Parser(plugin=f"{HERE}:{name}", plugin_settings=settings)
    return pipeline_for(parser, typed=False)


def by_column(name: str, typed: bool = False) -> Pipeline:
    step = {"kind": "plugin", "plugin": f"{HERE}:{name}", "settings": {"field": "c"}}
    return pipeline_for(Parser.model_validate({"layout": "{c}", "transforms": [step]}), typed=typed)


def test_a_class_over_messages_places_leaves_out_and_quarantines() -> None:
    parts = by_message("ByFirstByte", prefix="x=").split(chunk_of([b"a", b"", None, b"b", b"a"]))
    assert places(parts) == {"x=97": [0, 4], "x=98": [3], "quarantine:": [2]}
    assert reasons(parts)[2].startswith("plugin: TypeError: ")


@pytest.mark.parametrize(
    "path",
    ["../x", "a/../b", "/a", "a/", "a//b", ".", "a\\b", "a\nb", "x" * 256, "a/" * 400, 5, "\ud800"],
)
def test_line_21_unsafe_paths_of_a_plugin_are_never_mended_but_quarantined(path: object) -> None:
    parts = by_message("Returns", path=path).split(chunk_of([b"a"]))
    assert places(parts) == {"quarantine:": [0]}


@pytest.mark.parametrize("path", ["", "dt=2026-11-21/hr=04", "é", "a" * 255])
def test_safe_paths_of_a_plugin_are_taken_as_they_are(path: str) -> None:
    assert places(by_message("Returns", path=path).split(chunk_of([b"a"]))) == {path: [0]}


@pytest.mark.parametrize("name", ["Broken", "Absent"])
def test_what_the_system_or_a_server_lacks_stops_the_partition_and_not_the_process(
    name: str,
) -> None:
    with pytest.raises(PluginFailed, match="must not depend on files or servers"):
        by_message(name).split(chunk_of([b"a"]))


@pytest.mark.parametrize("name", ["Random", "Counting"])
def test_chance_and_memory_are_caught_at_once(name: str) -> None:
    with pytest.raises(NotDeterministic, match=rf"{HERE}:{name} is not deterministic.*offset"):
        by_message(name).split(chunk_of([b"a"] * 20))


def test_a_clock_is_caught_when_it_has_moved() -> None:
    pipeline = by_message("Ticking")
    Ticking.now = 0
    pipeline.split(chunk_of([b"a"] * 5))
    Ticking.now = 1
    with pytest.raises(NotDeterministic, match=r"dt=0.*then.*dt=1"):
        pipeline.split(chunk_of([b"a"] * 5, first=5))


def test_checks_go_on_for_ever_by_offset_and_not_by_time() -> None:
    pipeline = by_message("Ticking")
    Ticking.now = 0
    caught = []
    for first in range(0, 1000, 2):
        Ticking.now = first
        try:
            pipeline.split(chunk_of([b"a"], first=first))
        except NotDeterministic:
            caught.append(first)
    assert len(caught) > 3
    assert caught[-1] > 100


def test_a_class_over_messages_may_give_the_value_to_store() -> None:
    chunk = chunk_of([b"a1b2", None, b"c"])
    (part,) = by_message("WithoutDigits").split(chunk)
    assert part.output_partition == "all"
    assert part.records.column("value").to_pylist() == [b"ab", None, b"c"]
    assert part.records.drop_columns("value").equals(chunk.records.drop_columns("value"))
    assert by_message("WithoutDigits").gives_values
    assert not by_message("ByFirstByte").gives_values


def test_quarantine_keeps_what_kafka_has() -> None:
    (part,) = by_message("GivesText").split(chunk_of([b"secret"]))
    assert part.stream == QUARANTINE
    assert part.records.column("value").to_pylist() == [b"secret"]


def test_a_value_where_none_was_announced_or_can_be_stored_stops_the_partition() -> None:
    with pytest.raises(PluginFailed, match="gives_values = True"):
        by_message("GivesWithoutSayingSo").split(chunk_of([b"a"]))
    step = {"kind": "plugin", "plugin": f"{HERE}:OfTheMessage"}
    parser = Parser.model_validate({"plugin": f"{HERE}:WithoutDigits", "transforms": [step]})
    with pytest.raises(PluginFailed, match="stores decoded fields"):
        pipeline_for(parser, typed=True).split(chunk_of([b"a1"]))


def test_without_a_decoder_a_plugin_makes_fields_of_the_message() -> None:
    step = {"kind": "plugin", "plugin": f"{HERE}:OfTheMessage"}
    parser = Parser.model_validate({"decoder": "none", "layout": "all", "transforms": [step]})
    (part,) = pipeline_for(parser, typed=True).split(chunk_of([b"ab", b""]))
    assert part.records.column("row").to_pylist() == [
        {"text": "ab", "size": 2},
        {"text": "", "size": 0},
    ]


def test_what_users_import_is_there() -> None:
    for name in secor.plugins.__all__:
        assert getattr(secor.plugins, name) is not None
    text = (Path(__file__).parents[3] / "docs" / "parsing.md").read_text()
    assert set(re.findall(r"(?:from|import) (secor[\w.]*)", text)) == {"secor.plugins"}


def test_a_column_plugin_is_a_step_and_may_name_bad_messages() -> None:
    parts = by_column("Upper").split(json_chunk([{"c": "nl"}, {"x": 1}, {"c": "de"}]))
    assert places(parts) == {"NL": [0], "DE": [2], "quarantine:": [1]}
    assert reasons(parts) == {1: "transform: no c"}


@pytest.mark.parametrize("typed", [False, True])
def test_a_column_plugin_that_looks_at_its_neighbours_is_caught(typed: bool) -> None:
    with pytest.raises(NotDeterministic, match="Ranked"):
        by_column("Ranked", typed).split(json_chunk([{"c": "x"}] * 8))


def test_a_good_plugin_passes_whatever_types_a_chunk_has() -> None:
    items = [{"c": "x", "v": it} for it in (1, "1", 2.5, None, [1], {"a": 1}, True)]
    pipeline = pipeline_for(
        Parser.model_validate(
            {
                "layout": "{c}",
                "transforms": [
                    {"kind": "plugin", "plugin": f"{HERE}:Upper", "settings": {"field": "c"}}
                ],
            }
        ),
        typed=True,
    )
    for first in range(4):
        pipeline.split(json_chunk(items, first=first * 10))


@pytest.mark.parametrize("name", ["Short", "Failing"])
def test_a_column_plugin_that_breaks_its_promise_stops_the_partition_by_name(name: str) -> None:
    with pytest.raises(PluginFailed, match=f"{HERE}:{name}"):
        by_column(name).split(json_chunk([{"c": "x"}] * 2))


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("nothing", "package.module:Class"),
        (":X", "package.module:Class"),
        ("no.such.module:X", "no.such|No module"),
        (f"{HERE}:Missing", "Missing"),
        (f"{HERE}:Upper", "Upper"),
        (f"{HERE}:Message", "Message"),
    ],
)
def test_plugins_that_cannot_be_made_are_configuration_errors(path: str, word: str) -> None:
    with pytest.raises(ConfigurationError, match=word):
        load_plugin(path, "place", {})


FAULTY = {
    "raises": ("raise KeyError('SETTING')", "KeyError: 'SETTING'"),
    "stops": ("import sys; sys.exit('give me a key')", "SystemExit: give me a key"),
    "asserts": ("assert 1 == 2, 'odd'", "AssertionError: odd"),
    "no_python": ("class Place(:", "SyntaxError: invalid syntax"),
    "reads": ("open('/nowhere/at/all')", "FileNotFoundError: .*nowhere"),
    "needs": ("import nothing_like_it", "No module named 'nothing_like_it'.*PYTHONPATH"),
    "constructor": (
        "class Place:\n  def __init__(self): raise RuntimeError('no table')",
        "RuntimeError: no table$",
    ),
}


@pytest.mark.parametrize("name", FAULTY)
def test_whatever_a_module_or_a_constructor_raises_is_told_with_the_plugins_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    code, expected = FAULTY[name]
    (tmp_path / f"faulty_{name}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigurationError, match=rf"plug-in.*faulty_{name}:Place.*{expected}"):
        pipeline_for(Parser(plugin=f"faulty_{name}:Place"), typed=False)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Misnamed", r"its paths are 'c', not a tuple"), ("Nameless", "its identity is None")],
)
def test_a_column_plugin_that_does_not_name_itself_is_refused(name: str, expected: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{HERE}:{name}: {expected}"):
        by_column(name)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("nothing", "must return Decoded.*not NoneType"),
        ("an array", "must return Decoded.*not Int64Array"),
        ("a row beyond", "names row 2, and there are 2, from 0"),
        ("a row before", "names row -1, and there are 2, from 0"),
        ("intervals", "its field spans is .*month_day_nano_interval.*no format stores"),
    ],
)
def test_what_is_no_answer_stops_the_partition_by_the_plugins_name(
    answer: str, expected: str
) -> None:
    settings = {"field": "c", "answer": answer}
    step = {"kind": "plugin", "plugin": f"{HERE}:Answering", "settings": settings}
    made = pipeline_for(Parser.model_validate({"layout": "{c}", "transforms": [step]}), typed=True)
    with pytest.raises(PluginFailed, match=f"{HERE}:Answering: .*{expected}"):
        made.split(json_chunk([{"c": "x"}] * 2))


def test_what_plugins_print_stays_out_of_the_commands_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    by_column("Talking").split(json_chunk([{"c": "x"}]))
    by_message("Talking").split(chunk_of([b"a"]))
    said = capsys.readouterr()
    assert said.out == ""
    assert {"made", "applied", "placed"} <= set(said.err.split())


def test_the_commands_output_is_given_back_when_plugins_ran_in_two_threads() -> None:
    own = sys.stdout
    begun, to_end = threading.Event(), threading.Event()

    def other() -> None:
        with quiet():
            begun.set()
            assert to_end.wait(60)

    with ThreadPoolExecutor(1) as pool:
        with quiet():
            done = pool.submit(other)
            assert begun.wait(60), "none waits for another's plug-in"
        still = sys.stdout
        to_end.set()
        done.result()
    assert still is sys.stderr
    assert sys.stdout is own


def test_a_class_may_be_within_another() -> None:
    assert places(by_message("Outer.Inner").split(chunk_of([b"a"]))) == {"inner": [0]}


def test_a_plugin_may_be_in_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "class Place:\n    def place(self, message):\n        return 'zipped'\n"
    with zipfile.ZipFile(tmp_path / "plugins.zip", "w") as archive:
        archive.writestr("zipped_plugin.py", code)
    monkeypatch.syspath_prepend(tmp_path / "plugins.zip")
    made = pipeline_for(Parser(plugin="zipped_plugin:Place"), typed=False)
    assert places(made.split(chunk_of([b"a"]))) == {"zipped": [0]}
    assert hashlib.sha256(code.encode()).hexdigest()[:16] in made.identity


def test_a_column_plugin_has_to_have_the_method() -> None:
    step = {"kind": "plugin", "plugin": f"{HERE}:ByFirstByte"}
    with pytest.raises(ConfigurationError, match=r"no method apply"):
        pipeline_for(Parser.model_validate({"transforms": [step]}), typed=False)


def test_the_identity_has_the_plugins_code_and_settings() -> None:
    one, other = by_message("ByFirstByte").identity, by_message("ByFirstByte", prefix="y").identity
    assert one != other
    assert "@" in one


def documented() -> dict[str, Any]:
    text = (Path(__file__).parents[3] / "docs" / "parsing.md").read_text()
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(code, names)  # noqa: S102 - it is ours
    return names


@pytest.mark.parametrize("others", [[], [5, True, {"a": None}, [1]], [None]])
def test_the_plugin_over_columns_of_the_documentation_works_whatever_the_chunk(
    others: list[object],
) -> None:
    values = [
        b'{"c": "nl", "d": "x"}',
        b"[",
        *(json.dumps({"c": it, "d": it}).encode() for it in others),
    ]
    decoder = make_decoder("json")
    made = documented()["Upper"]("c").apply(decode(decoder, values))
    assert texts(field_at(made.rows, "c")).at(0) == "NL"
    assert texts(field_at(made.rows, "d")).at(0) == "x"
    assert list(made.bad) == [1]
    assert made.rows.is_null().to_pylist()[1]


def test_the_plugin_of_the_documentation_works() -> None:
    plugin = documented()["ByTenant"]()
    message = Message("t", 0, 0, None, None, b"a/b", None, ())
    assert plugin.place(message) == "tenant=a%2Fb"
    assert plugin.place(replace(message, key=None)) is None
