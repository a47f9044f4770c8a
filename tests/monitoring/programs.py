"""``prometheus`` and ``promtool``: the machine's, else those of Debian's package.

``python -m tests.monitoring.programs`` fetches them before somebody waits for them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from secor.errors import ConfigurationError, Unavailable
from secor.sandbox.cache import Progress, cache_folder, exclusive

NAMES = ("prometheus", "promtool")
NEEDED = ("apt-get", "dpkg-deb")
INSTALL = "install Prometheus, so that prometheus and promtool are on the PATH"


def program(name: str, progress: Progress) -> Path:
    """Return the path of ``prometheus`` or ``promtool``; fetch both where they are not.

    Raises ``ConfigurationError`` on machines without apt, ``Unavailable`` with its output.
    """
    if name not in NAMES:
        raise AssertionError(f"{name} is none of {NAMES}")
    on_path = shutil.which(name)
    if on_path is not None:
        return Path(on_path)
    folder = cache_folder() / "prometheus"
    if not folder.is_dir():
        with exclusive(cache_folder(), progress):
            if not folder.is_dir():
                _fetch(folder, progress)
    return folder / name


def _fetch(folder: Path, progress: Progress) -> None:
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        raise ConfigurationError(f"no {' and no '.join(missing)} on this machine: {INSTALL}")
    progress("fetching prometheus and promtool, once (33 MB, some seconds)")
    with tempfile.TemporaryDirectory(prefix=".prometheus-", dir=folder.parent) as working:
        whole = _unpacked(Path(working))
        # Renamed when whole: a folder of that name is always complete.
        whole.rename(folder)
    progress(f"prometheus and promtool are in {folder}")


def _unpacked(working: Path) -> Path:
    """Download the package and return the folder of its programs."""
    lists = working / "lists"
    (lists / "partial").mkdir(parents=True)
    # Lists of our own: the machine's may be missing or stale, and only root may renew them.
    options = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={working / 'cache'}"]
    options += ["-o", "Acquire::Languages=none", "-o", "APT::Sandbox::User="]
    _run(working, "apt-get", *options, "--quiet", "update")
    _run(working, "apt-get", *options, "--quiet", "download", "prometheus")
    package = next(working.glob("prometheus_*.deb"))
    _run(working, "dpkg-deb", "--extract", str(package), "package")
    return working / "package" / "usr" / "bin"


def _run(folder: Path, *command: str) -> None:
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
            f"{' '.join(command[:1])} ended with code {answer.returncode}; {INSTALL}, or see to "
            f"it that this works:\n{' '.join(command)}\n{last}"
        )


if __name__ == "__main__":
    for each in NAMES:
        program(each, lambda line: print(line, file=sys.stderr, flush=True))
