"""A real Prometheus in a folder of its own, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from secor.sandbox.process import Server
from secor.sandbox.sandbox import quiet
from secor.sandbox.state import free_port
from tests.programs import program

PATIENCE = 60.0
"""Seconds for one answer."""

Labels = dict[str, str]


class Prometheus(Server):
    """Scrapes targets that may come and go, and evaluates rules, every second."""

    def __init__(self, folder: Path, rules: Sequence[Path] = ()) -> None:
        super().__init__(
            name="prometheus", folder=folder, log=folder / "prometheus.log", port=free_port()
        )
        self._rules = [str(path.resolve()) for path in rules]
        self._targets: list[dict[str, Any]] = []

    def command(self) -> list[str]:
        """Return the program and its arguments; write its configuration."""
        configuration = self.folder / "prometheus.yml"
        configuration.write_text(yaml.safe_dump(self._configuration()))
        self._write_targets()
        return [
            str(program("prometheus", quiet)),
            f"--config.file={configuration}",
            f"--storage.tsdb.path={self.folder / 'data'}",
            f"--web.listen-address={self.address}",
            "--log.level=warn",
        ]

    def _configuration(self) -> dict[str, Any]:
        found = {"files": [str(self._targets_file)], "refresh_interval": "1s"}
        return {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": self._rules,
            "scrape_configs": [{"job_name": "secor", "file_sd_configs": [found]}],
        }

    def serves(self) -> bool:
        """Tell whether it answers queries."""
        try:
            with urlopen(f"http://{self.address}/-/ready", timeout=PATIENCE) as answer:
                return bool(answer.status == 200)
        except (URLError, ConnectionError, TimeoutError):
            return False

    # ------------------------------------------------------------- its targets

    @property
    def _targets_file(self) -> Path:
        return self.folder / "targets.json"

    def _write_targets(self) -> None:
        # Renamed when whole: it looks whenever it likes.
        new = self._targets_file.with_suffix(".new")
        new.write_text(json.dumps(self._targets))
        new.rename(self._targets_file)

    def scrape(self, *targets: tuple[str, Labels]) -> None:
        """Scrape these addresses, with these labels, and no others."""
        self._targets = [{"targets": [address], "labels": labels} for address, labels in targets]
        self._write_targets()

    # ---------------------------------------------------------------- its API

    def alerts(self) -> list[dict[str, Any]]:
        """Return all alerts, pending and firing ones."""
        return list(self._get("alerts")["alerts"])

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        return {one["labels"]["alertname"] for one in self.alerts() if one["state"] == "firing"}

    def rules(self) -> list[dict[str, Any]]:
        """Return all rules as it has read them, with ``health`` and ``lastError``."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Return the result of an instant query.  Raises ``HTTPError`` for a wrong one."""
        return list(self._get("query", query=expression)["result"])

    def _get(self, path: str, **parameters: str) -> dict[str, Any]:
        url = f"http://{self.address}/api/v1/{path}?{urlencode(parameters)}"
        with urlopen(url, timeout=PATIENCE) as answer:
            return dict(json.load(answer)["data"])

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
