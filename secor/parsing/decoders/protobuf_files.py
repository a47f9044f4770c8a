"""Protobuf's schemas of a registry as classes of messages.

A registry has a file as ``.proto`` text, which is compiled by Google's own compiler, or as a
descriptor in base64, as Confluent's client for Python registers them.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from types import MappingProxyType

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from secor.core.errors import ConfigurationError, Unavailable
from secor.parsing.decoders.framing import MessageType
from secor.parsing.registry import RegisteredSchema

Files = dict[str, descriptor_pb2.FileDescriptorProto]

MAIN = "secor/message.proto"
"""The name of a registered file itself: nothing imports it."""

PATIENCE = 30.0
"""Seconds for one call of the compiler, which takes a tenth of one."""

_REMARK = re.compile(r"^WARNING:|^[IWE]\d{4} |: warning: ")
"""Lines of the compiler that are not the reason of a failure."""

CONFLUENT: Mapping[str, str] = MappingProxyType(
    {
        "confluent/meta.proto": """syntax = "proto3";
package confluent;
import "google/protobuf/descriptor.proto";
message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}
message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }
extend google.protobuf.FileOptions { Meta file_meta = 1088; }
extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
""",
        "confluent/type/decimal.proto": """syntax = "proto3";
package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
""",
        "confluent/types/decimal.proto": """syntax = "proto3";
import public "confluent/type/decimal.proto";
""",
    }
)
"""Files that Confluent's registry knows: schemas import them without a reference."""


def check_compiler() -> None:
    """Raise ``ConfigurationError`` if the compiler is not installed."""
    if importlib.util.find_spec("grpc_tools") is None:
        raise ConfigurationError(
            "protobuf: schemas of a registry are compiled, and the package grpcio-tools is"
            " missing; install secor with the extra 'protobuf'"
        )


def message_class(registered: RegisteredSchema, message_type: MessageType) -> type[Message]:
    """Return the class of a message of the schema, as a frame names it.

    Raises ``ConfigurationError`` for a schema that cannot be compiled.
    """
    files, sources = _files_of(registered)
    imports = {name for file in files.values() for name in file.dependency}
    if sources or imports & CONFLUENT.keys():
        sources |= {name: text for name, text in CONFLUENT.items() if name not in files}
        files |= _compile(sources, [*files.values(), *_known_files().values()])
    pool = descriptor_pool.DescriptorPool()
    try:
        _add(MAIN, files, pool, set())
        return message_factory.GetMessageClass(
            pool.FindMessageTypeByName(_full_name(files[MAIN], message_type))
        )
    except (TypeError, KeyError) as error:
        raise ConfigurationError(f"Protobuf schema: {error}") from error


def _files_of(registered: RegisteredSchema) -> tuple[Files, dict[str, str]]:
    """Return the schema and its references: those that are descriptors, and the other texts."""
    files: Files = {}
    sources: dict[str, str] = {}
    for name, text in (*registered.references.items(), (MAIN, registered.text)):
        file = _described(text)
        if file is None:
            sources[_checked(name)] = text
        else:
            file.name = name
            files[name] = file
    return files, sources


def _described(text: str) -> descriptor_pb2.FileDescriptorProto | None:
    """Return the descriptor that a text is in base64, None if it is ``.proto`` text."""
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        return None


def _checked(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.name or "\0" in name:
        raise ConfigurationError(
            f"Protobuf schema: a reference named {name!r} is not a relative path"
        )
    return name


def _compile(
    sources: Mapping[str, str], known: Iterable[descriptor_pb2.FileDescriptorProto]
) -> Files:
    """Compile texts, which may import each other and ``known`` files."""
    with TemporaryDirectory(prefix="secor-proto-") as directory:
        folder = Path(directory)
        for name, text in sources.items():
            path = folder / "sources" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        files = descriptor_pb2.FileDescriptorSet(file=known)
        (folder / "known").write_bytes(files.SerializeToString())
        _run_compiler(folder, list(sources))
        compiled = descriptor_pb2.FileDescriptorSet.FromString((folder / "compiled").read_bytes())
    return {file.name: file for file in compiled.file}


def _run_compiler(folder: Path, names: list[str]) -> None:
    """Run it as a process of its own: it says what is wrong on standard error alone."""
    command = [sys.executable, "-I", "-m", "grpc_tools.protoc", f"-I{folder / 'sources'}"]
    command += [f"--descriptor_set_in={folder / 'known'}"]
    command += [f"--descriptor_set_out={folder / 'compiled'}"]
    # Whole paths: a name may begin with what the compiler takes for an option.
    command += [str(folder / "sources" / name) for name in names]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"Protobuf's compiler did not run ({error}); trying again") from error
    if done.returncode < 0:
        raise Unavailable(f"Protobuf's compiler was killed by signal {-done.returncode}")
    if done.returncode:
        lines = done.stderr.decode(errors="replace").replace(f"{folder / 'sources'}/", "")
        reasons = [line for line in lines.splitlines() if line and not _REMARK.search(line)]
        text = reasons[0] if reasons else "the compiler gives no reason"
        raise ConfigurationError(f"Protobuf schema: {text}")


@cache
def _known_files() -> Mapping[str, descriptor_pb2.FileDescriptorProto]:
    """Return Google's files that schemas import without a reference: ``type`` if installed."""
    files: Files = {}
    for package in ("google.protobuf", "google.type"):
        try:
            paths = import_module(package).__path__
        except ModuleNotFoundError:
            continue
        for module in iter_modules(paths):
            if module.name.endswith("_pb2"):
                file = import_module(f"{package}.{module.name}").DESCRIPTOR
                files[file.name] = descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)
    return files


def _add(name: str, files: Files, pool: descriptor_pool.DescriptorPool, added: set[str]) -> None:
    """Add a file to a pool after those that it imports."""
    if name in added:
        return
    added.add(name)
    file = files.get(name) or _known_files().get(name)
    if file is None:
        raise ConfigurationError(
            f"Protobuf schema: it imports {name!r}, which is not among its references"
        )
    for other in file.dependency:
        _add(other, files, pool, added)
    pool.Add(file)


def _full_name(file: descriptor_pb2.FileDescriptorProto, message_type: MessageType) -> str:
    package = f"{file.package}." if file.package else ""
    if isinstance(message_type, str):
        return f"{package}{message_type}"
    if isinstance(message_type, int):
        names = sorted(_all_names(file.message_type, package))
        if message_type >= len(names):
            raise ConfigurationError(f"Protobuf schema: no message at position {message_type}")
        return names[message_type]
    types, path = file.message_type, []
    for index in message_type:
        if not 0 <= index < len(types):
            indexes = list(message_type)
            raise ConfigurationError(f"Protobuf schema: no message at indexes {indexes}")
        path.append(types[index].name)
        types = types[index].nested_type
    return package + ".".join(path)


def _all_names(types: Iterable[descriptor_pb2.DescriptorProto], before: str) -> Iterator[str]:
    """Yield the full names of types, the hidden ones of maps' entries included."""
    for kind in types:
        yield before + kind.name
        yield from _all_names(kind.nested_type, f"{before}{kind.name}.")
