"""The English of the repository: words that are out, and first lines that name a thing."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.figures import QUESTION_WORDS

ROOT = Path(__file__).parents[3]

OUT = {
    r"\b(tell|tells|telling|told)\b": "say, show, report, log; to tell apart is to distinguish",
    r"\b(stand|stands|stood|standing)\b": "is or exists; what stands for a thing represents it",
    r"\bmend\w*": "fix, correct or repair",
    r"\bbeside\b": "next to, besides, with, at the same time as",
    r"\bof which\b": "two sentences, or: with, where, whose",
    r"\bwhoever\b": "name the program or person that acts",
    r"(?:^|[.:;(]\s*|\b(?:to|of|by|for|from|as|but|than)\s+)who\b": "name the program or person",
    r"\b(go|goes) by\b": "is known by, counts, compares with",
}
"""Words that a reader of Kafka's and Spark's English stumbles over, and what to say instead."""

RIGHT = (
    "read seek tell write",  # names of methods
)
"""Where such a word is right."""

NAMES_OUT = frozenset(
    {
        *("beside", "begun", "dressed", "hasty", "impatient", "mend", "mended", "owned", "stand"),
        *("standing", "stands", "tell", "tells", "told", "turned", "wished"),
    }
)
"""Words that are no part of a name: a function is a verb, a variable says what it holds."""

NAMES_RIGHT = frozenset({"tell"})
"""Names of others: the method of a file."""


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of comments and string literals, with their numbers; no code in braces."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            text = re.sub(r"^\w*(\"\"\"|'''|\"|')|(\"\"\"|'''|\"|')$", "", token.string)
            if "f" in token.string[:3].lower():
                text = re.sub(r"\{[^{}\n]*\}", "{}", text)
            for number, line in enumerate(text.removeprefix("#").split("\n")):
                yield token.start[0] + number, line.strip()


def prose_of(page: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a Markdown page, without code."""
    fenced = False
    for number, line in enumerate(page.split("\n"), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield number, re.sub(r"`[^`]*`", "", line)


ANY = re.compile("|".join(OUT), re.MULTILINE)


def found_in(lines: Iterator[tuple[int, str]]) -> list[str]:
    """Return a sentence for each word that is out."""
    return [
        f"{number}: {match[0].strip()!r} (say: {better}): {line.strip()}"
        for number, line in lines
        if not any(right in line for right in RIGHT)
        for pattern, better in OUT.items()
        if (match := re.search(pattern, line)) is not None
    ]


def names_of(source: str) -> Iterator[tuple[int, str]]:
    """Yield the names that a module gives: functions, classes, arguments, variables, attributes."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ClassDef(name=name):
                yield node.lineno, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def names_out(source: str) -> list[str]:
    return [
        f"{number}: the name {name}"
        for number, name in names_of(source)
        if name not in NAMES_RIGHT
        and not name.isupper()
        and NAMES_OUT & set(name.lower().split("_"))
    ]


def questions(source: str) -> list[str]:
    """Return the classes that a question describes."""
    return [
        f"{node.lineno}: {node.name}: {docstring.splitlines()[0]}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef)
        and (docstring := ast.get_docstring(node)) is not None
        and docstring.split()[0] in QUESTION_WORDS
    ]


def test_the_package_is_in_plain_words() -> None:
    wrong = []
    for path in sorted((ROOT / "secor").rglob("*.py")):
        source = path.read_text()
        where = path.relative_to(ROOT)
        texts = texts_of(source) if ANY.search(source) else iter(())  # to read tokens is slow
        found = [*found_in(texts), *names_out(source), *questions(source)]
        wrong += [f"{where}:{text}" for text in found]
    assert not wrong, "\n".join(["see CONTRIBUTING.md", *wrong])


def test_the_pages_are_in_plain_words() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "config").glob("*.md")]
    wrong = [
        f"{page.relative_to(ROOT)}:{text}"
        for page in sorted(pages)
        for text in found_in(prose_of(page.read_text()))
    ]
    assert not wrong, "\n".join(["see CONTRIBUTING.md", *wrong])


@pytest.mark.parametrize(
    "planted",
    [
        '"""Tell it."""\n\nx = "who is told"',
        "# the file stands there\n",
        'print(f"{x}: mend the plug-in")',
        '"""Rows beside others."""',
        '"""Files of which some are new."""',
        '"""An answer to who asks."""',
        "# whoever comes first\n",
        "def not_begun() -> bool: ...",
        "class Standing: ...",
        "told = 1",
        'class A:\n    """What it is."""',
    ],
)
def test_it_sees_such_words(planted: str) -> None:
    assert [*found_in(texts_of(planted)), *names_out(planted), *questions(planted)]


def test_code_and_other_words_are_right() -> None:
    source = 'print(f"at {file.tell()}")  # an understanding\nstandby = file.tell()\n'
    assert not [*found_in(texts_of(source)), *names_out(source)]
    page = "Prose.\n```\nbeside\n```\n    stands\nThe event `stands_by` and `told`.\n"
    assert not found_in(prose_of(page))
