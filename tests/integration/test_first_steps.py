"""The README's first steps, typed by a newcomer."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

from secor.sandbox import Sandbox
from tests.integration.daemons import PATIENCE, committed, daemons, run_secor, secor, wait_until


def test_the_first_steps_of_the_readme_end_with_every_message_verified(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    folder = ["-d", str(sandbox.directory)]
    topic, messages = "first-steps", 1000
    sent = subprocess.run(
        secor("sandbox", "produce", *folder, topic),
        input="".join(f"{number}\n" for number in range(messages)),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert "1,000 messages sent" in sent.stdout
    config = tmp_path / "my.toml"
    written = run_secor("sandbox", "config", *folder).stdout
    # Other tests' topics are in this sandbox too.
    config.write_text(written.replace('topics_pattern = ".*"', f'topics_pattern = "{topic}"'))
    assert run_secor("config", "check", str(config)).returncode == 0
    doctor = run_secor("doctor", str(config))
    assert doctor.returncode == 0, doctor.stdout
    with daemons() as start:
        daemon = start(config, tmp_path / "log")
        wait_until(lambda: committed(config, topic, 4) == messages, "everything committed")
        daemon.send(signal.SIGINT)
        assert daemon.wait() == 0, daemon.text()
    assert topic in run_secor("ls", str(config)).stdout
    lines = run_secor("cat", str(config), topic, "--limit", "3").stdout.splitlines()
    assert len(lines) == 3
    progress = run_secor("progress", str(config))
    assert "0 offsets behind" in progress.stdout + progress.stderr
    verified = run_secor("verify", str(config))
    assert "verified 1,000 messages" in verified.stdout, verified.stdout + verified.stderr
    job = tmp_path / "job.toml"
    written = run_secor("sandbox", "config", "--kind", "restore", *folder).stdout
    job.write_text(written.replace('topics_pattern = ".*"', f'topics_pattern = "{topic}"'))
    for step, answer in (
        ("plan", "1,000 offsets of 4 partitions"),
        ("run", "1,000 messages written"),
        ("verify", "1,000 messages in 4 partitions: all equal"),
    ):
        restored = run_secor("restore", step, str(job))
        assert answer in restored.stdout, restored.stdout + restored.stderr


def test_the_parsed_steps_of_the_readme_end_with_a_schema_and_every_message_verified(
    sandbox: Sandbox, tmp_path: Path
) -> None:
    folder = ["-d", str(sandbox.directory)]
    topic, messages = "parsed-steps", 1000
    subprocess.run(
        secor("sandbox", "produce", *folder, topic),
        input="".join(f'{{"id": {number}, "country": "NL"}}\n' for number in range(messages)),
        stdout=subprocess.DEVNULL,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    config = tmp_path / "partition.toml"
    written = run_secor("sandbox", "config", "--kind", "partition", *folder).stdout
    config.write_text(written.replace('topics_pattern = ".*"', f'topics_pattern = "{topic}"'))
    with daemons() as start:
        daemon = start(config, tmp_path / "log")
        wait_until(lambda: committed(config, topic, 4) == messages, "everything committed")
        daemon.send(signal.SIGINT)
        assert daemon.wait() == 0, daemon.text()
    shown = run_secor("schema", "show", str(config), topic).stdout
    assert '"country"' in shown, shown
    assert run_secor("quarantine", "ls", str(config)).returncode == 0
    verified = run_secor("verify", str(config))
    assert "verified 1,000 messages" in verified.stdout, verified.stdout + verified.stderr


def test_a_name_that_no_topic_may_have_is_refused_in_one_line(sandbox: Sandbox) -> None:
    done = run_secor("sandbox", "produce", "-d", str(sandbox.directory), "no topic")
    assert done.returncode == 2
    assert done.stderr == (
        "secor: 'no topic' is no name of a topic: letters, digits, '.', '_' and '-', at most 249\n"
    )


def test_a_broker_that_is_gone_takes_no_messages_and_says_so(tmp_path: Path) -> None:
    done = run_secor("sandbox", "produce", "-d", str(tmp_path / "none"), "t")
    assert done.returncode not in (0, 1)
    assert "Traceback" not in done.stderr
