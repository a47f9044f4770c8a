"""The list of jars, and fetching it: an Ivy of a few lines stands for the real one."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

import pytest

from secor.core.errors import Unavailable
from secor.java.bundles import BUNDLES, Bundle
from secor.java.pinned import BundleFetch, Jar, check, pinned_jars, shares

IVY = """
import pathlib, re, sys
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
module = pathlib.Path(arguments["-ivy"]).read_text()
assert 'usepoms="false"' in pathlib.Path(arguments["-settings"]).read_text()
assert pathlib.Path(arguments["-cache"]).parent.is_dir()
for org, name, rev in re.findall('org="(.*?)" name="(.*?)" rev="(.*?)" transitive="false"', module):
    classifiers = re.findall(f'name="{name}" type="jar" ext="jar" m:classifier="(.*?)"', module)
    if name == "absent":
        print("server access error: no such jar")
        sys.exit(1)
    file = arguments["-retrieve"].replace("[artifact]", name).replace("[revision]", rev)
    file = file.replace("(-[classifier])", f"-{classifiers[0]}" if classifiers else "")
    file = pathlib.Path(file.replace("[ext]", "jar"))
    file.parent.mkdir(exist_ok=True, parents=True)
    file.write_bytes(b"bad" if name == "forged" else name.encode())
    print(f"\t[SUCCESSFUL ] {org}#{name};{rev}!{name}.jar (7ms)")
"""


def jar(name: str) -> Jar:
    return Jar("org", name, "1.0", len(name), hashlib.sha256(name.encode()).hexdigest())


def fetch(names: list[str], folder: Path) -> list[str]:
    lines: list[str] = []
    script = folder / "ivy.py"
    script.write_text(IVY)
    jars = [jar(name) for name in names]
    BundleFetch("some", jars, [sys.executable, str(script)], lines.append).run(
        folder, folder / "lib"
    )
    return lines


def test_all_jars_of_the_list_are_fetched_and_checked(tmp_path: Path) -> None:
    names = [f"jar{number}" for number in range(20)]
    fetch(names, tmp_path)
    assert {path.name for path in (tmp_path / "lib").iterdir()} == {f"{n}-1.0.jar" for n in names}


def test_a_jar_with_a_classifier_is_fetched_by_it(tmp_path: Path) -> None:
    tests = Jar("org", "core", "1.0", 4, hashlib.sha256(b"core").hexdigest(), "tests")
    script = tmp_path / "ivy.py"
    script.write_text(IVY)
    fetching = BundleFetch("some", [tests], [sys.executable, str(script)], lambda _: None)
    fetching.run(tmp_path, tmp_path / "lib")
    assert [path.name for path in (tmp_path / "lib").iterdir()] == ["core-1.0-tests.jar"]


def test_a_jar_with_another_content_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"forged-1\.0\.jar has the SHA-256"):
        fetch(["one", "forged"], tmp_path)


def test_an_ivy_that_fails_is_told_with_its_last_lines(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="no such jar"):
        fetch(["one", "absent"], tmp_path)


def test_jars_that_are_missing_or_that_nobody_asked_for_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a-1.0.jar").write_bytes(b"a")
    check([jar("a")], tmp_path)
    with pytest.raises(Unavailable, match=r"b-1\.0\.jar was not fetched"):
        check([jar("a"), jar("b")], tmp_path)
    (tmp_path / "c-1.0.jar").write_bytes(b"c")
    with pytest.raises(Unavailable, match=r"nobody asked for were fetched: c-1\.0\.jar"):
        check([jar("a")], tmp_path)


def test_a_line_of_progress_says_how_much_is_left(tmp_path: Path) -> None:
    jars = [Jar("org", name, "1.0", 1_000_000, "") for name in "abcd"]
    fetching = BundleFetch("some", jars, [], lambda _: None)
    fetching._fetched = {"org#a;1.0"}
    assert fetching._line(10.0) == "some: 1 of 4 jars, 1 of 4 MB, about 30 s left"
    fetching._fetched = set()
    assert fetching._line(10.0) == "some: 0 of 4 jars, 0 of 4 MB"


def test_shares_have_all_jars_and_about_the_same_bytes() -> None:
    jars = [Jar("org", str(size), "1", size * 1000, "") for size in range(1, 100)]
    parts = shares(jars, 6)
    assert sorted(jar.size for part in parts for jar in part) == [jar.size for jar in jars]
    sizes = [sum(jar.size for jar in part) for part in parts]
    assert max(sizes) < 1.2 * min(sizes)
    assert [len(part) for part in shares(jars[:2], 6)] == [1, 1]


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda bundle: bundle.name)
def test_the_list_has_the_program_itself_and_one_version_of_each_jar(bundle: Bundle) -> None:
    jars = pinned_jars(bundle.name)
    coordinates = {
        ":".join(filter(None, (jar.organisation, jar.name, jar.version, jar.classifier)))
        for jar in jars
    }
    assert set(bundle.coordinates) <= coordinates
    assert len({(jar.organisation, jar.name, jar.classifier) for jar in jars}) == len(jars)
    assert len({jar.file for jar in jars}) == len(jars)
    assert all(re.fullmatch("[0-9a-f]{64}", jar.sha256) and jar.size > 0 for jar in jars)


def test_a_program_without_a_list_is_not_pinned() -> None:
    assert pinned_jars("another-1.0") == []
