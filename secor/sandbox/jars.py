"""Java programs and what they need, fetched once by the Ivy that PySpark ships.

Those whose jars are pinned are fetched as they are listed; Ivy finds out what the others need.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from secor.core.errors import ConfigurationError, Unavailable
from secor.core.installing import how_to_install
from secor.sandbox.cache import Progress, cache_folder, exclusive
from secor.sandbox.java import find_java, trust_options
from secor.sandbox.pinned import Fetch, artifact, ivy_module, pinned_jars

_SECONDS_BETWEEN_LINES = 5.0


@dataclass(frozen=True, slots=True)
class Bundle:
    """A program by its Maven coordinates and those of what it needs beside it.

    That is ``organisation:name:version``, or ``organisation:name:version:classifier`` for
    another jar of that module, which comes without what it needs.
    """

    name: str
    coordinates: tuple[str, ...]
    roughly: str

    def ivy_module(self) -> str:
        """Return the ``ivy.xml`` that asks for it with all it needs at run time."""
        classifiers: dict[tuple[str, str, str], list[str]] = {}
        for coordinates in self.coordinates:
            organisation, name, version, *rest = coordinates.split(":")
            classifiers.setdefault((organisation, name, version), []).append("".join(rest))
        return ivy_module(
            self.name, "\n".join(_dependency(*key, of) for key, of in classifiers.items())
        )


def _dependency(organisation: str, name: str, version: str, classifiers: Sequence[str]) -> str:
    whole = "" in classifiers
    return (
        f'    <dependency org="{organisation}" name="{name}" rev="{version}"'
        f' conf="default->default,runtime,master" transitive="{str(whole).lower()}">'
        + "".join(artifact(name, classifier) for classifier in classifiers if classifiers != [""])
        + "</dependency>"
    )


KAFKA = Bundle(
    "kafka-4.3.1",
    ("org.apache.kafka:kafka_2.13:4.3.1", "org.slf4j:slf4j-simple:1.7.36"),
    "45 MB",
)
S3PROXY = Bundle("s3proxy-4.1.0", ("org.gaul:s3proxy:4.1.0",), "59 MB")
SPARK_ICEBERG = Bundle(
    "spark-4.0-iceberg-1.11.0",
    (
        "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        "org.apache.iceberg:iceberg-aws-bundle:1.11.0",
        "org.xerial:sqlite-jdbc:3.46.1.3",
        "org.postgresql:postgresql:42.7.8",
    ),
    "127 MB",
)
"""What Spark needs for Iceberg tables in S3, with the drivers of SQL catalogs."""

ICEBERG_REST = Bundle(
    "iceberg-rest-1.11.0",
    (
        "org.apache.iceberg:iceberg-open-api:1.11.0:test-fixtures",
        "org.apache.iceberg:iceberg-core:1.11.0",
        "org.apache.iceberg:iceberg-core:1.11.0:tests",
        "org.apache.iceberg:iceberg-aws:1.11.0",
        "org.apache.iceberg:iceberg-aws-bundle:1.11.0",
        "org.xerial:sqlite-jdbc:3.46.1.3",
        "org.slf4j:slf4j-simple:2.0.17",
        "org.eclipse.jetty:jetty-server:12.1.5",
        "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.5",
        "org.eclipse.jetty.compression:jetty-compression-server:12.1.5",
        "org.eclipse.jetty.compression:jetty-compression-gzip:12.1.5",
    ),
    "100 MB",
)
"""Iceberg's own REST catalog server; it takes Hadoop's classes from PySpark."""

BUNDLES = (KAFKA, S3PROXY, SPARK_ICEBERG, ICEBERG_REST)


def pyspark_jars() -> Path:
    """Return the folder of PySpark's own jars: Ivy and ZooKeeper are among them."""
    module_spec = find_spec("pyspark")
    if module_spec is None or module_spec.origin is None:
        raise ConfigurationError(
            "the sandbox takes ZooKeeper and Ivy from the package pyspark, which is not "
            f"installed: {how_to_install('sandbox')}"
        )
    return Path(module_spec.origin).parent / "jars"


def jar_folder(bundle: Bundle, progress: Progress) -> Path:
    """Return the folder of a bundle's jars; fetch them first where they are not cached.

    Raises ``Unavailable`` with the end of Ivy's output.
    """
    folder = cache_folder() / "jars" / bundle.name
    if folder.is_dir():
        return folder
    with exclusive(cache_folder(), progress):
        if not folder.is_dir():
            _fetch(bundle, folder, progress)
    return folder


def _fetch(bundle: Bundle, folder: Path, progress: Progress) -> None:
    progress(f"fetching {bundle.name} with all it needs, once ({bundle.roughly})")
    folder.parent.mkdir(parents=True, exist_ok=True)
    working = Path(tempfile.mkdtemp(prefix=f".{bundle.name}-", dir=folder.parent))
    try:
        jars = pinned_jars(bundle.name)
        if jars:
            Fetch(bundle.name, jars, _ivy_command(), progress).run(working, working / "lib")
        else:
            module = working / "ivy.xml"
            module.write_text(bundle.ivy_module())
            _run_ivy(bundle, module, working / "lib", progress)
        # Renamed when whole: a folder of that name is always complete.
        (working / "lib").rename(folder)
    finally:
        shutil.rmtree(working)
    progress(f"{bundle.name} is in {folder}")


def _ivy_command() -> list[str]:
    java = find_java()
    options = [*trust_options(java), "-Xshare:auto", "-XX:TieredStopAtLevel=1"]
    return [str(java), *options, "-cp", f"{pyspark_jars()}/*", "org.apache.ivy.Main"]


def _run_ivy(bundle: Bundle, module: Path, into: Path, progress: Progress) -> None:
    command = [*_ivy_command(), "-ivy", str(module), "-cache", str(cache_folder() / "ivy")]
    command += ["-types", "jar", "bundle", "-m2compatible"]
    command += ["-retrieve", f"{into}/[artifact]-[revision](-[classifier]).[ext]"]
    last_lines: deque[str] = deque(maxlen=25)
    begun = reported = time.monotonic()
    fetched = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            last_lines.append(line.rstrip())
            fetched += "[SUCCESSFUL ]" in line
            if time.monotonic() - reported > _SECONDS_BETWEEN_LINES:
                reported = time.monotonic()
                what = f"{fetched} jars fetched" if fetched else "finding what it needs"
                progress(f"{bundle.name}: {what}, {reported - begun:.0f} s")
    if ivy.returncode != 0 or not into.is_dir():
        raise Unavailable(
            f"{bundle.name} could not be fetched: Ivy ended with code {ivy.returncode}; is the "
            "package registry for Java within reach? Its last lines:\n" + "\n".join(last_lines)
        )
