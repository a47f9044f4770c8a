from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from crc32c import crc32c

from secor.adapters.local import DirectoryStore
from secor.archive.beginning import Agreement, Beginning
from secor.cli.archive import evidence
from secor.cli.verify import command as verify
from secor.core.errors import ConfigurationError, CorruptFile
from secor.core.model import OffsetRange, TopicPartition
from secor.formats import make_format
from tests.fakes.archive import Shelf, messages

DOCS = Path(__file__).parents[3] / "docs" / "lifecycle.md"


class EvidenceWorld:
    """Three objects of ``clicks``, with the offset 7 in none, and a file of evidence of them."""

    def __init__(self, directory: Path) -> None:
        self.bucket = directory / "bucket"
        self.shelf = Shelf(self.bucket, make_format("sequencefile"))
        first = [offset for offset in range(10) if offset != 7]
        self.keys = [
            self.shelf.put(messages(first), OffsetRange(0, 10)),
            self.shelf.put(messages(range(10, 25)), OffsetRange(10, 25)),
            self.shelf.put(
                messages([3]), OffsetRange(0, 9), topic_partition=TopicPartition("clicks", 1)
            ),
        ]
        self.config = directory / "backup.toml"
        self.config.write_text(
            '[group]\nname = "g"\n[kafka]\nbootstrap_servers = ["127.0.0.1:1"]\n'
            'topics = ["clicks"]\n[store]\nkind = "local"\n[store.local]\n'
            f'directory = "{self.bucket}"\n'
        )
        self.file = directory / "evidence.json"

    def write(self, *options: object) -> dict[str, Any]:
        """Verify the archive alone; return what the file of evidence says."""
        result = run(
            verify.command, self.config, "--archive-only", "--evidence", self.file, *options
        )
        assert f"evidence of 3 objects in {self.file}" in result.output
        document: dict[str, Any] = json.loads(self.file.read_text())
        return document

    def check(self, *options: object) -> tuple[int, dict[str, Any]]:
        """Run ``secor evidence check``; return its exit code and its JSON."""
        result = run(evidence.command, "check", self.file, "--json", *options)
        return int(result.return_value or 0), json.loads(result.stdout)


def run(command: Any, *arguments: object) -> Result:
    return CliRunner().invoke(
        command, [str(it) for it in arguments], catch_exceptions=False, standalone_mode=False
    )


@pytest.fixture
def world(tmp_path: Path) -> EvidenceWorld:
    return EvidenceWorld(tmp_path)


def changes(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(it["change"], it["key"]) for it in document["findings"]]


