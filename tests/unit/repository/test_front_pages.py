"""The front pages of packages (``__init__``): their examples run, the modules they name exist."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

from tools.figures import PACKAGE, QUESTION_WORDS

ROOT = Path(__file__).parents[3]
PAGES = (
    *("archive", "batch", "commit", "consume", "core", "formats.typed"),
    *("parsing", "restore", "service", "tables", "verify"),
)


@pytest.mark.parametrize("package", PAGES)
def test_a_front_page_says_what_flows_what_holds_and_what_fails(package: str) -> None:
    module = importlib.import_module(f"secor.{package}")
    page = module.__doc__ or ""
    assert len(page.splitlines()) >= 8
    results = doctest.testmod(module)
    assert results.failed == 0


@pytest.mark.parametrize("package", PAGES)
def test_modules_that_a_front_page_sends_its_reader_to_exist(package: str) -> None:
    module = importlib.import_module(f"secor.{package}")
    folder = ROOT / "secor" / package.replace(".", "/")
    for sentence in re.findall(r"^Read (.+?)\.$", module.__doc__ or "", re.MULTILINE | re.DOTALL):
        for name in re.findall(r"``(\w+)``", sentence):
            assert (folder / f"{name}.py").exists() or (folder / name).is_dir(), name


def test_first_lines_of_modules_name_a_thing() -> None:
    first_words = {
        str(path): path.read_text().removeprefix('"""').split(None, 1)[0]
        for path in (ROOT / PACKAGE).rglob("*.py")
        if path.stat().st_size
    }
    assert [path for path, word in first_words.items() if word in QUESTION_WORDS] == []
