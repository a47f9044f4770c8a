"""Programs that tests need: the machine's, else those of Debian's packages; and Spark 3.5.

``python -m tests.programs`` fetches them before somebody waits for them.  What a test needs
before that is fetched by the test, or waited for.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from secor.core.errors import ConfigurationError, Unavailable
from secor.java.cache import Progress, cache_folder, exclusive
from secor.sandbox.fetch import fetch
from tests import emulators

ROOT = Path(__file__).parents[1]

SPARK_35 = ROOT / ".cache" / "pyspark-3.5"
"""Spark 3.5 stands beside the environment, which has Spark 4."""

PACKAGES = {"prometheus": "prometheus", "promtool": "prometheus", "spin": "spin"}
"""By program, the package that holds it."""

NEEDED = ("apt-get", "dpkg-deb")


def program(name: str, progress: Progress) -> Path:
    """Return the path of one of ``PACKAGES``; fetch its package where it is not.

    Raises ``ConfigurationError`` on machines without apt, ``Unavailable`` with its output.
    """
    package = PACKAGES[name]
    on_path = shutil.which(name)
    if on_path is not None:
        return Path(on_path)
    folder = cache_folder() / package
    if not folder.is_dir():
        with exclusive(cache_folder(), progress):
            if not folder.is_dir():
                _fetch(package, folder, progress)
    return folder / name


def spark_35(progress: Progress) -> Path:
    """Return the folder of the packages of Spark 3.5; install them first where it is not there.

    Raises ``Unavailable`` with pip's output.
    """
    if not SPARK_35.is_dir():
        with exclusive(SPARK_35.parent, progress):
            if not SPARK_35.is_dir():
                _install_spark_35(progress)
    return SPARK_35


def _install_spark_35(progress: Progress) -> None:
    progress(f"installing Spark 3.5 into {SPARK_35} (340 MB, once)")
    with tempfile.TemporaryDirectory(prefix=".pyspark-", dir=SPARK_35.parent) as working:
        quiet = ["--disable-pip-version-check", "--progress-bar", "off", "--quiet"]
        locked = ["--no-deps", "--no-build-isolation", "--require-hashes"]
        # There is no wheel of it: the one that is made here need not be compressed.
        fast = ["--use-pep517", "--config-settings=--build-option=--compression=stored"]
        lock = ROOT / "requirements-spark-3.5.lock"
        whole = Path(working, "whole")
        to = ["--no-compile", "--target", str(whole), "--requirement", str(lock)]
        pip = [sys.executable, "-m", "pip", "install", *quiet, *locked, *fast, *to]
        _run(ROOT, "see what pip says", *pip)
        # Renamed when whole: a folder of that name is always complete.
        whole.rename(SPARK_35)


def _install(package: str) -> str:
    names = [name for name, holder in PACKAGES.items() if holder == package]
    return f"install {package}, so that {' and '.join(names)} can be found on the PATH"


def _fetch(package: str, folder: Path, progress: Progress) -> None:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        raise ConfigurationError(
            f"no {' and no '.join(missing)} on this machine: {_install(package)}"
        )
    progress(f"fetching {package} from Debian's packages, once (some seconds)")
    with tempfile.TemporaryDirectory(prefix=f".{package}-", dir=folder.parent) as working:
        whole = _unpacked(package, Path(working))
        # Renamed when whole: a folder of that name is always complete.
        whole.rename(folder)
    progress(f"{package} is in {folder}")


def _unpacked(package: str, working: Path) -> Path:
    """Download the package and return the folder of its programs."""
    lists = working / "lists"
    (lists / "partial").mkdir(parents=True)
    # Lists of our own: the machine's may be missing or stale, and only root may renew them.
    options = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={working / 'cache'}"]
    options += ["-o", "Acquire::Languages=none", "-o", "APT::Sandbox::User="]
    why = _install(package)
    _run(working, why, "apt-get", *options, "--quiet", "update")
    _run(working, why, "apt-get", *options, "--quiet", "download", package)
    archive = next(working.glob(f"{package}_*.deb"))
    _run(working, why, "dpkg-deb", "--extract", str(archive), "package")
    return working / "package" / "usr" / "bin"


def _run(folder: Path, why: str, *command: str) -> None:
    answer = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if answer.returncode != 0:
        last = "\n".join(answer.stdout.splitlines()[-20:])
        raise Unavailable(
            f"{' '.join(command[:1])} ended with code {answer.returncode}; {why}, or see to "
            f"it that this works:\n{' '.join(command)}\n{last}"
        )


def main() -> None:
    """Fetch all that this machine can run."""

    def tell(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    # What takes longest comes last: all of the cache has one lock.
    for each in PACKAGES:
        program(each, tell)
    spark_35(tell)
    fetch(tell, ["all"])
    emulators.fetch(tell)


if __name__ == "__main__":
    main()
