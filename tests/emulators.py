"""Servers that stand for the clouds, where this machine can run them: Azurite, versitygw."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import shutil
import subprocess
import tempfile
from email.utils import formatdate
from pathlib import Path

from secor.core.errors import Unavailable
from secor.java.cache import Progress, cache_folder, exclusive
from secor.sandbox.process import Server
from secor.sandbox.s3 import versitygw

AZURITE = "3.37.0"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The published account of every Azurite: no secret."""
CONTAINER = "secor"


def absent() -> dict[str, str]:
    """Return by emulator why it is not run on this machine; empty where all of them are."""
    reasons = {}
    if shutil.which("go") is None:
        reasons["versitygw"] = "it is built with Go, which is not on the PATH"
    if shutil.which("npm") is None or shutil.which("node") is None:
        reasons["azure"] = "Azurite is installed by npm, which is not on the PATH"
    return reasons


def fetch(progress: Progress) -> None:
    """Build and install those that this machine can run.  Raises ``Unavailable``."""
    reasons = absent()
    for name, reason in reasons.items():
        progress(f"the contract tests of the store {name} are not run: {reason}")
    if "azure" not in reasons:
        azurite(progress)
    if "versitygw" not in reasons:
        versitygw(progress)


def azurite(progress: Progress) -> Path:
    """Return Azurite's folder; install it first where it is not cached."""
    folder = cache_folder() / f"azurite-{AZURITE}"
    if not folder.is_dir():
        with exclusive(cache_folder(), progress):
            if not folder.is_dir():
                _install(folder, progress)
    return folder


def _install(folder: Path, progress: Progress) -> None:
    progress(f"installing Azurite {AZURITE} with npm, once (370 MB)")
    with tempfile.TemporaryDirectory(prefix=".azurite-", dir=folder.parent) as working:
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel", "error"]
        whole = Path(working, "whole")
        whole.mkdir()
        answer = subprocess.run(
            ["npm", "install", *options, "--prefix", str(whole), f"azurite@{AZURITE}"],
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            raise Unavailable(f"npm could not install Azurite:\n{answer.stdout}{answer.stderr}")
        # Renamed when whole: a folder of that name is always complete.
        whole.rename(folder)


class AzuriteServer(Server):
    """Azurite's blob service over a folder."""

    def __init__(self, folder: Path, port: int, progress: Progress) -> None:
        super().__init__(name="azurite", folder=folder, log=folder / "azurite.log", port=port)
        self._progress = progress

    @property
    def url(self) -> str:
        return f"http://{self.address}/{ACCOUNT}"

    def command(self) -> list[str]:
        node = shutil.which("node")
        assert node is not None
        # Versions of the interface are added to obstore sooner than to Azurite.
        quiet = ["--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        package = azurite(self._progress) / "node_modules" / "azurite"
        program = package / "dist" / "src" / "blob" / "main.js"
        at = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        return [node, str(program), *at, "--location", str(self.folder / "data"), *quiet]

    def serves(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
        return True

    def make_container(self) -> None:
        """Make ``CONTAINER``: obstore makes none."""
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
        lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
        path = f"/{ACCOUNT}/{CONTAINER}"
        signed = "PUT" + "\n" * 12 + f"{lines}/{ACCOUNT}{path}\nrestype:container"
        digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("PUT", f"{path}?restype=container", b"", headers)
            answer = connection.getresponse()
            if answer.status != 201:
                raise Unavailable(f"Azurite made no container: {answer.read().decode()}")
        finally:
            connection.close()
