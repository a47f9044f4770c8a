"""S3 servers: s3proxy on Java, or versitygw where Go is present."""

from __future__ import annotations

import http.client
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from secor.core.errors import ConfigurationError, Unavailable
from secor.java.bundles import S3PROXY
from secor.java.cache import Progress, cache_folder, exclusive
from secor.java.jars import jar_folder
from secor.java.runtime import find_java
from secor.sandbox.process import Server

ACCESS_KEY = "secor"
SECRET_KEY = "secor-sandbox"  # noqa: S105 - of a server on the loopback address only
BUCKET = "secor"

_VERSITYGW = "github.com/versity/versitygw/cmd/versitygw"
_VERSITYGW_VERSION = "v1.8.0"


def _answers_http(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/")
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return True


class S3ProxyServer(Server):
    """s3proxy over a folder: buckets are the folders in ``data``."""

    def __init__(
        self,
        *,
        folder: Path,
        log: Path,
        port: int,
        progress: Progress,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(name="s3", folder=folder, log=log, port=port)
        self.settings = dict(settings or {})
        self._progress = progress

    def command(self) -> list[str]:
        """Return the program and its arguments; make the bucket and the configuration."""
        jars = jar_folder(S3PROXY, self._progress)
        (self.folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "s3proxy.conf"
        configuration.write_text(self.configuration())
        logging = self.folder / "logback.xml"
        logging.write_text(_LOGBACK)
        # A signed put over plain http is held in its heap.
        options = ["-Xmx1g", "-XX:+UseSerialGC", f"-Dlogback.configurationFile={logging}"]
        main = ["org.gaul.s3proxy.Main", "--properties", str(configuration)]
        return [str(find_java()), *options, "-cp", f"{jars}/*", *main]

    def configuration(self) -> str:
        """Return ``s3proxy.conf``."""
        settings = {
            "s3proxy.endpoint": f"http://{self.address}",
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": ACCESS_KEY,
            "s3proxy.credential": SECRET_KEY,
            "s3proxy.v4-max-non-chunked-request-size": 134217728,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.identity": ACCESS_KEY,
            "jclouds.credential": SECRET_KEY,
            "jclouds.filesystem.basedir": self.folder / "data",
            **self.settings,
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def serves(self) -> bool:
        """Return whether it answers a request, if only with a refusal."""
        return _answers_http(self.port)


class VersityServer(Server):
    """versitygw over a folder: stricter in races and checksums than s3proxy."""

    def __init__(self, *, folder: Path, log: Path, port: int, progress: Progress) -> None:
        super().__init__(name="s3", folder=folder, log=log, port=port)
        self._progress = progress

    def command(self) -> list[str]:
        """Return the program and its arguments; make the bucket."""
        program = versitygw(self._progress)
        (self.folder / "data" / BUCKET).mkdir(parents=True, exist_ok=True)
        (self.folder / "versions").mkdir(exist_ok=True)
        options = ["--port", self.address, "--quiet", "--keep-alive"]
        posix = ["posix", "--versioning-dir", str(self.folder / "versions")]
        return [str(program), *options, *posix, str(self.folder / "data")]

    def environment(self) -> Mapping[str, str]:
        """Return its credentials."""
        return {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}

    def serves(self) -> bool:
        """Return whether it answers a request, if only with a refusal."""
        return _answers_http(self.port)


def versitygw(progress: Progress) -> Path:
    """Return the program; build it with Go first where it is not cached.

    Raises ``ConfigurationError`` without Go, ``Unavailable`` with Go's output.
    """
    program = cache_folder() / "bin" / f"versitygw-{_VERSITYGW_VERSION}"
    with exclusive(cache_folder(), progress):
        if not program.exists():
            _build_versitygw(program, progress)
    return program


def _build_versitygw(program: Path, progress: Progress) -> None:
    go = shutil.which("go")
    if go is None:
        raise ConfigurationError("versitygw is built with Go, which is not on the PATH")
    progress("building versitygw, once (about three minutes)")
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=program.parent) as working:
        answer = subprocess.run(
            [go, "install", f"{_VERSITYGW}@{_VERSITYGW_VERSION}"],
            env={**os.environ, "GOBIN": working},
            capture_output=True,
            text=True,
            check=False,
        )
        if answer.returncode != 0:
            raise Unavailable(f"versitygw could not be built:\n{answer.stdout}{answer.stderr}")
        # In one step, so that a program that is there is whole.
        (Path(working) / "versitygw").rename(program)


_LOGBACK = """\
<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %logger{20} %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""
