"""Links between the Markdown files lead somewhere, and so do the paths that they name."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDERS = "config|docs|scripts|secor|systemd|tests"


def pages() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-z", "*.md"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def prose(page: Path) -> str:
    """The text without its blocks of code."""
    return re.sub(r"^(    .*|```[\s\S]*?^```)$", "", page.read_text(), flags=re.MULTILINE)


def anchor(heading: str) -> str:
    """What a heading is called in a link, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {anchor(found) for found in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)}


def dead_links(page: Path) -> list[str]:
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        place, _, part = link.partition("#")
        target = page.parent / place if place else page
        if not link.startswith(("https://", "http://")) and (
            not target.exists() or (part and part not in anchors(target))
        ):
            dead.append(link)
    return dead


@pytest.mark.parametrize("name", pages())
def test_links_lead_somewhere(name: str) -> None:
    assert dead_links(ROOT / name) == []


@pytest.mark.parametrize("name", pages())
def test_paths_of_this_repository_are_there(name: str) -> None:
    paths = re.findall(rf"`((?:{FOLDERS})/[\w./@-]+)`", (ROOT / name).read_text())
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_a_dead_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Some `thing`, here\n[a](other.md) [b](#some-thing-here) [c](#thing)\n")
    assert dead_links(page) == ["other.md", "#thing"]


def test_the_index_of_the_documentation_has_every_page() -> None:
    docs = ROOT / "docs"
    index = (docs / "README.md").read_text()
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", index))
    assert linked == {path.name for path in docs.glob("*.md")} - {"README.md"}
    assert "docs/README.md" in (ROOT / "README.md").read_text()
