"""Expected values were found out with commons-configuration 1.9, which Java Secor uses."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from secor.config.translation.properties import Properties, read, split, unescape
from secor.core.errors import ConfigurationError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def properties(folder: Path, text: str, **overrides: str) -> Properties:
    path = folder / "x.properties"
    path.write_text(text, encoding="latin-1")
    return read(path, overrides, {"HOME": "/home/secor"})


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("a = b", "a", "b"),
        ("c:d", "c", "d"),
        ("e f g", "e", "f g"),
        ("f = g = h", "f", "g = h"),
        ("d:= e", "d", "= e"),
        ("e==f", "e", "=f"),
        ("g=  ", "g", ""),
        (r"key\ with\=sep=1", "key with=sep", "1"),
        (r"esc=a\,b", "esc", "a,b"),
        (r"path=C:\temp\x", "path", "C:\temp" + "x"),
        (r"uni=\u00e9\t|", "uni", "\u00e9\t|"),
        (r"nl=\n", "nl", ""),
        (r"dbl=\\\\x", "dbl", r"\\x"),
        ("lead=,x", "lead", ",x"),
        ("m=a;b", "m", "a;b"),
        ("name=caf\u00e9", "name", "caf\u00e9"),
    ],
)
def test_a_line_is_read_as_java_reads_it(folder: Path, line: str, name: str, value: str) -> None:
    found = properties(folder, line + "\n")
    assert list(found) == [name]
    assert found.text(name).strip() == value


def test_escapes_that_are_whitespace_stay_what_they_are(folder: Path) -> None:
    assert properties(folder, "nl=\\n\n").text("nl") == "\n"


def test_lines_are_continued_and_comments_are_passed_over(folder: Path) -> None:
    text = "# no\n! no\na=1 \\\n  # comment inside\n   2\nq=x\\\n  \\\n  y\r\ntrail=u \\  \nv\n"
    found = properties(folder, text)
    assert {name: found.text(name) for name in found} == {"a": "1 2", "q": "xy", "trail": "u v"}


def test_a_comma_splits_unless_it_is_escaped(folder: Path) -> None:
    found = properties(folder, "list=a, b ,c\nempty=x,,y\nboth=a\\,b,c\n", over="x,y")
    assert found.text("list") == "a"
    assert found.texts("list") == ("a", "b", "c")
    assert found.texts("empty") == ("x", "y")
    assert found.texts("both") == ("a,b", "c")
    assert found.texts("over") == ("x", "y")


def test_the_first_of_two_counts_and_only_an_override_replaces(folder: Path) -> None:
    (folder / "inc.properties").write_text("both=included\nfrom.inc=1\n")
    text = "include=inc.properties\nboth=own\nother=first\nother=second\nover=file\n"
    found = properties(folder, text, over="line")
    assert found.text("both") == "included"
    assert found.text("other") == "first"
    assert found.text("over") == "line"
    told = {(name, one.place) for name, one in found.without_effect()}
    assert told == {("both", "x.properties:2"), ("other", "x.properties:4")}
    assert found.place("both") == "inc.properties:1"
    assert found.place("over") == "-D"


def test_includes_are_relative_to_their_file_and_may_be_several(folder: Path) -> None:
    (folder / "more").mkdir()
    (folder / "more/a.properties").write_text("Include = b.properties , c.properties\n")
    (folder / "more/b.properties").write_text("b=1\n")
    (folder / "more/c.properties").write_text("c=1\n")
    assert list(properties(folder, "include=more/a.properties\n")) == ["b", "c"]


def test_variables_are_filled_in_from_what_counts_at_last(folder: Path) -> None:
    text = "a=old\nref=${a}-${nope}\nl=${list}\nlist=x,y\ne=${env:HOME}\ns=$${a}\nd=${sys:a}\n"
    found = properties(folder, text, a="new")
    assert found.text("ref") == "new-${nope}"
    assert found.text("l") == "x"
    assert found.text("e") == "/home/secor"
    assert found.text("s") == "${a}"
    assert found.text("d") == "new"


def all_texts(folder: Path, text: str) -> list[str]:
    found = properties(folder, text)
    return [found.text(name) for name in found]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a=${b}\nb=${a}\n", "circles: a -> b -> a"),
        ("include=x.properties\n", "includes itself"),
        ("include=gone.properties\n", "copy it there; Java Secor may have it in its jar"),
        ("a=1\nb=2\\\n", "x.properties:2: the file ends in the middle"),
    ],
)
def test_what_cannot_be_read_is_told(folder: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        all_texts(folder, text)


def test_a_file_that_is_not_there_is_told(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read(folder / "nope.properties", {})


def test_lines_without_a_separator_are_passed_over_and_told(folder: Path) -> None:
    found = properties(folder, "nothing\na=1\n=2\n")
    assert list(found) == ["a"]
    assert found.ignored == ["x.properties:1: nothing", "x.properties:3: =2"]


@given(st.text(alphabet="ab\\,= nu0d\t", max_size=20))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_no_text_breaks_the_reader(text: str) -> None:
    parts = split(unescape(text))
    assert parts
    assert all(isinstance(part, str) for part in parts)
