"""The exact jars of a bundle: several Ivys fetch them side by side, and SHA-256 checks them."""

from __future__ import annotations

import hashlib
import subprocess
import threading
import time
import tomllib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from secor.core.errors import Unavailable
from secor.java.cache import Progress

TABLE = Path(__file__).with_name("jars.toml")
AT_ONCE = 6
"""Ivys that run side by side: each asks for one jar after the other, and mostly waits."""

FETCHED = "[SUCCESSFUL ]"
"""A part of each line in Ivy's output about a jar."""

_SECONDS_BETWEEN_LINES = 3.0

_SETTINGS = """\
<ivysettings>
  <property name="ivy.checksums" value=""/>
  <settings defaultResolver="registry"/>
  <resolvers><ibiblio name="registry" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""
"""Ivy's own registry without descriptions of modules; the checksums are checked here."""


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar by its Maven coordinates, with its size in bytes."""

    organisation: str
    name: str
    version: str
    size: int
    sha256: str
    classifier: str = ""

    @property
    def file(self) -> str:
        """The name of its file."""
        classifier = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{classifier}.jar"

    @property
    def ivy_name(self) -> str:
        """Its name in Ivy's output."""
        return f"{self.organisation}#{self.name};{self.version}"


def pinned_jars(bundle: str, table: Path = TABLE) -> list[Jar]:
    """Return the jars of a bundle; none for one that is not pinned."""
    rows: Mapping[str, tuple[int, str]] = tomllib.loads(table.read_text()).get(bundle, {})
    jars = []
    for coordinates, (size, sha256) in rows.items():
        organisation, name, version, *classifier = coordinates.split(":")
        jars.append(Jar(organisation, name, version, size, sha256, *classifier))
    return jars


def shares(jars: Sequence[Jar], count: int) -> list[list[Jar]]:
    """Divide the jars into at most ``count`` parts of about the same bytes and numbers."""
    parts: list[list[Jar]] = [[] for _ in range(min(count, len(jars)))]
    costs = [0.0] * len(parts)
    mean = sum(jar.size for jar in jars) / max(len(jars), 1)
    for jar in sorted(jars, key=lambda jar: jar.size, reverse=True):
        smallest = costs.index(min(costs))
        parts[smallest].append(jar)
        # A question to the registry takes as long as the bytes of a jar of usual size.
        costs[smallest] += jar.size + mean
    return parts


def check(jars: Sequence[Jar], folder: Path) -> None:
    """Compare the folder with the list.  Raises ``Unavailable`` naming what is wrong."""
    for jar in jars:
        path = folder / jar.file
        if not path.is_file():
            raise Unavailable(f"{jar.file} was not fetched")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != jar.sha256:
            raise Unavailable(
                f"{jar.file} has the SHA-256 {digest}, and must have {jar.sha256}: the package"
                " registry for Java, or something on the way to it, gives another file"
            )
    # A jar more would be on the class path, too, and nobody has looked at it.
    others = {path.name for path in folder.iterdir()} - {jar.file for jar in jars}
    if others:
        raise Unavailable(f"jars that nobody asked for were fetched: {', '.join(sorted(others))}")


def run_ivy(bundle: str, command: Sequence[str], hear: Callable[[str], None]) -> None:
    """Run Ivy; ``hear`` is given each line.  Raises ``Unavailable`` with the last ones."""
    last_lines: deque[str] = deque(maxlen=25)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            last_lines.append(line.rstrip())
            hear(line)
    if ivy.returncode != 0:
        raise Unavailable(
            f"{bundle} could not be fetched: Ivy ended with code {ivy.returncode}; is the package"
            " registry for Java within reach? Its last lines:\n" + "\n".join(last_lines)
        )


class BundleFetch:
    """One fetch of a bundle; ``ivy`` is the command that runs Ivy, without arguments."""

    def __init__(
        self, bundle: str, jars: Sequence[Jar], ivy: Sequence[str], progress: Progress
    ) -> None:
        self._bundle = bundle
        self._jars = list(jars)
        self._ivy = list(ivy)
        self._progress = progress
        self._lock = threading.Lock()
        self._fetched: set[str] = set()
        self._started = self._reported = time.monotonic()

    def run(self, working: Path, into: Path) -> None:
        """Fetch and check.  Raises ``Unavailable`` with the end of an Ivy's output."""
        parts = shares(self._jars, AT_ONCE)
        with ThreadPoolExecutor(len(parts)) as pool:
            running = [
                pool.submit(self._fetch, part, working / f"ivy-{number}", into)
                for number, part in enumerate(parts)
            ]
            for each in running:
                each.result()
        check(self._jars, into)

    def _fetch(self, jars: Sequence[Jar], working: Path, into: Path) -> None:
        working.mkdir()
        (working / "settings.xml").write_text(_SETTINGS)
        (working / "ivy.xml").write_text(_module(jars))
        command = [*self._ivy, "-settings", str(working / "settings.xml")]
        command += ["-ivy", str(working / "ivy.xml"), "-cache", str(working / "cache")]
        command += ["-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]"]
        run_ivy(self._bundle, command, self._hear)

    def _hear(self, line: str) -> None:
        if FETCHED not in line:
            return
        with self._lock:
            self._fetched.add(line.split("]", 1)[1].strip().partition("!")[0])
            now = time.monotonic()
            if now - self._reported < _SECONDS_BETWEEN_LINES:
                return
            self._reported = now
            self._progress(self._line(now - self._started))

    def _line(self, seconds: float) -> str:
        fetched = [jar for jar in self._jars if jar.ivy_name in self._fetched]
        have = sum(jar.size for jar in fetched)
        whole = sum(jar.size for jar in self._jars)
        line = (
            f"{self._bundle}: {len(fetched)} of {len(self._jars)} jars,"
            f" {have / 1e6:.0f} of {whole / 1e6:.0f} MB"
        )
        # Jars and bytes count alike; before a quarter is there, the start of Java hides all.
        share = (len(fetched) / len(self._jars) + have / whole) / 2
        return line if share < 0.25 else f"{line}, about {seconds * (1 / share - 1):.0f} s left"


def _module(jars: Sequence[Jar]) -> str:
    """Return the ``ivy.xml`` of exactly these jars."""
    by_module: dict[tuple[str, str, str], list[Jar]] = {}
    for jar in jars:
        by_module.setdefault((jar.organisation, jar.name, jar.version), []).append(jar)
    dependencies = "\n".join(
        f'    <dependency org="{organisation}" name="{name}" rev="{version}"'
        ' transitive="false" conf="default->default">'
        + "".join(artifact(jar.name, jar.classifier) for jar in of_module)
        + "</dependency>"
        for (organisation, name, version), of_module in by_module.items()
    )
    return ivy_module("pinned", dependencies)


def artifact(name: str, classifier: str) -> str:
    """Return the element of ``ivy.xml`` for one jar of a module."""
    which = f' m:classifier="{classifier}"' if classifier else ""
    return f'<artifact name="{name}" type="jar" ext="jar"{which}/>'


def ivy_module(name: str, dependencies: str) -> str:
    """Return an ``ivy.xml`` with these elements."""
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">\n'
        f'  <info organisation="secor" module="{name}"/>\n'
        '  <configurations><conf name="default"/></configurations>\n'
        f"  <dependencies>\n{dependencies}\n  </dependencies>\n"
        "</ivy-module>\n"
    )
