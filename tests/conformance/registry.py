"""Apicurio's registry of schemas, fetched once as its makers publish it."""

from __future__ import annotations

import hashlib
import http.client
import shutil
import tarfile
import tempfile
from pathlib import Path

from secor.core.errors import Unavailable
from secor.java.cache import Progress, cache_folder, exclusive
from secor.java.jars import pyspark_jars
from secor.java.pinned import ivy_module, run_ivy
from secor.java.runtime import find_java
from secor.sandbox.process import Server

NAME = "apicurio-registry-app"
VERSION = "3.3.3"
SHA256 = "8bc6751c76d963734224b01d5e7f84ccb3cb61c87d3bd77c36c35f10a5cbed63"
_OLDEST_JAVA = 21
_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_MODULE = f"""\
    <dependency org="io.apicurio" name="{NAME}" rev="{VERSION}" transitive="false"
      conf="default->default"><artifact name="{NAME}" type="jar" ext="tar.gz"
      m:classifier="all"/></dependency>"""
_SETTINGS = """\
<ivysettings>
  <property name="ivy.checksums" value=""/>
  <settings defaultResolver="registry"/>
  <resolvers><ibiblio name="registry" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


class ApicurioRegistry(Server):
    """A registry that keeps schemas in memory: a restart has none of them."""

    def __init__(self, *, folder: Path, log: Path, port: int, progress: Progress) -> None:
        super().__init__(name="registry", folder=folder, log=log, port=port)
        self._progress = progress

    @property
    def url(self) -> str:
        """Where converters of version 2 find it, and readers of what they wrote."""
        return f"http://{self.address}/apis/registry/v2"

    def command(self) -> list[str]:
        """Return the program and its arguments."""
        program = _program(self._progress) / "quarkus-run.jar"
        settings = {
            "quarkus.http.host": "127.0.0.1",
            "quarkus.http.port": str(self.port),
            # Its health and metrics have a server of their own, else at port 9000 of all hosts: a
            # second registry, or whatever else is there, would end this one.
            "quarkus.management.host": "127.0.0.1",
            "quarkus.management.port": "0",
            "quarkus.log.level": "WARN",
            "quarkus.http.access-log.enabled": "false",
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        return [str(find_java(_OLDEST_JAVA)), *_JVM, *options, "-jar", str(program)]

    def serves(self) -> bool:
        """Tell whether it answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/apis/registry/v2/system/info")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


def _program(progress: Progress) -> Path:
    """Return the folder of the program; fetch it first where it is not cached."""
    folder = cache_folder() / f"{NAME}-{VERSION}"
    if not folder.is_dir():
        with exclusive(cache_folder(), progress):
            if not folder.is_dir():
                _fetch(folder, progress)
    return folder


def _fetch(folder: Path, progress: Progress) -> None:
    progress(f"fetching {folder.name}, once (159 MB)")
    working = Path(tempfile.mkdtemp(prefix=f".{NAME}-", dir=folder.parent))
    try:
        (working / "ivy.xml").write_text(ivy_module("registry", _MODULE))
        (working / "settings.xml").write_text(_SETTINGS)
        command = [str(find_java()), "-cp", f"{pyspark_jars()}/*", "org.apache.ivy.Main"]
        command += ["-settings", str(working / "settings.xml"), "-ivy", str(working / "ivy.xml")]
        command += ["-cache", str(working / "cache")]
        run_ivy(NAME, [*command, "-retrieve", f"{working}/[artifact].[ext]"], lambda _: None)
        with (working / f"{NAME}.tar.gz").open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != SHA256:
            raise Unavailable(f"{NAME} has the SHA-256 {digest}, and must have {SHA256}")
        with tarfile.open(working / f"{NAME}.tar.gz") as archive:
            archive.extractall(working / "whole", filter="data")
        # Renamed when whole: a folder of that name is always complete.
        (working / "whole").rename(folder)
    finally:
        shutil.rmtree(working)
