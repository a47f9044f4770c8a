"""What the image is made of, made here: a wheel of the files that the Dockerfile copies."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRAMING = "secor/formats/sequencefile/_framing.abi3.so"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build as the Dockerfile does, but without fetching setuptools anew."""
    source = tmp_path_factory.mktemp("src")
    (first, *_) = re.findall(r"^COPY (.+) \./$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    for name in first.split():
        shutil.copy(ROOT / name, source)
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for name in ("secor", "config", "systemd"):
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    wheels = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    quiet = ["--quiet", "--disable-pip-version-check", "--wheel-dir", str(wheels)]
    done = subprocess.run([*command, *quiet, str(source)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    (made,) = wheels.glob("*.whl")
    return made


def test_the_wheel_has_every_file_of_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "secor"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    missing = set(filter(None, tracked.stdout.split("\0"))) - set(names)
    examples = [path for name in ("config", "systemd") for path in (ROOT / name).rglob("*")]
    assert {
        f"secor/examples/{path.relative_to(ROOT)}" for path in examples if path.is_file()
    } <= set(names)
    assert not missing
    # A wheel of a machine with a compiler is for every Python from 3.11 on.
    assert {"secor/wire/_compiled.abi3.so", FRAMING} <= set(names)
    assert "-cp311-abi3-" in wheel.name
    assert any(name.endswith("LICENSE") for name in names)
    assert not [name for name in names if name.startswith("tests")]


@pytest.fixture(scope="module")
def secor(
    wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the installed wheel: no HOME, no variables, in a folder that cannot be written."""
    place = tmp_path_factory.mktemp("place")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--no-index"]
    options = ["--disable-pip-version-check", "--target", str(place), str(wheel)]
    subprocess.run([*install, *options], check=True, capture_output=True)
    folder = tmp_path_factory.mktemp("read-only")
    folder.chmod(0o555)
    # Behind it only the packages that setup.py names, without the checkout's own.
    path = f"{place}:{sysconfig.get_paths()['purelib']}"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        code = "import secor, sys; from secor.cli.main import main; "
        code += f"assert secor.__file__.startswith({str(place)!r}), secor.__file__; main()"
        return subprocess.run(
            [sys.executable, "-P", "-c", code, *arguments],
            env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_installed_wheel_runs_without_a_home(
    secor: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    version = secor("--version")
    assert version.returncode == 0, version.stderr
    assert "version" in version.stdout
    config = tmp_path / "secor.toml"
    config.write_text(
        '[group]\nname = "x"\n[kafka]\nbootstrap_servers = ["127.0.0.1:1"]\ntopics = ["t"]\n'
        f'[store]\nkind = "local"\n[store.local]\ndirectory = "{tmp_path}"\n'
    )
    checked = secor("config", "check", str(config))
    assert checked.returncode == 0, checked.stderr
    example = secor("config", "example", "backup.toml")
    assert example.stdout == (ROOT / "config" / "backup.toml").read_text()
    assert "\ndecoder compiled\n" in secor("version").stdout
    shown = secor("run", "--help")
    assert "SIGTERM" in shown.stdout
