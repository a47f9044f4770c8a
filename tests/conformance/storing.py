"""Table groups that store changes: the processes of each, and what it says of itself."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from secor.core.errors import Unavailable
from secor.sandbox import Sandbox
from tests.conformance.servers import PASSWORD
from tests.conformance.tables import NAMESPACE, read_hudi, read_iceberg
from tests.integration.daemons import Daemon, run_secor, secor

STOPPED_FOR = 60.0
"""Seconds after which a topic partition that is stopped is taken for one that stays so."""

VERIFIED_WITHIN = 900.0
"""Seconds of ``secor verify --source``, which starts Spark for Hudi tables."""

_EXAMPLE = 160
"""Characters of a reason in a report."""


@dataclass
class StoringGroup:
    """A daemon and a committer that store one kind of table; ``folder`` has their logs."""

    table: str
    """``iceberg-cow``, ``iceberg-mor`` or ``hudi``."""

    folder: Path
    config: Path
    sandbox: Sandbox
    environment: Mapping[str, str]
    """Of the committer."""

    stopped: dict[str, tuple[float, str]] = field(default_factory=dict)
    """Topic partitions and tables that are stopped: since when, and why."""

    worker: Daemon | None = None
    committer: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start what does not run."""
        if self.worker is None:
            self.worker = Daemon(self.config, self.folder / "run.log")
        if self.committer is None:
            with (self.folder / "tables-run.log").open("ab") as log:
                self.committer = subprocess.Popen(
                    secor("tables", "run", str(self.config)),
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self.environment},
                )

    def kill_daemon(self) -> None:
        """End the daemon at once."""
        if self.worker is not None:
            self.worker.kill()
            self.worker = None

    def kill_committer(self) -> None:
        """End the committer at once."""
        if self.committer is not None:
            self.committer.kill()
            self.committer.wait()
            self.committer = None

    def reconfigure(self, before: str, after: str) -> None:
        """Stop the daemon, put ``after`` for ``before`` into its configuration, and start it."""
        self.kill_daemon()
        text = self.config.read_text()
        if before not in text:
            raise ValueError(f"{self.config} has no {before}")
        self.config.write_text(text.replace(before, after))
        self.start()

    def staged_files(self, table: str) -> int:
        """Return how many files wait for a table, as ``secor tables status`` says."""
        status = json.loads(run_secor("tables", "status", str(self.config), "--json").stdout)
        [count] = [
            it["staged"]["files"]
            for it in status["tables"]
            if it["table"] == f"{NAMESPACE}.{table}"
        ]
        return int(count)

    def check(self) -> None:
        """Raise ``Unavailable`` if a process has ended by itself."""
        named = {"tables-run": self.committer}
        if self.worker is not None:
            named["run"] = self.worker.process
        for name, process in named.items():
            if process is not None and process.poll() is not None:
                log = (self.folder / f"{name}.log").read_text()[-3000:]
                raise Unavailable(
                    f"{self.table}: 'secor {name}' ended with {process.returncode}: {log}"
                )

    def stop(self) -> None:
        """End both, the committer with time to end what it does."""
        self.kill_daemon()
        if self.committer is None:
            return
        self.committer.terminate()
        try:
            self.committer.wait(30)
        except subprocess.TimeoutExpired:
            self.kill_committer()

    def read(self, name: str) -> Any:
        """Return the rows of a table as a reader has them."""
        if self.table == "hudi":
            return read_hudi(self.sandbox, name)
        return read_iceberg(self.sandbox, self.table, name)

    def is_committed(self) -> bool:
        """Tell whether the tables have everything that does not stay stopped, as the product says.

        ``stopped`` has what was stopped, with the reason, and since when.
        """
        finished = run_secor("tables", "status", str(self.config), "--json")
        if not finished.stdout:
            raise Unavailable(finished.stderr[-3000:])
        status = json.loads(finished.stdout)
        log = (self.folder / "run.log").read_text()
        seen = {**logged_stops(log), **{it: str(why) for it, why in status["stopped"].items()}}
        states = {table["table"]: table for table in status["tables"]}
        seen |= {
            name: f"{table['state']}: {table['why']}"
            for name, table in states.items()
            if table["state"] in ("stopped", "failed")
        }
        now = time.monotonic()
        for place, why in seen.items():
            since, _ = self.stopped.get(place, (now, why))
            self.stopped[place] = (since, why)
        waiting = {place for place, count in status["unstaged"].items() if count}
        waiting |= {name for name, table in states.items() if table["staged"]["files"]}
        for place in self.stopped.keys() - (waiting & seen.keys()):
            del self.stopped[place]
        return all(
            place in self.stopped and now - self.stopped[place][0] > STOPPED_FOR
            for place in waiting
        )

    def verified(self, url: str, ignored: Sequence[str], named: Mapping[str, str]) -> list[str]:
        """Return what ``secor verify --source`` finds; the columns ``ignored`` have a reason, and
        ``named`` are the sources of tables whose topics have other names.
        """
        options = [part for name in ignored for part in ("--ignore-column", name)]
        for table, source in named.items():
            options += ["--source-table", f"{NAMESPACE}.{table}=public.{source}"]
        finished = subprocess.run(
            secor("verify", str(self.config), "--source", url, "--json", *options),
            capture_output=True,
            text=True,
            timeout=VERIFIED_WITHIN,
            check=False,
            env={**os.environ, **self.environment, "MYSQL_PWD": PASSWORD},
        )
        (self.folder / "verify.json").write_text(finished.stdout + finished.stderr)
        if finished.returncode == 0:
            return []
        if not finished.stdout:
            return [f"exit code {finished.returncode}: {finished.stderr[-1000:]}"]
        outcome = json.loads(finished.stdout)
        findings = [
            f"{table['table']}: {json.dumps(finding)[:_EXAMPLE]}"
            for table in outcome["tables"]
            for finding in (*table["not_compared"].items(), *table["examples"])
        ]
        return [*outcome["stopped"], *findings] or [f"exit code {finished.returncode}"]

    def quarantined(self) -> dict[str, int]:
        """Return how many messages are in quarantine, by reason; write them beside the logs."""
        finished = run_secor("quarantine", "cat", str(self.config))
        (self.folder / "quarantine.jsonl").write_text(finished.stdout + finished.stderr)
        messages = [json.loads(line) for line in finished.stdout.splitlines()]
        reasons = Counter(f"{it['topic']}: {it['reason'][:_EXAMPLE]}" for it in messages)
        return dict(reasons.most_common())


def logged_stops(log: str) -> dict[str, str]:
    """Return why topic partitions are stopped, as a daemon's log says: status does not know all."""
    stops: dict[str, str] = {}
    for line in log.splitlines():
        event = json.loads(line) if line.startswith("{") and line.endswith("}") else {}
        place = f"{event.get('topic')}/{event.get('partition')}"
        if event.get("event") == "stopped":
            stops[place] = event["error"]
        elif event.get("event") in ("running", "committed"):
            stops.pop(place, None)
    return stops