def rfc_9162(leaves: list[bytes]) -> bytes:
    """Return the tree's root by the recursive definition of RFC 9162, section 2.1.1."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\0" + leaves[0]).digest()
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return hashlib.sha256(b"\1" + rfc_9162(leaves[:k]) + rfc_9162(leaves[k:])).digest()


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 7, 8, 13])
def test_the_hash_tree_is_that_of_rfc_9162(count: int) -> None:
    from secor.archive.evidence.record import tree_hash

    leaves = [b"leaf %d" % number for number in range(count)]
    assert tree_hash(leaves) == rfc_9162(leaves).hex()


def test_evidence_names_ranges_holes_and_the_hashes_that_sha256sum_computes(
    world: EvidenceWorld,
) -> None:
    document = world.write()
    first, second = document["partitions"]
    assert (first["start"], first["end"], first["messages"]) == (0, 25, 24)
    assert first["holes"] == {"unseen": {"offsets": 1, "ranges": [[7, 8]]}}
    assert (first["first_time"], first["last_time"]) == (None, None)
    assert (second["start"], second["end"], second["messages"]) == (0, 9, 1)
    for partition in document["partitions"]:
        for record in partition["objects"]:
            path = world.bucket / record["key"]
            summed = subprocess.run(
                ["sha256sum", str(path)], capture_output=True, text=True, check=True
            )
            assert summed.stdout.split()[0] == record["sha256"]
            assert path.stat().st_size == record["size"]
    assert world.check()[0] == 0


def test_the_program_of_the_documentation_computes_the_same_root(world: EvidenceWorld) -> None:
    root = world.write()["root"]
    [program] = re.findall(r"```python\n(import hashlib.*?)```", DOCS.read_text(), re.DOTALL)
    assert sum(bool(line.strip()) for line in program.splitlines()) <= 20
    done = subprocess.run(
        [sys.executable, "-c", program, str(world.file), str(world.bucket)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"{root}\n"


def test_what_changed_is_named(world: EvidenceWorld) -> None:
    world.write()
    world.shelf.change(world.keys[0], lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    world.shelf.store.delete(world.keys[1])
    later = world.shelf.put(messages(range(25, 30)), OffsetRange(25, 30))
    added = world.shelf.put(messages([12]), OffsetRange(12, 13), output_partition="offset=9")
    code, document = world.check()
    assert code == 5
    assert sorted(changes(document)) == [
        ("added", added),
        ("missing", world.keys[1]),
        ("tampered", world.keys[0]),
    ]
    assert (document["same"], document["later"]) == (1, 1)
    assert later not in json.dumps(document)
    assert document["summary"].startswith("1 object of 3 as on 20")


def test_what_has_expired_is_named_and_may_be_allowed(world: EvidenceWorld) -> None:
    world.write()
    world.shelf.store.delete(world.keys[0])
    beginning = Beginning(0, 1, 1, 10)
    agreement = Agreement(beginning, "clicks", None, "then", "a test", "old")
    agreement.put(world.shelf.store, "backup/clicks")
    code, document = world.check()
    assert (code, changes(document)) == (5, [("expired", world.keys[0])])
    assert world.check("--allow-expired")[0] == 0
    world.shelf.store.delete(world.keys[1])
    assert world.check("--allow-expired")[0] == 5


def test_an_object_of_another_writer_under_the_name_is_replaced(world: EvidenceWorld) -> None:
    world.write()
    world.shelf.store.delete(world.keys[1])
    again = world.shelf.put(messages(range(10, 25)), OffsetRange(10, 25), fingerprint="e" * 16)
    assert again == world.keys[1]
    world.shelf.change(again, lambda data: data + b"\0")
    assert changes(world.check()[1]) == [("replaced", again)]


def test_the_recorded_hash_is_a_hint_and_no_proof(world: EvidenceWorld) -> None:
    for key in world.keys:
        data = (world.bucket / key).read_bytes()
        metadata = world.shelf.store.head(key).metadata or {}
        world.shelf.store.delete(key)
        DirectoryStore(world.bucket, sha256=True).put(key, data, crc32c(data), metadata)
    world.write()
    assert world.check()[0] == 0
    world.shelf.change(world.keys[0], lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    [finding] = world.check()[1]["findings"]
    assert finding["change"] == "tampered"
    assert finding["text"].endswith("; its metadata still has that of the evidence")


def test_a_file_that_was_changed_is_refused(world: EvidenceWorld) -> None:
    text = json.dumps(world.write())
    sha256 = json.loads(text)["partitions"][0]["objects"][0]["sha256"]
    world.file.write_text(text.replace(sha256, "0" * 64))
    with pytest.raises(CorruptFile, match="the file was changed: the hash tree of clicks/0"):
        world.check()
    world.file.write_text(text.replace('"messages": 24', '"messages": 25'))
    with pytest.raises(CorruptFile, match="the file was changed: its root"):
        world.check()
    world.file.write_text("{}")
    with pytest.raises(ConfigurationError, match="is no evidence"):
        world.check()


def test_a_signature_is_what_openssl_verifies(world: EvidenceWorld, tmp_path: Path) -> None:
    key = tmp_path / "evidence.key"
    run(evidence.command, "keygen", key)
    assert key.stat().st_mode & 0o777 == 0o600
    world.write("--sign-with", key)
    verified = subprocess.run(
        [
            *("openssl", "pkeyutl", "-verify", "-pubin", "-inkey", f"{key}.pub", "-rawin"),
            *("-in", str(world.file), "-sigfile", f"{world.file}.sig"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (verified.returncode, verified.stdout.strip()) == (0, "Signature Verified Successfully")
    code, document = world.check("--public-key", f"{key}.pub")
    assert (code, document["signature"]) == (0, f"signed by {key}.pub")


def test_a_key_of_openssl_signs_and_another_key_is_refused(
    world: EvidenceWorld, tmp_path: Path
) -> None:
    key, public, other = tmp_path / "a.key", tmp_path / "a.pub", tmp_path / "b.key"
    make = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(key)]
    subprocess.run(make, check=True, capture_output=True)
    shown = ["openssl", "pkey", "-in", str(key), "-pubout", "-out", str(public)]
    subprocess.run(shown, check=True, capture_output=True)
    run(evidence.command, "keygen", other)
    world.write("--sign-with", key)
    assert world.check("--public-key", public)[0] == 0
    with pytest.raises(CorruptFile, match="is no signature of"):
        world.check("--public-key", f"{other}.pub")
    world.file.write_text(world.file.read_text() + "\n")
    with pytest.raises(CorruptFile, match="the file was changed, or another key"):
        world.check("--public-key", public)


def test_an_interrupted_check_goes_on_and_reads_changed_objects_again(
    world: EvidenceWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write()
    opened: list[str] = []
    interrupts = {"Ctrl-C"}
    open_object = DirectoryStore.open

    def interrupted(store: DirectoryStore, key: str) -> Any:
        opened.append(key)
        if key == world.keys[2] and interrupts:
            interrupts.clear()
            raise KeyboardInterrupt
        return open_object(store, key)

    monkeypatch.setattr(DirectoryStore, "open", interrupted)
    with pytest.raises(click.Abort):
        world.check()
    assert (world.file.parent / "evidence.json.check").exists()
    world.shelf.change(world.keys[1], lambda data: data + b"\0")
    opened.clear()
    code, document = world.check()
    assert opened == world.keys[1:]
    assert (code, document["read_before"]) == (5, 1)
    assert changes(document) == [("tampered", world.keys[1])]
    assert not (world.file.parent / "evidence.json.check").exists()


def test_a_copy_in_a_directory_is_checked(world: EvidenceWorld, tmp_path: Path) -> None:
    world.write()
    copy = tmp_path / "copy"
    world.bucket.rename(copy)
    code, document = world.check()
    assert (code, document["counts"]["missing"]) == (5, 3)
    assert world.check("--directory", copy)[0] == 0


def test_the_page_has_the_numbers_and_no_markup_of_the_archive(
    world: EvidenceWorld, tmp_path: Path
) -> None:
    document = world.write()
    output = tmp_path / "evidence.html"
    run(evidence.command, "page", world.file, "-o", output)
    text = output.read_text()
    assert document["root"] in text
    assert hashlib.sha256(world.file.read_bytes()).hexdigest() in text
    for record in document["partitions"][0]["objects"]:
        assert record["sha256"] in text
    assert "http" not in text
    assert "<script" not in text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--sign-with", "k"], "--sign-with needs --evidence"),
        (["--evidence", "e.json", "--from", "3"], "take --from away"),
        (["--evidence", "/nowhere/at/all/e.json"], "there is no directory"),
        (["--evidence", "e.json", "--sign-with", "/nowhere.key"], "cannot be read"),
    ],
)
def test_wrong_options_are_refused_before_any_work(
    world: EvidenceWorld, options: list[str], text: str
) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(text)):
        run(verify.command, world.config, "--archive-only", *options)


def test_evidence_is_never_overwritten(world: EvidenceWorld) -> None:
    world.write()
    with pytest.raises(ConfigurationError, match="exists already"):
        run(verify.command, world.config, "--archive-only", "--evidence", world.file)
