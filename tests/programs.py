"""Programs that tests need: the machine's, else those of Debian's packages.

``python -m tests.programs`` fetches them before somebody waits for them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from secor.core.errors import ConfigurationError, Unavailable
from secor.java.cache import Progress, cache_folder, exclusive
from tests import emulators

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

    for each in PACKAGES:
        program(each, tell)
    emulators.fetch(tell)


if __name__ == "__main__":
    main()
