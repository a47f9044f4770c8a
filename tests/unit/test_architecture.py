"""The arrows of DESIGN.md: who may import whom."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

WORDS = {"secor", "secor.model", "secor.errors", "secor.wording"}
PORTS = WORDS | {"secor.ports", "secor.naming", "secor.observer", "secor.retry"}
CORE = PORTS | {
    "secor.policy",
    "secor.reconcile",
    "secor.pressure",
    "secor.plan",
    "secor.workspace",
}
RITUAL = CORE | {"secor.batch", "secor.recovery", "secor.uploader", "secor.positioning"}
LOOP = RITUAL | {"secor.partition", "secor.consumer", "secor.pool", "secor.parsing"}

ALLOWED: dict[str, set[str]] = {
    "secor": set(),
    "secor.model": set(),
    "secor.errors": set(),
    "secor.wording": set(),
    "secor.retry": set(),
    "secor.policy": set(),
    "secor.naming": WORDS,
    "secor.mixed": set(),
    "secor.ports": WORDS,
    "secor.observer": WORDS,
    "secor.reconcile": WORDS,
    "secor.pressure": WORDS,
    "secor.clock": set(),
    "secor.heap": set(),
    "secor.parsing": PORTS | {"secor.mixed"},
    "secor.wire": WORDS,
    "secor.formats": PORTS | {"secor.mixed"},
    "secor.plan": PORTS | {"secor.policy"},
    "secor.schemas": PORTS | {"secor.plan", "secor.formats"},
    "secor.workspace": WORDS,
    "secor.batch": CORE,
    "secor.pool": CORE | {"secor.batch"},
    "secor.recovery": CORE | {"secor.batch"},
    "secor.uploader": CORE | {"secor.batch", "secor.recovery"},
    "secor.asked_once": PORTS,
    "secor.already_stored": CORE | {"secor.asked_once"},
    "secor.positioning": CORE | {"secor.asked_once", "secor.already_stored"},
    "secor.partition": CORE | {"secor.batch"},
    "secor.errands": RITUAL | {"secor.partition"},
    "secor.assignment": RITUAL | {"secor.partition", "secor.errands"},
    "secor.consumer": LOOP | {"secor.errands", "secor.assignment"},
    "secor.connecting": PORTS,
    "secor.daemon": LOOP | {"secor.connecting"},
    "secor.adapters": PORTS | {"secor.wire"},
    "secor.archive": PORTS | {"secor.formats"},
    "secor.verify": PORTS | {"secor.formats", "secor.archive", "secor.parsing", "secor.quarantine"},
    "secor.finalize": PORTS | {"secor.parsing", "secor.verify", "secor.positioning"},
    "secor.quarantine": CORE | {"secor.batch", "secor.archive", "secor.parsing"},
    "secor.spark": PORTS | {"secor.formats", "secor.archive", "secor.adapters"},
    "secor.backfill": CORE
    | {"secor.batch", "secor.parsing", "secor.formats", "secor.archive", "secor.verify"},
    "secor.repair": PORTS | {"secor.archive", "secor.verify", "secor.quarantine"},
    "secor.metrics": WORDS,
    "secor.monitoring": PORTS | {"secor.metrics", "secor.partition"},
    "secor.status": PORTS | {"secor.partition", "secor.monitoring", "secor.connecting"},
    "secor.logs": {"secor.journal"},
    "secor.journal": set(),
    "secor.systemd": set(),
    "secor.config": WORDS | {"secor.parsing", "secor.finalize"},
    "secor.takeover": WORDS | {"secor.config"},
}
"""What a module or package may import besides itself; those not listed may import anything."""

ANYTHING = {"secor.wiring", "secor.cli", "secor.sandbox", "secor.demo", "secor.bench"}
STARTED = {"secor.spark.backfill_job"}
"""What spark-submit starts: a command line in a file of its own."""


def unit_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted((ROOT / "secor").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            module = node.module or ""
            found |= {
                f"{module}.{alias.name}" if module == "secor" else module for alias in node.names
            }
    return found


@pytest.mark.parametrize(("module", "path"), list(modules()), ids=str)
def test_imports_point_one_way(module: str, path: Path) -> None:
    unit = unit_of(module)
    if unit in ANYTHING or module in STARTED:
        return
    assert unit in ALLOWED, f"{unit} has no place in the table of this test"
    ours = {unit_of(name) for name in imports_of(path) if name.split(".")[0] == "secor"}
    ours.discard("secor.__version__")
    assert ours - {unit} <= ALLOWED[unit]


THIRD_PARTY = {
    "kafka": {"secor.adapters.kafka", "secor.demo", "secor.bench", "secor.sandbox"},
    "kazoo": {"secor.adapters.zookeeper", "secor.sandbox", "secor.bench"},
    "boto3": {"secor.adapters.s3", "secor.adapters.glue", "secor.sandbox"},
    "botocore": {"secor.adapters.s3", "secor.adapters.glue", "secor.sandbox"},
    "prometheus_client": {"secor.metrics", "secor.monitoring.lastrun"},
    "pyspark": {"secor.sandbox", "secor.spark"},
}


@pytest.mark.parametrize(("package", "homes"), list(THIRD_PARTY.items()), ids=list(THIRD_PARTY))
def test_a_third_party_package_has_one_home(package: str, homes: set[str]) -> None:
    for module, path in modules():
        if package in {name.split(".")[0] for name in imports_of(path)}:
            assert any(module == home or module.startswith(home + ".") for home in homes), module


def test_the_daemon_imports_neither_spark_nor_the_sandbox() -> None:
    code = "import sys, secor.cli.run, secor.wiring.service; print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(done.stdout.split())
    assert not {name for name in loaded if name.split(".")[0] in ("pyspark", "pandas")}
    assert not {name for name in loaded if name.startswith("secor.sandbox")}


def tracked_files() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "-z"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return [ROOT / name for name in done.stdout.split("\0") if name]


def test_no_file_names_a_place_of_one_machine() -> None:
    # Put together here so that this file does not find itself.
    places = re.compile("/" + r"(work/(main|shared)|root/\.\w+)")
    for path in tracked_files():
        if path.suffix in (".py", ".md", ".toml", ".service", ".yml", "") and path.is_file():
            text = path.read_text(errors="replace")
            found = [match[0] for match in places.finditer(text)]
            assert not found, f"{path.relative_to(ROOT)}: {found[:3]}"


DISTRIBUTIONS = {
    "google": "protobuf",
    "kafka": "kafka-python",
    "prometheus_client": "prometheus-client",
    "yaml": "pyyaml",
    "kubernetes_validate": "kubernetes-validate",
    "dockerfile_parse": "dockerfile-parse",
    "pydantic_core": "pydantic",
    "typing_extensions": "pydantic",
    "_pytest": "pytest",
    "mypy_boto3_s3": "boto3-stubs",
}


def test_every_package_that_is_imported_is_named_in_setup() -> None:
    setup = (ROOT / "setup.py").read_text()
    imported: dict[str, Path] = {}
    for folder in ("secor", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for name in imports_of(path):
                imported.setdefault(name.split(".")[0], path)
    ours = {"secor", "tests", "__future__", *sys.stdlib_module_names}
    for name, path in sorted(imported.items()):
        if name not in ours:
            distribution = DISTRIBUTIONS.get(name, name)
            named = re.search(rf'"{distribution}[\[\]a-z0-9]*[=>"]', setup)
            assert named, f"{path.relative_to(ROOT)} imports {name}"
