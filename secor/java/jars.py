"""The jars of a bundle, fetched once by the Ivy that PySpark ships.

Pinned jars are fetched as they are listed; Ivy finds out what the other bundles need.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from secor.core.errors import ConfigurationError, Unavailable
from secor.core.installing import how_to_install
from secor.java.bundles import Bundle
from secor.java.cache import Progress, cache_folder, exclusive
from secor.java.pinned import FETCHED, BundleFetch, pinned_jars, run_ivy
from secor.java.runtime import find_java, trust_options

_SECONDS_BETWEEN_LINES = 5.0


def pyspark_jars() -> Path:
    """Return the folder of PySpark's own jars: Ivy and ZooKeeper are among them."""
    module_spec = find_spec("pyspark")
    if module_spec is None or module_spec.origin is None:
        raise ConfigurationError(
            "ZooKeeper and Ivy are taken from the package pyspark, which is not "
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
    # On the same file system as the folder, so that it can be renamed.
    working = Path(tempfile.mkdtemp(prefix=f".{bundle.name}-", dir=folder.parent))
    try:
        jars = pinned_jars(bundle.name)
        if jars:
            BundleFetch(bundle.name, jars, _ivy_command(), progress).run(working, working / "lib")
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
    started = reported = time.monotonic()
    fetched = 0

    def hear(line: str) -> None:
        nonlocal fetched, reported
        fetched += FETCHED in line
        if time.monotonic() - reported > _SECONDS_BETWEEN_LINES:
            reported = time.monotonic()
            what = f"{fetched} jars fetched" if fetched else "finding what it needs"
            progress(f"{bundle.name}: {what}, {reported - started:.0f} s")

    run_ivy(bundle.name, command, hear)
    if not into.is_dir():
        raise Unavailable(f"{bundle.name}: Ivy has fetched nothing")
